"""Inject faults into requests to the local AWS: requests get a name, and those that match the rule fail.

>>> _action("dynamodb", {"HTTP_X_AMZ_TARGET": "DynamoDB_20120810.UpdateItem"}, b'{"Key": {"kind": {"S": "LEASE"}}}')
'UpdateItem LEASE'
>>> _action("ec2", {}, b"Action=CreateFleet&Version=2016-11-15")
'CreateFleet'
>>> _action("s3", {"REQUEST_METHOD": "PUT", "PATH_INFO": "/bucket/plans/up-1/1.json.gz"}, b"")
'PUT plans'
"""

import io
import json
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from joiner_local.aws.fault_injection.fault_rules import ANSWER_LOST, REFUSED, SLOW, THROTTLED, FaultRules

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

DENIED: Final[Mapping[str, tuple[str, int]]] = {
    "s3": ("AccessDenied", 403),
    **dict.fromkeys(("ec2", "sts", "iam", "sqs"), ("UnauthorizedOperation", 403)),
}
THROTTLING: Final[Mapping[str, tuple[str, int]]] = {
    "dynamodb": ("ThrottlingException", 400),
    "s3": ("SlowDown", 503),
    "ec2": ("RequestLimitExceeded", 503),
    "eks": ("TooManyRequestsException", 429),
    "lambda": ("TooManyRequestsException", 429),
}
"""The error and the HTTP status of too many requests, where a service has its own."""
BY_QUERY: Final = frozenset({"ec2", "sts", "iam", "sqs"})  # services whose action is in a form


@dataclass(frozen=True, slots=True)
class AwsRequestFaults:
    """WSGI middleware before the services."""

    app: "WSGIApplication"
    rules: FaultRules

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if self.rules.idle:
            return self.app(environ, start_response)
        access_key, service = read_signature(environ.get("HTTP_AUTHORIZATION", ""))
        body = (
            b"" if service == "s3" else read_body(environ)
        )  # documents are named by their keys, and an upload may wait for *100 Continue*
        call = f"{service} {_action(service, environ, body)}"
        fault = self.rules.meet(access_key, call) if service else None
        if fault is None:
            return self._serve(environ, start_response, access_key, call, body)
        if fault.how == REFUSED:
            return refuse(service, start_response, *DENIED.get(service, ("AccessDeniedException", 403)))
        if fault.how == THROTTLED:
            return refuse(service, start_response, *THROTTLING.get(service, ("ThrottlingException", 400)))
        if fault.how == SLOW:
            time.sleep(fault.after)
            return self._serve(environ, start_response, access_key, call, body)
        if fault.how == ANSWER_LOST:
            for _ in self.app(environ, lambda *_: lambda _: None):
                pass
        time.sleep(fault.after)
        connection: socket.socket = environ["werkzeug.socket"]
        connection.shutdown(socket.SHUT_RDWR)
        raise ConnectionAbortedError("on purpose")

    def _serve(
        self, environ: "WSGIEnvironment", start_response: "StartResponse", access_key: str, call: str, body: bytes
    ) -> Iterable[bytes]:
        if not self.rules.pages.size or call.startswith(" "):
            return self.app(environ, start_response)
        caller = self.rules.callers.name(access_key)
        return self.rules.pages.serve(self.app, environ, start_response, call, body, caller=caller)


def read_signature(authorization: str) -> tuple[str, str]:
    """Return the access key and the service of a signature; empty for a request without one."""
    scope = authorization.split(",", 1)[0].partition("Credential=")[2].split("/")
    return (scope[0], scope[3]) if len(scope) == 5 else ("", "")


def read_body(environ: "WSGIEnvironment") -> bytes:
    """Return the body of a request, which can still be read again."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _action(service: str, environ: Mapping[str, Any], body: bytes) -> str:
    target = str(environ.get("HTTP_X_AMZ_TARGET", "")).rpartition(".")[2]
    if service == "dynamodb":
        return f"{target} {_kind(json.loads(body))}"
    if service == "s3":
        folder = str(environ["PATH_INFO"]).lstrip("/").partition("/")[2].partition("/")[0]
        return f"{environ['REQUEST_METHOD']} {folder}"
    if service in BY_QUERY:
        return parse_qs(body.decode()).get("Action", [""])[0]
    return target or f"{environ['REQUEST_METHOD']} {'/'.join(environ['PATH_INFO'].split('/')[1:2])}"


def _kind(asked: Mapping[str, Any]) -> str:
    """Return the kind of the item that a request to Joiner's table is about; of several items, all kinds."""
    if "TransactItems" in asked:
        return "+".join(dict.fromkeys(_kind(next(iter(each.values()))) for each in asked["TransactItems"]))
    key = asked.get("Key") or asked.get("Item") or {}
    values = asked.get("ExpressionAttributeValues") or {}
    return str((key.get("kind") or values.get(":kind") or {}).get("S", ""))


def refuse(
    service: str, start_response: "StartResponse", code: str, status: int, message: str = "on purpose"
) -> Iterable[bytes]:
    """Refuse in the protocol of the service."""
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    if service == "s3":
        body, kind = error.encode(), "application/xml"
    elif service in BY_QUERY:
        body, kind = f"<Response><Errors>{error}</Errors><RequestID>0</RequestID></Response>".encode(), "text/xml"
    else:
        body, kind = json.dumps({"__type": code, "message": message}).encode(), "application/x-amz-json-1.0"
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("x-amzn-ErrorType", code)]
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]
