"""Custom resources: CloudFormation invokes a function and waits until the function puts its response to a URL.

As AWS documents it ("Custom resource request objects", "response objects"): every scalar arrives as a string; the
response names the request; FAILED fails the stack with its reason; if the physical id changes after Update, the old one
gets a Delete once the update has succeeded. The URL of the response is plain http on this machine. Only Lambda service
tokens are supported.
"""

import json
import logging
import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    PartlyCreated,
    ResourceType,
    ServiceClients,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

PATH = "custom-resources/"
MAX_ANSWER_BYTES = 4096
DEFAULT_TIMEOUT = 3600.0  # seconds, CloudFormation's
RETRIES_AFTER = (1.0, 2.0)  # seconds; an asynchronous invocation on AWS is retried after about one and two minutes
# AWS waits the whole ServiceTimeout for a function that ended without a response; here that would only delay the error.
GRACE = 2.0


class CustomResourceFailed(Exception):
    """The function reported FAILED, did not respond, or sent an invalid response; `physical_id` may be known all the
    same.
    """

    def __init__(self, reason: str, physical_id: str = "") -> None:
        super().__init__(reason)
        self.physical_id = physical_id


@dataclass(slots=True)
class PendingRequest:
    answered: threading.Event = field(default_factory=threading.Event)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class CustomResources:
    """Invoke the functions of custom resources; also the WSGI application that receives their responses."""

    clients: ServiceClients
    _pending: dict[str, PendingRequest] = field(default_factory=dict)

    def resource_type(self) -> ResourceType:
        return ResourceType(
            name="AWS::CloudFormation::CustomResource",
            honoured="*",
            create=self.create,
            update=self.update,
            delete=self.delete,
            any_attribute=True,
            immutable="ServiceToken",
        )

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        pending = self._pending.get(environ["PATH_INFO"].rsplit("/", 1)[-1])
        if pending is None:
            start_response("403 Forbidden", [("Content-Length", "0")])  # an expired URL
            return [b""]
        if pending.body is None:
            pending.body = body
            pending.answered.set()
        start_response("200 OK", [("Content-Length", "0")])
        return [b""]

    def create(self, _clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
        fallback = declared.name("", limit=128)
        try:
            return self._ask("Create", declared)
        except CustomResourceFailed as failed:
            # CloudFormation sends a Delete for it during the rollback
            raise PartlyCreated(CreatedResource(failed.physical_id or fallback), failed) from failed

    def update(
        self, _clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource
    ) -> CreatedResource:
        return self._ask("Update", declared, existing=existing)

    def delete(self, _clients: ServiceClients, existing: ExistingResource) -> None:
        self._ask("Delete", existing.declared, existing=existing)

    def _ask(
        self, kind: str, declared: DeclaredResource, *, existing: ExistingResource | None = None
    ) -> CreatedResource:
        properties = as_strings(declared.properties)
        token = str(declared.properties["ServiceToken"])
        if ":lambda:" not in token:
            raise CustomResourceFailed(f"the local AWS knows Lambda service tokens only, not {token}")
        url_token, request_id = uuid.uuid4().hex, str(uuid.uuid4())
        request = {
            "RequestType": kind,
            "ServiceToken": token,
            "ResponseURL": f"{self.clients.endpoint}/_local/{PATH}{url_token}",
            "StackId": declared.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": declared.logical_id,
            "ResourceType": declared.type,
            "ResourceProperties": properties,
        }
        if existing is not None:
            request["PhysicalResourceId"] = existing.physical_id
            if kind == "Update":
                request["OldResourceProperties"] = as_strings(existing.properties)
        pending = self._pending[url_token] = PendingRequest()
        try:
            ended = self._invoke_and_wait(
                token, request, pending, timeout=float(properties.get("ServiceTimeout") or DEFAULT_TIMEOUT)
            )
        finally:
            del self._pending[url_token]
        if pending.body is None:
            raise CustomResourceFailed(
                "CloudFormation did not receive a response from your Custom Resource. "
                f"Please check your logs for requestId [{request_id}] ({ended}; function "
                f"{token.rpartition(':function:')[2]})"
            )
        return read_answer(pending.body, request)

    def _invoke_and_wait(
        self, function: str, request: Mapping[str, Any], pending: PendingRequest, *, timeout: float
    ) -> str:
        """Invoke and wait for the response; the returned text explains a missing response."""
        outcome = [f"nothing within {timeout:g} s"]
        given_up = threading.Event()

        def invoke() -> None:
            for delay in (*RETRIES_AFTER, None):
                error = self._invoke(function, request)
                if error is None or delay is None or given_up.wait(delay):
                    outcome[0] = (
                        "the function returned without answering"
                        if error is None
                        else f"the function ended with {error}"
                    )
                    break
            if not pending.answered.wait(GRACE):
                pending.answered.set()

        threading.Thread(target=invoke, daemon=True, name=f"custom-{request['LogicalResourceId']}").start()
        pending.answered.wait(timeout)
        given_up.set()
        return outcome[0]

    def _invoke(self, function: str, request: Mapping[str, Any]) -> str | None:
        try:
            answer = self.clients["lambda"].invoke(FunctionName=function, Payload=json.dumps(request).encode())
            return answer["Payload"].read().decode(errors="replace")[:500] if "FunctionError" in answer else None
        except ClientError as error:
            return str(error)


def read_answer(body: bytes, request: Mapping[str, Any]) -> CreatedResource:
    """Return the resource that a response describes. Raises `CustomResourceFailed` for FAILED and for responses that
    AWS does not accept.
    """
    if len(body) > MAX_ANSWER_BYTES:
        raise CustomResourceFailed("Response object is too long.")
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise CustomResourceFailed(f"Invalid response: not JSON: {body[:200]!r}") from error
    for key in ("StackId", "RequestId", "LogicalResourceId"):
        if answer.get(key) != request[key]:
            raise CustomResourceFailed(f"Invalid response: {key} is {answer.get(key)!r}, expected {request[key]!r}")
    if answer.get("Status") == "FAILED":
        raise CustomResourceFailed(
            "Received response status [FAILED] from custom resource. Message returned: "
            f"{answer.get('Reason') or 'no reason given'} "
            f"(RequestId: {request['RequestId']})",
            physical_id=answer.get("PhysicalResourceId") or "",
        )
    if answer.get("Status") != "SUCCESS":
        raise CustomResourceFailed(f"Invalid response: Status is {answer.get('Status')!r}")
    physical_id = answer.get("PhysicalResourceId") or (
        "" if request["RequestType"] == "Create" else request["PhysicalResourceId"]
    )
    if not physical_id:
        raise CustomResourceFailed("Invalid PhysicalResourceId")
    return CreatedResource(physical_id, answer.get("Data") or {})


def as_strings(value: Any) -> Any:
    """Return a value with every scalar as a string, as CloudFormation sends it.

    >>> as_strings({"Retries": 7, "Loud": True, "Zones": ["a", 1]})
    {'Retries': '7', 'Loud': 'true', 'Zones': ['a', '1']}
    """
    if isinstance(value, Mapping):
        return {key: as_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_strings(item) for item in value]
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None else str(value)
