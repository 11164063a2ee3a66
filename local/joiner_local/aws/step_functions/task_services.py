"""What tasks of a machine call: functions, clients of the local AWS, and other machines."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from joiner_local.aws.aws_lambda.function_invocations import FunctionInvoker, FunctionNotFound
from joiner_local.aws.aws_lambda.sandbox_pool import InvocationThrottled
from joiner_local.aws.iam.access_control import ACCESS_CONTROL, AssumedRoleSession
from joiner_local.aws.iam.assumed_roles import RoleClients
from joiner_local.aws.iam.policy_evaluation import RequiredPermission, denial_message
from joiner_local.aws.step_functions.machine_descriptions import describe_execution
from joiner_local.aws.step_functions.state_machines import StateMachines
from joiner_local.aws.step_functions.task_calls import FunctionAnswer, ServiceRefused
from joiner_local.aws.step_functions.task_resources import pascal_case

if TYPE_CHECKING:
    from botocore.client import BaseClient


@dataclass(slots=True)
class TaskServices:
    """The services of the local AWS that tasks call."""

    functions: FunctionInvoker
    clients: RoleClients
    machines: StateMachines = None  # type: ignore[assignment] # set by install: each needs the other

    def invoke_function(self, name: str, qualifier: str | None, payload: bytes) -> FunctionAnswer:
        try:
            result = self.functions.invoke(name, qualifier, payload)
        except FunctionNotFound as missing:
            raise ServiceRefused("ResourceNotFoundException", str(missing), 404) from missing
        except InvocationThrottled as throttled:
            raise ServiceRefused("TooManyRequestsException", "Rate Exceeded.", 429) from throttled
        return FunctionAnswer(result.payload, result.version, result.request_id, result.error)

    def refusal(self, role: str, permission: RequiredPermission) -> str | None:
        principal = AssumedRoleSession(role, "states")
        decision = ACCESS_CONTROL.first_denial(principal, [permission])
        return None if decision is None else denial_message(principal.arn, decision)

    def client(self, service: str, role: str) -> "BaseClient":
        return self.clients.client(service, role)

    def start_execution(self, machine: str, name: str | None, input_text: str) -> tuple[str, dt.datetime]:
        execution = self.machines.start(machine, name, input_text)
        return execution.identity.arn, execution.started

    def await_execution(self, arn: str) -> Mapping[str, Any]:
        execution = self.machines.execution(arn)
        execution.ended.wait(None)
        return {pascal_case(name): in_milliseconds(value) for name, value in describe_execution(execution).items()}

    def stop_execution(self, arn: str) -> None:
        self.machines.execution(arn).stop(None, "The task that started it has ended.")


def in_milliseconds(value: Any) -> Any:
    return int(value.timestamp() * 1000) if isinstance(value, dt.datetime) else value
