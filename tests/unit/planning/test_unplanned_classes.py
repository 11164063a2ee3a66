"""Pod classes for which another plan of the same snapshot would change nothing."""

from typing import Any

from joiner.cluster import Pod
from joiner.planning import ExistingNode, PendingPod, Plan, Reason, Snapshot
from joiner.planning.output.unplanned_classes import find_moving_classes, find_unplaceable_classes
from joiner.planning.plan import TEMPORARY

NO_TYPE = Reason("default", "no instance type has enough resources")
NOT_TRIED = Reason("default", f"the search ended, {TEMPORARY}")


def pod(name: str, cpu: str, node: str = "") -> Pod:
    """Return a pod; all pods with the same request are of one class."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    return Pod.from_kube(
        {"metadata": {"name": name, "namespace": "default"}, "spec": spec | ({"nodeName": node} if node else {})}
    )


def existing(*names: str) -> tuple[ExistingNode, ...]:
    return (ExistingNode("node-1", "default-1", tuple(f"default/{name}" for name in names), {}),)


def pending(name: str, *reasons: Reason) -> PendingPod:
    return PendingPod(f"default/{name}", reasons)


def test_a_class_that_stays_pending_is_hopeless_unless_the_reason_passes_by_itself() -> None:
    small, large, planned = pod("small", "1"), pod("large", "64"), pod("planned", "2")
    world = Snapshot(pods=(small, large, planned))
    plan = Plan(pending=(pending("small", NO_TYPE, NOT_TRIED), pending("large", NO_TYPE)))

    assert find_unplaceable_classes(plan, world) == {large.class_key}


def test_one_passing_reason_keeps_the_whole_class_in_the_next_plan() -> None:
    world = Snapshot(pods=(pod("a", "1"), pod("b", "1")))
    plan = Plan(pending=(pending("a", NO_TYPE), pending("b", NOT_TRIED)))

    assert find_unplaceable_classes(plan, world) == set()


def test_a_class_whose_pods_all_leave_nodes_and_fit_on_others_needs_no_other_plan() -> None:
    first, second = pod("a", "1", node="leaving"), pod("b", "1", node="leaving")
    world = Snapshot(pods=(first, second, pod("elsewhere", "4", node="node-2")))

    assert find_moving_classes(Plan(existing=existing("a", "b")), world) == {first.class_key}


def test_a_class_with_a_pending_pod_or_with_a_pod_that_does_not_fit_is_planned_again() -> None:
    leaving, new, unplaced = pod("a", "1", node="leaving"), pod("b", "1"), pod("c", "1", node="leaving")

    assert find_moving_classes(Plan(existing=existing("a", "b")), Snapshot(pods=(leaving, new))) == set()
    plan = Plan(existing=existing("a"), pending=(pending("c", NO_TYPE),))
    assert find_moving_classes(plan, Snapshot(pods=(leaving, unplaced))) == set()
