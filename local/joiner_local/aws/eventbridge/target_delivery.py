"""Handing something to a target by its ARN, in this process: what rules, schedules and mappings have in common.

Targets: SQS queues, Lambda functions (asynchronously), state machines, log groups.
"""

import json
import uuid

from joiner_local.aws.aws_lambda.function_invocations import FunctionInvoker, FunctionNotFound
from joiner_local.aws.cloudwatch.log_shipping import LogShipper
from joiner_local.aws.iam.resource_policies import PolicyRequest, allows
from joiner_local.aws.iam.service_calls import target_denial
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.aws.step_functions.state_machines import StateMachines
from joiner_local.aws.step_functions.task_calls import ServiceRefused


class DeliveryFailed(Exception):
    """The target is missing or does not let the service in. `code` as EventBridge writes it on a dead letter (ERROR_CODE)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def deliver(
    aws: LocalAws,
    arn: str,
    body: str,
    *,
    group: str | None = None,
    service: str | None = None,
    source: str = "",
    role: str | None = None,
) -> str | None:
    """Hand the body to the target; returns the ARN of a started execution.

    `service` is a service that comes in its own name and needs the target's resource policy (``events.amazonaws.com``), with `source`, the
    ARN of the rule. One that comes with a role (EventBridge Scheduler, a rule that starts a state machine) gives the `role`, whose policies
    must allow the delivery. `group` is the message group of a FIFO queue. Raises `DeliveryFailed`.
    """
    if role is not None and (denial := target_denial(role, source.rpartition("/")[2] or "delivery", arn)) is not None:
        raise DeliveryFailed("NO_PERMISSIONS", denial)
    match arn.split(":", 3)[2]:
        case "sqs":
            _send(arn, body, group, service, source)
        case "lambda":
            _invoke(aws, arn, body, service, source)
        case "states":
            return _start(aws, arn, body)
        case "logs":
            aws.part(LogShipper).ship(arn.split(":")[6], str(uuid.uuid4()), body)
        case other:
            raise DeliveryFailed("UNSUPPORTED_TARGET", f"the local AWS delivers nothing to {other}: {arn}")
    return None


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


def _invoke(aws: LocalAws, arn: str, body: str, service: str | None, source: str) -> None:
    lambdas = aws.part(FunctionInvoker)
    try:
        statements = lambdas.find(arn).policy.statements
    except FunctionNotFound as error:
        raise DeliveryFailed("NO_RESOURCE", str(error)) from error
    if service is not None and not allows(statements, PolicyRequest(service, "lambda:InvokeFunction", source)):
        raise DeliveryFailed("NO_PERMISSIONS", f"the policy of {arn} does not let {service} invoke it for {source}")
    lambdas.invoke_later(arn, None, body.encode())


def _start(aws: LocalAws, arn: str, body: str) -> str:
    try:
        return aws.part(StateMachines).start(arn, None, body).identity.arn
    except ServiceRefused as error:
        raise DeliveryFailed("NO_RESOURCE" if error.code == "StateMachineDoesNotExist" else "SDK_CLIENT_ERROR", error.message) from error
