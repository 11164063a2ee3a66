"""Check registration: which nodes of a wave have registered, which are ready for pods, and which pods are bound to
them.

The state machine calls this function again and again while nodes boot: after a ring, and at the latest every few
seconds. Each call makes passes, as long as another pass may find more to do. A pass reads the cluster, and does
everything that can be done at that time. It can stop at any point, because the next pass reads every step from the
cluster again. It does not need the lease.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import floor
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.check_registration.assigned_pods import NodeReading
from functions.check_registration.node_joining_steps import ClaimProgress, NodeRegistration
from functions.check_registration.node_opening import BindingTimes, NodeOpening
from joiner.adapters import documents, environment, metrics
from joiner.adapters.call_failures import CALL_FAILURES
from joiner.adapters.joining_records import JoiningRecords
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import list_claims_of
from joiner.adapters.kube_events import publish_events
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import STORED_AFTER, Wave, yet_unstored
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time, results_of
from joiner.adapters.registration_records import record_registrations
from joiner.adapters.store import UNREADABLE, DocumentSchema, NoSuchDocument, Store
from joiner.lifecycle.registration import ClaimAndNode, match_nodes, was_registered_before
from joiner.names import PRICE
from joiner.pools import NodeClaim
from joiner.reporting.event_limits import EVENTS_AT_ONCE
from joiner.reporting.events import Event

logger = Logger()
environment.prepare_clients("dynamodb", "s3")

NODES_SHOWN: Final = 50

WAITING: Final = ("waiting", "registered", "ready")
"""Stages of claims whose nodes the next check reads again."""

EVENTS_WHILE_NODES_WAIT: Final = 40
"""Maximum number of events of a check that leaves nodes to the next one. Two hundred take the API server a second of a
core, in which it binds as many pods."""

BETWEEN_PASSES: Final = 0.25
"""Seconds between two passes of a check: a node that calls meanwhile waits that long, and a list of pods costs more."""

SECONDS_OF_CALLS: Final = 18.0
"""No node is registered, and no pod is bound, after this time: the next check continues."""

SECONDS_OF_OPENING: Final = 25.0
"""No node is opened after this time. It is more than binding has: nodes with their pods open, however many others wait
for theirs. The rest of the function's timeout is for what a pass still writes with a slow API server: 200 events and
the outcomes of the pools."""

SECONDS_OF_PASSES: Final = 15.0
"""Seconds in which a check begins another pass. A second of this function costs as much as half a state transition."""

SECONDS_OF_PASSES_WHILE_LAUNCHING: Final = 1.5
"""The same while launches run: the launches that have an outcome meanwhile are recorded after the check."""


@dataclass(frozen=True, slots=True)
class WaveProgress:
    """The result of one check: the progress of every claim of the wave."""

    wave: Wave
    checked: Sequence[ClaimProgress]

    def claims(self, *stages: str) -> list[NodeClaim]:
        """Return the checked claims in one of these stages."""
        return [each.claim for each in self.checked if each.stage in stages]

    def render(self, now: datetime) -> dict[str, Any]:
        """Return the answer to the state machine."""
        waiting = self.claims(*WAITING)
        return {
            "rings": self.wave.rings,
            "done": not waiting,
            "waiting": len(waiting),
            "registered": len(self.claims("registered", "ready", "initialized")),
            "initialized": len(self.claims("initialized")),
            "joining": sum(each.stage == "waiting" and each.joins for each in self.checked),
            "postponed": sum(each.postponed for each in self.checked),
            "settling": sum(each.settling for each in self.checked),
            "opensIn": self._seconds_until_opening(now),
            "podsPlaced": self.wave.placed,
            "placedAsPlanned": round(self.wave.placed / self.wave.planned, 4) if self.wave.planned else 1.0,
            "failed": [claim.name for claim in self.claims("failed")][:NODES_SHOWN],
            "nodes": [_shown(claim) for claim in self.claims("registered", "ready", "initialized")][:NODES_SHOWN],
        }

    def _seconds_until_opening(self, now: datetime) -> int:
        times = [each.opens_at for each in self.checked if each.opens_at is not None]
        return max(1, floor((min(times) - now).total_seconds()) + 1) if times else 0  # it opens after that time


@dataclass(frozen=True, slots=True)
class Pass:
    """One reading of the cluster, and what was done then.

    `due` says whether the next reading may find more to do at once: nodes called meanwhile or just registered, or have
    pods that the scheduler has not read yet.
    """

    progress: WaveProgress
    events: Sequence[Event] = ()
    due: bool = False


class RegistrationCheck:
    """One check of a wave; its dependencies are arguments, which tests replace. It begins a pass until it has run for
    `seconds`.
    """

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        sleep: Callable[[float], None] = time.sleep,
        *,
        time_left: TimeLeft = UNBOUNDED,
        opening_time_left: TimeLeft | None = None,
        default_spreads: Sequence[Mapping[str, Any]] = (),
        seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._time_left = time_left
        self._opening_time_left = opening_time_left or time_left
        self._default_spreads = default_spreads
        self._kube = kube
        self._ledger = ledger
        self._sleep = sleep
        self._seconds = seconds
        self._clock = clock
        self._bindings = BindingTimes(clock)
        self._logged: dict[str, tuple[str, str]] = {}

    def answer(
        self, wave_name: str, now: datetime, events: Sequence[Event] = (), *, launching: bool = False
    ) -> dict[str, Any]:
        """Return ``{"rings", "done", "waiting", "registered", "initialized", "joining", "postponed", "settling",
        "opensIn", "podsPlaced", "placedAsPlanned", "failed", "nodes"}``. The next check of `joining` nodes, which could
        not be registered now, is due soon; that of `postponed` claims, for which no time was left, at once; that of
        `settling` nodes in a second. In `opensIn` seconds another node with its pods opens, even if others are awaited;
        0 if there is none.

        `events` are those of the rounds before. They are written here, while nodes boot. A wave whose execution is
        still `launching` is not done, because its launches add claims to it.
        """
        began, found = self._clock(), self._pass(wave_name, now, launching=launching)
        reported = [*events, *found.events]
        while found.due and not self._time_left.over and self._clock() - began < self._seconds:
            self._sleep(BETWEEN_PASSES)
            try:
                found = self._pass(wave_name, now + timedelta(seconds=self._clock() - began), launching=launching)
            except CALL_FAILURES as reason:  # the next check repeats it; what was done is reported
                logger.warning("a pass failed", reason=str(reason))
                break
            reported += found.events
        progress = found.progress
        nodes_wait = bool(progress.checked) and (launching or bool(progress.claims(*WAITING)))
        most = EVENTS_WHILE_NODES_WAIT if nodes_wait else EVENTS_AT_ONCE
        self._publish(reported, wave_name, now, most)
        answer = progress.render(now + timedelta(seconds=self._clock() - began))
        answer["done"] = answer["done"] and not (launching and progress.wave.execution)
        if answer["done"] and progress.wave.execution:
            self._ledger.end_wave(wave_name)
        return answer

    def _pass(self, wave_name: str, now: datetime, *, launching: bool) -> Pass:
        """Do everything that can be done now."""
        wave = self._ledger.see_wave(wave_name, int(now.timestamp()))  # the rings are read before anything is listed
        records = JoiningRecords(self._kube, self._ledger, int(now.timestamp()))
        opening = NodeOpening(
            self._kube,
            self._ledger,
            records,
            now,
            self._bindings,
            time_left=self._time_left,
            opening_time_left=self._opening_time_left,
            default_spreads=self._default_spreads,
            sleep=self._sleep,
        )
        if wave is None:
            opening.open_closed(NodeReading.of(self._kube).nodes.values())
            return Pass(WaveProgress(Wave(wave_name, "", 0, 0), ()))
        unstored = yet_unstored(wave.rung_at + STORED_AFTER, now)
        if unstored and not self._seconds:
            self._sleep(unstored)
        checked = opening.open(wave_name, self._bind_and_register(wave, opening, records, now), launching=launching)
        events = [*(event for each in checked for event in each.events), *self._record(checked, now)]
        seen = self._see_again(wave)
        self._log_progress(checked)
        # A ring whose node is not stored yet is not counted: should this be the last pass, the execution does not wait
        uncounted = bool(unstored) and bool(self._seconds)
        progress = WaveProgress(replace(seen, rings=wave.rings - uncounted), checked)
        changes = bool(unstored) or seen.rings != wave.rings or any(each.fresh or each.settling for each in checked)
        return Pass(progress, events, due=changes and bool(launching or progress.claims(*WAITING)))

    def _see_again(self, wave: Wave) -> Wave:
        """Return the wave with the pods bound and the rings counted in this pass. A failed read loses no event."""
        try:
            return self._ledger.wave(wave.name) or wave
        except CALL_FAILURES as reason:
            logger.warning("the wave could not be read after a pass", wave=wave.name, reason=str(reason))
            return wave

    def _bind_and_register(
        self, wave: Wave, opening: NodeOpening, records: JoiningRecords, now: datetime
    ) -> list[ClaimProgress]:
        """Bind the pods of the nodes that were registered before, and meanwhile register the others.

        Returns the progress of the claims of the wave by name. Neither part delays the other one, or ends it by a
        failure.
        """
        names = self._ledger.claims_of_wave(wave.name)
        claims = list_claims_of(self._kube, names)
        mine = [claims[name] for name in names if name in claims and not claims[name].deleting]
        reading = NodeReading.of(self._kube)
        # First, so that a failure with pods or other nodes does not keep a paid node closed
        opening.open_closed(reading.nodes.values())
        matches = match_nodes(mine, reading.nodes.values())
        registration = NodeRegistration(self._kube, records, now)
        before = self._register((each for each in matches if was_registered_before(each)), registration)
        others = [each for each in matches if not was_registered_before(each)]
        with ThreadPoolExecutor(max_workers=1) as beside:
            registering = beside.submit(self._register, others, registration)
            opening.bind(before, reading)
        return sorted([*before, *registering.result()], key=lambda each: each.claim.name)

    def _register(self, matches: Iterable[ClaimAndNode], registration: NodeRegistration) -> list[ClaimProgress]:
        answers, later = call_each_in_time(matches, registration.register, CALL_FAILURES, self._time_left)
        message = "is checked in the next check"
        postponed = (ClaimProgress(match.claim, "waiting", message, postponed=True) for match in later)
        return [*results_of(answers, CALL_FAILURES), *postponed]

    def _record(self, checked: Iterable[ClaimProgress], now: datetime) -> list[Event]:
        """Record in the pools which nodes registered; return their events."""
        outcomes = [(each.claim, each.outcome) for each in checked if each.outcome]
        events, unwritten = record_registrations(self._kube, outcomes, now)
        for reason in unwritten:
            logger.warning("the registration of nodes could not be recorded", reason=reason)
        return events

    def _log_progress(self, checked: Iterable[ClaimProgress]) -> None:
        """Log the progress of each claim that changed since the last pass. A claim that only waits would be logged at
        every check."""
        for each in checked:
            claim = each.claim
            if self._logged.get(claim.name) != (each.stage, each.message):
                self._logged[claim.name] = each.stage, each.message
                log = logger.debug if each.stage == "waiting" else logger.info
                log(each.message, nodeclaim=claim.name, nodepool=claim.pool, node=claim.node_name, stage=each.stage)

    def _publish(self, events: Sequence[Event], wave_name: str, now: datetime, most: int = EVENTS_AT_ONCE) -> None:
        for reason in publish_events(self._kube, events, at=now, instance=wave_name, most=most):
            logger.warning("an event could not be written", reason=reason)


def _shown(claim: NodeClaim) -> dict[str, Any]:
    return {
        "name": claim.node_name,
        "claim": claim.name,
        "instanceType": claim.instance_type,
        "zone": claim.zone,
        "capacityType": claim.capacity_type,
        "pricePerHour": float(claim.annotations.get(PRICE, 0)),
    }


def read_stored_events(store: Store, keys: Iterable[str]) -> list[Event]:
    """Return the events of earlier rounds. A document that cannot be read does not keep nodes closed."""
    found: list[Event] = []
    for key in keys:
        try:
            found += documents.get_events(store, key)
        except (NoSuchDocument, DocumentSchema, *UNREADABLE, *CALL_FAILURES) as reason:
            logger.warning("events could not be read, and are not written", document=key, reason=str(reason))
    return found


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    time.sleep(float(event.get("gather", 0)))
    seconds = float(event.get("seconds", SECONDS_OF_CALLS))
    left = environment.time_left(context)
    launching = bool(event.get("launching", False))
    check = RegistrationCheck(
        environment.kube(task.cluster),
        environment.ledger(),
        time_left=left.at_most(seconds, time.monotonic),
        opening_time_left=left.at_most(SECONDS_OF_OPENING, time.monotonic),
        default_spreads=environment.default_spreads(),
        seconds=SECONDS_OF_PASSES_WHILE_LAUNCHING if launching else SECONDS_OF_PASSES,
    )
    events = read_stored_events(environment.store(), event.get("events") or ())
    answer = check.answer(str(event["wave"]), environment.now(), events, launching=launching)
    logger.info("checked registration", **{key: value for key, value in answer.items() if key != "nodes"})
    if answer["done"]:
        metrics.publish(
            task.cluster.name, {"NodesInitialized": answer["initialized"], "PodsPlaced": answer["podsPlaced"]}
        )
    return answer
