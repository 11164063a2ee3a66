"""Nodes that lose their taint during their drain: another controller removes it, or the API server refuses it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters.kube_errors import Forbidden
from joiner.lifecycle.drain_waits import OPEN_AT_MOST
from tests.unit.functions.grown_cluster import empty, first, grow, node_of, nothing_is_left_of, pods_on
from tests.unit.functions.retirement_execution import RetirementExecution, retire
from tests.unit.functions.simulated_cluster import SimulatedCluster

KEPT = ("draining", "no pod is left; one may still come")


@pytest.fixture
def drained(cluster: SimulatedCluster) -> RetirementExecution:
    """Return an execution whose first node waits for its pods."""
    grow(cluster)
    cluster.kube.held.update(pods_on(cluster, first(cluster).node_name))
    return retire(cluster, (first(cluster).name, "deleted"), passes=2)


def remove_taint(cluster: SimulatedCluster) -> None:
    node_of(cluster, first(cluster))["spec"]["taints"] = []


def refuse_taint(cluster: SimulatedCluster) -> None:
    node = first(cluster).node_name

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        if method == "PATCH" and path.endswith(f"/nodes/{node}"):
            raise Forbidden(f"node {node} must not change", status=403)
        return do()

    remove_taint(cluster)
    cluster.kube.fault = fault


def go_on(execution: RetirementExecution, passes: int = 1) -> tuple[str, str]:
    (entry,) = execution.entries = execution._drain(execution.entries, passes)
    return entry["stage"], entry["why"]


def time_until_termination(
    execution: RetirementExecution, before_pass: Callable[[SimulatedCluster], None]
) -> timedelta:
    """Return how long the instance was kept, of at most 30 passes."""
    cluster, claim, began = execution.cluster, first(execution.cluster), execution.cluster.now
    for _ in range(30):
        before_pass(cluster)
        at = cluster.now
        go_on(execution)
        if cluster.ec2.instances[claim.instance_id]["State"]["Name"] != "running":
            return at - began
    raise AssertionError(f"the instance runs, and its node is {execution.entries[0]}")


def test_a_node_that_may_not_be_tainted_for_a_moment_is_kept_for_some_seconds_after_its_taint(
    drained: RetirementExecution,
) -> None:
    cluster, claim = drained.cluster, first(drained.cluster)
    refuse_taint(cluster)
    empty(cluster, claim)

    assert [go_on(drained) for _ in range(3)] == [KEPT] * 3

    cluster.kube.fault = None
    assert go_on(drained) == KEPT
    assert node_of(cluster, claim)["spec"]["taints"]
    assert go_on(drained, 3)[0] == "forgotten"
    nothing_is_left_of(cluster, claim)


def test_an_empty_node_that_may_never_be_tainted_is_removed_after_a_minute(drained: RetirementExecution) -> None:
    empty(drained.cluster, first(drained.cluster))

    assert time_until_termination(drained, refuse_taint) == OPEN_AT_MOST


def test_an_empty_node_whose_taint_is_removed_before_each_pass_is_removed_after_a_minute(
    drained: RetirementExecution,
) -> None:
    empty(drained.cluster, first(drained.cluster))

    assert time_until_termination(drained, remove_taint) == OPEN_AT_MOST


@pytest.mark.parametrize("open_node", [remove_taint, refuse_taint])
def test_the_minute_of_a_node_without_its_taint_begins_when_it_has_no_pods_any_more(
    drained: RetirementExecution, open_node: Callable[[SimulatedCluster], None]
) -> None:
    began = drained.cluster.now
    while drained.cluster.now < began + 2 * OPEN_AT_MOST:
        open_node(drained.cluster)
        assert go_on(drained)[0] == "draining"
    empty(drained.cluster, first(drained.cluster))

    assert time_until_termination(drained, open_node) == OPEN_AT_MOST
