"""CloudTrail without events. After a failed deployment the CDK command line searches there for reasons, and would retry
an error for 20 s.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from joiner_local.aws.local_aws import LocalAws

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def install(aws: LocalAws) -> None:
    """Add CloudTrail to the local AWS."""
    aws.add_service("cloudtrail", answer)


def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Answer LookupEvents with no events, and refuse every other operation."""
    if environ.get("HTTP_X_AMZ_TARGET", "").endswith(".LookupEvents"):
        status, body = "200 OK", b'{"Events": []}'
    else:
        status, body = (
            "400 Bad Request",
            b'{"__type": "UnsupportedOperationException", "message": "the local AWS keeps no trails"}',
        )
    start_response(status, [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(body)))])
    return [body]
