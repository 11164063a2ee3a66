"""SCALE UP in a test: the state machine's states in their order, each by its real function, over fakes that can fail.

The ledger and the bucket are real code over an in-memory AWS (moto); the API server and EC2 are `fake_kube` and
`fake_ec2`. Every function gets the input that its state sends. A function that raises is retried twice; then the
execution ends and releases the lease.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any

from functions.find_pending_pods.batch_looks import SearchTime
from functions.survey_cluster import handler as survey_cluster
from functions.survey_cluster.survey_reports import SurveyReports
from functions.survey_instances import handler as survey_instances
from functions.survey_instances.optional_calls import OptionalCalls
from joiner import names
from joiner.adapters import documents
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import PLANNED, REPORTED, SELECTING, SURVEYED, ListedCluster
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.doorbell_webhooks import find_missing_webhooks
from joiner.adapters.drift_detections import DriftDetections
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.executions import STATUS_UNKNOWN
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LeaseLost
from joiner.adapters.listed_pods_role import ListedPodsRole
from joiner.adapters.orphan_records import Absences, Impairments
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.adapters.payload import Execution, Task, is_express
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from joiner.adapters.store import Store
from joiner.lifecycle.pod_gathering import Gathering
from joiner.names import FILLING, UNREGISTERED
from joiner.planning import Ceilings, PlanPolicies
from joiner.planning.effort import Effort
from joiner.planning.plan_policies import DEFAULT_POLICIES
from joiner.planning.planner import SOME_EFFORT
from joiner.pools import ResolvedNodeClass
from joiner.reporting.events import Event
from tests.unit.functions.fake_ec2 import FakeEc2Client
from tests.unit.functions.fake_kube import FakeKube
from tests.unit.functions.function_loading import load
from tests.unit.functions.small_account import (
    CATALOGUE,
    CLASS,
    CLUSTER,
    DOORBELL,
    LISTED_PODS,
    NODECLASS,
    NODEPOOL,
    NOON,
)

TRIES = 3  # attempts, as in the state machine: one and two retries
LOOKS = 12  # checks of a wave before a test gives up


class Died(Exception):
    """The execution ended here: StopExecution, or a function that failed after its retries."""


def run_retried(name: str, run: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return the answer of a function that is called as often as the state machine calls it; a lost lease ends it."""
    for attempt in range(TRIES):
        try:
            return run(load(name))
        except (AssertionError, LeaseLost):
            raise
        except Exception as reason:
            if attempt == TRIES - 1:
                raise Died(f"{name}: {reason}") from reason
    raise AssertionError("the last attempt returns or raises")


@dataclass
class FakePause:
    """The parameter that pauses Joiner."""

    paused: bool = False
    draining: bool = False

    def on(self) -> bool:
        return self.paused

    def value(self) -> str:
        return names.DRAINING if self.draining else names.PAUSED if self.paused else names.ACTING


