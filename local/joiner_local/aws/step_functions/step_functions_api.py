"""The Step Functions API in front of our own interpreter; moto's is not used.

No API lists Express executions, here as on AWS; their events are in the log group of the machine's logging
configuration. For tests and demos the knob `POST /_local/express-executions {"stateMachineArn"}` lists them, and
`stop-executions` stops them.
"""

import datetime as dt
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from joiner_local.aws.aws_lambda.function_invocations import FunctionInvoker
from joiner_local.aws.cloudwatch.log_shipping import LogShipper
from joiner_local.aws.iam.assumed_roles import RoleClients, check_assumable
from joiner_local.aws.local_aws import LocalAws
from joiner_local.aws.step_functions.execution_logs import LogDelivery, check_logging
from joiner_local.aws.step_functions.machine_definition import InvalidDefinition, parse_machine
from joiner_local.aws.step_functions.machine_descriptions import describe_execution, describe_machine
from joiner_local.aws.step_functions.payload_sizes import LARGEST_PAYLOAD, exceeds
from joiner_local.aws.step_functions.state_machines import ARN, OFF, StateMachine, StateMachines, parse
from joiner_local.aws.step_functions.task_calls import ServiceRefused
from joiner_local.aws.step_functions.task_services import TaskServices
from joiner_local.aws.step_functions.task_tokens import StateFailure, TaskGone, UnknownToken

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

Answer = dict[str, Any]

Asked = Mapping[str, Any]


def install(aws: LocalAws, functions: FunctionInvoker, logs: LogShipper) -> StateMachines:
    """Install Step Functions; return its machines."""
    services = TaskServices(functions, RoleClients(aws.endpoint))
    machines = StateMachines(services, LogDelivery(logs).ship, _check_role)
    services.machines = machines
    api = StepFunctionsApi(machines)
    aws.add_service("states", api)
    aws.add_knobs(
        {
            "express-executions": api.express_executions,
            "stop-executions": api.stop_executions,
            "running-executions": lambda _: {"executions": [each.identity.arn for each in machines.running()]},
        }
    )
    return machines


def _check_role(role: str) -> None:
    problem = check_assumable(role, "states.amazonaws.com")
    if problem is not None:
        raise ServiceRefused("AccessDeniedException", problem)


