"""One row of the table of refusals. To write a row, decorate the function that makes the call with `refuses`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from botocore.exceptions import ClientError

from tests.local.running_aws import RunningAws

Attempt = Callable[[RunningAws], None]


class Refused(Exception):
    """A refusal that is not an error of an API: a failed execution, a resource that CloudFormation could not create."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """One refusal. `message` is a part of AWS's message, empty if no source quotes it. A row without `attempt` is not
    modelled.
    """

    service: str
    call: str
    what: str
    code: str
    message: str
    source: str
    attempt: Attempt | None = None
    why_not_modelled: str = ""

    @property
    def name(self) -> str:
        return f"{self.service} {self.call}: {self.what}"


ROWS: Final[list[RefusedCall]] = []
NOTHING_KNOWN: Final[dict[tuple[str, str], str]] = {}
"""Calls for which no refusal beyond their schema is known, and why none is expected."""


def refuses(service: str, *calls: str, code: str, source: str, message: str = "") -> Callable[[Attempt], Attempt]:
    """Add a row that is modelled: `calls` are the call, then what is refused. The function makes the call, and raises
    what AWS raises.
    """
    call, what = calls

    def note(attempt: Attempt) -> Attempt:
        ROWS.append(RefusedCall(service, call, what, code, message, source, attempt))
        return attempt

    return note


def not_modelled(service: str, call: str, what: str, *, code: str, source: str, why: str) -> None:
    """Add a row that the local AWS does not refuse; docs/local-stack.md lists it."""
    ROWS.append(RefusedCall(service, call, what, code, "", source, None, why))


def nothing_known(service: str, *calls: str, why: str) -> None:
    """Add calls for which no refusal beyond the schema is known."""
    NOTHING_KNOWN.update({(service, call): why for call in calls})


def refusal_of(row: RefusedCall, aws: RunningAws) -> tuple[str, str]:
    """Return the code and the message with which the local AWS refuses a row, empty if it does not."""
    assert row.attempt is not None
    try:
        row.attempt(aws)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["Error"]["Message"]
    except Refused as refused:
        return refused.code, refused.message
    return "", ""
