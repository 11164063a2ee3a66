"""A deployed Joiner that scales up and down while something goes wrong: from outside, by the knobs of the local
stack.
"""

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bench.lambda_reports import reports
from joiner_local.demo.change_watch import WatchTimeout, instances, until
from tests.e2e.crash.expectations import Item, disrupted_wrongly, left_in_memory, too_many_launches, wanted_counts
from tests.e2e.crash.fault_scenarios import (
    DISRUPT,
    DOWN,
    DOWN_EMPTY,
    FAULT_SCENARIOS,
    RETIRE,
    SCALE_UP,
    SWEEP,
    UP,
    FaultScenario,
)
from tests.e2e.crash.fault_table import FOR_GOOD, FaultCase, Verdict, cases
from tests.e2e.crash.granted_actions import not_struck
from tests.e2e.crash.prior_failures import Troubles, pod
from tests.e2e.crash.recorded_machines import folder_of, most_of_each, tasks_of
from tests.e2e.crash.starting_clusters import STAGES
from tests.e2e.eviction_checker import watch_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_invariants import violations

APART: Final = 3.1
"""Seconds between two sweeps that together count as proof: the local stack's setting, in whole seconds rounded up."""

BEGINS_WITHIN: Final = 10.0
ENDS_WITHIN: Final = 180.0
DISRUPTS_WITHIN: Final = 60.0
BORNE_FOR: Final = 10.0
"""Seconds of a fault that stays: a retirement goes on for half an hour against it, so it ends first."""

BLOCKED_FOR: Final = 4.0
"""Seconds in which a blocked eviction is tried several times."""

ROUNDS: Final = "rounds"
EXPRESS: Final = (SWEEP, DOWN_EMPTY)
"""Express executions cannot be stopped: none of their states is a place of the table."""

CROWD: Final = (pod("web-1", "1500m", "m5.large"), pod("web-2", "1500m", "m5.large"), pod("db", "3", "c5.xlarge"))


