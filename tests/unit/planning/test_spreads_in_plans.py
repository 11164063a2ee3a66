"""Topology spread in plans: skew, domains and revisions.

The independent checker verifies every plan.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner.names import NODEPOOL
from tests.unit.planning.checked_plans import by_zone, checked, cluster, why
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    HOST,
    TAINT,
    TOLERATION,
    ZONE,
    ZONES,
    instance_type,
    node,
    node_pool,
    pods,
    running,
    spread,
)


def test_a_spread_over_too_few_domains_counts_from_zero() -> None:
    few = spread(minDomains=4)

    assert by_zone(cluster(pods(6, topologySpreadConstraints=[few]))) == {"a": 1, "b": 1, "c": 1}


def test_a_spread_with_more_skew_may_be_uneven() -> None:
    two = [{**running(f"web-{number}", "there")} for number in (8, 9)]
    lists = cluster(
        [*two, *pods(3, topologySpreadConstraints=[spread(skew=2)])], nodes=[node("there", zone=ZONES[0], cpu=1)]
    )

    assert sum(by_zone(lists).values()) == 3


def test_each_revision_spreads_for_itself() -> None:
    fields = spread(matchLabelKeys=["pod-template-hash"])
    old = [running(f"old-{number}", "there", cpu="300m") for number in range(3)]
    new = pods(3, topologySpreadConstraints=[fields])
    for one, revision in [(one, "1") for one in old] + [(one, "2") for one in new]:
        one["metadata"]["labels"]["pod-template-hash"] = revision
    lists = cluster([*old, *new], nodes=[node("there", cpu=1)])

    assert by_zone(lists) == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize(("policy", "placed"), [("Ignore", 1), ("Honor", 3)])
def test_a_node_that_pods_do_not_tolerate_counts_only_if_its_taints_are_ignored(policy: str, placed: int) -> None:
    far = node("far", zone="us-test-1x", taints=[TAINT])
    lists = cluster(
        pods(
            3,
            nodeSelector={ZONE: ZONES[0]},
            topologySpreadConstraints=[spread(nodeTaintsPolicy=policy, nodeAffinityPolicy="Ignore")],
        ),
        node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [ZONES[0]]}]),
        nodes=[far],
    )

    assert by_zone(lists)["a"] == placed


def test_two_spreads_hold_at_once() -> None:
    plan = checked(cluster(pods(6, topologySpreadConstraints=[spread(), spread(HOST, skew=1)])))

    assert len(plan.nodes) == 6
    assert {zone: sum(1 for one in plan.nodes if one.zone == zone) for zone in ZONES} == dict.fromkeys(ZONES, 2)


@pytest.mark.parametrize("number", [120, 240])
def test_a_pod_that_only_spreads_of_others_count_costs_no_node(number: int) -> None:
    """A few of many pods accept at most one pod of a certain team on their host. The others go twelve to a node."""
    teams = ("red", "green", "blue")
    waiting = pods(number, cpu="150m", memory="256Mi")
    for position, one in enumerate(waiting):
        one["metadata"]["labels"]["team"] = teams[position % 3]
        if position % 11 == 0:
            meant = {"matchLabels": {"team": teams[(position + position // 3) % 3]}}
            one["spec"]["topologySpreadConstraints"] = [{**spread(HOST), "labelSelector": meant}]
    plan = checked(cluster(waiting))

    assert plan.pending == ()
    assert len(plan.nodes) == number // 12


def test_a_soft_spread_keeps_no_pod_pending() -> None:
    soft = {**spread(minDomains=None), "whenUnsatisfiable": "ScheduleAnyway"}
    lists = cluster(
        pods(3, nodeSelector={ZONE: ZONES[0]}, topologySpreadConstraints=[{k: v for k, v in soft.items() if v}])
    )

    assert by_zone(lists) == {"a": 3, "b": 0, "c": 0}


def zones(name: str, *values: str, **more: Any) -> Mapping[str, Any]:
    """Return a pool with nodes in these zones only."""
    return node_pool(name, requirements=[{"key": ZONE, "operator": "In", "values": list(values)}], **more)


def test_other_pods_stay_out_of_a_zone_that_would_count_for_a_spread_and_cannot_hold_it() -> None:
    """kube-scheduler counts every zone with a node, also one whose nodes the pods of the spread do not tolerate."""
    web = pods(9, topologySpreadConstraints=[spread()])
    batch = pods(2, "batch", tolerations=[TOLERATION], nodeSelector={NODEPOOL: "batch"})
    lists = cluster(
        [*web, *batch],
        zones("web", *ZONES[:2]),
        zones("batch", *ZONES, taints=[TAINT]),
    )

    made = checked(lists)

    assert made.pending == ()
    assert {one.zone for one in made.nodes} == set(ZONES[:2])


@pytest.mark.parametrize(("number", "pending"), [(2, "batch"), (20, "web")])
def test_if_only_such_a_zone_is_left_the_larger_part_is_placed_first_and_the_reason_names_the_zone(
    number: int, pending: str
) -> None:
    web = pods(9, topologySpreadConstraints=[spread()])
    batch = pods(number, "batch", tolerations=[TOLERATION], nodeSelector={NODEPOOL: "batch"})
    lists = cluster(
        [*web, *batch],
        zones("web", *ZONES[:2]),
        zones("batch", ZONES[2], taints=[TAINT]),
    )

    made = checked(lists)

    assert {one.pod.partition("/")[2].rpartition("-")[0] for one in made.pending} == {pending}
    assert len(made.pending) == {"batch": 2, "web": 7}[pending]
    assert (
        why(made)
        == {
            "batch": [
                "batch: a node in us-test-1c would count for the topology spread of default/web-0, which can have none "
                "there and gets its node first; the next plan tries again",
                "web: incompatible requirements: the pod wants karpenter.sh/nodepool In [batch], and no node of this "
                "pool has that",
            ],
            "web": [
                "batch: did not tolerate taint dedicated=batch:NoSchedule",
                "web: unsatisfiable topology constraint: its spread over topology.kubernetes.io/zone keeps it out of "
                "every new node, because us-test-1c counts as a domain and can have no node for it",
            ],
        }[pending]
    )


def test_a_zone_that_a_running_node_makes_count_stays_open_for_other_pods() -> None:
    web = pods(3, topologySpreadConstraints=[spread()])
    batch = pods(1, "batch", tolerations=[TOLERATION], nodeSelector={NODEPOOL: "batch"})
    lists = cluster(
        [*web, *batch],
        zones("web", *ZONES[:2]),
        zones("batch", ZONES[2], taints=[TAINT]),
        nodes=[node("there", zone=ZONES[2], cpu=1, taints=[TAINT])],
    )

    made = checked(lists)

    assert [one.pod for one in made.pending] == ["default/web-2"]
    assert {one.zone for one in made.nodes} == set(ZONES)


def of_pool(name: str, pool: str, zone: str) -> Mapping[str, Any]:
    """Return a running node of a pool, of 4 CPUs."""
    return node(name, zone=zone, labels={NODEPOOL: pool})


@pytest.mark.parametrize("limit", ["4", "5"], ids=["used up", "less left than any node has"])
def test_zones_where_limits_allow_no_node_do_not_count(limit: str) -> None:
    """kube-scheduler counts the zones of nodes that are there, and no other can come."""
    web = pods(3, topologySpreadConstraints=[spread()])
    lists = cluster(web, node_pool(limits={"cpu": limit}), nodes=[of_pool("there", "default", ZONES[0])])

    made = checked(lists)

    assert (made.pending, made.nodes) == ((), ())
    assert [len(one.pods) for one in made.existing] == [3]


def test_zones_count_where_a_limit_is_on_a_resource_that_no_node_has() -> None:
    limited = node_pool(limits={"nvidia.com/gpu": "0"})

    assert by_zone(cluster(pods(3, topologySpreadConstraints=[spread()]), limited)) == {"a": 1, "b": 1, "c": 1}


def test_other_pods_stay_out_of_a_zone_where_limits_allow_no_node_for_a_spread() -> None:
    web = pods(4, topologySpreadConstraints=[spread()])
    batch = pods(1, "batch", tolerations=[TOLERATION], nodeSelector={NODEPOOL: "batch"})
    catalogue = {
        **CATALOGUE,
        "c.large": instance_type("c.large", 2, 4, 0.01, zones=ZONES[2:]),
    }
    lists = cluster(
        [*web, *batch],
        node_pool("web", limits={"cpu": "8"}),
        node_pool("batch", taints=[TAINT]),
        nodes=[of_pool("first", "web", ZONES[0]), of_pool("second", "web", ZONES[1])],
    )

    made = checked(lists, catalogue=catalogue)

    assert made.pending == ()
    assert {one.zone for one in made.nodes} <= set(ZONES[:2])


OS = "kubernetes.io/os"
SYSTEMS = pytest.mark.parametrize("declared", [{}, {"os": {"name": "linux"}}], ids=["no system", "linux"])


@SYSTEMS
def test_a_node_of_windows_counts_for_the_spread_of_pods_that_declare_linux(declared: Mapping[str, Any]) -> None:
    """kube-scheduler reads their node selector and affinity, not `spec.os`."""
    windows = node("there", zone=ZONES[2], taints=[TAINT], labels={OS: "windows"})
    waiting = pods(6, topologySpreadConstraints=[spread()], **declared)

    made = checked(cluster(waiting, zones("web", *ZONES[:2]), nodes=[windows]))

    assert {zone: sum(len(one.pods) for one in made.nodes if one.zone == zone) for zone in ZONES[:2]} == dict.fromkeys(
        ZONES[:2], 1
    )
    assert len(made.pending) == 4
    assert why(made) == [
        "web: unsatisfiable topology constraint: its spread over topology.kubernetes.io/zone keeps it out of every "
        "new node, because us-test-1c counts as a domain and can have no node for it"
    ]


@SYSTEMS
@pytest.mark.parametrize(("number", "pending"), [(2, {"batch": 2}), (20, {"web": 7})])
def test_a_new_node_of_windows_counts_for_the_spread_of_pods_that_declare_linux(
    number: int, pending: Mapping[str, int], declared: Mapping[str, Any]
) -> None:
    windows = instance_type("w.large", 2, 4, 0.1)
    catalogue = {**CATALOGUE, "w.large": {**windows, "labels": {**windows["labels"], OS: "windows"}}}
    web = pods(9, topologySpreadConstraints=[spread()], **declared)
    batch = pods(number, "batch", tolerations=[TOLERATION], nodeSelector={OS: "windows"})
    of_linux, of_windows = ({"key": OS, "operator": "In", "values": [system]} for system in ("linux", "windows"))
    near, far = ({"key": ZONE, "operator": "In", "values": list(values)} for values in (ZONES[:2], ZONES[2:]))
    lists = cluster(
        [*web, *batch],
        node_pool("web", requirements=[of_linux, near]),
        node_pool("batch", requirements=[of_windows, far], taints=[TAINT]),
    )

    made = checked(lists, catalogue=catalogue)

    names = [one.pod.partition("/")[2].rpartition("-")[0] for one in made.pending]
    assert {name: names.count(name) for name in names} == pending
