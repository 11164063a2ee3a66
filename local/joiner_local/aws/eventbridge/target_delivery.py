"""Deliver an event to a target by its ARN, within this process: used by rules and schedules.

Targets: SQS queues, Lambda functions (asynchronously), state machines, log groups.
"""

import json
import uuid
from dataclasses import dataclass

from joiner_local.aws.aws_lambda.function_invocations import FunctionInvoker, FunctionNotFound
from joiner_local.aws.cloudwatch.log_shipping import LogShipper
from joiner_local.aws.iam.resource_policies import PolicyRequest, allows
from joiner_local.aws.iam.service_calls import target_denial
from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws.step_functions.state_machines import StateMachines
from joiner_local.aws.step_functions.task_calls import ServiceRefused


class DeliveryFailed(Exception):
    """The target does not exist or does not allow the service. `code` is EventBridge's ERROR_CODE of a dead letter."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class EventTargets:
    """The services of this process that are targets of rules and schedules."""

    functions: FunctionInvoker
    machines: StateMachines
    logs: LogShipper

    def deliver(
        self,
        arn: str,
        body: str,
        *,
        group: str | None = None,
        service: str | None = None,
        source: str = "",
        role: str | None = None,
    ) -> str | None:
        """Deliver the body to the target with this ARN. Returns the ARN of an execution that was started, else None.

        `service` is a service that calls in its own name and needs a statement in the target's resource policy
        (``events.amazonaws.com``); `source` is the ARN of the rule. A service that uses a role
        (EventBridge Scheduler, a rule that starts a state machine) gives the `role`, whose policies must allow the
        delivery. `group` is the message group of a FIFO queue. Raises `DeliveryFailed`.
        """
        if (
            role is not None
            and (denial := target_denial(role, source.rpartition("/")[2] or "delivery", arn)) is not None
        ):
            raise DeliveryFailed("NO_PERMISSIONS", denial)
        match arn.split(":", 3)[2]:
            case "sqs":
                _send(arn, body, group, service, source)
            case "lambda":
                self._invoke(arn, body, service, source)
            case "states":
                return self._start(arn, body)
            case "logs":
                self.logs.ship(arn.split(":")[6], str(uuid.uuid4()), body)
            case other:
                raise DeliveryFailed("UNSUPPORTED_TARGET", f"the local AWS does not deliver to {other}: {arn}")
        return None

    def _invoke(self, arn: str, body: str, service: str | None, source: str) -> None:
        try:
            statements = self.functions.find(arn).policy.statements
        except FunctionNotFound as error:
            raise DeliveryFailed("NO_RESOURCE", str(error)) from error
        if service is not None and not allows(statements, PolicyRequest(service, "lambda:InvokeFunction", source)):
            raise DeliveryFailed("NO_PERMISSIONS", f"the policy of {arn} does not let {service} invoke it for {source}")
        self.functions.invoke_later(arn, None, body.encode())

    def _start(self, arn: str, body: str) -> str:
        try:
            return self.machines.start(arn, None, body).identity.arn
        except ServiceRefused as error:
            code = "NO_RESOURCE" if error.code == "StateMachineDoesNotExist" else "SDK_CLIENT_ERROR"
            raise DeliveryFailed(code, error.message) from error


def _send(arn: str, body: str, group: str | None, service: str | None, source: str) -> None:
    from moto.sqs.exceptions import QueueDoesNotExist
    from moto.sqs.models import sqs_backends

    queues = sqs_backends[ACCOUNT][REGION]
    name = arn.rsplit(":", 1)[-1]
    try:
        queue = queues.get_queue(name)
    except QueueDoesNotExist as error:
        raise DeliveryFailed("NO_RESOURCE", f"no queue {arn}") from error
    statements = json.loads(queue.policy)["Statement"] if queue.policy else []
    if service is not None and not allows(statements, PolicyRequest(service, "sqs:SendMessage", source)):
        raise DeliveryFailed("NO_PERMISSIONS", f"the policy of {arn} does not let {service} send for {source}")
    queues.send_message(name, body, group_id=group)
