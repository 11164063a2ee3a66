"""Keep the console output of instances whose nodes never registered, before they are retired.

The output is stored once for each claim. Its `RETIREMENT` item gets the place and the cause that the output gives; the
execution that retires the claim writes both to its condition and its event.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import documents
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.ledger_items import Retirement
from joiner.adapters.retirements import Retirements
from joiner.adapters.store import Store
from joiner.lifecycle.checks import SeenClaim
from joiner.lifecycle.console_output import find_console_cause, keep_last_lines
from joiner.lifecycle.retirement import RetirementReason

logger = Logger(child=True)

READ_AT_ONCE: Final = 5
"""Maximum of console outputs of one sweep: claims that fail together usually have the same cause."""

FAILED: Final = (RetirementReason.NEVER_JOINED, RetirementReason.IMPAIRED, RetirementReason.LOST)


class ConsoleKeeping:
    """Stores console outputs; `in_time` returns False if no time is left for another one."""

    def __init__(self, ec2: Ec2, retirements: Retirements, store: Store, in_time: Callable[[], bool]) -> None:
        self._ec2 = ec2
        self._retirements = retirements
        self._store = store
        self._in_time = in_time

    def keep(self, asked: Iterable[Mapping[str, Any]], claims: Iterable[SeenClaim], now: datetime) -> list[str]:
        """Store the outputs of those of `asked` whose nodes never registered; return what could not be read."""
        unregistered = {each.name for each in claims if not each.registered and each.instance}
        failed = [each for each in asked if each["claim"] in unregistered and each["reason"] in FAILED]
        if not failed:
            return []
        known = self._retirements.all()
        fresh = [each for each in failed if not known.get(each["claim"], Retirement(each["claim"])).console]
        return [
            trouble
            for each in fresh[:READ_AT_ONCE]
            if self._in_time() and (trouble := self._keep_one(each["claim"], each["instance"], now))
        ]

    def _keep_one(self, claim: str, instance: str, now: datetime) -> str:
        """Store one output; return why it could not be read. An instance may end before it has written anything."""
        try:
            lines = keep_last_lines(self._ec2.console_output(instance))
        except Ec2Error as reason:
            logger.warning("a console output could not be read", nodeclaim=claim, instance=instance, reason=str(reason))
            return f"the console output of instance {instance} could not be read (ec2:GetConsoleOutput: {reason.code})"
        if not lines.strip():
            return ""
        key = documents.put_console(self._store, claim, instance, lines)
        cause = find_console_cause(lines)
        logger.warning("a node never registered", nodeclaim=claim, instance=instance, console=key, cause=cause)
        place = f"its console output is the document {key} of Joiner's bucket"
        self._retirements.note_console(claim, f"{cause}; {place}" if cause else place, int(now.timestamp()))
        return ""
