"""Topology spread in plans: skew, domains and revisions.

The independent checker verifies every plan.
"""

import pytest

from tests.unit.planning.checked_plans import by_zone, checked, cluster
from tests.unit.planning.drawn_clusters import (
    HOST,
    TAINT,
    ZONE,
    ZONES,
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