@dataclass(slots=True)
class Rig:
    """One stack, for one test after another."""

    actor: Actor
    troubles: Troubles
    machines: dict[str, str] = field(default_factory=dict)
    """Names of the state machines, by what they do."""

    calls: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Callers, what they called, and the most times in one of the recorded scenarios: those of DISRUPT, those of
    several rounds, and all others.
    """

    @classmethod
    def of(cls, actor: Actor) -> "Rig":
        outputs = {
            UP: "ScaleUpArn",
            DOWN: "RetireArn",
            DOWN_EMPTY: "RetireEmptyArn",
            SWEEP: "SweepArn",
            DISRUPT: "DisruptArn",
        }
        machines = {what: actor.outputs[name].rpartition(":")[2] for what, name in outputs.items()}
        return cls(actor, Troubles(actor, machines, CROWD), machines)

    # --- one scale-up and one retirement

    def record(self, scenarios: Iterable[FaultScenario] = FAULT_SCENARIOS) -> list[FaultCase]:
        """All cases there are, from one run of each of the scenarios."""
        found: list[FaultCase] = []
        walked: dict[str, set[str]] = {}
        is_up = False
        for scenario in scenarios:
            if not scenario.stage and scenario.goes_up == is_up:
                self.undisturbed(up=not is_up)
            calls, states, tasks = self._recorded(scenario)
            is_up = scenario.goes_up and not scenario.stage
            new = dict.fromkeys(states).keys() - walked.setdefault(scenario.machine, set())
            mine = self.calls.setdefault(_counted_with(scenario), Counter())
            known = (
                mine
                if scenario.machine == DISRUPT
                else most_of_each(
                    times for group, times in self.calls.items() if not (scenario.rounds and group == ROUNDS)
                )
            )
            earlier = {call: times for call, times in known.items() if call[0] not in scenario.own}
            found += cases(
                scenario,
                [call for call in calls if scenario.rounds or call not in earlier],
                [each for each in states if each in new],
                tasks=tasks,
                known=earlier,
            )
            mine |= Counter(calls)
            walked[scenario.machine] |= new
        self.clean()
        return found

    def not_struck(self) -> list[str]:
        """What the callers of the recorded scenarios may do, and none of their calls has done."""
        roles = {caller: role for machine in self.machines for caller, role in self._roles(machine).items()}
        functions = self.actor.world.client("lambda").get_paginator("list_functions").paginate()
        named = {folder_of(each): str(each["Role"]) for page in functions for each in page["Functions"]}
        roles |= {caller: named[caller] for scenario in FAULT_SCENARIOS for caller in scenario.callers}
        return not_struck(self.actor.knob("iam/granted"), roles, most_of_each(self.calls.values()))

    def _recorded(self, scenario: FaultScenario) -> tuple[list[tuple[str, str]], list[str], set[str]]:
        """The calls of a scenario's machine and its functions, the states that it entered, and those of them that call
        something.
        """
        self.troubles.before(scenario)
        self.actor.knob("faults/record", on=True)
        known = {arn for arn, _ in self._executions(scenario.machine)}
        self._begin(scenario)
        with suppress(WatchTimeout):  # a drain that a budget blocks goes on
            self.rest(limit=_borne_for(scenario, ENDS_WITHIN))
        calls = [(caller, what) for caller, what in self.actor.knob("faults/record", on=False)["calls"]]
        self.troubles.over(scenario)
        self._make_sure(scenario)
        states, tasks, callers = self._walked(scenario.machine, known)
        if scenario.swept:
            begun = self.machines.keys() - {DISRUPT}  # a sweep begins it in one run and not in the next
            callers = {caller for machine in begun for caller in self._roles(machine)}
        callers |= set(scenario.callers)
        return [call for call in calls if call[0] in callers], states, tasks

    def undisturbed(self, *, up: bool) -> None:
        """Scale up, or remove all nodes, without a fault."""
        scenario = SCALE_UP if up else RETIRE
        self._begin(scenario)
        self.rest()
        self._make_sure(scenario)

    def _make_sure(self, scenario: FaultScenario) -> None:
        """With waits this short, a deletion may be stored later than the sweep that it started runs."""
        for _ in range(scenario.sweeps):
            if not self._settled(scenario):
                return
            time.sleep(APART if scenario.swept else 0)
            self.troubles.a_minute_later()
            self.actor.sweep()
            self.rest()
        assert not (wrong := self._settled(scenario)), (scenario, wrong)

    def _begin(self, scenario: FaultScenario) -> None:
        """Until the machine runs, or does not."""
        if scenario.swept:
            self.troubles.when_the_sweep_comes(scenario)
            for _ in range(2):
                self.actor.sweep()
                time.sleep(APART)  # what is missing on one side is believed at the second sweep only
                self.troubles.minutes_later(scenario)
            return
        known = self._newest(scenario.machine)
        if scenario.machine == DISRUPT:
            self.troubles.look_for_nodes_to_disrupt()
            with suppress(WatchTimeout):
                self.rest(limit=DISRUPTS_WITHIN)
            self.troubles.a_minute_later()
            self.actor.sweep()  # its disruption settles what the first one left
            return
        if scenario.stage and scenario.goes_up:
            STAGES[scenario.stage].ask(self.actor)
        else:
            self.troubles.ask_for(scenario, *CROWD) if scenario.goes_up else self.troubles.let_nodes_go(scenario)
        with suppress(WatchTimeout):  # a ring may be lost: the sweep is there for that
            until(lambda: self._newest(scenario.machine) != known, what=f"a {scenario}", limit=BEGINS_WITHIN)

    def rest(self, *, limit: float = ENDS_WITHIN) -> None:
        """Until nothing runs, and has not for a moment."""

        def quiet() -> bool:
            if self.actor.knob("running-executions")["executions"]:
                return False
            time.sleep(0.15)
            return not self.actor.knob("running-executions")["executions"]

        until(quiet, what="every execution ended", limit=limit)

    # --- with something that goes wrong

    def verdict(self, case: FaultCase) -> Verdict:
        """Do what the case is about while it goes wrong, and let the sweep find it; leaves things as they are then."""
        scenario = case.place.scenario
        self.troubles.forget_answers()
        known = self._launched()
        self.troubles.before(scenario)
        if scenario.stage:
            known = self._launched()
        with watch_evictions(self.actor) as watched:
            verdict = self._struck(case)
        ever = (*too_many_launches(scenario, self._launched() - known), *disrupted_wrongly(scenario, watched.record()))
        return replace(verdict, wrong=(*verdict.wrong, *ever))

    def _struck(self, case: FaultCase) -> Verdict:
        scenario = case.place.scenario
        self._arm(case)
        self._begin(scenario)
        with suppress(WatchTimeout):
            self.rest(limit=_borne_for(scenario, BORNE_FOR if case.fault in FOR_GOOD else ENDS_WITHIN))
        struck = self._disarm(case)
        self.troubles.over(scenario)
        stalled: tuple[str, ...] = ()
        try:
            self.rest()
        except WatchTimeout as reason:
            stalled = (str(reason),)
        wrong: Iterable[str] = ()
        for sweep in range(1, scenario.sweeps + 1):
            if scenario.swept or any("has no" in each for each in wrong):
                time.sleep(APART)  # what is missing on one side is believed at the second sweep only
            self.troubles.a_minute_later()
            self.actor.sweep()
            self.rest()
            wrong = self._settled(scenario, seconds=3.0 if sweep == scenario.sweeps else 0.5)
            if not wrong:
                return Verdict(struck, sweep, stalled)
        return Verdict(struck, scenario.sweeps, (*stalled, *wrong))

    def _arm(self, case: FaultCase) -> None:
        place = case.place
        if case.stops:
            self.actor.knob(
                "faults/stop",
                machine=self.machines[place.scenario.machine],
                state=place.what,
                when=case.fault,
                nth=place.nth,
            )
        else:
            how, times = case.fault.partition(",")[0], None if case.fault in FOR_GOOD else 1
            self.actor.knob("faults/set", caller=place.caller, call=place.what, nth=place.nth, how=how, times=times)

    def _disarm(self, case: FaultCase) -> bool:
        """Did it strike?"""
        if case.stops:
            return bool(self.actor.knob("faults/stop")["stopped"])
        return int(self.actor.knob("faults/set")["struck"]) > 0

    # --- what must hold

    def _settled(self, scenario: FaultScenario, *, seconds: float = 3.0) -> list[str]:
        """What is wrong, after a moment for pods to start and nodes to go."""
        deadline = time.monotonic() + seconds
        while (wrong := self.wrong(scenario)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return wrong

    def wrong(self, scenario: FaultScenario) -> list[str]:
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
        wanted = wanted_counts(scenario)
        return [
            *violations(actor.world, table=actor.outputs["TableName"]),
            *(
                f"{counted[what]} {what}, not {' to '.join(dict.fromkeys(map(str, wanted[what])))}"
                for what in counted
                if not wanted[what][0] <= counted[what] <= wanted[what][1]
            ),
            *(
                f"claim {claim['metadata']['name']} has the condition DisruptionReason"
                for claim in actor.claims()
                for each in claim.get("status", {}).get("conditions", ())
                if each["type"] == "DisruptionReason"
            ),
            *(f"instance {each['InstanceId']} lacks the name of its claim" for each in alive if not _named(each)),
            *self._left_in_memory(
                {claim["metadata"]["name"] for claim in actor.claims()},
                {each["InstanceId"] for each in alive},
                scenario,
            ),
        ]

    def _left_in_memory(self, claims: set[str], alive: set[str], scenario: FaultScenario) -> list[str]:
        """Items of the table that are about nothing any more."""
        scan = self.actor.world.client("dynamodb").scan(TableName=self.actor.outputs["TableName"], ConsistentRead=True)
        items = [
            Item(each["kind"]["S"], each["id"]["S"], recorded=each.get("recorded", {}).get("BOOL", True))
            for each in scan["Items"]
        ]
        return left_in_memory(items, claims, alive, scenario)

    # --- what happened

    def _launched(self) -> set[str]:
        """The instances that Joiner has launched, those that have ended since included."""
        everything = instances(self.actor.world.client("ec2"))
        return {each["InstanceId"] for each in everything} - self.troubles.strangers

    def out_of_memory(self, since: float) -> list[str]:
        """Functions that used more than half of their memory, though the cluster is small."""
        clients = self.actor.world.client
        used: dict[str, tuple[int, int]] = {}
        for report in reports(clients("lambda"), clients("logs"), since):
            used[report.function] = max(used.get(report.function, (0, 0)), (report.used_mb, report.memory_mb))
        assert used, "no function reported its memory"
        return sorted(f"{name} used {most} of {all_} MB" for name, (most, all_) in used.items() if 2 * most > all_)

    def _executions(self, machine: str) -> list[tuple[str, str]]:
        """ARN and status of all executions of a machine; Express executions are not listed."""
        if machine in EXPRESS:
            return []
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
        """The states that new executions entered, those of them that call something, and who calls in them: folders of
        functions, too.
        """
        states = [
            state
            for arn, _ in self._executions(machine)
            if arn not in set(known)
            for state in self.actor.states_of(arn)
        ]
        tasks = dict(tasks_of(self._described(machine)["definition"]))
        return states, set(tasks), set(self._roles(machine))

    def _roles(self, machine: str) -> dict[str, str]:
        """The ARNs of the roles of a machine and of its functions, by name of the machine and folder of the
        function.
        """
        described = self._described(machine)
        found = {self.machines[machine]: str(described["roleArn"])}
        for _, arguments in tasks_of(described["definition"]):
            function = str(arguments.get("FunctionName") or "")
            if function and not function.startswith("{%"):  # the warm-up's functions are those of scale-ups
                configuration = self.actor.world.client("lambda").get_function_configuration(FunctionName=function)
                found[str(configuration["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"])] = str(
                    configuration["Role"]
                )
        return found

    def _described(self, machine: str) -> dict[str, Any]:
        return dict(self.actor.world.client("stepfunctions").describe_state_machine(stateMachineArn=self._arn(machine)))

    # --- back to nothing, by force

    def clean(self) -> None:
        self.actor.knob("faults/set")
        self.actor.knob("faults/stop")
        self.actor.clean()
        self.actor.apply("c-template.yaml")
        time.sleep(0.3)
        self.rest()


def _counted_with(scenario: FaultScenario) -> str:
    return DISRUPT if scenario.machine == DISRUPT else ROUNDS if scenario.rounds else ""


def _borne_for(scenario: FaultScenario, limit: float) -> float:
    """Return how long an execution may last while the fault is there: a drain that a budget blocks does not end."""
    return BLOCKED_FOR if scenario.stage and STAGES[scenario.stage].guarded else limit


def _named(instance: dict[str, Any]) -> bool:
    return {"karpenter.sh/nodeclaim", "Name"} <= {tag["Key"] for tag in instance.get("Tags", [])}