class StepFunctionsApi:
    """JSON 1.0 over HTTP: the operation's name in X-Amz-Target, its parameters in the body."""

    def __init__(self, machines: StateMachines) -> None:
        self.machines = machines
        self.operations: Mapping[str, Callable[[Asked], Answer]] = {
            "CreateStateMachine": self.create_state_machine,
            "UpdateStateMachine": self.update_state_machine,
            "DeleteStateMachine": self.delete_state_machine,
            "DescribeStateMachine": self.describe_state_machine,
            "DescribeStateMachineForExecution": self.describe_state_machine_for_execution,
            "ListStateMachines": self.list_state_machines,
            "ValidateStateMachineDefinition": self.validate_state_machine_definition,
            "PublishStateMachineVersion": self.publish_state_machine_version,
            "ListStateMachineVersions": self.list_state_machine_versions,
            "DeleteStateMachineVersion": self.delete_state_machine_version,
            "StartExecution": self.start_execution,
            "StartSyncExecution": self.start_sync_execution,
            "StopExecution": self.stop_execution,
            "DescribeExecution": self.describe_execution,
            "ListExecutions": self.list_executions,
            "GetExecutionHistory": self.get_execution_history,
            "SendTaskSuccess": self.send_task_success,
            "SendTaskFailure": self.send_task_failure,
            "SendTaskHeartbeat": self.send_task_heartbeat,
            "TagResource": self.tag_resource,
            "UntagResource": self.untag_resource,
            "ListTagsForResource": self.list_tags_for_resource,
        }

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        name = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
        try:
            if name not in self.operations:
                raise ServiceRefused("UnknownOperationException", f"the local AWS's Step Functions has no {name}")
            return _respond(start_response, "200 OK", self.operations[name](asked))
        except ServiceRefused as refused:
            return _respond(start_response, "400 Bad Request", {"__type": refused.code, "message": refused.message})
        except Exception as error:
            log.exception("%s", name)
            return _respond(
                start_response, "500 Internal Server Error", {"__type": "InternalServerError", "message": repr(error)}
            )

    # -- state machines

    def create_state_machine(self, asked: Asked) -> Answer:
        """Create a machine. The service refuses an invalid definition, and a description of no version."""
        if asked.get("versionDescription") and not asked.get("publish"):
            raise ServiceRefused("ValidationException", "Version description can only be set when publish is true")
        kind = asked.get("type") or "STANDARD"
        check_logging(asked.get("loggingConfiguration") or OFF)
        machine = self.machines.create(
            StateMachine(
                arn=f"{ARN}:stateMachine:{asked['name']}",
                name=asked["name"],
                definition=asked["definition"],
                role=asked["roleArn"],
                type=kind,
                parsed=parse(asked["definition"], kind),
                logging=asked.get("loggingConfiguration") or OFF,
                tracing=asked.get("tracingConfiguration") or {"enabled": False},
            )
        )
        self.machines.tags.setdefault(machine.arn, {}).update(
            {tag["key"]: tag["value"] for tag in asked.get("tags") or []}
        )
        answer: Answer = {"stateMachineArn": machine.arn, "creationDate": machine.created}
        if asked.get("publish"):
            answer["stateMachineVersionArn"] = self.machines.publish(
                machine.arn, asked.get("versionDescription", "")
            ).arn
        return answer

    def update_state_machine(self, asked: Asked) -> Answer:
        """Change a machine; with `publish`, publish it as a version."""
        names = {
            "definition": "definition",
            "roleArn": "role",
            "loggingConfiguration": "logging",
            "tracingConfiguration": "tracing",
        }
        changes = {field: asked[name] for name, field in names.items() if asked.get(name) is not None}
        if not changes:
            raise ServiceRefused(
                "MissingRequiredParameter",
                "Either the definition, the role ARN, the logging or tracing must be specified",
            )
        check_logging(asked.get("loggingConfiguration") or OFF)
        machine = self.machines.update(asked["stateMachineArn"], changes)
        answer: Answer = {"updateDate": machine.updated, "revisionId": machine.revision}
        if asked.get("publish"):
            answer["stateMachineVersionArn"] = self.machines.publish(
                machine.arn, asked.get("versionDescription", "")
            ).arn
        return answer

    def delete_state_machine(self, asked: Asked) -> Answer:
        """Delete a machine; one that does not exist is no error."""
        self.machines.delete(asked["stateMachineArn"])
        return {}

    def describe_state_machine(self, asked: Asked) -> Answer:
        """Return a machine, or a version of it."""
        return describe_machine(self.machines.describe(asked["stateMachineArn"]))

    def describe_state_machine_for_execution(self, asked: Asked) -> Answer:
        """Return the machine with which an execution started."""
        machine = self.machines.describe(self.machines.execution(asked["executionArn"]).identity.machine_arn)
        answer = describe_machine(machine)
        return {key: answer[key] for key in ("stateMachineArn", "name", "definition", "roleArn")} | {
            "updateDate": machine.updated
        }

    def list_state_machines(self, asked: Asked) -> Answer:
        """Return a page of the machines."""
        listed = [
            {
                "stateMachineArn": machine.arn,
                "name": machine.name,
                "type": machine.type,
                "creationDate": machine.created,
            }
            for machine in self.machines.all()
        ]
        return _page(listed, asked, "stateMachines")

    def validate_state_machine_definition(self, asked: Asked) -> Answer:
        """Return the mistakes of a definition, without creating a machine."""
        try:
            parse_machine(asked["definition"], express=asked.get("type") == "EXPRESS")
        except InvalidDefinition as error:
            found = [{"severity": "ERROR", "code": each.partition(":")[0], "message": each} for each in error.problems]
            return {"result": "FAIL", "diagnostics": found}
        return {"result": "OK", "diagnostics": []}

    def publish_state_machine_version(self, asked: Asked) -> Answer:
        """Publish the machine as it is now."""
        version = self.machines.publish(asked["stateMachineArn"], asked.get("description", ""))
        return {"stateMachineVersionArn": version.arn, "creationDate": version.created}

    def list_state_machine_versions(self, asked: Asked) -> Answer:
        """Return a page of the published versions, newest first."""
        versions = self.machines.versions(asked["stateMachineArn"])
        return _page(
            [{"stateMachineVersionArn": each.arn, "creationDate": each.created} for each in versions],
            asked,
            "stateMachineVersions",
        )

    def delete_state_machine_version(self, asked: Asked) -> Answer:
        """Delete a published version."""
        self.machines.delete_version(asked["stateMachineVersionArn"])
        return {}

    # -- executions

    def start_execution(self, asked: Asked) -> Answer:
        """Start an execution. A Standard name in use with another input is refused."""
        execution = self.machines.start(asked["stateMachineArn"], asked.get("name"), asked.get("input") or "{}")
        return {"executionArn": execution.identity.arn, "startDate": execution.started}

    def start_sync_execution(self, asked: Asked) -> Answer:
        """Run an Express execution to its end. Standard machines are refused."""
        if not self.machines.describe(asked["stateMachineArn"]).express:
            raise ServiceRefused(
                "StateMachineTypeNotSupported", "This operation is not supported by this type of state machine"
            )
        execution = self.machines.start(asked["stateMachineArn"], asked.get("name"), asked.get("input") or "{}")
        execution.ended.wait(None)
        answer = describe_execution(execution)
        # A synchronous execution has three possible ends; it cannot be stopped.
        answer["status"] = {"SUCCEEDED": "SUCCEEDED", "TIMED_OUT": "TIMED_OUT"}.get(execution.status, "FAILED")
        billed = (execution.stopped or execution.started) - execution.started
        answer["billingDetails"] = {
            "billedMemoryUsedInMB": 64,
            "billedDurationInMilliseconds": int(billed.total_seconds() * 1000),
        }
        return answer

    def stop_execution(self, asked: Asked) -> Answer:
        """End an execution as ABORTED."""
        execution = self.machines.execution(asked["executionArn"])
        execution.stop(asked.get("error"), asked.get("cause"))
        return {"stopDate": execution.stopped}

    def describe_execution(self, asked: Asked) -> Answer:
        """Return an execution with its status, input and output."""
        return describe_execution(self.machines.execution(asked["executionArn"]))

    def list_executions(self, asked: Asked) -> Answer:
        """Return a page of a machine's executions. Express machines are refused."""
        machine = self.machines.describe(asked["stateMachineArn"])
        if machine.express:
            raise ServiceRefused(
                "StateMachineTypeNotSupported", "This operation is not supported by this type of state machine"
            )
        wanted = asked.get("statusFilter")
        found = [each for each in self.machines.executions(machine.arn) if wanted in (None, each.status)]
        keys = ("executionArn", "stateMachineArn", "name", "status", "startDate", "stopDate", "redriveCount")
        listed = [{key: value for key, value in describe_execution(each).items() if key in keys} for each in found]
        return _page(listed, asked, "executions")

    def get_execution_history(self, asked: Asked) -> Answer:
        """Return a page of the events of an execution."""
        events = [event.to_api() for event in self.machines.execution(asked["executionArn"]).history.events()]
        if asked.get("reverseOrder"):
            events.reverse()
        return _page(events, asked, "events")

    # -- task tokens

    def send_task_success(self, asked: Asked) -> Answer:
        """Answer a task that waits for a token. An output that is too large or no JSON is refused."""
        if exceeds(asked["output"]):
            raise ServiceRefused(
                "InvalidOutput", f"Invalid Output: 'the output is longer than {LARGEST_PAYLOAD} bytes'"
            )
        try:
            output = json.loads(asked["output"])
        except ValueError as error:
            raise ServiceRefused("InvalidOutput", f"Invalid Output: '{error}'") from error
        return self._settle(asked["taskToken"], output)

    def send_task_failure(self, asked: Asked) -> Answer:
        """Fail a task that waits for a token."""
        return self._settle(
            asked["taskToken"], StateFailure(asked.get("error") or "States.TaskFailed", asked.get("cause") or "")
        )

    def send_task_heartbeat(self, asked: Asked) -> Answer:
        """Restart the heartbeat timeout of a task."""
        return self._with_token(lambda: self.machines.tokens.beat(asked["taskToken"]))

    def _settle(self, token: str, outcome: Any) -> Answer:
        return self._with_token(lambda: self.machines.tokens.settle(token, outcome))

    def _with_token(self, act: Callable[[], None]) -> Answer:
        try:
            act()
        except UnknownToken as error:
            raise ServiceRefused("InvalidToken", "Invalid Token: 'Invalid token'") from error
        except TaskGone as error:
            raise ServiceRefused("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'") from error
        return {}

    # -- tags, knobs

    def tag_resource(self, asked: Asked) -> Answer:
        """Add tags to a machine."""
        self.machines.tags.setdefault(asked["resourceArn"], {}).update(
            {tag["key"]: tag["value"] for tag in asked["tags"]}
        )
        return {}

    def untag_resource(self, asked: Asked) -> Answer:
        """Remove tags of a machine."""
        for key in asked["tagKeys"]:
            self.machines.tags.get(asked["resourceArn"], {}).pop(key, None)
        return {}

    def list_tags_for_resource(self, asked: Asked) -> Answer:
        """Return the tags of a machine."""
        tags = self.machines.tags.get(asked["resourceArn"], {})
        return {"tags": [{"key": key, "value": value} for key, value in tags.items()]}

    def express_executions(self, asked: dict[str, Any]) -> Answer:
        """Knob: return the Express executions of a machine, newest first.

        `executionArn` selects one, with its events; `status` (a list) selects by status.
        """
        arn, status = asked.get("executionArn"), asked.get("status")
        everything = self.machines.executions(asked["stateMachineArn"])
        found = [
            each
            for each in everything
            if arn in (None, each.identity.arn) and (status is None or each.status in status)
        ]
        described = [
            {**describe_execution(each), **({"events": [e.to_api() for e in each.history.events()]} if arn else {})}
            for each in found
        ]
        answer: Answer = json.loads(json.dumps({"executions": described}, default=_to_json))
        return answer

    def stop_executions(self, asked: dict[str, Any]) -> Answer:
        """Knob: stop all running executions of a machine, also Express ones, and return their ARNs."""
        cause = asked.get("cause")
        running = [each for each in self.machines.executions(asked["stateMachineArn"]) if each.status == "RUNNING"]
        for each in running:
            each.stop(None, cause)
        return {"stopped": [each.identity.arn for each in running]}


def _page(listed: list[Answer], asked: Asked, name: str) -> Answer:
    """Return `maxResults` items (0 or missing: 100, as documented) from the position of `nextToken`."""
    start, most = int(asked.get("nextToken") or 0), int(asked.get("maxResults") or 0) or 100
    answer: Answer = {name: listed[start : start + most]}
    if start + most < len(listed):
        answer["nextToken"] = str(start + most)
    return answer


def _respond(start_response: "StartResponse", status: str, answer: Answer) -> Iterable[bytes]:
    body = json.dumps(answer, default=_to_json).encode()
    headers = [
        ("Content-Type", "application/x-amz-json-1.0"),
        ("Content-Length", str(len(body))),
        ("x-amzn-RequestId", str(uuid.uuid4())),
    ]
    start_response(status, headers)
    return [body]


def _to_json(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return round(value.timestamp(), 3)
    raise TypeError(f"no JSON: {value!r}")
