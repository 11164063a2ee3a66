"""A deployed Joiner on its way up and down, with something that goes wrong: from outside, by the knobs of the local stack."""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from joiner_local.kube_api import Object
from joiner_local.story import StoryStalled, instances, until
from tests.e2e.crash.table import FOR_GOOD, RETIRE, SCALE_UP, Case, Verdict, cases
from tests.e2e.invariants import CLAIM_PATHS, violations
from tests.e2e.world import Actor, deployment

SWEEPS: Final = 2
SWEEP_SECONDS: Final = 60
APART: Final = (
    2.1  # seconds between two looks of which the second believes the first: the local stack's setting, and a little
)
BEGINS_WITHIN: Final = 10.0
ENDS_WITHIN: Final = 180.0
BORNE_FOR: Final = 10.0
"""Seconds of a fault that stays: a retirement goes on for half an hour against it, so it ends first."""

PACE: Final = 0.05


def pod(name: str, cpu: str, instance_type: str) -> Object:
    """A pod of nobody's: whoever takes it off its node gets no other."""
    asked = deployment(name, cpu=cpu, nodeSelector={"node.kubernetes.io/instance-type": instance_type})["spec"][
        "template"
    ]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": asked}


CROWD: Final = (pod("web-1", "1500m", "m5.large"), pod("web-2", "1500m", "m5.large"), pod("db", "3", "c5.xlarge"))
PODS: Final = 3
NODES: Final = 3
KEPT: Final = {"LEASE", "CLUSTER", "DOORBELL", "UNAVAILABLE", "ANSWERED", "BACKOFF", "LAUNCH"}
"""Kinds of items that may outlive all claims: locks, secrets, history."""

ANSWERED: Final = {"kind": {"S": "ANSWERED"}, "id": {"S": "pods"}}
"""The item that remembers refused pods."""


