"""From Ready nodes to their running pods while other rounds plan: pods arrive one after another, each for its own node.

So at every moment some pods are planned, some nodes boot, and some become Ready. The times are observed from outside,
by watches of nodes and pods. `bench.lifecycle` prints the table.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from joiner_local.control_plane.kube_api import KubeApi, Object
from joiner_local.demo.change_watch import condition
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"
BETWEEN_PODS: Final = 0.5  # seconds
LIMIT: Final = 180  # seconds, until all pods run
STAGE: Final = "Ready → Running"


class ArrivingPods:
    """A deployed stack in which pods arrive faster than their nodes boot. `make_pod` returns a pod that fills a node,
    by its name."""

    def __init__(self, stack: LocalStack, make_pod: Callable[[str], Object]) -> None:
        self._deployed = DemoStack.of(stack)
        self._make_pod = make_pod

    def run(self, count: int) -> tuple[list[dict[str, float]], int]:
        """Return the seconds from Ready to Running of each pod, and the number of plans that were made meanwhile."""
        kube, began = self._deployed.kube, time.time()
        known = {each["metadata"]["name"] for each in kube.items(NODES)}
        with ThreadPoolExecutor(2) as threads:
            ready, running = (
                threads.submit(_first_times, kube, path, node_of, count, frozenset(known))
                for path, node_of in ((NODES, _ready_node), (PODS, _running_on))
            )
            for number in range(count):
                kube.create(PODS, self._make_pod(f"arriving-{number}"))
                time.sleep(BETWEEN_PODS)
            waits = [max(0.0, at - ready.result()[node]) for node, at in running.result().items()]
        return [{STAGE: each} for each in waits], self._plans_since(began)

    def _plans_since(self, at: float) -> int:
        """Return how many plans were begun since then."""
        client = self._deployed.client("stepfunctions")
        listed = client.list_executions(stateMachineArn=self._deployed.scale_up_arn)["executions"]
        return sum(
            event["timestamp"].timestamp() > at and _enters_planning(event)
            for execution in listed
            if "stopDate" not in execution or execution["stopDate"].timestamp() > at
            for page in client.get_paginator("get_execution_history").paginate(executionArn=execution["executionArn"])
            for event in page["events"]
        )


def _first_times(
    kube: KubeApi, path: str, node_of: Callable[[Object], str], count: int, known: frozenset[str]
) -> dict[str, float]:
    """Return when `node_of` first gave each of `count` nodes that are not known, in seconds since the epoch. Raise
    TimeoutError if fewer are found within `LIMIT` seconds."""
    found: dict[str, float] = {}
    for _, changed in kube.watch(path, seconds=LIMIT):
        node = node_of(changed)
        if node and node not in known:
            found.setdefault(node, time.time())
        if len(found) == count:
            return found
    raise TimeoutError(f"{len(found)} of {count} nodes within {LIMIT} s: {path}")


def _ready_node(node: Object) -> str:
    return str(node["metadata"]["name"]) if condition(node, "Ready") == "True" else ""


def _running_on(pod: Object) -> str:
    return str(pod["spec"]["nodeName"]) if pod.get("status", {}).get("phase") == "Running" else ""


def _enters_planning(event: Mapping[str, Any]) -> bool:
    return bool(event.get("stateEnteredEventDetails", {}).get("name") == "Plan capacity")
