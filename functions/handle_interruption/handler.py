"""Handle interruption: read EventBridge's messages about instances, record short offerings, and retire lost nodes.

Each message of a batch records on its claim why the node is drained and until when. A rebalance recommendation is only
recorded: the next sweep reads the pool, which decides what follows. One retirement is then started for
the whole batch; it reads these records, so that hundreds of warnings at once start about one execution a second. The
steps that may fail come last: one ring for the replacements (the retirement rings too), and the offerings that are
short. A loss counts only if EC2 confirms it now, because an event may be late and its instance may run again. An owner
that already retires the claim reads the record. While Joiner is paused nothing is started; the first sweep after the
pause finds what was lost.

Most events of an account are about instances that are not Joiner's. One batch read of the ledger finds Joiner's
instances, without a call to EC2; one log line says which others were ignored. The sweep records the instances of claims
that this deployment did not launch. A message that cannot be parsed is logged and dropped. A message that cannot be
handled is received again, and ends in the dead-letter queue.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from functions.handle_interruption.batch_facts import BatchFacts, LostInstances, PauseReadOnce, RetirementOwners
from joiner.adapters import environment
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.ec2_instances import Instance
from joiner.adapters.executions import Executions, ring_scale_up
from joiner.adapters.immediate_termination_records import record_launch_failure
from joiner.adapters.interruption_records import InterruptionWarnings
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import OfferingKey
from joiner.adapters.pause import PauseSwitch
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from joiner.catalogue.interruption_history import SpotPlace
from joiner.catalogue.unavailable_offerings import UNAVAILABLE_SECONDS
from joiner.item_keys import INSTANCE
from joiner.lifecycle.interruptions import Interruption, InterruptionKind, UnknownEvent, read_interruptions
from joiner.lifecycle.retirement import RetirementReason
from joiner.names import SPOT

logger = Logger()

SHOWN: Final = 10  # instances in a log line

IGNORED: Final = (
    "messages are ignored: this cluster's table does not contain their instances, which it neither launched nor found "
    "with a NodeClaim, or which were retired meanwhile"
)


@dataclass(frozen=True, slots=True)
class InterruptionRecords:
    """The records of the table, by kind."""

    ledger: Ledger
    retirements: Retirements
    recommendations: Recommendations
    warnings: InterruptionWarnings


@dataclass(frozen=True, slots=True)
class InterruptionMachines:
    """ARNs of the state machines that may have to act."""

    scale_up: str
    retire: str


class InterruptionQueue:
    """Handles messages; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        memory: InterruptionRecords,
        executions: Executions,
        ec2: Ec2,
        pause: PauseSwitch,
        machines: InterruptionMachines,
    ) -> None:
        self._ledger = memory.ledger
        self._retirements = memory.retirements
        self._recommendations = memory.recommendations
        self._warnings = memory.warnings
        self._executions = executions
        self._ec2 = ec2
        self._pause = pause
        self._machines = machines

    def handle(self, records: Sequence[Mapping[str, Any]], clock: Callable[[], datetime]) -> list[str]:
        """Return the ids of the messages to receive again: those that could not be recorded.

        If no retirement starts, these are all messages that need one.
        """
        now = clock()
        again: list[str] = []
        interruptions = self._with_instances({str(record["messageId"]): _read(record) for record in records}, again)
        ours = self._ledger.pairings({each.instance for found in interruptions.values() for each in found})
        known = {message: [each for each in found if each.instance in ours] for message, found in interruptions.items()}
        self._log_ignored(each for found in interruptions.values() for each in found if each.instance not in ours)
        losses = LostInstances(
            self._ec2, self._ledger, {each.instance for found in known.values() for each in found if each.is_loss}
        )
        facts = BatchFacts(losses, RetirementOwners(self._executions, self._retirements), PauseReadOnce(self._pause))
        waiting: list[str] = []
        for message, found in known.items():
            try:
                needed = [self._take(each, ours[each.instance].claim, facts, now) for each in found]
            except Exception:  # the queue retries this message; the others of the batch do not wait for it
                logger.exception("a message comes again", messageId=message)
                again.append(message)
            else:
                waiting += [message] if any(needed) else []
        if waiting and not self._retire(waiting, clock()):
            again += waiting
        self._remember_warnings(
            {each.instance for found in known.values() for each in found if each.kind is InterruptionKind.SPOT}, now
        )
        return again

    def _with_instances(
        self, interruptions: Mapping[str, tuple[Interruption, ...]], again: list[str]
    ) -> Mapping[str, tuple[Interruption, ...]]:
        """Return the messages with the instances of the reservations that they name instead of these reservations.

        If EC2 does not answer, messages that name a reservation are added to `again`, and left out.
        """
        reservations = {each.reservation for found in interruptions.values() for each in found if each.reservation}
        if not reservations:
            return interruptions
        try:
            instances = self._ec2.instances_of_reservations(reservations)
        except Ec2Error as reason:
            logger.error("instances of a reservation could not be read: its message comes again", reason=str(reason))
            again += [message for message, found in interruptions.items() if any(each.reservation for each in found)]
            return {message: found for message, found in interruptions.items() if message not in again}
        return {
            message: tuple(
                replace(each, instance=instance)
                for each in found
                for instance in (instances.get(each.reservation, ()) if each.reservation else (each.instance,))
            )
            for message, found in interruptions.items()
        }

    def _log_ignored(self, strangers: Iterable[Interruption]) -> None:
        """Log once for a batch which messages are ignored because the ledger does not contain their instances."""
        unreadable, found = self._ledger.unreadable_ids(INSTANCE), list(strangers)
        ignored = [each for each in found if each.instance not in unreadable]
        if ignored:
            messages = Counter(each.kind.value for each in ignored)
            instances = sorted({each.instance for each in ignored})
            logger.info(IGNORED, messages=dict(messages), count=len(instances), instances=instances[:SHOWN])
        if broken := sorted({each.instance for each in found} & unreadable):
            logger.error("messages are ignored: the records of their instances cannot be read", instances=broken)

    def _take(self, news: Interruption, claim: str, facts: BatchFacts, now: datetime) -> bool:
        """Record one interruption; return whether it needs a retirement."""
        logger.info(
            f"{news.kind.value} of an instance of ours", instance=news.instance, nodeclaim=claim, state=news.state
        )
        if news.kind is InterruptionKind.REBALANCE:
            self._recommendations.note(claim, news.instance, int(now.timestamp()))
            return False
        if facts.paused.on():
            logger.warning("Joiner is paused: nothing is retired", nodeclaim=claim, instance=news.instance)
            return False
        if news.reason is not None:
            return self._note_warning(news, news.reason, claim, facts.owners, now)
        if facts.losses.works(news.instance):
            logger.warning(
                "an instance that was reported as ending runs",
                instance=news.instance,
                nodeclaim=claim,
                state=news.state,
            )
            return False
        self._note_death(facts.losses.instance(news.instance), claim, now)
        return self._note_loss(news, claim, facts, now)

    def _note_warning(
        self, news: Interruption, reason: RetirementReason, claim: str, owners: RetirementOwners, now: datetime
    ) -> bool:
        """Record a warning; return if it needs a retirement. An active owner reads it in its next pass, or when it
        gives the claim up: so the owner is read after the warning is recorded.
        """
        moment, until = int(now.timestamp()), news.drained_by(now)
        self._retirements.hurry(
            claim, reason, int(until.timestamp()) if until is not None else 0, moment, instance=news.instance
        )
        standing = self._retirements.of(claim)
        return standing is None or not owners.attend(standing, moment)

    def _note_death(self, instance: Instance | None, claim: str, now: datetime) -> None:
        """Record an instance that ended at its launch, before the ring: the same offering must not be launched again at
        once.
        """
        if instance is not None and (
            found := record_launch_failure(self._ledger, self._retirements, instance, claim, now)
        ):
            logger.error(
                "an instance ended at its launch",
                nodeclaim=claim,
                instance=found.instance,
                code=found.code,
                reason=found.explanation,
            )

    def _note_loss(self, news: Interruption, claim: str, facts: BatchFacts, now: datetime) -> bool:
        """Record a loss, which Joiner may have caused itself; an active owner of the claim needs the record in any
        case.
        """
        standing, moment = self._retirements.of(claim), int(now.timestamp())
        attended = standing is not None and facts.owners.attend(standing, moment)
        if attended and self._retirements.add(claim, RetirementReason.LOST, instance=news.instance):
            return False
        if standing is None and not facts.losses.is_ours(news.instance):
            logger.info("it was retired to its end meanwhile", nodeclaim=claim, instance=news.instance)
            return False
        ended = facts.losses.instance(news.instance)
        self._retirements.hurry(
            claim,
            RetirementReason.LOST,
            0,
            moment,
            instance=news.instance,
            state_reason=ended.state_reason if ended is not None else "",
        )
        return True

    def _retire(self, messages: list[str], now: datetime) -> bool:
        """Start one retirement for all records, and ring the scale-up once. Return False if no retirement started.

        The retirement rings the scale-up, too.
        """
        try:
            name = self._executions.start_retirement_of_interrupted(self._machines.retire, now, messages[0])
        except (BotoCoreError, ClientError) as reason:
            logger.error(
                "no retirement could be started: the messages come again", messages=len(messages), reason=str(reason)
            )
            return False
        if name:
            logger.info("a retirement reads what was noted", messages=len(messages), retirement=name)
        else:
            logger.warning("no name is left for a retirement: it is the sweep's", messages=len(messages))
        try:
            ring_scale_up(self._ledger, self._executions, self._machines.scale_up, now)
        except (BotoCoreError, ClientError) as reason:
            logger.warning("the scale-up could not be started: the retirement starts it", reason=str(reason))
        return True

    def _remember_warnings(self, instances: Collection[str], now: datetime) -> None:
        """Record offerings that are short, for the next plan, and their warnings, for the price of interruptions; a
        failure is only logged.
        """
        if not instances:
            return
        try:
            found = self._ec2.instances(instances)
            short = {OfferingKey(each.capacity_type, each.instance_type, each.zone_of_offering) for each in found}
            for offering in short:
                self._ledger.mark_unavailable(offering, int(now.timestamp()) + UNAVAILABLE_SECONDS, "spot interruption")
        except (Ec2Error, BotoCoreError, ClientError) as reason:
            logger.warning("a shortage was not remembered", instances=sorted(instances), reason=str(reason))
            return
        warned: dict[SpotPlace, set[str]] = {}
        for each in found:
            if each.capacity_type == SPOT:
                warned.setdefault((each.instance_type, each.zone), set()).add(each.id)
        try:
            self._warnings.note(warned, int(now.timestamp()))
        except (BotoCoreError, ClientError) as reason:
            logger.warning("warnings were not remembered", instances=sorted(instances), reason=str(reason))


def _read(record: Mapping[str, Any]) -> tuple[Interruption, ...]:
    try:
        return read_interruptions(json.loads(record["body"]))
    except (UnknownEvent, ValueError, KeyError, TypeError) as reason:
        logger.warning(
            "a message that cannot be read is dropped", messageId=record.get("messageId"), reason=str(reason)
        )
        return ()


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle a batch of the interruption queue."""
    queue = InterruptionQueue(
        InterruptionRecords(
            environment.ledger(),
            environment.retirements(),
            environment.recommendations(),
            environment.interruption_records(),
        ),
        Executions(environment.client("stepfunctions")),
        Ec2(environment.client("ec2")),
        environment.pause(),
        InterruptionMachines(scale_up=environment.setting("SCALE_UP_ARN"), retire=environment.setting("RETIRE_ARN")),
    )
    again = queue.handle(list(event["Records"]), environment.now)
    return {"batchItemFailures": [{"itemIdentifier": message} for message in again]}
