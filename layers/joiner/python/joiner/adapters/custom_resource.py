"""CloudFormation's custom resources: exactly one answer to each request, also after an error.

A custom resource that does not answer blocks its stack for an hour. Therefore an error answers FAILED with its reason,
and so does the alarm shortly before the function's timeout. Handlers import their modules only when they act: a broken
import is then a FAILED with a reason, too.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requesttypes.html
"""

import json
import logging
import signal
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, MappingProxyType
from typing import Any, Final, Literal, Protocol

MARGIN_SECONDS: Final = 10.0
"""Time reserved for the answer before the function's timeout."""

ANSWER_LIMIT: Final = 4096
"""Bytes of an answer: CloudFormation refuses a longer one ("Response object is too long") without its content."""

REASON_LIMIT: Final = 1000
"""Characters of a reason, all of them ASCII, so that they fit into an answer with any escaping."""

Kind = Literal["Create", "Update", "Delete"]


class LambdaContext(Protocol):
    """The part of Lambda's context that is used here."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends this invocation."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """A request of CloudFormation. Every scalar among the properties arrives as a string."""

    kind: Kind
    properties: Mapping[str, str]
    physical_id: str | None = None
    """None on Create."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The resource's identity, and the attributes that the template may reference."""

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class TimeIsUp(Exception):
    """The function's timeout is near."""


class AnswerTooLong(Exception):
    """CloudFormation would refuse the answer; the message names the attributes with their sizes."""


def serve(event: Mapping[str, Any], context: LambdaContext, act: Callable[[Request], Answer]) -> None:
    """Act on one request and answer it."""
    physical_id = event.get("PhysicalResourceId")
    try:
        with _alarm(context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS):
            answer = act(Request(event["RequestType"], event.get("ResourceProperties") or {}, physical_id))
        _send(event, {"Status": "SUCCESS", "PhysicalResourceId": answer.physical_id, "Data": dict(answer.attributes)})
    except Exception as reason:
        logging.getLogger(__name__).exception(
            "%s of %s failed", event.get("RequestType"), event.get("LogicalResourceId")
        )
        # An Update that fails must not appear as a replacement. A Create that fails must not appear as a resource to
        # delete.
        message = f"{type(reason).__name__}: {reason}".encode("ascii", "backslashreplace").decode()[:REASON_LIMIT]
        _send(event, {"Status": "FAILED", "PhysicalResourceId": physical_id or "never-made", "Reason": message})


def _send(event: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    echoed = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    body = json.dumps({**echoed, **answer}).encode()
    if len(body) > ANSWER_LIMIT:
        sizes = ", ".join(f"{name} has {len(value)}" for name, value in answer.get("Data", {}).items())
        raise AnswerTooLong(f"the answer has {len(body)} bytes, CloudFormation takes {ANSWER_LIMIT}: {sizes}")
    # A presigned URL of S3 signs an empty content type; the local AWS listens on plain http
    request = urllib.request.Request(  # noqa: S310 - the URL is CloudFormation's own
        event["ResponseURL"], method="PUT", data=body, headers={"content-type": ""}
    )
    with urllib.request.urlopen(request, timeout=MARGIN_SECONDS / 2):  # noqa: S310
        pass


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeIsUp(f"not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.1))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
