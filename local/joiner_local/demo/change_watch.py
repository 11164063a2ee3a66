"""Observe a scale-up or a scale-down from outside: changes of pods, executions, instances and nodes, in their order.

`ChangeWatch` polls the API server, Step Functions and EC2 until a deployment runs as declared, or until every node is
gone, and yields an `ObservedChange` for each change. It uses no knowledge of Joiner and could watch any autoscaler that
runs state machines.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from joiner_local.control_plane.kube_api import KubeApi
from joiner_local.demo.execution_listing import RUNNING, ExecutionSource, events, execution, executions

T = TypeVar("T")

ROUND_SECONDS = 0.1
LONGEST_PAUSE = 3.0  # seconds between two questions
DISRUPTED = "karpenter.sh/disrupted"


class WatchTimeout(RuntimeError):
    """The expected state was not reached in time; the message has the last state."""


class WatchedStack(ExecutionSource, Protocol):
    """A running, deployed stack."""

    @property
    def kube(self) -> KubeApi: ...
    @property
    def scale_up_arn(self) -> str: ...
    @property
    def retire_arn(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ObservedChange:
    """One change: `seconds` since the watch began, and one of the stages pod, execution, instance, node."""

    seconds: float
    stage: str
    text: str


@dataclass(frozen=True, slots=True)
class StateDuration:
    """One state of an execution: seconds from the execution's start to its entry, and its duration."""

    name: str
    entered: float
    seconds: float


@dataclass(slots=True)
class ChangeWatch:
    """Watch one app: report each change once, and nothing from before the watch.

    `executions` are those that run now or start later.
    """

    world: WatchedStack
    app: str
    namespace: str = "default"
    started: float = field(default_factory=time.monotonic)
    reported: set[str] = field(default_factory=set)
    executions: list[str] = field(default_factory=list)
    present: set[str] = field(default_factory=set)  # names of the nodes at the last poll

    def __post_init__(self) -> None:
        for _ in self.moments():
            pass
        self.executions = [arn for arn in self.executions if not _ended(self.world, arn)]

    def until_running(self, replicas: int, *, limit: float = 180.0) -> Iterator[ObservedChange]:
        """Yield changes until `replicas` pods run and every execution since the start has ended. Raises WatchTimeout
        after `limit` seconds.
        """
        while True:
            yield from self.moments()
            if self.running() == replicas == len(self.pods()) and all(
                _ended(self.world, arn) for arn in self.executions
            ):
                yield from self.moments()
                return
            if time.monotonic() - self.started > limit:
                begun = len(self.executions)
                raise WatchTimeout(
                    f"after {limit:.0f} s {self.running()} of {replicas} pods of {self.app} run; executions begun: "
                    f"{begun}"
                )
            time.sleep(ROUND_SECONDS)

    def until_gone(self, *, limit: float = 180.0) -> Iterator[ObservedChange]:
        """Yield changes until no node and no instance is left and every execution since the start has ended. Raises
        WatchTimeout after `limit` seconds.
        """
        while True:
            yield from self.moments()
            left = len(self.present), len(instances(self.world.client("ec2"), alive=True))
            if left == (0, 0) and all(_ended(self.world, arn) for arn in self.executions):
                yield from self.moments()
                return
            if time.monotonic() - self.started > limit:
                raise WatchTimeout(f"after {limit:.0f} s {left[0]} nodes and {left[1]} instances are left")
            time.sleep(ROUND_SECONDS)

    def moments(self) -> Iterator[ObservedChange]:
        """Yield the changes since the last call."""
        for stage, key, text in (*self._pods(), *self._executions(), *self._instances(), *self._nodes()):
            if key not in self.reported:
                self.reported.add(key)
                yield ObservedChange(time.monotonic() - self.started, stage, text)

    def pods(self) -> list[dict[str, Any]]:
        """Return the app's pods that are not being deleted."""
        items = self.world.kube.items(f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=app%3D{self.app}")
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self.pods())

    def _pods(self) -> Iterator[tuple[str, str, str]]:
        pods = self.pods()
        pending = sum(_unschedulable(pod) for pod in pods)
        running = sum(pod["status"].get("phase") == "Running" for pod in pods)
        if pending:
            yield "pod", f"pending {pending}", f"{pending} pending, the scheduler finds no node"
        if running:
            yield "pod", f"running {running} of {len(pods)}", f"{running} of {len(pods)} running"
        if not pods and any(key.startswith("running") for key in self.reported):
            yield "pod", "none", "none is left"

    def _executions(self) -> Iterator[tuple[str, str, str]]:
        machines = (self.world.scale_up_arn, self.world.retire_arn, self.world.retire_empty_arn)
        listed = [each for arn in machines for each in executions(self.world, arn)]
        for one in sorted(listed, key=lambda each: each["startDate"]):
            arn, name, status = one["executionArn"], one["name"], one["status"]
            if f"{arn} started" not in self.reported:
                self.executions.append(arn)
            yield "execution", f"{arn} started", f"{name} started"
            if status != RUNNING:
                yield "execution", f"{arn} {status}", f"{name} {status.lower()}"

    def _instances(self) -> Iterator[tuple[str, str, str]]:
        for instance in instances(self.world.client("ec2")):
            identity, state = instance["InstanceId"], instance["State"]["Name"]
            where = instance["Placement"]["AvailabilityZone"]
            yield "instance", f"{identity} {state}", f"{identity} {instance['InstanceType']} in {where} {state}"

    def _nodes(self) -> Iterator[tuple[str, str, str]]:
        nodes = self.world.kube.items("/api/v1/nodes")
        for name in sorted(self.present - {node["metadata"]["name"] for node in nodes}):
            yield "node", f"{name} gone", f"{name} is gone"
        self.present = {node["metadata"]["name"] for node in nodes}
        for node in nodes:
            name = node["metadata"]["name"]
            taints = {taint["key"] for taint in node["spec"].get("taints", [])}
            yield "node", f"{name} joined", f"{name} joined"
            if condition(node, "Ready") == "True":
                yield "node", f"{name} ready", f"{name} is Ready"
                if "joiner.dev/filling" not in taints:
                    yield "node", f"{name} open", f"{name} filled as planned and open to all"
            if DISRUPTED in taints:
                yield "node", f"{name} drains", f"{name} is closed to new pods and drained"