@dataclass
class SimulatedCluster:
    """A cluster, an account and a deployment. The clock does not advance unless a test advances it. Executions are
    `dead` (failed) or have `ended` (succeeded)."""

    ledger: Ledger
    store: Store
    kube: FakeKube
    machine: Ledger
    """The table through the state machine's own writes, which never fail in tests."""
    ec2: FakeEc2Client = field(default_factory=FakeEc2Client)
    now: datetime = NOON
    dead: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    stop_after: str = ""
    boots: bool = True
    node_class: ResolvedNodeClass = CLASS
    resolves: bool = True
    pause: FakePause = field(default_factory=FakePause)
    unpublished: list[str] = field(default_factory=list)
    after_each_launch: Callable[[], None] | None = None
    """If set, launches are recorded and nodes registered after each of several launches, and this runs after that."""

    optional: OptionalCalls | None = None
    """If set, the clients of the survey of instances for the calls that it can do without."""
    recorded: set[str] = field(default_factory=set)  # what the process of that survey knows
    default_spreads: Sequence[Mapping[str, Any]] = ()
    policies: PlanPolicies = DEFAULT_POLICIES
    effort: Effort = SOME_EFFORT
    times_to_record: Iterator[TimeLeft] = field(default_factory=lambda: repeat(UNBOUNDED))  # of record_node_claims
    gathering: Gathering = field(default_factory=Gathering)
    """What the searches of the running execution for its batch have found."""
    waits: list[float] = field(default_factory=list)  # of these searches, in seconds

    @property
    def known(self) -> PlanningBackOffs:
        """Return the back-offs of pods that no node helps, from the ledger's own table."""
        return PlanningBackOffs(self.ledger._client, self.ledger._table)

    def prepare(self, *pods: Mapping[str, Any]) -> "SimulatedCluster":
        """Create a pool, its class, a catalogue, and these pods."""
        for manifest in (
            NODEPOOL,
            NODECLASS,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
            DOORBELL,
            LISTED_PODS,
            *pods,
        ):
            self.kube.put(manifest)
        documents.put_catalogue(self.store, CATALOGUE, self.now)
        return self

    # The machine

    def scale_up(self, name: str) -> bool:
        """Run one execution from start to end; return False if it failed."""
        try:
            lease = self._take_lease(name)
            if lease is None:
                return True
            self._under_the_lease(name, lease)
            if "record_launches" in self.answers:
                self._await_nodes(name)
        except LeaseLost:
            pass
        except Died:
            self.dead.add(arn(name))
            return False
        self.dead.add(arn(name))
        return True

    def _take_lease(self, name: str) -> int | None:
        lease = self.machine.lease()
        if lease.is_held(int(self.now.timestamp())):
            return None
        self.machine._update(
            "LEASE",
            "scale-up",
            "SET holder = :me, leaseUntil = :until ADD leaseNumber :one, rings :none",
            {":me": arn(name), ":until": int(self.now.timestamp()) + 120, ":one": 1, ":none": 0},
        )
        return self.machine.lease().number

    def _under_the_lease(self, name: str, lease: int) -> None:
        try:
            self.answers.clear()
            self.gathering = Gathering()
            for turn in range(1, 11):
                task = Task(Execution(name, arn(name), ""), CLUSTER, lease, turn)
                if not self._round(task):
                    break
        except Died:
            if not self.stop_after:  # a Catch releases the lease; after StopExecution nothing does
                self.machine.break_lease(arn(name), lease)
            raise
        self.machine.break_lease(arn(name), lease)

    def _round(self, task: Task) -> bool:
        """Find, plan, record, launch, record; return True to plan again."""
        until = int(self.now.timestamp()) + 90
        view = ListedCluster(self.kube, (*PLANNED, *SELECTING) if self.default_spreads else PLANNED)
        found: dict[str, Any] = {"complete": False}
        while not found["complete"]:
            guards, listed = AutoscalerDetection(self.kube), ListedPodsRole(self.kube)
            search = (view, self.ledger, self.known, self.store, guards)
            so_far = self.gathering
            found = self._state(
                "find_pending_pods",
                lambda f: f.PendingPodSearch(
                    *search,  # noqa: B023
                    listed_pods=listed,  # noqa: B023
                    default_spreads=self.default_spreads,
                    timing=SearchTime(self.waits.append, lambda: sum(self.waits)),
                ).answer(task, self.now, until, so_far),  # noqa: B023
            )
            self.gathering = Gathering.from_json(found["gathering"])
        if found["refused"] or found["podsToPlan"] + found["unfinished"] + found["unwatched"] == 0:
            return False
        classes = self._state(
            "resolve_node_classes",
            lambda _: {"classes": documents.put_node_classes(self.store, task, [self.node_class] * self.resolves)},
        )["classes"]
        plan = self._state(
            "plan_capacity",
            lambda f: f.CapacityPlanning(
                self.ledger, self.known, self.store, Ceilings(), None, policies=self.policies, effort=self.effort
            ).answer(task, found["snapshot"], classes, self.now, until),
        )
        keys = {"plan": plan["plan"], "classes": classes, "snapshot": found["snapshot"]}
        recorded = self._state(
            "record_node_claims",
            lambda f: f.ClaimRecording(
                self.kube, self.ledger, self.known, self.store, next(self.times_to_record)
            ).answer(task, keys, self.now, until),
        )
        for number, index in enumerate(recorded["groups"], 1):
            self._launch(task, recorded["launches"], index, until)
            if self.after_each_launch is not None:
                self._register_so_far(task, found["snapshot"], until, number)
                self.after_each_launch()
        launched = self._state(
            "record_launches",
            lambda f: f.LaunchRecording(self.kube, self.ledger, self.known, self.store).answer(
                task, found["snapshot"], self.now, until
            ),
        )
        self.unpublished += [*recorded["events"], *launched["events"]]
        return bool(launched["again"]) or recorded["postponed"] > 0

    def _register_so_far(self, task: Task, snapshot: str, until: int, number: int) -> None:
        """Record and register what is launched, while other launches run."""
        recorded = self._state(
            "record_launches",
            lambda f: f.LaunchRecording(self.kube, self.ledger, self.known, self.store).answer(
                task, snapshot, self.now, until, part=f"launched-{number}"
            ),
        )
        self.unpublished += recorded["events"]
        self.boot()
        self.check(task.execution.name, launching=True)

    def _launch(self, task: Task, launches: str, index: int, until: int) -> None:
        """Launch one group of the Map; a group that fails does not stop the others."""
        ec2 = Ec2(self.ec2)
        try:
            self._state(
                "launch_instances",
                lambda f: f.Launcher(self.ledger, self.store, ec2, self.pause).answer(
                    task, launches, index, self.now, until
                ),
            )
        except Died:
            if self.stop_after:
                raise

    def _await_nodes(self, name: str) -> None:
        for _ in range(LOOKS):
            self.boot()
            if self.check(name)["done"]:
                return
            self.now += timedelta(seconds=5)
        raise AssertionError(f"{name} waits for ever: {self.answers['check_registration']}")

    def check(self, name: str, *, launching: bool = False) -> dict[str, Any]:
        return self._state(
            "check_registration",
            lambda f: f.RegistrationCheck(
                self.kube, self.ledger, self.sleep, default_spreads=self.default_spreads
            ).answer(name, self.now, self._unpublished(), launching=launching),
        )

    def sleep(self, seconds: float) -> None:
        """Note a pause of a function, between its calls of the API server; no time passes."""
        self.kube.asked.append(f"sleep {seconds:g}")

    def _unpublished(self) -> list[Event]:
        """Return the events that this execution has collected, as the state machine passes them on once."""
        keys, self.unpublished = self.unpublished, []
        return [event for key in keys for event in documents.get_events(self.store, key)]

    def _state(self, name: str, run: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Run one state: its function, retried as the state machine does."""
        self.answers[name] = run_retried(name, run)
        if self.stop_after == name:
            raise Died(f"stopped after {name}")
        return self.answers[name]

    # Events around the machine

    def boot(self) -> None:
        """Boot every instance, if instances boot in this cluster: each joins as a node that is Ready."""
        if not self.boots:
            return
        for instance in list(self.ec2.instances.values()):
            name = f"node-{instance['InstanceId']}"
            if ("nodes", "", name) in self.kube.objects:
                continue
            kind = CATALOGUE.types[instance["InstanceType"]]
            zone = instance["Placement"]["AvailabilityZone"]
            self.kube.put(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {
                        "name": name,
                        "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, **kind.labels},
                    },
                    "spec": {
                        "providerID": f"aws:///{zone}/{instance['InstanceId']}",
                        "taints": [
                            {"key": UNREGISTERED, "effect": "NoExecute"},
                            {"key": FILLING, "effect": "NoSchedule"},
                        ],
                    },
                    "status": {
                        "allocatable": kind.allocatable.to_kube(),
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                }
            )

    def sweep(self, name: str) -> dict[str, Any]:
        """Run SWEEP: survey both sides, start a scale-up if one is needed."""
        surveyed, instances = self.survey(name)
        due = (
            surveyed["pendingPods"]
            + surveyed["changedBuffers"]
            + surveyed["buffersToPlan"]
            + surveyed["missingReplicas"]
            + surveyed["unlaunchedClaims"]
            + surveyed["unwatchedClaims"]
            + surveyed["staleClaims"]
            + instances["endedWaves"]
            + instances["openLaunches"]
        )
        if due or instances["leaseBroken"]:
            self.scale_up(name)
        return {**surveyed, **instances}

    def survey(self, name: str, *, apart: int = 45) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run both surveys of one sweep, without acting on their findings."""
        task = Task(Execution(f"sweep-{name}", arn(f"sweep-{name}"), ""), CLUSTER, 0, 1)
        table = (self.ledger._client, self.ledger._table)
        records = survey_cluster.ClusterRecords(
            ledger=self.ledger,
            emptiness=EmptyNodes(*table),
            retirements=Retirements(*table),
            disruptions=Disruptions(*table),
            answers=self.known,
            drift_detections=DriftDetections(*table),
            recommendations=Recommendations(*table),
        )
        view, guards = ListedCluster(self.kube, (*SURVEYED, *REPORTED)), AutoscalerDetection(self.kube)
        webhooks = partial(find_missing_webhooks, self.kube)
        reports = SurveyReports(guards, Impairments(*table), ListedPodsRole(self.kube), webhooks, interval=60)
        seen = survey_cluster.ClusterSurveying(view, records, self.store, guards, reports)
        surveyed = seen.answer(task, self.now, paused=self.pause.paused)
        if surveyed["refused"]:
            return surveyed, {}
        module = survey_instances
        memory = module.InstanceRecords(
            self.ledger, records.retirements, Absences(*table), Impairments(*table), records.disruptions
        )
        optional = self.optional or OptionalCalls(Ec2(self.ec2), self.store)
        switch, clock, recorded = self.pause.value, lambda: self.now, self.recorded
        parts = (memory, self, Ec2(self.ec2), self.store, optional)
        both = module.InstanceSurveying(*parts, clock=clock, apart=apart, switch=switch, recorded=recorded)
        under_way, drift = surveyed["disruption"]["executions"], surveyed["drift"]["due"]
        asked = module.ClusterFindings.from_event({**surveyed, "drift": drift, "disruptions": under_way})
        return surveyed, both.answer(task, asked)

    def status(self, execution: str) -> str:
        """Return the status, as `Executions.status` does."""
        if is_express(execution):
            return STATUS_UNKNOWN
        if execution in self.ended:
            return "SUCCEEDED"
        return "ABORTED" if execution in self.dead else "RUNNING"


def arn(name: str) -> str:
    return f"arn:aws:states:us-east-1:123456789012:execution:joiner-scale-up-demo:{name}"
