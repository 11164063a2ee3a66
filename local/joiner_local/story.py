"""A scale-up or a scale-down as a user would watch it: pods, executions, instances and nodes, seen from outside, in the order it happened.

`Watch` polls the API server, Step Functions and EC2 until a deployment runs as asked, or until every node is gone, and yields a `Moment`
for each thing that changed. Nothing here knows how Joiner works; it could watch any autoscaler that drives state machines.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from joiner_local.executions import RUNNING, Deployed, events, execution, executions
from joiner_local.kube_api import KubeApi

T = TypeVar("T")

ROUND_SECONDS = 0.1
DISRUPTED = "karpenter.sh/disrupted"


class StoryStalled(RuntimeError):
    """What was waited for did not happen in time; the message says how far it came."""


class World(Deployed, Protocol):
    """What there is to look at: a running, deployed stack."""

    @property
    def kube(self) -> KubeApi: ...
    @property
    def scale_up_arn(self) -> str: ...
    @property
    def retire_arn(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened: `seconds` since the watch began, on one of the stages pod, execution, instance, node."""

    seconds: float
    stage: str
    text: str


@dataclass(frozen=True, slots=True)
class StateTime:
    """One state of an execution: when it was entered, in seconds after the execution's start, and how long it took."""

    name: str
    entered: float
    seconds: float


@dataclass(slots=True)
class Watch:
    """One app, watched from now on: what was there before is not told, and each thing after that once.

    `executions` are those that run now or begin later.
    """

    world: World
    app: str
    namespace: str = "default"
    started: float = field(default_factory=time.monotonic)
    told: set[str] = field(default_factory=set)
    executions: list[str] = field(default_factory=list)
    present: set[str] = field(default_factory=set)  # names of the nodes that were there at the last look

    def __post_init__(self) -> None:
        for _ in self.moments():
            pass
        self.executions = [arn for arn in self.executions if not _ended(self.world, arn)]

    def until_running(self, replicas: int, *, limit: float = 180.0) -> Iterator[Moment]:
        """Moments until `replicas` pods run and every execution begun since has ended; StoryStalled after `limit` seconds."""
        while True:
            yield from self.moments()
            if self.running() == replicas == len(self.pods()) and all(_ended(self.world, arn) for arn in self.executions):
                yield from self.moments()
                return
            if time.monotonic() - self.started > limit:
                begun = len(self.executions)
                raise StoryStalled(f"after {limit:.0f} s {self.running()} of {replicas} pods of {self.app} run; executions begun: {begun}")
            time.sleep(ROUND_SECONDS)

    def until_gone(self, *, limit: float = 180.0) -> Iterator[Moment]:
        """Moments until no node and no instance is left and every execution begun since has ended; StoryStalled after `limit` seconds."""
        while True:
            yield from self.moments()
            left = len(self.present), len(instances(self.world.client("ec2"), alive=True))
            if left == (0, 0) and all(_ended(self.world, arn) for arn in self.executions):
                yield from self.moments()
                return
            if time.monotonic() - self.started > limit:
                raise StoryStalled(f"after {limit:.0f} s {left[0]} nodes and {left[1]} instances are left")
            time.sleep(ROUND_SECONDS)

    def moments(self) -> Iterator[Moment]:
        """What is new since the last call."""
        for stage, key, text in (*self._pods(), *self._executions(), *self._instances(), *self._nodes()):
            if key not in self.told:
                self.told.add(key)
                yield Moment(time.monotonic() - self.started, stage, text)

    def pods(self) -> list[dict[str, Any]]:
        """The app's pods that are not on their way out."""
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
        if not pods and any(key.startswith("running") for key in self.told):
            yield "pod", "none", "none is left"

    def _executions(self) -> Iterator[tuple[str, str, str]]:
        machines = (self.world.scale_up_arn, self.world.retire_arn, self.world.retire_empty_arn)
        listed = [each for arn in machines for each in executions(self.world, arn)]
        for one in sorted(listed, key=lambda each: each["startDate"]):
            arn, name, status = one["executionArn"], one["name"], one["status"]
            if f"{arn} started" not in self.told:
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
    """The first answer that is not None or false; StoryStalled names `what` after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        asked = time.monotonic()
        if answer := question():
            return answer
        answered = time.monotonic()
        if answered > end:
            raise StoryStalled(f"{what}: not within {limit:.0f} s")
        time.sleep(max(ROUND_SECONDS, 9 * (answered - asked)))  # whoever answers slowly is busy with what is waited for


def states(world: Deployed, execution_arn: str) -> list[StateTime]:
    """The states of an execution in the order they were entered."""
    told = events(world, execution_arn)
    begin = told[0]["timestamp"]
    found: list[StateTime] = []
    open_states: dict[str, datetime] = {}
    for event in told:
        if event["type"].endswith("StateEntered"):
            open_states[event["stateEnteredEventDetails"]["name"]] = event["timestamp"]
        elif event["type"].endswith("StateExited"):
            name = event["stateExitedEventDetails"]["name"]
            entered = open_states.pop(name, event["timestamp"])
            found.append(StateTime(name, (entered - begin).total_seconds(), (event["timestamp"] - entered).total_seconds()))
    return sorted(found, key=lambda state: state.entered)


def summary(world: Deployed, execution_arn: str) -> dict[str, Any]:
    """What the last state of an execution put out; empty if it put out nothing."""
    output = execution(world, execution_arn).get("output")
    return dict(json.loads(output)) if output else {}


def instances(client: Any, *, alive: bool = False) -> list[dict[str, Any]]:
    """All instances, or those that cost money."""
    wanted = ["pending", "running"] if alive else ["pending", "running", "shutting-down", "terminated", "stopping", "stopped"]
    pages = client.get_paginator("describe_instances").paginate(Filters=[{"Name": "instance-state-name", "Values": wanted}])
    return [instance for page in pages for reservation in page["Reservations"] for instance in reservation["Instances"]]


def condition(manifest: Mapping[str, Any], kind: str) -> str:
    """The status of a condition of an object: True, False, Unknown, or empty where it has none.

    >>> condition({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready")
    'True'
    """
    conditions = manifest.get("status", {}).get("conditions", [])
    return next((str(found["status"]) for found in conditions if found["type"] == kind), "")


def _unschedulable(pod: Mapping[str, Any]) -> bool:
    return not pod["spec"].get("nodeName") and condition(pod, "PodScheduled") == "False"


def _ended(world: World, arn: str) -> bool:
    return bool(execution(world, arn)["status"] != RUNNING)
