"""What EventBridge says of instances: ours are looked up in the ledger, short offerings are remembered, and lost nodes are retired.

A warning notes on the claim why and until when its node may drain, and starts the retirement; then comes what may fail: the ring for the
replacement (the retirement rings, too), and that the offering is short. A loss is believed if EC2 says so now: an event may be late, and
its instance run again. Whoever retires the claim already is told of it. While Joiner is paused nothing is started: what was lost is found
by the first sweep after that.

Most of an account's events are about strangers: one batch read of the ledger tells them apart, no call to EC2 is made for them.
A message that cannot be read is told and dropped; one that could not be handled comes back, and ends in the dead-letter queue.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from joiner.adapters import environment
from joiner.adapters.births import note_death
from joiner.adapters.ec2 import Ec2, Ec2Error, Instance
from joiner.adapters.executions import Executions, ring_scale_up
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import Offering
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.interruptions import Interruption, Kind, UnknownEvent, interruptions
from joiner.lifecycle.retirement import Reason

logger = Logger()

SHORT_FOR: Final = 180  # seconds for which an offering that was taken back is not asked for again, as for one that was short


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
        now_there = Look(self._ec2, {each.instance for found in told.values() for each in found if each.is_loss} & set(ours))
        again: list[str] = []
        for message, found in told.items():
            try:
                for each in found:
                    if each.instance in ours:
                        self._take(each, ours[each.instance].claim, now_there, now)
            except Exception:  # the queue is the retry: the others of the batch are not to wait for this one
                logger.exception("a message comes again", messageId=message)
                again.append(message)
        return again

    def _take(self, news: Interruption, claim: str, there: "Look", now: datetime) -> None:
        logger.info(f"{news.kind.value} of an instance of ours", instance=news.instance, nodeclaim=claim, state=news.state)
        if (news.is_warning or news.is_loss) and not self._paused(news, claim):
            if news.is_warning:
                self._hurry(news, claim, now)
            elif there.works(news.instance):
                logger.warning("an instance that is said to go runs", instance=news.instance, nodeclaim=claim, state=news.state)
            else:
                self._note_death(there.instance(news.instance), claim, now)
                self._lose(news, claim, now)
        if news.kind is Kind.SPOT:
            self._remember_shortage(news.instance, now)

    def _paused(self, news: Interruption, claim: str) -> bool:
        if paused := self._pause.on():
            logger.warning("Joiner is paused: nothing is retired", nodeclaim=claim, instance=news.instance)
        return paused

    def _hurry(self, news: Interruption, claim: str, now: datetime) -> None:
        """Whoever retires the claim already reads the deadline at its next look."""
        standing = self._retirements.of(claim)
        self._retirements.hurry(claim, Reason.SPOT, int(news.drained_by(now).timestamp()), int(now.timestamp()))
        if standing is None or not standing.attended(int(now.timestamp())):
            self._retire(news, claim, Reason.SPOT, now)

    def _note_death(self, instance: Instance | None, claim: str, now: datetime) -> None:
        """Before the ring for a replacement: the same must not be launched again at once."""
        if instance is not None and (found := note_death(self._ledger, self._retirements, instance, claim, now)):
            logger.error("an instance ended at its launch", nodeclaim=claim, instance=found.instance, code=found.code, reason=found.said)

    def _lose(self, news: Interruption, claim: str, now: datetime) -> None:
        """It may be our own doing; whoever drains the node has to know in any case."""
        standing = self._retirements.of(claim)
        if standing is not None and standing.attended(int(now.timestamp())):
            self._retirements.add(claim, Reason.LOST)
            return
        if standing is None and not self._ledger.pairings([news.instance]):
            logger.info("it was retired to its end meanwhile", nodeclaim=claim, instance=news.instance)
            return
        self._retirements.hurry(claim, Reason.LOST, 0, int(now.timestamp()))
        self._retire(news, claim, Reason.LOST, now)

    def _retire(self, news: Interruption, claim: str, reason: Reason, now: datetime) -> None:
        name = self._executions.start_retirement(self._machines.retire, claim=claim, instance=news.instance, reason=reason)
        if name:
            logger.info("retires a node", nodeclaim=claim, instance=news.instance, retirement=name)
        else:
            logger.warning("no name is left for a retirement: it is the sweep's", nodeclaim=claim, instance=news.instance)
        ring_scale_up(self._ledger, self._executions, self._machines.scale_up, now)

    def _remember_shortage(self, instance: str, now: datetime) -> None:
        """A hint for the next plan: nobody waits for it."""
        try:
            for known in self._ec2.instances([instance]):
                offering = Offering(known.capacity_type, known.instance_type, known.zone)
                self._ledger.mark_unavailable(offering, int(now.timestamp()) + SHORT_FOR, "spot interruption")
        except (Ec2Error, BotoCoreError, ClientError) as reason:
            logger.warning("a shortage was not remembered", instance=instance, reason=str(reason))


class Look:
    """What EC2 says now of instances that are said to be lost: asked when the first one matters, and of all of them at once."""

    def __init__(self, ec2: Ec2, instances: Iterable[str]) -> None:
        self._ec2 = ec2
        self._instances = frozenset(instances)
        self._found: Mapping[str, Instance] | None = None

    def works(self, instance: str) -> bool:
        """Does it run after all? One that EC2 does not know is gone."""
        if self._found is None:
            self._found = self._ec2.whereabouts(self._instances)
        return instance in self._found and self._found[instance].works

    def instance(self, instance: str) -> Instance | None:
        """What EC2 shows of it, after `works` was asked; None if it knows none."""
        return (self._found or {}).get(instance)


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
