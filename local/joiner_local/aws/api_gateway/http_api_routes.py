"""Rules of HTTP APIs as functions of values: how API Gateway chooses a route, throttles it and calls its function.

Sources: API Gateway developer guide, "Routing API requests", "Throttle requests to your HTTP APIs", "Create AWS Lambda
proxy integrations for HTTP APIs" (payload format 2.0).
"""

import base64
import datetime as dt
import json
import re
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from joiner_local.aws.local_aws import ACCOUNT, REGION

DEFAULT_RATE, DEFAULT_BURST = 10000.0, 5000.0  # requests a second and at once: an account's
TEXT = re.compile(
    r"^(text/.*|application/(json|xml|javascript|.*\+json|.*\+xml|x-www-form-urlencoded))\b", re.IGNORECASE
)
_VARIABLE = re.compile(r"(\{[^}]+\})")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request; `path` without the prefix that selects the API, `query` as it was sent."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # lower-case names, values of one name joined by commas
    body: bytes
    protocol: str = "HTTP/1.1"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: bytes = b""
    headers: Mapping[str, str | list[str]] = field(default_factory=dict)

    @classmethod
    def message(cls, status: int, text: str) -> "HttpResponse":
        return cls(status, json.dumps({"message": text}).encode(), {"content-type": "application/json"})


INTERNAL_ERROR = HttpResponse.message(500, "Internal Server Error")


def matched(route_key: str, method: str, path: str) -> tuple[tuple[int, int], dict[str, str]] | None:
    """Return the rank of a route for a request (smaller is better) and its path parameters; None if the route does not
    match.

    A full match precedes a greedy match, which precedes `$default`; a method precedes ANY.

    >>> matched("POST /ring/{token}/pods", "POST", "/ring/abc/pods")
    ((1, 0), {'token': 'abc'})
    >>> matched("ANY /{proxy+}", "GET", "/a/b")
    ((2, 1), {'proxy': 'a/b'})
    >>> matched("GET /a", "POST", "/a") is None
    True
    """
    if route_key == "$default":
        return (9, 0), {}
    wanted, template = route_key.split(" ", 1)
    if wanted not in (method, "ANY"):
        return None
    names = [part[1:-1] for part in _VARIABLE.findall(template)]
    pattern = "".join(_part_pattern(part) for part in _VARIABLE.split(template))
    found = re.fullmatch(pattern, path)
    if found is None:
        return None
    kind = 0 if not names else 2 if any(name.endswith("+") for name in names) else 1
    return (kind, 0 if wanted == method else 1), dict(
        zip((name.rstrip("+") for name in names), found.groups(), strict=True)
    )


