"""The WSGI middleware that evaluates IAM: a call that the caller's role does not allow does not reach the service."""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

from joiner_local.aws.iam import encoded_messages, facts
from joiner_local.aws.iam.encoded_messages import ec2_message
from joiner_local.aws.iam.evaluation import message
from joiner_local.aws.iam.guard import GUARD, Guard
from joiner_local.aws.iam.requests import Unreadable, read, signed
from joiner_local.aws.local_aws import LocalAws
from joiner_local.aws.step_functions.state_machines import StateMachines

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

BY_XML: Final = ("iam", "sts")
BY_REST: Final = ("eks", "lambda")


def install(aws: LocalAws) -> None:
    facts.install(aws.part(StateMachines).tokens.machine_of)
    encoded_messages.install()
    aws.knobs |= {
        "iam/denied": GUARD.tell_denied,
        "iam/used": GUARD.tell_used,
        "iam/granted": GUARD.tell_granted,
        "iam/enforce": GUARD.enforce,
    }


@dataclass(frozen=True, slots=True)
class IamDoor:
    """Answers denied calls itself, and passes all others to the services."""

    app: "WSGIApplication"
    guard: Guard = field(default_factory=lambda: GUARD)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        access_key, service = signed(environ)
        principal = self.guard.principal(access_key)
        if principal is None:
            return self.app(environ, start_response)
        region = str(environ["HTTP_AUTHORIZATION"]).partition("Credential=")[2].split("/")[2]
        try:
            decision = self.guard.check(principal, read(service, environ), region)
        except Unreadable as unread:
            decision = self.guard.miss(principal, str(unread))
        if decision is None:
            return self.app(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # else the next request of the connection begins with it
        word = ec2_message if service == "ec2" else message
        return _refuse(service, word(principal.arn, decision), start_response)


def refusal(service: str, said: str) -> tuple[str, str, bytes]:
    """Return status, content type and body of a denial, in the service's protocol.

    >>> refusal("dynamodb", "User: ...")[0], refusal("ec2", "User: ...")[0]
    ('400 Bad Request', '403 Forbidden')
    """
    text = escape(said)
    if service == "ec2":
        error = f"<Code>UnauthorizedOperation</Code><Message>{text}</Message>"
        return "403 Forbidden", "text/xml", f"<Response><Errors><Error>{error}</Error></Errors><RequestID>0</RequestID></Response>".encode()
    if service == "s3":
        error = f"<Error><Code>AccessDenied</Code><Message>{text}</Message></Error>"
        return "403 Forbidden", "application/xml", error.encode()
    if service in BY_XML:
        error = f"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>{text}</Message></Error>"
        return "403 Forbidden", "text/xml", f"<ErrorResponse>{error}<RequestId>0</RequestId></ErrorResponse>".encode()
    body = json.dumps({"__type": "AccessDeniedException", "message": said, "Message": said}).encode()
    return ("403 Forbidden", "application/json", body) if service in BY_REST else ("400 Bad Request", "application/x-amz-json-1.0", body)


def _refuse(service: str, said: str, start_response: "StartResponse") -> Iterable[bytes]:
    status, kind, body = refusal(service, said)
    headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
    if service in BY_REST:
        headers.append(("x-amzn-ErrorType", "AccessDeniedException"))
    start_response(status, headers)
    return [body]
