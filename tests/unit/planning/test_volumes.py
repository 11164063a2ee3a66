"""Volumes in plans: zones, attachment limits, claims for one pod at a time and for many."""

from collections.abc import Sequence
from typing import Any

from tests.unit.planning.checked import checked, drawn, why, world
from tests.unit.planning.test_in_flight import assigned
from tests.unit.planning.test_in_flight import claim as on_its_way
from tests.unit.planning.worlds import (
    CATALOGUE,
    ZONE,
    ZONES,
    Json,
    instance_type,
    node,
    node_pool,
    planned,
    pod,
    running,
)

EBS = "ebs.csi.aws.com"
ONE_TYPE = node_pool(
    requirements=[{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g.large"]}]
)
LATER = {"metadata": {"name": "ebs"}, "provisioner": EBS, "volumeBindingMode": "WaitForFirstConsumer"}


def claim(name: str, *, volume: str = "", modes: str = "ReadWriteOnce", storage_class: str | None = "ebs") -> Json:
    fields = {"accessModes": [modes], "storageClassName": storage_class, "volumeName": volume}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def volume(name: str, zone: str) -> Json:
    terms = [{"matchExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [zone]}]}]
    spec = {
        "csi": {"driver": EBS, "volumeHandle": f"vol-{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def mounting(name: str, *claims: str, **fields: Any) -> dict[str, Any]:
    return pod(name, volumes=[{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims], **fields)


def csi_node(name: str, count: int) -> Json:
    return {"metadata": {"name": name}, "spec": {"drivers": [{"name": EBS, "allocatable": {"count": count}}]}}


def test_replicas_of_a_stateful_set_share_a_node_and_each_has_its_volume() -> None:
    waiting = [mounting(f"db-{number}", f"data-{number}", app="db") for number in range(3)]
    lists = world(
        waiting, persistentvolumeclaims=[claim(f"data-{number}") for number in range(3)], storageclasses=[LATER]
    )

    assert drawn(checked(lists)) == ["g.large a spot: db-0 db-1 db-2"]


def test_a_replica_whose_volume_is_in_another_zone_goes_there() -> None:
    claims = [claim("data-0", volume="pv-0"), claim("data-1", volume="pv-1")]
    lists = world(
        [mounting("db-0", "data-0"), mounting("db-1", "data-1")],
        persistentvolumeclaims=claims,
        persistentvolumes=[volume("pv-0", ZONES[0]), volume("pv-1", ZONES[2])],
    )

    assert drawn(checked(lists)) == ["g.large a spot: db-0", "g.large c spot: db-1"]


def test_a_node_takes_no_more_volumes_than_its_driver_can_attach() -> None:
    there = running("old", "there", cpu="100m", volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": "old"}}])
    waiting = [mounting(f"db-{number}", f"data-{number}", cpu="100m") for number in range(3)]
    claims = [claim("old", volume="pv-old"), *(claim(f"data-{number}") for number in range(3))]
    lists = world(
        [there, *waiting],
        nodes=[node("there")],
        persistentvolumeclaims=claims,
        persistentvolumes=[volume("pv-old", ZONES[0])],
        storageclasses=[LATER],
        csinodes=[csi_node("there", 3)],
    )
    plan = checked(lists)

    assert [len(one.pods) for one in plan.existing] == [2]
    assert len(plan.nodes) == 1


def test_a_new_node_attaches_what_others_of_its_type_can() -> None:
    there = node(
        "there", labels={"node.kubernetes.io/instance-type": "g.large"}, taints=[{"key": "x", "effect": "NoSchedule"}]
    )
    of_this_type = {"node.kubernetes.io/instance-type": "g.large"}
    waiting = [
        mounting(f"db-{number}", f"data-{number}", cpu="100m", memory="64Mi", nodeSelector=of_this_type)
        for number in range(4)
    ]
    lists = world(
        waiting,
        nodes=[there],
        persistentvolumeclaims=[claim(f"data-{number}") for number in range(4)],
        storageclasses=[LATER],
        csinodes=[csi_node("there", 2)],
    )

    plan = checked(lists)

    assert sorted((one.instance_type, len(one.pods)) for one in plan.nodes) == [("g.large", 2), ("g.large", 2)]


def test_pods_that_share_a_volume_to_come_go_to_one_zone() -> None:
    waiting = [mounting(f"web-{number}", "shared", cpu="1500m") for number in range(4)]
    lists = world(waiting, persistentvolumeclaims=[claim("shared", modes="ReadWriteMany")], storageclasses=[LATER])
    plan = checked(lists)

    assert plan.pending == () and len(plan.nodes) > 1
    assert len({one.zone for one in plan.nodes}) == 1


def test_a_claim_for_one_pod_at_a_time_goes_to_the_most_important() -> None:
    once = claim("once", modes="ReadWriteOncePod")
    waiting = [mounting("low", "once"), mounting("high", "once", priority=10)]
    plan = checked(world(waiting, persistentvolumeclaims=[once], storageclasses=[LATER]))

    assert [one.pods for one in plan.nodes] == [("default/high",)]
    assert why(plan) == [
        "default: its PersistentVolumeClaim is for one pod at a time, and another pod that waits has it"
    ]


def test_a_pod_that_can_go_nowhere_keeps_no_claim_from_others() -> None:
    once = claim("once", modes="ReadWriteOncePod")
    waiting = [mounting("low", "once"), mounting("high", "once", priority=10, cpu="100")]
    plan = checked(world(waiting, persistentvolumeclaims=[once], storageclasses=[LATER]))

    assert [one.pods for one in plan.nodes] == [("default/low",)]


def test_an_ephemeral_volume_is_a_claim_that_its_controller_will_make() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "ebs"}}
    waiting = pod("web-0", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    only_b = {**LATER, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": [ZONES[1]]}]}]}

    assert drawn(checked(world([waiting], storageclasses=[only_b]))) == ["g.large b spot: web-0"]


def test_a_claim_without_a_class_has_the_default_one() -> None:
    default = {
        **LATER,
        "metadata": {"name": "ebs", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    }
    open_claim = claim("data", storage_class=None)

    assert drawn(
        checked(world([mounting("web-0", "data")], persistentvolumeclaims=[open_claim], storageclasses=[default]))
    ) == ["g.large a spot: web-0"]


def test_a_volume_made_by_hand_is_where_it_is() -> None:
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
    lists = world(
        [mounting("web-0", "data")],
        persistentvolumeclaims=[claim("data", storage_class="local")],
        persistentvolumes=[free],
        storageclasses=[by_hand],
    )

    assert drawn(checked(lists)) == ["g.large c spot: web-0"]
    assert why(checked({**lists, "persistentvolumes": []})) == [
        "no PersistentVolume is free for claim data (StorageClass local makes none)"
    ]


def test_a_volume_in_a_zone_keeps_a_pod_pending_where_no_offer_is() -> None:
    only_a = {"m.xlarge": instance_type("m.xlarge", 4, 16, 0.19, zones=ZONES[:1])}
    lists = world(
        [mounting("web-0", "data")],
        node_pool(),
        persistentvolumeclaims=[claim("data", volume="pv")],
        persistentvolumes=[volume("pv", ZONES[1])],
    )

    assert "topology.kubernetes.io/zone" in why(checked(lists, catalogue=only_a))[0]


def csi_worlds(
    *waiting: Json, most: int, there: Sequence[Json] = (), claims: Sequence[Json], volumes: Sequence[Json] = ()
) -> dict[str, Any]:
    """Draw a node on which the driver can attach this number of volumes, and pending pods."""
    return world(
        [*there, *waiting],
        nodes=[node("there")],
        persistentvolumeclaims=claims,
        persistentvolumes=volumes,
        storageclasses=[LATER],
        csinodes=[csi_node("there", most)],
    )


def test_a_volume_that_a_node_has_already_is_not_attached_once_more() -> None:
    old = running("old", "there", cpu="100m", volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": "old"}}])
    waiting = [mounting(f"reader-{number}", "old", cpu="100m") for number in range(3)]
    plan = checked(
        csi_worlds(
            *waiting, most=1, there=[old], claims=[claim("old", volume="pv-old")], volumes=[volume("pv-old", ZONES[0])]
        )
    )

    assert [one.pods for one in plan.existing] == [("default/reader-0", "default/reader-1", "default/reader-2")]
    assert not plan.nodes


def test_pods_that_share_a_volume_attach_it_once_and_their_own_beside_it() -> None:
    waiting = [mounting(f"db-{number}", "both", f"own-{number}", cpu="100m") for number in range(4)]
    claims = [claim("both", volume="pv-both"), *(claim(f"own-{number}") for number in range(4))]
    plan = checked(csi_worlds(*waiting, most=3, claims=claims, volumes=[volume("pv-both", ZONES[0])]))

    assert [len(one.pods) for one in plan.existing] == [2]
    assert sum(len(one.pods) for one in plan.nodes) == 2


def test_the_driver_s_limit_on_new_nodes_counts_a_shared_volume_once() -> None:
    there = node(
        "there", labels={"node.kubernetes.io/instance-type": "g.large"}, taints=[{"key": "x", "effect": "NoSchedule"}]
    )
    waiting = [mounting(f"reader-{number}", "both", cpu="100m", memory="64Mi") for number in range(5)]
    waiting += [mounting(f"db-{number}", f"own-{number}", cpu="100m", memory="64Mi") for number in range(2)]
    lists = world(
        waiting,
        ONE_TYPE,
        nodes=[there],
        persistentvolumeclaims=[claim("both", volume="pv-both"), claim("own-0"), claim("own-1")],
        persistentvolumes=[volume("pv-both", ZONES[0])],
        storageclasses=[LATER],
        csinodes=[csi_node("there", 2)],
    )
    plan = checked(lists)

    assert not plan.pending
    # readers with one db, or both dbs alone
    assert sorted(len(one.pods) for one in plan.nodes) in ([1, 6], [2, 5], [3, 4])


def test_no_node_attaches_what_is_too_many_of_one_pod() -> None:
    there = node(
        "there", labels={"node.kubernetes.io/instance-type": "g.large"}, taints=[{"key": "x", "effect": "NoSchedule"}]
    )
    waiting = [mounting(f"db-{number}", "one", "two", "three") for number in range(2)]
    lists = world(
        waiting,
        ONE_TYPE,
        nodes=[there],
        persistentvolumeclaims=[claim("one"), claim("two"), claim("three")],
        storageclasses=[LATER],
        csinodes=[csi_node("there", 2)],
    )

    assert why(checked(lists)) == ["default: more volumes than can be attached to any new node"]


def typed(name: str, instance: str) -> Json:
    """Return a node of this type that takes no pods: it shows the attachment limit of its type."""
    return node(
        name, labels={"node.kubernetes.io/instance-type": instance}, taints=[{"key": "x", "effect": "NoSchedule"}]
    )


def test_a_node_that_has_not_told_its_limit_yet_stands_beside_types_that_have() -> None:
    told = [typed(f"n-{name}", name) for name in CATALOGUE]
    lists = world(
        [mounting("db", "data")],
        nodes=[*told, node("fresh")],
        persistentvolumeclaims=[claim("data")],
        storageclasses=[LATER],
        csinodes=[csi_node(f"n-{name}", 3) for name in CATALOGUE],
    )

    assert [one.node for one in checked(lists).existing] == ["fresh"]


def test_a_node_on_its_way_has_no_more_volumes_than_others_of_its_type() -> None:
    lists = world(
        [mounting(f"db-{number}", f"data-{number}", cpu="100m", memory="64Mi") for number in range(3)],
        nodes=[typed("there", "m.xlarge")],
        nodeclaims=[on_its_way()],
        persistentvolumeclaims=[claim(f"data-{number}") for number in range(3)],
        storageclasses=[LATER],
        csinodes=[csi_node("there", 1)],
    )

    assert [len(one.pods) for one in checked(lists).existing] == [1]


def test_min_values_count_types_that_can_attach_all_volumes_shared_ones_included() -> None:
    types = {"big": instance_type("big", 8, 32, 0.8), "mid": instance_type("mid", 4, 16, 0.4)}
    wide = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}
    lists = world(
        [mounting(f"db-{number}", "one", "two", "three", cpu="100m") for number in range(2)],
        node_pool(requirements=[wide]),
        nodes=[typed("a", "big"), typed("b", "mid")],
        persistentvolumeclaims=[claim("one"), claim("two"), claim("three")],
        storageclasses=[LATER],
        csinodes=[csi_node("a", 3), csi_node("b", 2)],
    )

    assert len(checked(lists, catalogue=types).pending) == 2


def test_pods_in_pairs_that_share_many_volumes_are_planned_soon_and_by_the_rules() -> None:
    """More volumes than the planner counts once for all pods: each pod then counts its own, which are within every
    node's limit.
    """
    told = [typed(f"n-{name}", name) for name in CATALOGUE]
    lists = world(
        [mounting(f"db-{number}", f"data-{number // 2}", cpu="100m", memory="64Mi") for number in range(200)],
        nodes=told,
        persistentvolumeclaims=[claim(f"data-{number}") for number in range(100)],
        storageclasses=[LATER],
        csinodes=[csi_node(f"n-{name}", 3) for name in CATALOGUE],
    )

    assert not checked(lists).pending


def test_a_pod_that_asks_for_another_zone_than_its_volume_is_in_is_told_of_both() -> None:
    lists = world(
        [mounting("db", "data", nodeSelector={ZONE: ZONES[0]})],
        persistentvolumeclaims=[claim("data", volume="pv")],
        persistentvolumes=[volume("pv", ZONES[2])],
    )

    told = next(iter(why(checked(lists))))

    assert ZONES[0] in told
    assert ZONES[2] in told


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
        world(waiting, persistentvolumeclaims=claims, persistentvolumes=disks, storageclasses=[BY_HAND], **more)
    )


def test_each_claim_has_a_volume_made_by_hand_of_its_own() -> None:
    claims = [of_hand("data-0"), of_hand("data-1")]
    two = by_hand(claims, [disk("one", ZONES[0]), disk("two", ZONES[2])])
    single = by_hand(claims, [disk("one", ZONES[1])])

    assert drawn(two) == ["g.large a spot: db-0", "g.large c spot: db-1"]
    assert drawn(single) == ["g.large b spot: db-0"]
    assert "other claims take the PersistentVolumes that its claim could have" in why(single)[0]


def test_few_volumes_made_by_hand_go_to_the_pods_that_can_come_to_them() -> None:
    claims, disks = [of_hand("data-0"), of_hand("data-1")], [disk("one", ZONES[1]), disk("two", ZONES[0])]
    waiting = [mounting("db-0", "data-0", nodeSelector={ZONE: ZONES[0]}), mounting("db-1", "data-1")]
    lists = world(waiting, persistentvolumeclaims=claims, persistentvolumes=disks, storageclasses=[BY_HAND])

    assert drawn(checked(lists)) == ["g.large a spot: db-0", "g.large b spot: db-1"]


def test_few_disks_of_nodes_are_had_where_there_is_room() -> None:
    disks = [
        {**disk(f"disk-{number}", ""), "spec": {**disk("any", "")["spec"], **on_host(f"there-{number}")}}
        for number in range(3)
    ]
    lists = world(
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


def test_a_pod_has_all_its_few_volumes_made_by_hand_in_one_place() -> None:
    claims = [of_hand(name) for name in ("data-0", "log-0", "data-1", "log-1")]
    disks = [disk(f"{zone}-{number}", zone) for number in range(2) for zone in ZONES[:2]]
    waiting = [mounting("db-0", "data-0", "log-0"), mounting("db-1", "data-1", "log-1")]
    lists = world(waiting, persistentvolumeclaims=claims, persistentvolumes=disks, storageclasses=[BY_HAND])

    assert drawn(checked(lists)) == ["g.large a spot: db-0", "g.large b spot: db-1"]


def test_a_pod_on_its_way_takes_a_volume_made_by_hand_where_it_goes() -> None:
    first, second = (
        mounting("db-0", "data-0", cpu="3"),
        mounting("db-1", "data-1", cpu="1", app="later", nodeSelector={ZONE: ZONES[2]}),
    )
    lists = world(
        [first, second],
        nodeclaims=[on_its_way()],
        persistentvolumeclaims=[of_hand("data-0"), of_hand("data-1")],
        persistentvolumes=[disk("one", ZONES[2]), disk("two", ZONES[0])],
        storageclasses=[BY_HAND],
    )

    assert drawn(planned(lists, assignments=assigned([first], 1))) == ["g.large c spot: db-1"]


def test_pods_go_together_where_there_are_enough_volumes_made_by_hand() -> None:
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
    lists = world(
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


def test_a_pod_follows_one_on_its_way_with_whom_it_shares_a_volume_to_come() -> None:
    first, second = mounting("web-0", "data", cpu="3"), mounting("web-1", "data", cpu="2", app="later")
    elsewhere = node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [*ZONES[1:]]}])
    lists = world(
        [first, second],
        elsewhere,
        nodeclaims=[on_its_way()],
        persistentvolumeclaims=[claim("data", modes="ReadWriteMany")],
        storageclasses=[LATER],
    )
    plan = planned(lists, assignments=assigned([first], 1))

    assert plan.nodes == ()
    assert [(one.pod, "a volume that it shares with pods elsewhere" in str(one.reasons)) for one in plan.pending] == [
        ("default/web-1", True)
    ]
    assert drawn(planned({**lists, "nodepools": [node_pool()]}, assignments=assigned([first], 1))) == [
        "m.xlarge a spot: web-1"
    ]


def test_pods_that_share_a_volume_of_every_zone_need_not_meet() -> None:
    shared = {
        "metadata": {"name": "ebs"},
        "provisioner": "efs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    waiting = [mounting(f"web-{zone[-1]}", "data", nodeSelector={ZONE: zone}) for zone in ZONES[:2]]
    lists = world(waiting, persistentvolumeclaims=[claim("data", modes="ReadWriteMany")], storageclasses=[shared])
    zonal = {"metadata": {"name": "any"}, "spec": {"drivers": [{"name": "efs.csi.aws.com", "topologyKeys": [ZONE]}]}}

    assert len(checked(lists).nodes) == 2
    assert len(checked({**lists, "csinodes": [zonal]}).nodes) == 1


def test_a_node_with_too_many_volumes_takes_a_pod_that_attaches_none() -> None:
    there = running(
        "old",
        "there",
        cpu="100m",
        volumes=[{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in ("a", "b")],
    )
    claims = [claim("a", volume="pv-a", modes="ReadWriteMany"), claim("b", volume="pv-b"), claim("own")]
    lists = world(
        [there, mounting("with-a", "a", cpu="100m"), mounting("with-own", "own", cpu="100m")],
        nodes=[node("there")],
        persistentvolumeclaims=claims,
        persistentvolumes=[volume("pv-a", ZONES[0]), volume("pv-b", ZONES[0])],
        storageclasses=[LATER],
        csinodes=[csi_node("there", 1)],
    )
    plan = checked(lists)

    assert [(one.node, one.pods) for one in plan.existing] == [("there", ("default/with-a",))]
    assert [one.pods for one in plan.nodes] == [("default/with-own",)]
