"""Call a service for a Task: convert Step Functions' spelling of parameters and responses, and name errors as Step
Functions does.

Lambda functions and other state machines are called in this process; every other service through its API, signed as the
machine's role.
"""

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.response import StreamingBody

from joiner_local.aws.iam.policy_evaluation import RequiredPermission
from joiner_local.aws.iam.required_permissions import invoke_permission
from joiner_local.aws.step_functions.jsonata_expressions import Json
from joiner_local.aws.step_functions.task_resources import TaskResource, pascal_case, spellings
from joiner_local.aws.step_functions.task_tokens import StateFailure

FINISHED = "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class FunctionAnswer:
    """The result of an invocation. `error` is the header X-Amz-Function-Error."""

    payload: bytes
    version: str
    request_id: str
    error: str | None


class ServiceRefused(Exception):
    """A service of this process refused a call, with the error code of its API."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


class Services(Protocol):
    """The services of the local AWS that state machines use."""

    def invoke_function(self, name: str, qualifier: str | None, payload: bytes) -> FunctionAnswer: ...

    def client(self, service: str, role: str) -> BaseClient: ...

    def start_execution(self, machine: str, name: str | None, input_text: str) -> tuple[str, dt.datetime]: ...

    def refusal(self, role: str, permission: RequiredPermission) -> str | None: ...

    def await_execution(self, arn: str) -> Mapping[str, Any]: ...

    def stop_execution(self, arn: str) -> None: ...


@dataclass(slots=True)
class TaskCall:
    """One call of a Task. `run` may be abandoned (timeout, halt); then what the call has started is stopped, if AWS
    does so.
    """

    services: Services
    resource: TaskResource
    arguments: Json
    role: str
    submitted: Callable[[Json], None]
    started: str | None = None

    def run(self) -> Json:
        try:
            match (self.resource.kind, self.resource.service):
                case ("function", _):
                    return self._invoke(self.resource.arn, None, self.arguments)["Payload"]
                case ("optimized", "lambda"):
                    return self._invoke_optimized()
                case ("optimized", "states"):
                    return self._start_execution()
            return self._api()
        except ServiceRefused as refused:
            raise StateFailure(
                f"{self.resource.error_prefix}.{_with_suffix(refused.code, self.resource)}", refused.message
            ) from refused

    def abandon(self) -> None:
        if self.started is not None:
            self.services.stop_execution(self.started)

    def _invoke(self, name: str, qualifier: str | None, payload: Json) -> dict[str, Json]:
        body = payload if isinstance(payload, str) and _is_json(payload) else json.dumps(payload)
        self._authorize(invoke_permission(name, qualifier), "AWSLambdaException")
        answer = self.services.invoke_function(name, qualifier, body.encode())
        if answer.error is not None:
            raise _function_failure(answer.payload)
        return {
            "ExecutedVersion": answer.version,
            "Payload": json.loads(answer.payload) if answer.payload else None,
            "SdkHttpMetadata": {"HttpHeaders": {}, "HttpStatusCode": 200},
            "SdkResponseMetadata": {"RequestId": answer.request_id},
            "StatusCode": 200,
        }

    def _invoke_optimized(self) -> Json:
        asked = self._checked_arguments()
        return self._invoke(asked["FunctionName"], asked.get("Qualifier"), asked.get("Payload", {}))

    def _start_execution(self) -> Json:
        asked = self._checked_arguments()
        given = asked.get("Input", {})
        text = given if isinstance(given, str) else json.dumps(given)
        self._authorize(
            RequiredPermission("states:StartExecution", asked["StateMachineArn"]), "AWSStepFunctionsException"
        )
        arn, started = self.services.start_execution(asked["StateMachineArn"], asked.get("Name"), text)
        answer = {"ExecutionArn": arn, "StartDate": int(started.timestamp() * 1000)}
        if not self.resource.pattern.startswith("sync"):
            return answer
        self.started = arn
        self.submitted(answer)
        ended = dict(self.services.await_execution(arn))
        self.started = None
        if ended["Status"] != FINISHED:
            raise StateFailure("States.TaskFailed", json.dumps(ended))
        if self.resource.pattern == "sync:2":
            ended |= {key: json.loads(ended[key]) for key in ("Input", "Output") if key in ended}
        return ended

    def _authorize(self, permission: RequiredPermission, code: str) -> None:
        """Evaluate IAM for calls within this process, which do not pass the middleware."""
        if refusal := self.services.refusal(self.role, permission):
            raise ServiceRefused(code, refusal, 403)

    def _checked_arguments(self) -> Mapping[str, Json]:
        if not isinstance(self.arguments, Mapping):
            raise StateFailure("States.Runtime", "The Arguments field must evaluate to an object")
        for name in self.resource.unknown_parameters(self.arguments):
            raise StateFailure("States.Runtime", f"The field '{name}' is not supported by Step Functions")
        return self.arguments

    def _api(self) -> Json:
        operation = self.resource.operation()
        request = _to_api(self._checked_arguments(), operation.input_shape)
        client = self.services.client(self.resource.boto_service, self.role)
        try:
            answer = getattr(client, _method(client, operation.name))(**request)
        except ClientError as error:
            raise self._api_failure(client, error) from error
        except HTTPClientError as error:  # a request without an answer: an error of the task, which can be caught
            raise StateFailure(f"{self.resource.error_prefix}.SdkClientException", str(error)) from error
        except BotoCoreError as error:
            raise StateFailure("States.Runtime", str(error)) from error
        metadata = answer.pop("ResponseMetadata", {})
        result = _from_api(answer, operation.output_shape)
        if self.resource.kind == "optimized":
            result["SdkHttpMetadata"] = {"HttpHeaders": {}, "HttpStatusCode": metadata.get("HTTPStatusCode", 200)}
            result["SdkResponseMetadata"] = {"RequestId": metadata.get("RequestId", "")}
        return result

    def _api_failure(self, client: BaseClient, error: ClientError) -> StateFailure:
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        status = error.response["ResponseMetadata"].get("HTTPStatusCode", 400)
        request_id = error.response["ResponseMetadata"].get("RequestId", "")
        prefix = self.resource.error_prefix
        if self.resource.kind == "optimized":
            details = f"Status Code: {status}; Error Code: {code}; Request ID: {request_id}; Proxy: null"
            return StateFailure(
                f"{prefix}.{_with_suffix(code, self.resource)}", f"{message} (Service: Amazon{prefix}; {details})"
            )
        # An error that the service's model lacks has the general exception of the service: Ec2.Ec2Exception.
        modelled = {shape.name for shape in client.meta.service_model.error_shapes} | {
            shape.metadata.get("error", {}).get("code", shape.name) for shape in client.meta.service_model.error_shapes
        }
        name = code if code in modelled else prefix
        return StateFailure(
            f"{prefix}.{name if name.endswith('Exception') else name + 'Exception'}",
            f"{message} (Service: {prefix}, Status Code: {status}, Request ID: {request_id})",
        )


def _with_suffix(code: str, resource: TaskResource) -> str:
    """Return an error name: older optimized integrations keep the API's code, Step Functions' own has
    ``…Exception``.
    """
    return f"{code}Exception" if resource.service in ("states", "sqs") and not code.endswith("Exception") else code


def _function_failure(payload: bytes) -> StateFailure:
    """Return the error that a function raised: its class is the error's name, the whole payload its cause."""
    text = payload.decode("utf-8", "replace")
    try:
        described = json.loads(text)
    except ValueError:
        described = None
    name = described.get("errorType") if isinstance(described, dict) else None
    return StateFailure(
        name or "Exception", json.dumps(described, separators=(",", ":")) if described is not None else text
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _method(client: BaseClient, operation: str) -> str:
    return next(method for method, name in client.meta.method_to_api_mapping.items() if name == operation)


def _to_api(value: Json, shape: Shape | None) -> Any:
    """Return parameters as the service's API spells them."""
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        names = spellings(shape)
        unknown = [name for name in value if name not in names]
        if unknown:
            raise StateFailure("States.Runtime", f"The field '{unknown[0]}' is not supported by Step Functions")
        return {names[name]: _to_api(item, shape.members[names[name]]) for name, item in value.items()}
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [_to_api(item, shape.member) for item in value]
    if isinstance(shape, MapShape) and isinstance(value, Mapping):
        return {name: _to_api(item, shape.value) for name, item in value.items()}
    if shape is not None and shape.type_name == "string" and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"))
    if shape is not None and shape.type_name == "blob":
        return value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return value


def _from_api(value: Any, shape: Shape | None) -> Any:
    """Return a response as Step Functions spells it; times become text."""
    described: Any
    match value:
        case Mapping() if isinstance(shape, StructureShape):
            # DynamoDB's type letters stay as they are: {"BOOL": true}
            rename = str if shape.name == "AttributeValue" else pascal_case
            described = {rename(name): _from_api(item, shape.members.get(name)) for name, item in value.items()}
        case Mapping():
            described = {
                name: _from_api(item, shape.value if isinstance(shape, MapShape) else None)
                for name, item in value.items()
            }
        case list():
            described = [_from_api(item, shape.member if isinstance(shape, ListShape) else None) for item in value]
        case StreamingBody():
            described = value.read().decode("utf-8", "replace")
        case bytes():
            described = base64.b64encode(value).decode()
        case dt.datetime():
            described = value.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case _:
            described = value
    return described
