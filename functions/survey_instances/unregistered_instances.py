"""Keep the console output of instances whose nodes never registered, before they are retired.

The output is stored once for each claim, and read at most three times. Its `RETIREMENT` item gets the place and the
cause that the output gives; the execution that retires the claim writes both to its condition and its event.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from aws_lambda_powertools import Logger

from functions.survey_instances.optional_calls import STORAGE_ERRORS, OptionalCalls, storage_trouble
from joiner.adapters import documents
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.ledger_items import Retirement
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.checks.instance_survey import SeenClaim
from joiner.lifecycle.console_output import find_console_cause, keep_last_lines
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest

logger = Logger(child=True)

READ_AT_ONCE: Final = 5
"""Maximum of console outputs of one sweep: claims that fail together usually have the same cause."""

READS_OF_A_CLAIM: Final = 3
"""An instance that has written nothing, and a document that cannot be stored, are not tried in every sweep."""

UNREAD: Final = "the console output of instance {instance} could not be read (ec2:GetConsoleOutput: {code})"

FAILED: Final = (RetirementReason.NEVER_JOINED, RetirementReason.IMPAIRED, RetirementReason.LOST)


class ConsoleKeeping:
    """Stores console outputs; `in_time` returns False if no time is left for another one."""

    def __init__(self, optional: OptionalCalls, retirements: Retirements, in_time: Callable[[], bool]) -> None:
        self._ec2 = optional.ec2
        self._store = optional.store
        self._retirements = retirements
        self._in_time = in_time

    def keep(self, asked: Iterable[RetirementRequest], claims: Iterable[SeenClaim], now: datetime) -> list[str]:
        """Store the outputs of those of `asked` whose nodes never registered; return what failed.

        An EC2 that throttles or does not answer, and a failure of the bucket or the table, end the work of this sweep.
        """
        unregistered = {each.name for each in claims if not each.registered and each.instance}
        failed = [each for each in asked if each.claim in unregistered and each.reason in FAILED]
        troubles: list[str] = []
        for each in self._choose(failed):
            claim, instance = each.claim, each.instance
            if not self._in_time():
                break
            try:
                self._keep_one(claim, instance, now)
            except Ec2Error as error:
                troubles.append(UNREAD.format(instance=instance, code=error.code))
                if error.busy:
                    break
            except STORAGE_ERRORS as error:
                troubles.append(storage_trouble(f"the console output of instance {instance}", error))
                break
        for trouble in troubles:
            logger.warning("a console output is missing", reason=trouble)
        return troubles

    def _choose(self, failed: Sequence[RetirementRequest]) -> list[RetirementRequest]:
        """Return those whose output is missing and was not read too often, some of them."""
        known = self._retirements.all() if failed else {}
        standing = ((each, known.get(each.claim, Retirement(each.claim))) for each in failed)
        missing = [each for each, one in standing if not one.console and one.console_reads < READS_OF_A_CLAIM]
        return missing[:READ_AT_ONCE]

    def _keep_one(self, claim: str, instance: str, now: datetime) -> None:
        """Read and store one output. An instance may end before it has written anything."""
        moment = int(now.timestamp())
        self._retirements.note_console_read(claim, moment)  # before the read, which may outlast the function
        output = self._ec2.console_output(instance)
        lines = keep_last_lines(output)
        if not lines.strip():
            return
        key = documents.put_console(self._store, claim, instance, lines)
        cause = find_console_cause(output)
        logger.warning("a node never registered", nodeclaim=claim, instance=instance, console=key, cause=cause)
        place = f"its console output is the document {key} of Joiner's bucket"
        self._retirements.note_console(claim, f"{cause}; {place}" if cause else place, moment)
