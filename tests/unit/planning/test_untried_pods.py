"""Pods that no scheduler has tried yet are pending if a pod of the same controller with the same constraints is, or if
they are many and were created with an unschedulable pod.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.cluster import Pod
from joiner.planning import Snapshot
from joiner.planning.inputs.untried_pods import mark_untried_pods
from joiner.planning.planner import plan
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, node, pod

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


def manifest(name: str, *, tried: bool, cpu: str = "1", owner: str = "rs-1", **spec: object) -> dict[str, Any]:
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

    assert mark_untried_pods([tried, untried]) == (tried, untried)


def test_a_marked_snapshot_is_not_marked_further() -> None:
    pods = Snapshot.from_lists({"pods": [manifest("a", tried=True), manifest("b", tried=False)]}).pods

    assert mark_untried_pods(pods) == pods
    assert [pod.unschedulable for pod in pods] == ["0/1 nodes", "0/1 nodes"]


def at(second: int, one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod, created in this second of a minute."""
    return {**one, "metadata": {**one["metadata"], "creationTimestamp": f"2026-11-28T12:00:{second:02}Z"}}


def burst(number: int = 10, *, second: int = 20, **spec: Any) -> list[dict[str, Any]]:
    """Return so many pods of another controller that no scheduler has tried."""
    return [at(second, manifest(f"api-{n}", tried=False, owner="rs-2", **spec)) for n in range(number)]


WEB = at(20, manifest("web-1", tried=True))


@pytest.mark.parametrize("second", [20, 25, 30])
def test_the_rest_of_a_burst_is_planned_with_its_unschedulable_pods(second: int) -> None:
    assert len(provisionable(WEB, *burst(second=second))) == 11
    assert len(provisionable(*burst(second=second), at(30, manifest("late", tried=True)), WEB)) == 12


@pytest.mark.parametrize(
    "others",
    [
        burst(9),
        burst(second=19),
        burst(second=31),
        burst(priority=5),
        burst(schedulerName="batch-scheduler"),
        burst(nodeName="node-1"),
        burst(schedulingGates=[{"name": "wait"}]),
        [{**one, "status": {**one["status"], "nominatedNodeName": "node-1"}} for one in burst()],
        [{**one, "metadata": {**one["metadata"], "creationTimestamp": "yesterday"}} for one in burst()],
    ],
    ids=[
        "a few that are about to be bound",
        "tried before, and left alone",
        "created later",
        "tried first",
        "another scheduler",
        "bound",
        "gated",
        "nominated",
        "of unknown age",
    ],
)
def test_untried_pods_that_are_no_rest_of_a_burst_are_left_to_their_scheduler(others: list[dict[str, Any]]) -> None:
    assert provisionable(WEB, *others) == ["web-1"]


def test_pods_of_daemon_sets_are_no_rest_of_a_burst() -> None:
    daemons = burst()
    for one in daemons:
        one["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet"

    assert provisionable(WEB, *daemons) == ["web-1"]


def test_the_rest_of_a_burst_that_fits_existing_nodes_gets_no_new_one() -> None:
    large = at(20, pod("web-1", cpu="5"))
    small = [at(20, {**pod(f"api-{n}", cpu="100m"), "status": {"phase": "Pending"}}) for n in range(10)]
    snapshot = Snapshot.from_lists(cluster([large, *small], nodes=[node("node-1")]))

    made = plan(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES)

    assert [one.pods for one in made.nodes] == [("default/web-1",)]
    assert sum(len(one.pods) for one in made.existing) == 10