def until(question: Callable[[], T | None], *, what: str, limit: float = 60.0) -> T:
    """Return the first result that is not None or false. Raises WatchTimeout, which names `what`, after `limit`
    seconds.
    """
    end = time.monotonic() + limit
    while True:
        asked = time.monotonic()
        if answer := question():
            return answer
        answered = time.monotonic()
        if answered > end:
            raise WatchTimeout(f"{what}: not within {limit:.0f} s")
        # A server that responds slowly is busy with the expected change. A question that does something itself, as one
        # that runs a sweep, is slow without that.
        time.sleep(min(LONGEST_PAUSE, max(ROUND_SECONDS, 9 * (answered - asked))))


def states(world: ExecutionSource, execution_arn: str) -> list[StateDuration]:
    """Return the states of an execution in the order of their entry."""
    described = events(world, execution_arn)
    begin = described[0]["timestamp"]
    found: list[StateDuration] = []
    open_states: dict[str, datetime] = {}
    for event in described:
        if event["type"].endswith("StateEntered"):
            open_states[event["stateEnteredEventDetails"]["name"]] = event["timestamp"]
        elif event["type"].endswith("StateExited"):
            name = event["stateExitedEventDetails"]["name"]
            entered = open_states.pop(name, event["timestamp"])
            found.append(
                StateDuration(name, (entered - begin).total_seconds(), (event["timestamp"] - entered).total_seconds())
            )
    return sorted(found, key=lambda state: state.entered)


def summary(world: ExecutionSource, execution_arn: str) -> dict[str, Any]:
    """Return the output of the last state of an execution; empty if there is none."""
    output = execution(world, execution_arn).get("output")
    return dict(json.loads(output)) if output else {}


def instances(client: Any, *, alive: bool = False) -> list[dict[str, Any]]:
    """Return all instances, or those that cost money."""
    wanted = (
        ["pending", "running"]
        if alive
        else ["pending", "running", "shutting-down", "terminated", "stopping", "stopped"]
    )
    pages = client.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance-state-name", "Values": wanted}]
    )
    return [instance for page in pages for reservation in page["Reservations"] for instance in reservation["Instances"]]


def condition(manifest: Mapping[str, Any], kind: str) -> str:
    """Return the status of a condition of an object: True, False, Unknown, or empty if it has none.

    >>> condition({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready")
    'True'
    """
    conditions = manifest.get("status", {}).get("conditions", [])
    return next((str(found["status"]) for found in conditions if found["type"] == kind), "")


def _unschedulable(pod: Mapping[str, Any]) -> bool:
    return not pod["spec"].get("nodeName") and condition(pod, "PodScheduled") == "False"


def _ended(world: WatchedStack, arn: str) -> bool:
    return bool(execution(world, arn)["status"] != RUNNING)