def _part_pattern(part: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    return "(.+)" if part.endswith("+}") else "([^/]+)"


def best_route(route_keys: Iterable[str], method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """Return the key of the route that serves a request, and its path parameters.

    >>> best_route(["$default", "GET /a/{id}", "GET /a/b"], "GET", "/a/b")
    ('GET /a/b', {})
    """
    found = [(match[0], key, match[1]) for key in route_keys if (match := matched(key, method, path)) is not None]
    return min(found, key=lambda each: each[0])[1:] if found else None


@dataclass(slots=True)
class TokenBucket:
    """A token bucket: `burst` requests at once, refilled at `rate` requests a second."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _at: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._tokens, self._at = self.burst, self.clock()

    def take(self, tokens: float = 1) -> bool:
        """Take so many tokens; return False, and take none, if there are fewer."""
        with self._lock:
            now = self.clock()
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
            self._at = now
            if self._tokens < tokens:
                return False
            self._tokens -= tokens
            return True


def throttle(
    route_settings: Mapping[str, Any], default_settings: Mapping[str, Any], route_key: str
) -> tuple[float, float]:
    """Return rate and burst of a route: its own settings, else those of the stage, else those of the account.

    >>> throttle({"POST /a": {"throttlingRateLimit": 2, "throttlingBurstLimit": 5}}, {}, "POST /a")
    (2.0, 5.0)
    """
    settings = {**default_settings, **(route_settings.get(route_key) or {})}
    return float(settings.get("throttlingRateLimit", DEFAULT_RATE)), float(
        settings.get("throttlingBurstLimit", DEFAULT_BURST)
    )


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The API, stage and route that serve a request."""

    api_id: str
    stage: str
    stage_variables: Mapping[str, str]
    route_key: str
    path_parameters: Mapping[str, str]

    @property
    def source_arn(self) -> str:
        """The ARN that a permission of the function must name for this route."""
        method, path = self.route_key.split(" ", 1) if " " in self.route_key else ("*", "/$default")
        method = "*" if method == "ANY" else method
        return f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{self.api_id}/{self.stage}/{method}{path}"


def proxy_event(asked: HttpRequest, chosen: RouteMatch, request_id: str, now: dt.datetime) -> dict[str, Any]:
    """Return the event of payload format 2.0."""
    headers = dict(asked.headers)
    cookies = [cookie.strip() for cookie in headers.pop("cookie", "").split(";") if cookie.strip()]
    headers |= {
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-proto": "https",
        "x-amzn-trace-id": f"Root=1-{int(now.timestamp()):08x}-{uuid.uuid4().hex[:24]}",
    }
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": chosen.route_key,
        "rawPath": asked.path,
        "rawQueryString": asked.query,
        "headers": headers,
        "requestContext": _request_context(asked, chosen, request_id, now),
        "isBase64Encoded": False,
    }
    if cookies:
        event["cookies"] = cookies
    if asked.query:
        event["queryStringParameters"] = _joined(urllib.parse.parse_qsl(asked.query, keep_blank_values=True))
    if chosen.path_parameters:
        event["pathParameters"] = dict(chosen.path_parameters)
    if chosen.stage_variables:
        event["stageVariables"] = dict(chosen.stage_variables)
    if asked.body:
        text = TEXT.match(headers.get("content-type", "text/plain")) is not None
        event["body"] = asked.body.decode("utf-8", "replace") if text else base64.b64encode(asked.body).decode()
        event["isBase64Encoded"] = not text
    return event


def _request_context(asked: HttpRequest, chosen: RouteMatch, request_id: str, now: dt.datetime) -> dict[str, Any]:
    return {
        "accountId": ACCOUNT,
        "apiId": chosen.api_id,
        "domainName": f"{chosen.api_id}.execute-api.{REGION}.amazonaws.com",
        "domainPrefix": chosen.api_id,
        "http": {
            "method": asked.method,
            "path": asked.path,
            "protocol": asked.protocol,
            "sourceIp": "127.0.0.1",
            "userAgent": asked.headers.get("user-agent", ""),
        },
        "requestId": request_id,
        "routeKey": chosen.route_key,
        "stage": chosen.stage,
        "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "timeEpoch": int(now.timestamp() * 1000),
    }


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def proxy_answer(payload: bytes) -> HttpResponse:
    """Return the response for a function's result: a structured response, or the body of a 200 if it has no
    statusCode.
    """
    try:
        value = json.loads(payload)
    except ValueError:
        return INTERNAL_ERROR
    if not isinstance(value, dict) or "statusCode" not in value:
        body = value if isinstance(value, str) else json.dumps(value)
        return HttpResponse(200, body.encode(), {"content-type": "application/json"})
    text, status = value.get("body") or "", value["statusCode"]
    if not isinstance(text, str) or not str(status).isdigit() or not 100 <= int(status) < 600:
        return INTERNAL_ERROR
    headers: dict[str, str | list[str]] = {"content-type": "text/plain; charset=utf-8"}
    for name, given in (value.get("headers") or {}).items():
        headers[name.lower()] = str(given).lower() if isinstance(given, bool) else str(given)
    if value.get("cookies"):
        headers["set-cookie"] = list(value["cookies"])
    return HttpResponse(int(status), base64.b64decode(text) if value.get("isBase64Encoded") else text.encode(), headers)
