"""What EventBridge says of instances: ours are looked up in the ledger, short offerings are remembered, and lost nodes are retired.

A warning notes on the claim why and until when its node may drain, rings for the replacement, and then starts the retirement. An instance
that is gone is a loss unless its claim is being retired: then it is our own doing, or its owner sees it. While Joiner is paused nothing is
started: what was lost is found by the first sweep after that.

Most of an account's events are about strangers: one batch read of the ledger tells them apart, no call to EC2 is made for them.
A message that cannot be read is told and dropped; one that could not be handled comes back, and ends in the dead-letter queue.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.ec2 import Ec2
from joiner.adapters.executions import Executions, ring_scale_up
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import Offering
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.interruptions import Interruption, Kind, UnknownEvent, interruptions

logger = Logger()

SHORT_FOR: Final = 180  # seconds for which an offering that was taken back is not asked for again, as for one that was short


SPOT: Final = "spot"
LOST: Final = "lost"


class Switch(Protocol):
    """What stops Joiner."""

    def on(self) -> bool:
        """Is Joiner paused at this moment?"""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the table remembers, by part."""

    ledger: Ledger
    retirements: Retirements


@dataclass(frozen=True, slots=True)
class Machines:
    """ARNs of the state machines that may have to act."""

    scale_up: str
    retire: str


class Desk:
    """Where messages are handled; its parts are arguments so that a test can hand in its own."""

    def __init__(self, memory: Memory, executions: Executions, ec2: Ec2, pause: Switch, machines: Machines) -> None:
        self._ledger = memory.ledger
        self._retirements = memory.retirements
        self._executions = executions
        self._ec2 = ec2
        self._pause = pause
        self._machines = machines

    def handle(self, records: list[Mapping[str, Any]], now: datetime) -> list[str]:
        """The message ids that have to come again."""
        told = {str(record["messageId"]): _read(record) for record in records}
        ours = self._ledger.pairings({each.instance for found in told.values() for each in found})
        again: list[str] = []
        for message, found in told.items():
            try:
                for each in found:
                    if each.instance in ours:
                        self._take(each, ours[each.instance].claim, now)
            except Exception:  # the queue is the retry: the others of the batch are not to wait for this one
                logger.exception("a message comes again", messageId=message)
                again.append(message)
        return again

    def _take(self, news: Interruption, claim: str, now: datetime) -> None:
        logger.info(f"{news.kind.value} of an instance of ours", instance=news.instance, nodeclaim=claim, state=news.state)
        if news.kind is Kind.SPOT:
            self._remember_shortage(news.instance, now)
        if not (news.is_warning or news.is_loss):
            return
        if self._pause.on():
            logger.warning("Joiner is paused: nothing is retired", nodeclaim=claim, instance=news.instance)
            return
        standing = self._retirements.of(claim)
        retiring = standing is not None and bool(standing.owner)
        if news.is_warning:
            self._retirements.hurry(claim, SPOT, int(news.drained_by(now).timestamp()), int(now.timestamp()))
        elif not retiring:
            self._retirements.hurry(claim, LOST, 0, int(now.timestamp()))
        if not retiring:
            self._retire(news, claim, now)

    def _retire(self, news: Interruption, claim: str, now: datetime) -> None:
        """The replacement first: from here on the node's pods count as pending."""
        ring_scale_up(self._ledger, self._executions, self._machines.scale_up, now)
        reason = SPOT if news.is_warning else LOST
        name = self._executions.start_retirement(self._machines.retire, claim=claim, instance=news.instance, reason=reason)
        logger.info("retires a node", nodeclaim=claim, instance=news.instance, retirement=name)

    def _remember_shortage(self, instance: str, now: datetime) -> None:
        for known in self._ec2.instances([instance]):
            offering = Offering(known.capacity_type, known.instance_type, known.zone)
            self._ledger.mark_unavailable(offering, int(now.timestamp()) + SHORT_FOR, "spot interruption")


def _read(record: Mapping[str, Any]) -> tuple[Interruption, ...]:
    try:
        return interruptions(json.loads(record["body"]))
    except (UnknownEvent, ValueError, KeyError, TypeError) as reason:
        logger.warning("a message that cannot be read is dropped", messageId=record.get("messageId"), reason=str(reason))
        return ()


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry: a batch of the interruption queue."""
    desk = Desk(
        Memory(environment.ledger(), environment.retirements()),
        Executions(environment.client("stepfunctions")),
        Ec2(environment.client("ec2")),
        environment.pause(),
        Machines(scale_up=environment.setting("SCALE_UP_ARN"), retire=environment.setting("RETIRE_ARN")),
    )
    again = desk.handle(list(event["Records"]), environment.now())
    return {"batchItemFailures": [{"itemIdentifier": message} for message in again]}
