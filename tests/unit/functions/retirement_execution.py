"""RETIRE in a test: the states in order, each by its real function, over the fakes of a `SimulatedCluster`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ledger_items import LeaseLost
from joiner.adapters.payload import Execution, Task
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest, RetiringClaim
from tests.unit.functions.simulated_cluster import Died, SimulatedCluster, run_retried
from tests.unit.functions.small_account import CLUSTER, NOON

PASSES = 12  # of one execution, before it ends and leaves the rest to the sweep
GIVING_WAY = (
    RetirementReason.EMPTY,
    RetirementReason.EXPIRED,
    RetirementReason.AGED,
    RetirementReason.CONSOLIDATED,
    RetirementReason.DRIFTED,
    RetirementReason.RECOMMENDED,
    RetirementReason.SURPLUS,
)

Entries = list[dict[str, Any]]


def arn(name: str) -> str:
    return f"arn:aws:states:us-east-1:123456789012:execution:joiner-retire-demo:{name}"


def express_arn(name: str) -> str:
    return f"arn:aws:states:us-east-1:123456789012:express:joiner-empty-demo:{name}:6b0f2c1e"


@dataclass
class RetirementExecution:
    """One execution in a cluster, Standard or Express. `entries` is the result of its last wave; `left_out` are the
    claims that were not retired, with the reason.
    """

    cluster: SimulatedCluster
    name: str
    entries: Entries = field(default_factory=list)
    left_out: Mapping[str, str] = field(default_factory=dict)
    moving: int = 0
    before_state: Callable[[str], None] = lambda _name: None
    stop_after: str = ""
    express: bool = False
    started: datetime = NOON

    @property
    def arn(self) -> str:
        return express_arn(self.name) if self.express else arn(self.name)

    @property
    def retirements(self) -> Retirements:
        return Retirements(self.cluster.ledger._client, self.cluster.ledger._table)

    @property
    def parts(self) -> tuple[Any, ...]:
        """Return what the start of retirements needs."""
        cluster = self.cluster
        disruptions = Disruptions(cluster.ledger._client, cluster.ledger._table)
        return (cluster.kube, cluster.ledger, self.retirements, disruptions, AutoscalerDetection(cluster.kube))

    @property
    def execution(self) -> Execution:
        return Execution(self.name, self.arn, self.started.isoformat())

    def run(self, *requests: RetirementRequest, passes: int = PASSES) -> "RetirementExecution":
        """Run from the start until the execution ends or fails."""
        self.started = self.cluster.now
        try:
            for voluntary in (False, True):
                group = [each for each in requests if (each.reason in GIVING_WAY) == voluntary]
                if group:
                    self._retire(group, voluntary=voluntary, passes=passes)
        except (Died, LeaseLost):
            pass
        self.cluster.dead.add(self.arn)
        return self

    def _retire(self, requests: list[RetirementRequest], *, voluntary: bool, passes: int) -> None:
        lease = self._take_the_lease() if voluntary else 0
        try:
            begun = self._begin(requests, lease)
        finally:
            if lease and not self.stop_after:
                self.cluster.machine.break_lease(self.arn, lease)
        self.left_out = {**self.left_out, **{each["claim"]: each["why"] for each in begun["skipped"]}}
        self.moving += begun["moving"]
        for wave in begun["waves"]:
            self.entries = self._drain(wave, passes)

    def _take_the_lease(self) -> int:
        until = int(self.cluster.now.timestamp()) + 120
        self.cluster.machine._update(
            "LEASE",
            "scale-up",
            "SET holder = :me, leaseUntil = :until ADD leaseNumber :one, rings :none",
            {":me": self.arn, ":until": until, ":one": 1, ":none": 0},
        )
        return self.cluster.machine.lease().number

    def _begin(self, requests: list[RetirementRequest], lease: int) -> dict[str, Any]:
        cluster, task = self.cluster, Task(self.execution, CLUSTER, lease, 1)
        until = int(cluster.now.timestamp()) + 90
        return self._state(
            "begin_retirement",
            lambda f: f.RetirementStart(*self.parts).answer(task, requests, cluster.now, until),
        )

    def _drain(self, wave: Entries, passes: int) -> Entries:
        pause = 1
        for _ in range(passes):
            if self._any(wave, "draining"):
                evicted = self._evict(wave, pause)
                wave, pause = evicted["claims"], evicted["pause"]
            wave = self._step(wave, "drained", "terminate_instances", self._terminate)
            wave = self._step(wave, "terminating", "confirm_termination", self._confirm)
            wave = self._step(wave, "terminated", "forget_nodes", self._forget)
            if all(each["stage"] == "forgotten" for each in wave):
                break
            self.cluster.now += timedelta(seconds=pause)
            pause = min(60, 2 * pause)
        return wave

    def _evict(self, wave: Entries, pause: int) -> dict[str, Any]:
        read = [RetiringClaim.from_json(each) for each in wave]
        return self._state(
            "evict_pods",
            lambda f: f.PodEviction(self.cluster.kube, self.retirements).answer(
                self.execution, read, pause, self.cluster.now
            ),
        )

    def _terminate(self, function: Any, read: list[RetiringClaim]) -> dict[str, Any]:
        termination = function.InstanceTermination(Ec2(self.cluster.ec2), self.retirements, self.cluster.pause)
        answer: dict[str, Any] = termination.answer(self.arn, CLUSTER.name, read, self.cluster.now)
        return answer

    def _confirm(self, function: Any, read: list[RetiringClaim]) -> dict[str, Any]:
        confirmation = function.TerminationConfirmation(Ec2(self.cluster.ec2), self.retirements)
        answer: dict[str, Any] = confirmation.answer(self.arn, read, self.cluster.now)
        return answer

    def _forget(self, function: Any, read: list[RetiringClaim]) -> dict[str, Any]:
        forgetting = function.NodeRemoval(self.cluster.kube, self.cluster.ledger, self.retirements)
        answer: dict[str, Any] = forgetting.answer(self.execution, read, self.cluster.now)
        return answer

    def _step(
        self, wave: Entries, stage: str, name: str, act: Callable[[Any, list[RetiringClaim]], dict[str, Any]]
    ) -> Entries:
        if not self._any(wave, stage):
            return wave
        found: Entries = self._state(name, lambda f: act(f, [RetiringClaim.from_json(each) for each in wave]))["claims"]
        return found

    @staticmethod
    def _any(wave: Entries, stage: str) -> bool:
        return any(each["stage"] == stage for each in wave)

    def _state(self, name: str, run: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Run one state: its function, retried as the state machine does."""
        self.before_state(name)
        answer = run_retried(name, run)
        if self.stop_after == name:
            raise Died(f"stopped after {name}")
        return answer


def retire(
    cluster: SimulatedCluster, *requests: tuple[str, str], name: str = "retire-1", **more: Any
) -> RetirementExecution:
    """Retire these claims, each with its reason."""
    passes = more.pop("passes", PASSES)
    return RetirementExecution(cluster, name, **more).run(
        *(RetirementRequest(claim, RetirementReason(reason)) for claim, reason in requests), passes=passes
    )
