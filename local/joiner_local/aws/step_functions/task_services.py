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
        """Invoke a function, and return its answer with the error of a failed invocation."""
        try:
            result = self.functions.invoke(name, qualifier, payload)
        except FunctionNotFound as missing:
            raise ServiceRefused("ResourceNotFoundException", str(missing), 404) from missing
        except InvocationThrottled as throttled:
            raise ServiceRefused("TooManyRequestsException", "Rate Exceeded.", 429) from throttled
        return FunctionAnswer(result.payload, result.version, result.request_id, result.error)

    def refusal(self, role: str, permission: RequiredPermission) -> str | None:
        """Return IAM's refusal of a call by the machine's role; None if it is allowed."""
        principal = AssumedRoleSession(role, "states")
        decision = ACCESS_CONTROL.first_denial(principal, [permission])
        return None if decision is None else denial_message(principal.arn, decision)

    def client(self, service: str, role: str) -> "BaseClient":
        """Return a client with the credentials of the role."""
        return self.clients.client(service, role)

    def start_execution(self, machine: str, name: str | None, input_text: str) -> tuple[str, dt.datetime]:
        """Start an execution; return its ARN and its start."""
        execution = self.machines.start(machine, name, input_text)
        return execution.identity.arn, execution.started

    def await_execution(self, arn: str) -> Mapping[str, Any]:
        """Wait for the end of an execution, and return its description."""
        execution = self.machines.execution(arn)
        execution.ended.wait(None)
        return {pascal_case(name): in_milliseconds(value) for name, value in describe_execution(execution).items()}

    def stop_execution(self, arn: str) -> None:
        """Stop an execution whose starting task has ended."""
        self.machines.execution(arn).stop(None, "The task that started it has ended.")


def in_milliseconds(value: Any) -> Any:
    """Return a time as epoch milliseconds, and every other value as it is."""
    return int(value.timestamp() * 1000) if isinstance(value, dt.datetime) else value
