"""Statically provisioned volumes in plans: where there are too few for all claims."""

from collections.abc import Sequence
from typing import Any

from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import (
    ZONE,
    ZONES,
    Json,
    node,
    planned,
)
from tests.unit.planning.test_in_flight import assigned
from tests.unit.planning.test_in_flight import claim as on_its_way
from tests.unit.planning.volume_manifests import LATER, claim, mounting


def test_a_static_volume_keeps_its_pod_where_it_is() -> None:
    by_hand = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [ZONES[2]]}]}]
    free = {
        "metadata": {"name": "disk"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
    lists = cluster(
        [mounting("web-0", "data")],
        persistentvolumeclaims=[claim("data", storage_class="local")],
        persistentvolumes=[free],
        storageclasses=[by_hand],
    )

    assert drawn(checked(lists)) == ["g.large c spot: web-0"]
    assert why(checked({**lists, "persistentvolumes": []})) == [
        "no PersistentVolume is free for claim data (StorageClass local makes none)"
    ]


BY_HAND = {
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def disk(name: str, zone: str, **more: Any) -> Json:
    """Return a volume that a person created, free for claims of the class ``local``."""
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    fields = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}
    metadata = {"name": name, "labels": more.pop("labels", {})}
    return {
        "metadata": metadata,
        "spec": {**fields, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, **more},
    }


def of_hand(name: str, **more: Any) -> Json:
    made = claim(name, storage_class="local")
    return {**made, "spec": {**made["spec"], **more}}


def by_hand(claims: Sequence[Json], disks: Sequence[Json], **more: Any) -> Any:
    waiting = [mounting(f"db-{number}", one["metadata"]["name"], cpu="100m") for number, one in enumerate(claims)]
    return checked(
        cluster(waiting, persistentvolumeclaims=claims, persistentvolumes=disks, storageclasses=[BY_HAND], **more)
    )


def test_each_claim_has_a_static_volume_of_its_own() -> None:
    claims = [of_hand("data-0"), of_hand("data-1")]
    two = by_hand(claims, [disk("one", ZONES[0]), disk("two", ZONES[2])])
    single = by_hand(claims, [disk("one", ZONES[1])])

    assert drawn(two) == ["g.large a spot: db-0", "g.large c spot: db-1"]
    assert drawn(single) == ["g.large b spot: db-0"]
    assert "other claims take the PersistentVolumes that its claim could have" in why(single)[0]


def test_scarce_static_volumes_go_to_pods_that_can_reach_them() -> None:
    claims, disks = [of_hand("data-0"), of_hand("data-1")], [disk("one", ZONES[1]), disk("two", ZONES[0])]
    waiting = [mounting("db-0", "data-0", nodeSelector={ZONE: ZONES[0]}), mounting("db-1", "data-1")]
    lists = cluster(waiting, persistentvolumeclaims=claims, persistentvolumes=disks, storageclasses=[BY_HAND])

    assert drawn(checked(lists)) == ["g.large a spot: db-0", "g.large b spot: db-1"]


def test_local_disks_are_used_where_nodes_have_free_capacity() -> None:
    disks = [
        {**disk(f"disk-{number}", ""), "spec": {**disk("any", "")["spec"], **on_host(f"there-{number}")}}
        for number in range(3)
    ]
    lists = cluster(
        [mounting(f"db-{number}", f"data-{number}", cpu="1500m") for number in range(2)],
        nodes=[node("there-0", cpu=0), node("there-1"), node("there-2")],
        persistentvolumeclaims=[of_hand("data-0"), of_hand("data-1")],
        persistentvolumes=disks,
        storageclasses=[BY_HAND],
    )

    assert [(one.node, one.pods) for one in checked(lists).existing] == [
        ("there-1", ("default/db-0",)),
        ("there-2", ("default/db-1",)),
    ]


def on_host(name: str) -> Json:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


def test_a_pod_has_all_its_scarce_static_volumes_in_one_place() -> None:
    claims = [of_hand(name) for name in ("data-0", "log-0", "data-1", "log-1")]
    disks = [disk(f"{zone}-{number}", zone) for number in range(2) for zone in ZONES[:2]]
    waiting = [mounting("db-0", "data-0", "log-0"), mounting("db-1", "data-1", "log-1")]
    lists = cluster(waiting, persistentvolumeclaims=claims, persistentvolumes=disks, storageclasses=[BY_HAND])

    assert drawn(checked(lists)) == ["g.large a spot: db-0", "g.large b spot: db-1"]


def test_a_pod_in_flight_takes_a_static_volume_where_it_goes() -> None:
    first, second = (
        mounting("db-0", "data-0", cpu="3"),
        mounting("db-1", "data-1", cpu="1", app="later", nodeSelector={ZONE: ZONES[2]}),
    )
    lists = cluster(
        [first, second],
        nodeclaims=[on_its_way()],
        persistentvolumeclaims=[of_hand("data-0"), of_hand("data-1")],
        persistentvolumes=[disk("one", ZONES[2]), disk("two", ZONES[0])],
        storageclasses=[BY_HAND],
    )

    assert drawn(planned(lists, assignments=assigned([first], 1))) == ["g.large c spot: db-1"]


def test_pods_go_together_where_there_are_enough_static_volumes() -> None:
    disks = [disk(f"{zone}-{number}", zone) for zone in ZONES[:2] for number in range(2)]

    assert drawn(by_hand([of_hand("data-0"), of_hand("data-1")], disks)) == ["g.large a spot: db-0 db-1"]


def test_a_claim_has_only_volumes_that_it_selects_in_its_mode_and_of_its_size() -> None:
    disks = [
        disk("plain", ZONES[0]),
        disk("fast", ZONES[1], labels={"speed": "fast"}),
        disk("raw", ZONES[2], volumeMode="Block"),
        disk("kept", ZONES[0], claimRef={"namespace": "default", "name": "mine"}, labels={"speed": "slow"}),
    ]

    assert drawn(by_hand([of_hand("fast", selector={"matchLabels": {"speed": "fast"}})], disks)) == [
        "g.large b spot: db-0"
    ]
    assert drawn(by_hand([of_hand("raw", volumeMode="Block")], disks)) == ["g.large c spot: db-0"]
    assert drawn(by_hand([of_hand("mine")], disks)) == ["g.large a spot: db-0"]
    assert why(by_hand([of_hand("large", resources={"requests": {"storage": "11Gi"}})], disks)) == [
        "no PersistentVolume is free for claim large (StorageClass local makes none)"
    ]


def test_a_volume_that_is_being_made_for_a_node_keeps_its_pod_for_that_node() -> None:
    annotations = {"volume.kubernetes.io/selected-node": "there"}
    chosen = {**claim("data"), "metadata": {"name": "data", "namespace": "default", "annotations": annotations}}
    lists = cluster(
        [mounting("db", "data", cpu="100m")],
        nodes=[node("there")],
        persistentvolumeclaims=[chosen],
        storageclasses=[LATER],
    )
    full = {**lists, "nodes": [node("there", cpu=0)]}

    assert [(one.node, one.pods) for one in checked(lists).existing] == [("there", ("default/db",))]
    assert checked(full).nodes == ()
    assert "kubernetes.io/hostname In [there]" in why(checked(full))[0]
    assert len(checked({**lists, "nodes": []}).nodes) == 1
