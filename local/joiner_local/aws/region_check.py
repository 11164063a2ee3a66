"""Answers requests that are signed for a region that AWS does not have, as AWS does.

Source: IAM user guide, "Troubleshoot Signature Version 4 requests" (credential scope); S3 API reference, error
responses (AuthorizationHeaderMalformed). The libraries below answer such requests with a page that no client can read.

>>> from joiner_local.aws.region_check import answer_unknown_region
>>> answer_unknown_region("ssm", "xx-here-1")[0]
'InvalidSignatureException'
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import TYPE_CHECKING

import botocore.session

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BY_QUERY = frozenset({"autoscaling", "cloudformation", "iam", "monitoring", "sns", "sts"})
"""Services that answer with XML, beside EC2 and S3."""


@cache
def known_regions() -> frozenset[str]:
    """Return the regions of all partitions."""
    session = botocore.session.get_session()
    return frozenset(
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("ec2", partition)
    )


@dataclass(frozen=True, slots=True)
class RegionCheck:
    """WSGI middleware before the services."""

    app: "WSGIApplication"

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        scope = environ.get("HTTP_AUTHORIZATION", "").split(",")[0].split("/")
        if len(scope) != 5 or scope[2] in known_regions():
            return self.app(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # the connection's next request follows it
        code, kind, body = answer_unknown_region(scope[3], scope[2])
        status = "400 Bad Request" if "json" in kind or scope[3] == "s3" else "403 Forbidden"
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("x-amzn-ErrorType", code)]
        start_response(status, headers)
        return [body]


def answer_unknown_region(service: str, region: str) -> tuple[str, str, bytes]:
    """Return the code, the content type and the body of the answer, in the protocol of the service."""
    message = f"Credential should be scoped to a valid region, not '{region}'. "
    if service == "s3":
        message = f"The authorization header is malformed; the region '{region}' is wrong; expecting 'us-east-1'"
        return _xml("AuthorizationHeaderMalformed", message, "{}")
    if service == "ec2":
        return _xml("AuthFailure", message, "<Response><Errors>{}</Errors><RequestID>0</RequestID></Response>")
    if service in BY_QUERY:
        return _xml("SignatureDoesNotMatch", message, "<ErrorResponse>{}<RequestId>0</RequestId></ErrorResponse>")
    code = "InvalidSignatureException"
    return code, "application/x-amz-json-1.0", json.dumps({"__type": code, "message": message}).encode()


def _xml(code: str, message: str, around: str) -> tuple[str, str, bytes]:
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return code, "text/xml", around.format(error).encode()
