"""Volumes in plans: zones, claims that several pods mount, claims for one pod at a time."""

from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import (
    ZONE,
    ZONES,
    instance_type,
    node_pool,
    planned,
    pod,
)
from tests.unit.planning.test_in_flight import assigned
from tests.unit.planning.test_in_flight import claim as on_its_way
from tests.unit.planning.volume_manifests import LATER, claim, mounting, volume


def test_replicas_of_a_stateful_set_share_a_node_and_each_has_its_volume() -> None:
    waiting = [mounting(f"db-{number}", f"data-{number}", app="db") for number in range(3)]
    lists = cluster(
        waiting, persistentvolumeclaims=[claim(f"data-{number}") for number in range(3)], storageclasses=[LATER]
    )

    assert drawn(checked(lists)) == ["g.large a spot: db-0 db-1 db-2"]


def test_a_replica_whose_volume_is_in_another_zone_goes_there() -> None:
    claims = [claim("data-0", volume="pv-0"), claim("data-1", volume="pv-1")]
    lists = cluster(
        [mounting("db-0", "data-0"), mounting("db-1", "data-1")],
        persistentvolumeclaims=claims,
        persistentvolumes=[volume("pv-0", ZONES[0]), volume("pv-1", ZONES[2])],
    )

    assert drawn(checked(lists)) == ["g.large a spot: db-0", "g.large c spot: db-1"]


def test_pods_that_share_an_unprovisioned_volume_go_to_one_zone() -> None:
    waiting = [mounting(f"web-{number}", "shared", cpu="1500m") for number in range(4)]
    lists = cluster(waiting, persistentvolumeclaims=[claim("shared", modes="ReadWriteMany")], storageclasses=[LATER])
    plan = checked(lists)

    assert plan.pending == () and len(plan.nodes) > 1
    assert len({one.zone for one in plan.nodes}) == 1


def test_a_claim_for_one_pod_at_a_time_goes_to_the_highest_priority() -> None:
    once = claim("once", modes="ReadWriteOncePod")
    waiting = [mounting("low", "once"), mounting("high", "once", priority=10)]
    plan = checked(cluster(waiting, persistentvolumeclaims=[once], storageclasses=[LATER]))

    assert [one.pods for one in plan.nodes] == [("default/high",)]
    assert why(plan) == [
        "default: its PersistentVolumeClaim is for one pod at a time, and another pod that waits has it"
    ]


def test_a_pod_that_cannot_be_placed_takes_no_claim_from_others() -> None:
    once = claim("once", modes="ReadWriteOncePod")
    waiting = [mounting("low", "once"), mounting("high", "once", priority=10, cpu="100")]
    plan = checked(cluster(waiting, persistentvolumeclaims=[once], storageclasses=[LATER]))

    assert [one.pods for one in plan.nodes] == [("default/low",)]


def test_an_ephemeral_volume_is_a_claim_that_its_controller_will_make() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "ebs"}}
    waiting = pod("web-0", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    only_b = {**LATER, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": [ZONES[1]]}]}]}

    assert drawn(checked(cluster([waiting], storageclasses=[only_b]))) == ["g.large b spot: web-0"]


def test_a_claim_without_a_class_has_the_default_one() -> None:
    default = {
        **LATER,
        "metadata": {"name": "ebs", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    }
    open_claim = claim("data", storage_class=None)

    assert drawn(
        checked(cluster([mounting("web-0", "data")], persistentvolumeclaims=[open_claim], storageclasses=[default]))
    ) == ["g.large a spot: web-0"]


def test_a_volume_in_a_zone_keeps_a_pod_pending_where_no_offer_is() -> None:
    only_a = {"m.xlarge": instance_type("m.xlarge", 4, 16, 0.19, zones=ZONES[:1])}
    lists = cluster(
        [mounting("web-0", "data")],
        node_pool(),
        persistentvolumeclaims=[claim("data", volume="pv")],
        persistentvolumes=[volume("pv", ZONES[1])],
    )

    assert "topology.kubernetes.io/zone" in why(checked(lists, catalogue=only_a))[0]


def test_the_reason_names_the_zone_of_the_pod_and_that_of_its_volume() -> None:
    lists = cluster(
        [mounting("db", "data", nodeSelector={ZONE: ZONES[0]})],
        persistentvolumeclaims=[claim("data", volume="pv")],
        persistentvolumes=[volume("pv", ZONES[2])],
    )

    reason = next(iter(why(checked(lists))))

    assert ZONES[0] in reason
    assert ZONES[2] in reason


def test_a_pod_follows_a_pod_in_flight_that_shares_its_unprovisioned_volume() -> None:
    first, second = mounting("web-0", "data", cpu="3"), mounting("web-1", "data", cpu="2", app="later")
    elsewhere = node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [*ZONES[1:]]}])
    lists = cluster(
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
    lists = cluster(waiting, persistentvolumeclaims=[claim("data", modes="ReadWriteMany")], storageclasses=[shared])
    zonal = {"metadata": {"name": "any"}, "spec": {"drivers": [{"name": "efs.csi.aws.com", "topologyKeys": [ZONE]}]}}

    assert len(checked(lists).nodes) == 2
    assert len(checked({**lists, "csinodes": [zonal]}).nodes) == 1
