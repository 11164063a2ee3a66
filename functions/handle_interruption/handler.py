"""What EventBridge says of instances: ours are looked up in the ledger, short offerings are remembered, and a scale-up is rung for.

Most of an account's events are about strangers: one batch read of the ledger tells them apart, no call to EC2 is made for them.
A message that cannot be read is told and dropped; one that could not be handled comes back, and ends in the dead-letter queue.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.ec2 import Ec2
from joiner.adapters.executions import Executions, ring_scale_up
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import Offering
from joiner.lifecycle.interruptions import Interruption, Kind, UnknownEvent, interruptions

logger = Logger()

SHORT_FOR: Final = 180  # seconds for which an offering that was taken back is not asked for again, as for one that was short


class Desk:
    """Where messages are handled; its parts are arguments so that a test can hand in its own."""

    def __init__(self, ledger: Ledger, executions: Executions, ec2: Ec2, machine: str) -> None:
        self._ledger = ledger
        self._executions = executions
        self._ec2 = ec2
        self._machine = machine

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
                logger.exception("a message comes again", message=message)
                again.append(message)
        return again

    def _take(self, news: Interruption, claim: str, now: datetime) -> None:
        logger.info(f"{news.kind.value} of an instance of ours", instance=news.instance, nodeclaim=claim, state=news.state)
        if news.kind is Kind.SPOT:
            self._remember_shortage(news.instance, now)
        if news.is_loss:
            ring_scale_up(self._ledger, self._executions, self._machine, now)

    def _remember_shortage(self, instance: str, now: datetime) -> None:
        for known in self._ec2.instances([instance]):
            offering = Offering(known.capacity_type, known.instance_type, known.zone)
            self._ledger.mark_unavailable(offering, int(now.timestamp()) + SHORT_FOR, "spot interruption")


def _read(record: Mapping[str, Any]) -> tuple[Interruption, ...]:
    try:
        return interruptions(json.loads(record["body"]))
    except (UnknownEvent, ValueError, KeyError, TypeError) as reason:
        logger.warning("a message that cannot be read is dropped", message=record.get("messageId"), reason=str(reason))
        return ()


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry: a batch of the interruption queue."""
    desk = Desk(
        environment.ledger(),
        Executions(environment.client("stepfunctions")),
        Ec2(environment.client("ec2")),
        environment.setting("SCALE_UP_ARN"),
    )
    again = desk.handle(list(event["Records"]), environment.now())
    return {"batchItemFailures": [{"itemIdentifier": message} for message in again]}