@dataclass(slots=True)
class Rig:
    """One stack, for one test after another."""

    actor: Actor
    machines: dict[str, str] = field(default_factory=dict)
    """Names of the Standard state machines, by what they do."""

    @classmethod
    def of(cls, actor: Actor) -> "Rig":
        arns = {SCALE_UP: actor.outputs["ScaleUpArn"], RETIRE: actor.outputs["RetireArn"]}
        return cls(actor, {what: arn.rpartition(":")[2] for what, arn in arns.items()})

    # --- one way up and down

    def record(self) -> list[Case]:
        """All cases there are, from one undisturbed run of each machine."""
        found = []
        for machine, act in ((SCALE_UP, self.up), (RETIRE, self.down)):
            self.actor.knob("mishaps/record", on=True)
            known = {arn for arn, _ in self._executions(machine)}
            act()
            calls = [(caller, what) for caller, what in self.actor.knob("mishaps/record", on=False)["calls"]]
            self._make_sure(machine)
            states, tasks, callers = self._walked(machine, known)
            found += cases(machine, (call for call in calls if call[0] in callers), states, tasks=tasks)
        return found

    def undisturbed(self, machine: str) -> None:
        """That way, to its end."""
        (self.up if machine == SCALE_UP else self.down)()
        self._make_sure(machine)

    def _make_sure(self, machine: str) -> None:
        """With waits this short, a deletion may be stored later than the sweep that it rang for looks."""
        if self._settled(machine):
            self.actor.sweep()
            self.rest()
        assert not (wrong := self._settled(machine)), wrong

    def up(self) -> None:
        """Three pods come, and with them two kinds of nodes."""
        self._begin(SCALE_UP)
        self.rest()

    def down(self) -> None:
        """Somebody deletes the claims; the pods are evicted for good."""
        self._begin(RETIRE)
        self.rest()

    def _delete_claims(self) -> None:
        kube = self.actor.world.kube
        for path in CLAIM_PATHS:
            for claim in kube.items(path):
                kube.delete(f"{path}/{claim['metadata']['name']}", missing_ok=True)

    def _begin(self, machine: str) -> None:
        """Until the machine runs, or does not."""
        known = self._newest(machine)
        if machine == SCALE_UP:
            self.actor.create(*CROWD)
        else:
            self._delete_claims()
        with suppress(StoryStalled):  # a ring may be lost: the sweep is there for that
            until(lambda: self._newest(machine) != known, what=f"a {machine}", limit=BEGINS_WITHIN)

    def rest(self, *, limit: float = ENDS_WITHIN) -> None:
        """Until nothing runs, and has not for a moment."""

        def quiet() -> bool:
            if self.actor.knob("running-executions")["executions"]:
                return False
            time.sleep(0.15)
            return not self.actor.knob("running-executions")["executions"]

        until(quiet, what="every execution ended", limit=limit)

    # --- with something that goes wrong

    def verdict(self, case: Case) -> Verdict:
        """Do what the case is about while it goes wrong, and let the sweep find it; leaves things as they are then."""
        self._forget_answers()
        self._arm(case)
        self._begin(case.place.machine)
        with suppress(StoryStalled):
            self.rest(limit=BORNE_FOR if case.fault in FOR_GOOD else ENDS_WITHIN)
        struck = self._disarm(case)
        stalled: tuple[str, ...] = ()
        try:
            self.rest()
        except StoryStalled as reason:
            stalled = (str(reason),)
        wrong: Iterable[str] = ()
        for sweep in range(1, SWEEPS + 1):
            if any("has no" in each for each in wrong):
                time.sleep(APART)  # what is missing on one side is believed at the second look only
            self._a_minute_later()
            self.actor.sweep()
            self.rest()
            wrong = self._settled(case.place.machine, seconds=3.0 if sweep == SWEEPS else 0.5)
            if not wrong:
                return Verdict(struck, sweep, stalled)
        return Verdict(struck, SWEEPS, (*stalled, *wrong))

    def _forget_answers(self) -> None:
        """Cases are seconds apart, and the same pods ask the same again: that they were refused in an earlier one is no part of this."""
        self.actor.world.client("dynamodb").delete_item(TableName=self.actor.outputs["TableName"], Key=ANSWERED)

    def _a_minute_later(self) -> None:
        """Sweeps are a minute apart: whoever was refused and waits for the first minute of its back-off has waited."""
        client, table = self.actor.world.client("dynamodb"), self.actor.outputs["TableName"]
        said = (
            client.get_item(TableName=table, Key=ANSWERED, ConsistentRead=True)
            .get("Item", {})
            .get("classes", {})
            .get("S", "{}")
        )
        waited = {name: (*answer, until - SWEEP_SECONDS) for name, (*answer, until) in json.loads(said).items()}
        if waited:
            client.update_item(
                TableName=table,
                Key=ANSWERED,
                UpdateExpression="SET classes = :classes",
                ExpressionAttributeValues={":classes": {"S": json.dumps(waited)}},
            )

    def _arm(self, case: Case) -> None:
        place = case.place
        if case.stops:
            self.actor.knob(
                "mishaps/stop", machine=self.machines[place.machine], state=place.what, when=case.fault, nth=place.nth
            )
        else:
            how, times = case.fault.partition(",")[0], None if case.fault in FOR_GOOD else 1
            self.actor.knob("mishaps/set", caller=place.caller, call=place.what, nth=place.nth, how=how, times=times)

    def _disarm(self, case: Case) -> bool:
        """Did it strike?"""
        if case.stops:
            return bool(self.actor.knob("mishaps/stop")["stopped"])
        return int(self.actor.knob("mishaps/set")["struck"]) > 0

    # --- what must hold

    def _settled(self, machine: str, *, seconds: float = 3.0) -> list[str]:
        """What is wrong, after a moment for pods to start and nodes to go."""
        deadline = time.monotonic() + seconds
        while (wrong := self.wrong(machine)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return wrong

    def wrong(self, machine: str) -> list[str]:
        """Each thing that is not as it should be after a scale-up, or after a retirement."""
        actor = self.actor
        pods, running = len(actor.pods()), actor.running()
        alive = instances(actor.world.client("ec2"), alive=True)
        counted = {
            "pods": pods,
            "running": running,
            "nodes": len(actor.nodes()),
            "claims": len(actor.claims()),
            "instances": len(alive),
        }
        wanted = dict(zip(counted, (PODS, PODS, NODES, NODES, NODES) if machine == SCALE_UP else (0,) * 5, strict=True))
        return [
            *violations(actor.world, table=actor.outputs["TableName"]),
            *(f"{counted[what]} {what}, not {wanted[what]}" for what in counted if counted[what] != wanted[what]),
            *(f"instance {each['InstanceId']} lacks the name of its claim" for each in alive if not _named(each)),
            *self._left_in_memory(
                {claim["metadata"]["name"] for claim in actor.claims()}, {each["InstanceId"] for each in alive}
            ),
        ]

    def _left_in_memory(self, claims: set[str], alive: set[str]) -> list[str]:
        """Items of the table that are about nothing any more."""
        scan = self.actor.world.client("dynamodb").scan(TableName=self.actor.outputs["TableName"], ConsistentRead=True)
        found = []
        for item in scan["Items"]:
            kind, identity = item["kind"]["S"], item["id"]["S"]
            there = {"ASSIGNMENT": set(), "RETIREMENT": claims, "INSTANCE": alive, "EMPTY": claims}.get(kind, set())
            if kind == "LAUNCH" and not item["recorded"]["BOOL"]:
                found.append(f"launch {identity} is not recorded")
            if kind not in KEPT and identity not in there:
                found.append(f"{kind} {identity} is left")
        return found

    # --- what happened

    def _executions(self, machine: str) -> list[tuple[str, str]]:
        """ARN and status of all executions of a machine."""
        arn = self._arn(machine)
        pages = self.actor.world.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=arn)
        return [(each["executionArn"], each["status"]) for page in pages for each in page["executions"]]

    def _newest(self, machine: str) -> str:
        newest = self.actor.world.client("stepfunctions").list_executions(
            stateMachineArn=self._arn(machine), maxResults=1
        )["executions"]
        return str(newest[0]["executionArn"]) if newest else ""

    def _arn(self, machine: str) -> str:
        return self.actor.outputs["ScaleUpArn"].rpartition(":")[0] + f":{self.machines[machine]}"

    def _walked(self, machine: str, known: Iterable[str]) -> tuple[list[str], set[str], set[str]]:
        """The states that new executions entered, those of them that call something, and who calls in them: folders of functions, too."""
        client = self.actor.world.client("stepfunctions")
        states = [
            state
            for arn, _ in self._executions(machine)
            if arn not in set(known)
            for state in self.actor.states_of(arn)
        ]
        definition = client.describe_state_machine(stateMachineArn=self._arn(machine))["definition"]
        tasks = dict(_tasks(definition))
        callers = {self._folder(arguments.get("FunctionName", "")) for arguments in tasks.values()}
        return states, set(tasks), callers | {self.machines[machine]}

    def _folder(self, function: str) -> str:
        if not function:
            return ""
        configuration = self.actor.world.client("lambda").get_function_configuration(FunctionName=function)
        return str(configuration["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"])

    # --- back to nothing, by force

    def clean(self) -> None:
        self.actor.knob("mishaps/set")
        self.actor.knob("mishaps/stop")
        self.actor.clean()
        self.actor.apply("c-template.yaml")
        time.sleep(0.3)
        self.rest()


def _named(instance: dict[str, Any]) -> bool:
    return {"karpenter.sh/nodeclaim", "Name"} <= {tag["Key"] for tag in instance.get("Tags", [])}


def _tasks(definition: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Every Task of a machine with its arguments, those inside of Maps too."""

    def walk(states: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
        for name, state in states.items():
            if state["Type"] == "Task":
                yield name, state.get("Arguments", {})
            if state["Type"] == "Map":
                yield from walk(state["ItemProcessor"]["States"])

    return walk(json.loads(definition)["States"])
