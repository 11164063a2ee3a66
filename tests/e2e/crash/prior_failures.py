"""What has gone wrong already when a scenario begins, what the sweep finds, and how time passes for what waits.

Everything here is done from outside, as a person, EC2 or a dead execution would do it.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from joiner.adapters.spot_history import put_spot_hours
from joiner.adapters.store import Store
from joiner.catalogue.interruption_history import SpotHours
from joiner.disruption.drift_schedule import DETECTED_EVERY
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import WatchTimeout, instances, until
from tests.e2e.crash.fault_scenarios import (
    DOWN,
    DOWN_EMPTY,
    FAILING_NODES,
    HEALTH_EVENT,
    LATE_NODES,
    REFRESH,
    SWEEP,
    UP,
    FaultScenario,
)
from tests.e2e.crash.starting_clusters import GUARD, STAGES
from tests.e2e.stack_actions import TAGS_OF_A_CLAIM, Actor, launch_without_claim
from tests.e2e.stack_invariants import CLAIM_PATHS
from tests.e2e.stack_manifests import deployment

PROVISIONER: Final = "/apis/karpenter.sh/v1alpha5/provisioners/default"
MACHINES: Final = "/apis/karpenter.sh/v1alpha5/machines"
PODS: Final = "/api/v1/namespaces/default/pods"
SHORT: Final = "c5.xlarge"
"""The instance type of which a scenario that falls short has none."""

SWEEP_SECONDS: Final = 60
EXPRESS_SECONDS: Final = 300
"""After so long an Express execution has ended, whatever became of it."""

LONG_AGO: Final = timedelta(minutes=10)
INTOLERABLE: Final = timedelta(minutes=31)
"""Longer than a bad condition of a node is tolerated."""

CHECKED_SECONDS: Final = 130
"""Longer than failing status checks are tolerated."""

BOOT_SECONDS: Final = 0.1
LATE_BOOT_SECONDS: Final = 3.0
"""Longer than a scale-up takes from its launches until it waits for their nodes."""

DIES_WITHIN: Final = 15.0
TRIES: Final = 3

ANSWERED: Final = {"kind": {"S": "ANSWERED"}, "id": {"S": "pods"}}
"""The item that remembers refused pods."""

DAY_SECONDS: Final = 86_400

LAUNCH_TAG: Final = "joiner.dev/launch"


def pod(name: str, cpu: str, instance_type: str) -> Object:
    """A pod without a controller: once it has left its node, there is no other in its place."""
    asked = deployment(name, cpu=cpu, nodeSelector={"node.kubernetes.io/instance-type": instance_type})["spec"][
        "template"
    ]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": asked}


@dataclass(slots=True)
class Troubles:
    """`machines` are the names of the state machines, by what they do."""

    actor: Actor
    machines: Mapping[str, str]
    crowd: tuple[Object, ...]
    strangers: set[str] = field(default_factory=set)
    """Instances that were launched here."""

    # --- before anything is struck

    def before(self, scenario: FaultScenario) -> None:
        """Bring about what the scenario begins with."""
        if scenario.stage:
            self.actor.clean()
            STAGES[scenario.stage].prepare(self.actor)
            if scenario.short:
                stage = STAGES[scenario.stage]
                self.actor.knob("capacity", instanceType=stage.cheap, lifecycle=stage.capacity_types[0], available=0)
            return
        if scenario.goes_up:
            self.keep_empty_nodes()
        if scenario.machine == UP:
            self.forget_launch_templates()
        if scenario.short:
            self.actor.knob("capacity", instanceType=SHORT, available=0)
        if scenario.trouble == LATE_NODES:
            self.actor.world.stack.agent_knob("boot", {"seconds": LATE_BOOT_SECONDS})
        if scenario.dies_in:
            self._let_one_die(scenario)
        if scenario.trouble == FAILING_NODES:
            self._let_nodes_fail()
        if scenario.machine == DOWN_EMPTY:
            self._empty_the_nodes()

    def when_the_sweep_comes(self, scenario: FaultScenario) -> None:
        """What the sweep of this scenario finds besides."""
        if scenario.machine == SWEEP and scenario.goes_up:
            self._take_a_name()

    def minutes_later(self, scenario: FaultScenario) -> None:
        """Failing checks have failed for long enough, and what EC2 refused of a node class is tried again."""
        for kind in ("BACKOFF", "DRIFT"):
            self._age(kind, at=DETECTED_EVERY)
        if scenario.trouble == FAILING_NODES:
            self._age("IMPAIRED", since=CHECKED_SECONDS)

    def over(self, scenario: FaultScenario) -> None:
        """The fault is over: what EC2 was short of is there again, evictions are allowed, and nodes join at once."""
        if scenario.stage and STAGES[scenario.stage].guarded:
            self.actor.world.kube.delete(GUARD, missing_ok=True)
        if scenario.trouble == LATE_NODES:
            self.actor.world.stack.agent_knob("boot", {"seconds": BOOT_SECONDS})
        if scenario.short:
            self.actor.knob("capacity", clear=True)
            self._forget("UNAVAILABLE")
            self.forget_answers()

    def _let_one_die(self, scenario: FaultScenario) -> None:
        """An orphan, and an execution that is stopped in the middle."""
        self._make_a_stranger()
        if not scenario.goes_up:
            self._strip_a_claim()
        what = UP if scenario.goes_up else DOWN
        before = self._last_stopped(what)
        self.actor.knob("faults/stop", machine=self.machines[what], state=scenario.dies_in, when="entered", nth=1)
        if scenario.goes_up:
            self.ask_for(scenario, *self.crowd)
        else:
            self.let_nodes_go(scenario)
        for _ in range(TRIES):  # a ring may be lost on a busy machine
            with suppress(WatchTimeout):
                until(
                    lambda: self._last_stopped(what) != before,
                    what=f"an execution's end in {scenario.dies_in}",
                    limit=DIES_WITHIN,
                )
                break
            self.actor.sweep()
        self.actor.rest()

    def _last_stopped(self, what: str) -> str:
        client, arn = self.actor.world.client("stepfunctions"), self._arn(what)
        found = client.list_executions(stateMachineArn=arn, statusFilter="ABORTED", maxResults=1)["executions"]
        return str(found[0]["executionArn"]) if found else ""

    def _arn(self, what: str) -> str:
        return self.actor.outputs["ScaleUpArn"].rpartition(":")[0] + f":{self.machines[what]}"

    def _make_a_stranger(self) -> None:
        """An instance that carries all tags of ours, and that no claim knows."""
        ec2 = self.actor.world.client("ec2")
        ours = [each for each in instances(ec2) if any(tag["Key"] == LAUNCH_TAG for tag in each.get("Tags", []))]
        like = max(ours, key=lambda each: each["LaunchTime"])
        self.strangers.add(launch_without_claim(ec2, like))

    def _let_nodes_fail(self) -> None:
        """One node is unhealthy, the status checks of another one's instance fail, and the third's is to be stopped."""
        kube = self.actor.world.kube
        first, second, third = sorted(each["InstanceId"] for each in self.actor.instances())
        node = next(each for each in self.actor.nodes() if each["spec"]["providerID"].endswith(first))
        bad = {
            "type": "NetworkingReady",
            "status": "False",
            "reason": "Test",
            "lastTransitionTime": _written(INTOLERABLE),
        }
        conditions = [*node["status"]["conditions"], bad]
        kube.merge(f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": {"conditions": conditions}})
        self.actor.knob("impair", instanceId=second, check="system")
        self.actor.knob("schedule-event", instanceId=third, code="instance-stop", startsIn=DAY_SECONDS)

    def _empty_the_nodes(self) -> None:
        """Nodes that were opened and emptied minutes ago, in a pool that lets empty ones go."""
        kube = self.actor.world.kube
        kube.merge(PROVISIONER, {"spec": {"ttlSecondsAfterEmpty": 1}})
        for each in kube.items(MACHINES):
            conditions = [{**one, "lastTransitionTime": _written(LONG_AGO)} for one in each["status"]["conditions"]]
            kube.merge(f"{MACHINES}/{each['metadata']['name']}/status", {"status": {"conditions": conditions}})
        kube.delete(PODS)
        until(lambda: not self.actor.pods(), what="the pods gone")

    def _take_a_name(self) -> None:
        """Tags of an instance are lost."""
        alive = sorted(
            each["InstanceId"]
            for each in self.actor.instances()
            if any(tag["Key"] in TAGS_OF_A_CLAIM for tag in each.get("Tags", []))
        )
        if alive:
            self.actor.world.client("ec2").delete_tags(
                Resources=alive[:1], Tags=[{"Key": each} for each in TAGS_OF_A_CLAIM]
            )

    def _strip_a_claim(self) -> None:
        """A claim loses its finalizers, and thereby goes although its node is there."""
        kube = self.actor.world.kube
        if there := sorted(each["metadata"]["name"] for each in kube.items(MACHINES)):
            kube.merge(f"{MACHINES}/{there[0]}", {"metadata": {"finalizers": None}})
            kube.delete(f"{MACHINES}/{there[0]}", missing_ok=True)

    # --- what begins a scenario

    def ask_for(self, scenario: FaultScenario, *pods: Object) -> None:
        """Pods come that no node can hold."""
        if scenario.trouble == REFRESH:
            self._refresh_the_catalogue()
        self.actor.create(*pods)

    def _refresh_the_catalogue(self) -> None:
        """As the schedule does, after spot nodes of one family have run; its result is ignored."""
        store = Store(self.actor.world.client("s3"), self.actor.outputs["BucketName"])
        put_spot_hours(store, SpotHours({"m5.large": {"us-east-1a": 5.0}}, int(time.time())))
        functions = self.actor.world.client("lambda")
        name = next(
            each["FunctionName"]
            for page in functions.get_paginator("list_functions").paginate()
            for each in page["Functions"]
            if "RefreshCatalogue" in each["FunctionName"]
        )
        functions.invoke(FunctionName=name, Payload=b"{}")

    def look_for_nodes_to_disrupt(self) -> None:
        """A sweep starts DISRUPT so."""
        begun = {"digest": "before the fault", "left": [], "staleMarks": 0}
        name = f"disrupt-{time.time_ns()}"
        self.actor.world.client("stepfunctions").start_execution(
            stateMachineArn=self.actor.outputs["DisruptArn"], name=name, input=json.dumps(begun)
        )

    def let_nodes_go(self, scenario: FaultScenario) -> None:
        """A person deletes all claims, or AWS says that it will stop all instances; the pods are evicted for good."""
        kube = self.actor.world.kube
        if scenario.trouble == HEALTH_EVENT:
            going = sorted(each["InstanceId"] for each in self.actor.instances())
            for each in going:  # AWS says it at both places
                self.actor.knob("schedule-event", instanceId=each, code="instance-stop", startsIn=DAY_SECONDS)
            self.actor.knob("health", instanceIds=going, startsIn=DAY_SECONDS)
            return
        for path in CLAIM_PATHS:
            for claim in kube.items(path):
                kube.delete(f"{path}/{claim['metadata']['name']}", missing_ok=True)

    # --- time that passes

    def a_minute_later(self) -> None:
        """Sweeps are a minute apart: what waits for a part of that has waited. An Express execution that died has had
        its time.
        """
        client, table = self.actor.world.client("dynamodb"), self.actor.outputs["TableName"]
        output = (
            client.get_item(TableName=table, Key=ANSWERED, ConsistentRead=True)
            .get("Item", {})
            .get("classes", {})
            .get("S", "{}")
        )
        waited = {name: (*answer, until - SWEEP_SECONDS) for name, (*answer, until) in json.loads(output).items()}
        if waited:
            client.update_item(
                TableName=table,
                Key=ANSWERED,
                UpdateExpression="SET classes = :classes",
                ExpressionAttributeValues={":classes": {"S": json.dumps(waited)}},
            )
        self._age("EMPTY", since=SWEEP_SECONDS, requestedUntil=EXPRESS_SECONDS)
        self._age("IMPAIRED", since=SWEEP_SECONDS)
        self._age("DISRUPTION", requestedAt=SWEEP_SECONDS, deadline=SWEEP_SECONDS)
        self._age("PROPOSED", at=SWEEP_SECONDS)

    def _age(self, kind: str, **passed: int) -> None:
        """Let seconds pass for times that are recorded in items of a kind."""
        for item in self._items(kind):
            for name, seconds in passed.items():
                if name in item:
                    self.actor.world.client("dynamodb").update_item(
                        TableName=self.actor.outputs["TableName"],
                        Key=_key(item),
                        UpdateExpression="SET #time = #time - :passed",
                        ExpressionAttributeNames={"#time": name},
                        ExpressionAttributeValues={":passed": {"N": str(seconds)}},
                    )

    def forget_answers(self) -> None:
        """Cases are seconds apart, and the same pods ask the same again: that they were refused in an earlier one is no
        part of this.
        """
        self.actor.world.client("dynamodb").delete_item(TableName=self.actor.outputs["TableName"], Key=ANSWERED)

    def forget_launch_templates(self) -> None:
        """The first group of the next launch makes its template, the second finds it."""
        ec2 = self.actor.world.client("ec2")
        for each in ec2.describe_launch_templates()["LaunchTemplates"]:
            ec2.delete_launch_template(LaunchTemplateId=each["LaunchTemplateId"])

    def keep_empty_nodes(self) -> None:
        """The pool lets no empty node go."""
        self.actor.world.kube.merge(PROVISIONER, {"spec": {"ttlSecondsAfterEmpty": None}})

    def _items(self, kind: str) -> list[dict[str, Any]]:
        asked = {"KeyConditionExpression": "kind = :kind", "ExpressionAttributeValues": {":kind": {"S": kind}}}
        answer = self.actor.world.client("dynamodb").query(TableName=self.actor.outputs["TableName"], **asked)
        found: list[dict[str, Any]] = answer["Items"]
        return found

    def _forget(self, kind: str) -> None:
        for item in self._items(kind):
            self.actor.world.client("dynamodb").delete_item(TableName=self.actor.outputs["TableName"], Key=_key(item))


def _key(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": item["kind"], "id": item["id"]}


def _written(ago: timedelta) -> str:
    return (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
