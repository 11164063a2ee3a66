"""Retirement of deleted objects: their pods run elsewhere, disruption budgets hold, and a stopped execution is
continued.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import ApiError, Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import DEPLOYMENTS, Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

MACHINES = "/apis/karpenter.sh/v1alpha5/machines"
NODES = "/api/v1/nodes"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LIMIT = 90.0


@pytest.fixture
def running(pool: Actor) -> Iterator[Actor]:
    """Three pods on one node."""
    pool.create(deployment("web", replicas=3))
    pool.wait_running(3)
    pool.rest()
    yield pool
    for budget in pool.world.kube.items(BUDGETS):
        pool.world.kube.delete(f"{BUDGETS}/{budget['metadata']['name']}", missing_ok=True)


def budget(actor: Actor, available: int) -> None:
    spec = {"minAvailable": available, "selector": {"matchLabels": {"app": "web"}}}
    actor.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec,
        }
    )


def name_of(found: Object) -> str:
    return str(found["metadata"]["name"])


def only(found: list[Object]) -> str:
    assert len(found) == 1, [name_of(each) for each in found]
    return name_of(found[0])


def delete_without_waiting(actor: Actor, path: str) -> None:
    actor.world.kube.call("DELETE", path)


def retirements(actor: Actor) -> list[dict[str, Any]]:
    listed = actor.world.client("stepfunctions").list_executions(stateMachineArn=actor.outputs["RetireArn"])[
        "executions"
    ]
    return sorted(listed, key=lambda each: each["startDate"])


def is_gone(actor: Actor, path: str) -> bool:
    return actor.world.kube.find(path) is None


def ended(actor: Actor, arn: str) -> Mapping[str, Any]:
    def look() -> Mapping[str, Any] | None:
        description: Mapping[str, Any] = actor.world.client("stepfunctions").describe_execution(executionArn=arn)
        return description if description["status"] != "RUNNING" else None

    return until(look, what="the retirement's end", limit=LIMIT)


def assert_gone(actor: Actor, node: str, claim: str, instance: str) -> None:
    """Assert that node, claim and instance are gone, and their pods run elsewhere."""
    until(lambda: is_gone(actor, f"{MACHINES}/{claim}"), what=f"claim {claim} gone", limit=LIMIT)
    left = actor.world.kube.find(f"{NODES}/{node}")  # its address, and so its name, may be another's by now
    assert left is None or not left["spec"]["providerID"].endswith(instance)
    assert instance not in [each["InstanceId"] for each in actor.instances()]
    assert actor.item("INSTANCE", instance) == {}
    assert actor.item("RETIREMENT", claim) == {}
    actor.wait_running(3)


@pytest.mark.parametrize("what", ["node", "claim"])
def test_a_deleted_object_is_drained_and_terminated_and_its_pods_run_elsewhere(running: Actor, what: str) -> None:
    node, claim, instance = only(running.nodes()), only(running.claims()), running.instances()[0]["InstanceId"]
    known = {each["executionArn"] for each in retirements(running)}

    delete_without_waiting(running, f"{NODES}/{node}" if what == "node" else f"{MACHINES}/{claim}")

    assert_gone(running, node, claim, instance)
    [execution] = [each for each in retirements(running) if each["executionArn"] not in known]
    summary = json.loads(ended(running, execution["executionArn"])["output"])
    assert (summary["retired"], summary["failures"]) == ([claim], [])
    reasons = {event["reason"] for event in running.events() if event["regarding"]["name"] == node}
    assert {"DisruptionTerminating", "InstanceTerminating"} <= reasons


def test_a_retirement_waits_for_a_disruption_budget(running: Actor) -> None:
    budget(running, available=3)
    until(lambda: _allowed(running) == 0, what="a budget that allows nothing")
    node, claim, instance = only(running.nodes()), only(running.claims()), running.instances()[0]["InstanceId"]
    before = {pod["metadata"]["uid"] for pod in running.pods("web")}

    delete_without_waiting(running, f"{NODES}/{node}")
    until(lambda: "FailedDraining" in _reasons(running, node), what="a drain that is blocked", limit=LIMIT)

    assert {pod["metadata"]["uid"] for pod in running.pods("web")} == before
    assert running.running("web") == 3
    assert instance in [each["InstanceId"] for each in running.instances()]
    found = running.world.kube.get(f"{NODES}/{node}")
    assert "karpenter.sh/disrupted" in [taint["key"] for taint in found["spec"]["taints"]]
    assert found["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"] == "karpenter"
    drained = _condition(running, claim, "Drained")
    held = "is held by its disruption budget web, which needs 3 healthy pods and has 3 currently"
    assert (drained["status"], held in drained["message"]) == ("Unknown", True)

    seen: list[int] = []
    running.world.kube.merge(f"{BUDGETS}/web", {"spec": {"minAvailable": 2}})
    deadline = time.monotonic() + LIMIT
    while not is_gone(running, f"{MACHINES}/{claim}"):
        assert time.monotonic() < deadline, "the budget allows it, and the node is still there"
        seen.append(running.running("web"))
        time.sleep(0.1)
    assert min(seen) >= 2  # never more than the budget allows at a time
    assert_gone(running, node, claim, instance)


def test_a_stopped_retirement_is_continued_by_the_next(running: Actor) -> None:
    budget(running, available=3)
    until(lambda: _allowed(running) == 0, what="a budget that allows nothing")
    node, claim, instance = only(running.nodes()), only(running.claims()), running.instances()[0]["InstanceId"]
    known = {each["executionArn"] for each in retirements(running)}

    delete_without_waiting(running, f"{MACHINES}/{claim}")
    arn = until(
        lambda: next(
            (each["executionArn"] for each in retirements(running) if each["executionArn"] not in known), None
        ),
        what="a retirement",
        limit=LIMIT,
    )
    until(lambda: "Evict pods" in running.states_of(arn), what="a drain", limit=LIMIT)
    running.stop(arn)
    running.world.kube.delete(f"{BUDGETS}/web")
    assert running.sweep() == "SUCCEEDED"

    assert_gone(running, node, claim, instance)


def test_a_pod_with_do_not_disrupt_keeps_its_node_until_it_ends(running: Actor) -> None:
    node, claim, instance = only(running.nodes()), only(running.claims()), running.instances()[0]["InstanceId"]
    [first, *_] = running.pods("web")
    path = f"/api/v1/namespaces/default/pods/{name_of(first)}"
    running.world.kube.merge(path, {"metadata": {"annotations": {"karpenter.sh/do-not-evict": "true"}}})

    delete_without_waiting(running, f"{NODES}/{node}")
    until(lambda: "FailedDraining" in _reasons(running, node), what="a drain that is blocked", limit=LIMIT)
    until(
        lambda: [pod["spec"].get("nodeName") for pod in running.pods("web")].count(node) == 1,
        what="one pod left",
        limit=LIMIT,
    )
    running.wait_running(3, "web")
    assert instance in [each["InstanceId"] for each in running.instances()]

    try:
        running.world.kube.delete(path)
    except ApiError as error:
        assert error.status == 404
    assert_gone(running, node, claim, instance)
    assert len(running.world.kube.items(f"{DEPLOYMENTS}")) == 1


def _allowed(actor: Actor) -> int | None:
    found = actor.world.kube.get(f"{BUDGETS}/web").get("status") or {}
    return found.get("disruptionsAllowed") if found.get("expectedPods") == 3 else None


def _reasons(actor: Actor, node: str) -> set[str]:
    return {event["reason"] for event in actor.events() if event["regarding"]["name"] == node}


def _condition(actor: Actor, claim: str, name: str) -> Mapping[str, Any]:
    found = actor.world.kube.get(f"{MACHINES}/{claim}")
    return next(each for each in found["status"]["conditions"] if each["type"] == name)
