"""Nodes that are marked for disruption and not drained yet: only the disruption launches nodes for their pods."""

from collections.abc import Sequence
from typing import Any

from joiner.planning import Plan, Snapshot
from joiner.planning.model.pending_pods import PodsToPlace, select_pods
from tests.unit.planning.checked_plans import checked
from tests.unit.planning.drawn_clusters import ZONES, Json, node, node_pool, planned, pod
from tests.unit.planning.test_in_flight import assigned, claim, drained, leaving_pod, planned_with, summary

DELETED = {"deletionTimestamp": "2026-11-28T12:00:00Z"}


def marked(**metadata: str) -> tuple[Json, Json]:
    """Return a tainted node, and its claim."""
    made = claim("old", initialized=True, metadata=metadata)
    made["status"]["providerID"] = f"aws:///{ZONES[0]}/i-9"
    return drained(), made


def world(pods: Sequence[Json], *claims: Json, **metadata: str) -> dict[str, Any]:
    there, old = marked(**metadata)
    return {"pods": pods, "nodepools": [node_pool()], "nodes": [there], "nodeclaims": [old, *claims]}


def selected(lists: dict[str, Any], slots: dict[str, dict[str, int]]) -> PodsToPlace:
    return select_pods(Snapshot.from_lists(lists, assignments=slots))


def counts(plan: Plan) -> tuple[int, int, int]:
    return len(plan.nodes), len(plan.existing), len(plan.pending)


def test_nothing_is_planned_for_the_pods_of_a_marked_node_until_its_claim_is_deleted() -> None:
    """The replacement has failed, and the disruption is undone next."""
    pods = [leaving_pod(f"web-{number}") for number in range(3)]

    assert counts(checked(world(pods))) == (0, 0, 0)
    assert counts(checked(world(pods, **DELETED))) == (1, 0, 0)


def test_a_pending_pod_gets_a_node_for_itself_beside_a_marked_node() -> None:
    plan = checked(world([leaving_pod("web-0"), pod("late", app="late", cpu="1500m")]))

    assert [one.pods for one in plan.nodes] == [("default/late",)]


def test_the_pods_of_a_marked_node_keep_their_slots_on_its_replacement() -> None:
    pods, late = [leaving_pod(f"web-{number}") for number in range(3)], pod("late", app="late", cpu="1500m")

    assert summary(planned_with(world([*pods, late], claim()), {"default-1": {}})) == (0, [("", "default-1", 1)])
    assert summary(planned_with(world([*pods, late], claim()), assigned(pods, 3))) == (1, [])


def test_a_pending_pod_takes_a_slot_before_a_pod_of_a_marked_node_and_that_before_one_of_a_drained_node() -> None:
    running, drains, waits = leaving_pod("web-0"), leaving_pod("web-1"), pod("web-2", cpu="1")
    drains["spec"]["nodeName"] = "going"
    lists = world([drains, running, waits], claim())
    lists["nodes"].append(node("going", taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]))
    found = [selected(lists, assigned([running], slots)) for slots in (1, 2, 3)]

    taken = [[one.name for one in each.reserved["NodeClaim/default-1"]] for each in found]
    assert taken == [["web-2"], ["web-2", "web-0"], ["web-2", "web-0", "web-1"]]
    assert [[one.name for one in each.pending] for each in found] == [["web-1"], ["web-1"], []]
    assert [sorted(each.blocked) for each in found] == [[], ["default/web-0"], ["default/web-0"]]


def test_a_marked_node_of_a_static_pool_counts_until_a_node_is_in_flight_for_it() -> None:
    """Without its replacement the node stays; with it, the pool lacks a node if another one is lost."""
    [static] = world([])["nodepools"]
    static["spec"]["replicas"] = 1
    failed, replaced = world([]), world([], claim())
    lists = [{**each, "nodepools": [static]} for each in (failed, replaced, world([], **DELETED))]

    assert [len(planned(each).nodes) for each in lists] == [0, 0, 1]
    static["spec"]["replicas"] = 2
    assert [len(planned(each).nodes) for each in lists] == [1, 1, 2]
