"""How many volumes a node can attach, in plans: limits of drivers, shared volumes."""

from collections.abc import Sequence
from typing import Any

from tests.unit.planning.checked_plans import checked, cluster, why
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    ZONES,
    Json,
    instance_type,
    node,
    node_pool,
    running,
)
from tests.unit.planning.test_in_flight import claim as on_its_way
from tests.unit.planning.volume_manifests import LATER, ONE_TYPE, claim, csi_node, mounting, volume


def test_a_node_takes_no_more_volumes_than_its_driver_can_attach() -> None:
    there = running("old", "there", cpu="100m", volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": "old"}}])
    waiting = [mounting(f"db-{number}", f"data-{number}", cpu="100m") for number in range(3)]
    claims = [claim("old", volume="pv-old"), *(claim(f"data-{number}") for number in range(3))]
    lists = cluster(
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
    lists = cluster(
        waiting,
        nodes=[there],
        persistentvolumeclaims=[claim(f"data-{number}") for number in range(4)],
        storageclasses=[LATER],
        csinodes=[csi_node("there", 2)],
    )

    plan = checked(lists)

    assert sorted((one.instance_type, len(one.pods)) for one in plan.nodes) == [("g.large", 2), ("g.large", 2)]


def csi_cluster(
    *waiting: Json, most: int, there: Sequence[Json] = (), claims: Sequence[Json], volumes: Sequence[Json] = ()
) -> dict[str, Any]:
    """Draw a node on which the driver can attach this number of volumes, and pending pods."""
    return cluster(
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
        csi_cluster(
            *waiting, most=1, there=[old], claims=[claim("old", volume="pv-old")], volumes=[volume("pv-old", ZONES[0])]
        )
    )

    assert [one.pods for one in plan.existing] == [("default/reader-0", "default/reader-1", "default/reader-2")]
    assert not plan.nodes


def test_pods_that_share_a_volume_attach_it_once_and_their_own_beside_it() -> None:
    waiting = [mounting(f"db-{number}", "both", f"own-{number}", cpu="100m") for number in range(4)]
    claims = [claim("both", volume="pv-both"), *(claim(f"own-{number}") for number in range(4))]
    plan = checked(csi_cluster(*waiting, most=3, claims=claims, volumes=[volume("pv-both", ZONES[0])]))

    assert [len(one.pods) for one in plan.existing] == [2]
    assert sum(len(one.pods) for one in plan.nodes) == 2


def test_the_driver_s_limit_on_new_nodes_counts_a_shared_volume_once() -> None:
    there = node(
        "there", labels={"node.kubernetes.io/instance-type": "g.large"}, taints=[{"key": "x", "effect": "NoSchedule"}]
    )
    waiting = [mounting(f"reader-{number}", "both", cpu="100m", memory="64Mi") for number in range(5)]
    waiting += [mounting(f"db-{number}", f"own-{number}", cpu="100m", memory="64Mi") for number in range(2)]
    lists = cluster(
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
    lists = cluster(
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


def test_a_node_without_a_reported_limit_does_not_change_that_of_other_types() -> None:
    described = [typed(f"n-{name}", name) for name in CATALOGUE]
    lists = cluster(
        [mounting("db", "data")],
        nodes=[*described, node("fresh")],
        persistentvolumeclaims=[claim("data")],
        storageclasses=[LATER],
        csinodes=[csi_node(f"n-{name}", 3) for name in CATALOGUE],
    )

    assert [one.node for one in checked(lists).existing] == ["fresh"]


def test_a_node_in_flight_attaches_no_more_volumes_than_others_of_its_type() -> None:
    lists = cluster(
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
    lists = cluster(
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
    described = [typed(f"n-{name}", name) for name in CATALOGUE]
    lists = cluster(
        [mounting(f"db-{number}", f"data-{number // 2}", cpu="100m", memory="64Mi") for number in range(200)],
        nodes=described,
        persistentvolumeclaims=[claim(f"data-{number}") for number in range(100)],
        storageclasses=[LATER],
        csinodes=[csi_node(f"n-{name}", 3) for name in CATALOGUE],
    )

    assert not checked(lists).pending


def test_a_node_with_too_many_volumes_takes_a_pod_that_attaches_none() -> None:
    there = running(
        "old",
        "there",
        cpu="100m",
        volumes=[{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in ("a", "b")],
    )
    claims = [claim("a", volume="pv-a", modes="ReadWriteMany"), claim("b", volume="pv-b"), claim("own")]
    lists = cluster(
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
