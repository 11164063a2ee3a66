"""Count the calls of the deployment to each service, as AWS bills them.

Only calls that a role signed count: those of functions and state machines. Calls of users and tests are signed by keys
of their own. The knob `accounts` answers the counts; `{"reset": true}` sets them to zero.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from joiner_local.aws.local_aws import LocalAws

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

OF_A_ROLE: Final = "ASIA"  # how the access keys of temporary credentials begin


def install(aws: LocalAws) -> "CallCounts":
    counts = CallCounts()
    aws.add_knobs({"accounts": counts.report})
    return counts


def called(environ: "Mapping[str, Any]") -> tuple[str, str] | None:
    """Return the service and the action of a call that a role signed; None for all others.

    Calls to services that name the action in the body only (EC2) are counted without it: they cost nothing.

    >>> scope = "AWS4-HMAC-SHA256 Credential=ASIAX/20261121/us-east-1/dynamodb/aws4_request, SignedHeaders=host"
    >>> target = "DynamoDB_20120810.GetItem"
    >>> called({"HTTP_AUTHORIZATION": scope, "HTTP_X_AMZ_TARGET": target, "REQUEST_METHOD": "POST"})
    ('dynamodb', 'GetItem')
    >>> called({"HTTP_AUTHORIZATION": scope.replace("ASIAX", "test"), "REQUEST_METHOD": "POST"})
    """
    head = str(environ.get("HTTP_AUTHORIZATION", "")).split(",", 1)[0]
    key, *scope = head.partition("Credential=")[2].split("/")
    if not key.startswith(OF_A_ROLE) or len(scope) != 4:
        return None
    target = str(environ.get("HTTP_X_AMZ_TARGET", "")).rpartition(".")[2]
    return scope[2], target or str(environ.get("REQUEST_METHOD", ""))


@dataclass(slots=True)
class CallCounts:
    """Calls by service and action since the start or the last reset."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, environ: "WSGIEnvironment") -> None:
        if one := called(environ):
            with self._lock:
                self.calls[one] += 1

    def report(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Knob: return ``{"calls": {"dynamodb": {"GetItem": 3}}}``, the counts before a reset."""
        with self._lock:
            answer: dict[str, dict[str, int]] = {}
            for (service, action), times in sorted(self.calls.items()):
                answer.setdefault(service, {})[action] = times
            if asked.get("reset"):
                self.calls.clear()
        return {"calls": answer}
