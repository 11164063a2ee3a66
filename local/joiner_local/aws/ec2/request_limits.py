"""EC2's token buckets for requests and for launched instances. They are off until a knob turns them on, because time
passes faster here than on AWS.

Each action has a bucket of its own for the account. A request that finds no token is refused with RequestLimitExceeded.
A launch also takes a token for each instance. Source: EC2 user guide, "Request throttling for the Amazon EC2 API".

Knob: `POST /_local/ec2/request-limits {"on": true}` fills all buckets and resets the counts; `{"on": false}` turns the
limits off; `{}` answers the counts of the requests that roles signed: ``{"requests": {"CreateFleet": {"served": 3,
"refused": 1, "last": 1795000000.5}}}``, with the time of the last one that was served.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from joiner_local.aws.api_gateway.http_api_routes import TokenBucket
from joiner_local.aws.call_counts import OF_A_ROLE
from joiner_local.aws.fault_injection.aws_request_faults import read_body, read_signature, refuse
from joiner_local.aws.local_aws import LocalAws
from joiner_local.knob_requests import read_flag

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Rate = tuple[float, float]
"""The capacity of a bucket, and its refill a second."""

READING: Final[Rate] = (100, 20)
UNFILTERED: Final[Rate] = (50, 10)
CHANGING: Final[Rate] = (50, 5)
RATES: Final[dict[str, Rate]] = {
    "CreateTags": (100, 10),
    "DeleteTags": (100, 10),
    "RunInstances": (5, 2),
    "StartInstances": (5, 2),
    "StopInstances": (100, 5),
    "TerminateInstances": (100, 5),
}
INSTANCES: Final[Rate] = (1000, 2)
"""Instances that RunInstances and CreateFleet launch."""


def install(aws: LocalAws) -> "Ec2RequestLimits":
    limits = Ec2RequestLimits()
    aws.add_knobs({"ec2/request-limits": limits.set})
    return limits


def rate_of(action: str, *, filtered: bool) -> Rate:
    """Return the bucket of an action; `filtered` is whether a request has a filter, ids, or a page size.

    >>> rate_of("DescribeInstances", filtered=True), rate_of("DescribeInstances", filtered=False)
    ((100, 20), (50, 10))
    >>> rate_of("CreateFleet", filtered=False), rate_of("TerminateInstances", filtered=True)
    ((50, 5), (100, 5))
    """
    if action.startswith(("Describe", "Get", "List")):
        return READING if filtered else UNFILTERED
    return RATES.get(action, CHANGING)


@dataclass(slots=True)
class RequestCount:
    """The requests of one action."""

    served: int = 0
    refused: int = 0
    last: float = 0.0


@dataclass(slots=True)
class Ec2RequestLimits:
    """The buckets of the account, and the requests since they were filled."""

    clock: Callable[[], float] = time.monotonic
    on: bool = False
    _buckets: dict[tuple[str, Rate], TokenBucket] = field(default_factory=dict)
    _counts: dict[str, RequestCount] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Knob."""
        with self._lock:
            answer = {
                name: {"served": each.served, "refused": each.refused, "last": each.last}
                for name, each in sorted(self._counts.items())
            }
            if "on" in asked:
                self.on = read_flag(asked, "on")
                self._buckets.clear()
                self._counts.clear()
        return {"requests": answer}

    def admits(self, action: str, *, filtered: bool, instances: int = 0) -> bool:
        """Take the tokens of one request; return False if there are too few."""
        with self._lock:
            count = self._counts.setdefault(action, RequestCount())
            rates = [((action, rate_of(action, filtered=filtered)), 1)]
            if instances:
                rates.append((("instances", INSTANCES), instances))
            admitted = all(self._bucket(*key).take(number) for key, number in rates)
            if admitted:
                count.served, count.last = count.served + 1, time.time()
            else:
                count.refused += 1
        return admitted

    def _bucket(self, name: str, rate: Rate) -> TokenBucket:
        if (name, rate) not in self._buckets:
            self._buckets[name, rate] = TokenBucket(rate[1], rate[0], self.clock)
        return self._buckets[name, rate]


@dataclass(frozen=True, slots=True)
class Ec2RequestLimiter:
    """WSGI middleware that refuses requests of roles to EC2 beyond the limits."""

    app: "WSGIApplication"
    limits: Ec2RequestLimits

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if not self.limits.on:
            return self.app(environ, start_response)
        access_key, service = read_signature(environ.get("HTTP_AUTHORIZATION", ""))
        if service != "ec2" or not access_key.startswith(OF_A_ROLE):
            return self.app(environ, start_response)
        asked = parse_qs(read_body(environ).decode())
        action = asked.get("Action", [""])[0]
        filtered = any("Filter." in name or ".1" in name or name == "MaxResults" for name in asked)
        wanted = asked.get("TargetCapacitySpecification.TotalTargetCapacity") or asked.get("MinCount") or ["0"]
        if self.limits.admits(action, filtered=filtered, instances=int(wanted[0])):
            return self.app(environ, start_response)
        return refuse(service, start_response, "RequestLimitExceeded", 503, "Request limit exceeded.")
