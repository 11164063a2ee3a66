"""The WSGI middleware that evaluates IAM: a call that the caller's role does not allow does not reach the service."""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

from joiner_local.aws.iam import account_lookups, encoded_messages
from joiner_local.aws.iam.access_control import ACCESS_CONTROL, AccessControl
from joiner_local.aws.iam.api_call_parsing import UnreadableRequest, parse_api_call, signing_scope
from joiner_local.aws.iam.encoded_messages import ec2_message
from joiner_local.aws.iam.policy_evaluation import denial_message
from joiner_local.aws.local_aws import LocalAws
from joiner_local.aws.step_functions.state_machines import StateMachines

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

BY_XML: Final = ("iam", "sts")
BY_REST: Final = ("eks", "lambda")


def install(aws: LocalAws, machines: StateMachines) -> None:
    account_lookups.install(machines.tokens.machine_of)
    encoded_messages.install()
    aws.add_knobs(
        {
            "iam/denied": ACCESS_CONTROL.report_denied,
            "iam/used": ACCESS_CONTROL.report_used,
            "iam/granted": ACCESS_CONTROL.report_granted,
            "iam/enforce": ACCESS_CONTROL.enforce,
        }
    )


@dataclass(frozen=True, slots=True)
class IamMiddleware:
    """Answer denied calls, and pass all others to the services."""

    app: "WSGIApplication"
    control: AccessControl = field(default_factory=lambda: ACCESS_CONTROL)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        access_key, service = signing_scope(environ)
        principal = self.control.session_of(access_key)
        if principal is None:
            return self.app(environ, start_response)
        region = str(environ["HTTP_AUTHORIZATION"]).partition("Credential=")[2].split("/")[2]
        try:
            decision = self.control.denial_of(principal, parse_api_call(service, environ), region)
        except UnreadableRequest as unread:
            decision = self.control.deny_unmapped_call(principal, str(unread))
        if decision is None:
            return self.app(environ, start_response)
        environ["wsgi.input"].read(
            int(environ.get("CONTENT_LENGTH") or 0)
        )  # otherwise the next request of the connection would begin with it
        message_of = ec2_message if service == "ec2" else denial_message
        return _refuse(service, message_of(principal.arn, decision), start_response)


def denial_response(service: str, message: str) -> tuple[str, str, bytes]:
    """Return status, content type and body of a denial, in the service's protocol.

    >>> denial_response("dynamodb", "User: ...")[0], denial_response("ec2", "User: ...")[0]
    ('400 Bad Request', '403 Forbidden')
    """
    text = escape(message)
    if service == "ec2":
        error = f"<Code>UnauthorizedOperation</Code><Message>{text}</Message>"
        return (
            "403 Forbidden",
            "text/xml",
            f"<Response><Errors><Error>{error}</Error></Errors><RequestID>0</RequestID></Response>".encode(),
        )
    if service == "s3":
        error = f"<Error><Code>AccessDenied</Code><Message>{text}</Message></Error>"
        return "403 Forbidden", "application/xml", error.encode()
    if service in BY_XML:
        error = f"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>{text}</Message></Error>"
        return "403 Forbidden", "text/xml", f"<ErrorResponse>{error}<RequestId>0</RequestId></ErrorResponse>".encode()
    body = json.dumps({"__type": "AccessDeniedException", "message": message, "Message": message}).encode()
    return (
        ("403 Forbidden", "application/json", body)
        if service in BY_REST
        else ("400 Bad Request", "application/x-amz-json-1.0", body)
    )


def _refuse(service: str, message: str, start_response: "StartResponse") -> Iterable[bytes]:
    status, kind, body = denial_response(service, message)
    headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
    if service in BY_REST:
        headers.append(("x-amzn-ErrorType", "AccessDeniedException"))
    start_response(status, headers)
    return [body]
