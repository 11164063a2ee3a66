"""Pods that no scheduler has tried yet are pending if a pod of the same controller with the same constraints is."""

from dataclasses import replace
from itertools import permutations

import pytest

from joiner.cluster import Pod
from joiner.planning import Snapshot
from joiner.planning.inputs.untried_pods import mark_untried_siblings

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


def manifest(name: str, *, tried: bool, cpu: str = "1", owner: str = "rs-1", **spec: object) -> dict[str, object]:
    """Return a pod of a ReplicaSet."""
    controller = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": [controller]},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec},
        "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE] if tried else []},
    }


def provisionable(*manifests: dict[str, object]) -> list[str]:
    """Return the names of the pods that a plan of a snapshot places."""
    return sorted(pod.name for pod in Snapshot.from_lists({"pods": manifests}).pods if pod.provisionable)


def test_an_untried_pod_of_a_deployment_is_planned_with_its_unschedulable_siblings() -> None:
    pods = [manifest("web-1", tried=True), manifest("web-2", tried=False), manifest("web-3", tried=False)]

    for order in permutations(pods):
        assert provisionable(*order) == ["web-1", "web-2", "web-3"]


@pytest.mark.parametrize(
    "other",
    [
        manifest("other", tried=False, owner="rs-2"),
        manifest("other", tried=False, cpu="2"),
        manifest("other", tried=False, priority=5),
        manifest("other", tried=False, nodeName="node-1"),
        manifest("other", tried=False, schedulingGates=[{"name": "wait"}]),
    ],
    ids=["another controller", "other requests", "another priority", "bound", "gated"],
)
def test_an_untried_pod_that_differs_is_left_to_its_scheduler(other: dict[str, object]) -> None:
    assert provisionable(manifest("web-1", tried=True), other) == ["web-1"]


def test_pods_whose_scheduler_found_nodes_for_all_of_them_stay_as_they_are() -> None:
    assert provisionable(manifest("web-1", tried=False), manifest("web-2", tried=False)) == []


def test_bare_pods_are_no_siblings() -> None:
    tried = Pod("default", "one", unschedulable="0/1 nodes")
    untried = replace(tried, name="two", unschedulable=None)

    assert mark_untried_siblings([tried, untried]) == (tried, untried)


def test_a_marked_snapshot_is_not_marked_further() -> None:
    pods = Snapshot.from_lists({"pods": [manifest("a", tried=True), manifest("b", tried=False)]}).pods

    assert mark_untried_siblings(pods) == pods
    assert [pod.unschedulable for pod in pods] == ["0/1 nodes", "0/1 nodes"]
