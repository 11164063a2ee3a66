"""Permissions of calls that a service makes with a role that it assumes. Such calls do not pass the middleware, so the
services use these functions.

Lambda writes log lines and polls queues with the role of the function; EventBridge and EventBridge Scheduler start
their targets with the role of the target. Each function returns why the call is denied, or None.
"""

from collections.abc import Sequence
from typing import Final

from joiner_local.aws.iam.access_control import ACCESS_CONTROL, AssumedRoleSession
from joiner_local.aws.iam.policy_evaluation import RequiredPermission, denial_message
from joiner_local.aws.iam.required_permissions import arn, invoke_permission

TARGETS: Final = {"sqs": "sqs:SendMessage", "states": "states:StartExecution"}


def log_denial(role: str, function: str, group: str, stream: str) -> str | None:
    """Return why Lambda may not write to this log stream for the function, or None.

    Source: Lambda developer guide, "Sending Lambda function logs to CloudWatch Logs".
    """
    resource = arn("logs", f"log-group:{group}:log-stream:{stream}")
    return _denial(
        role,
        function,
        [RequiredPermission("logs:CreateLogStream", resource), RequiredPermission("logs:PutLogEvents", resource)],
    )


def poll_denial(role: str, function: str, queue: str) -> str | None:
    """Return why Lambda may not poll this queue (by its ARN) for the function, or None.

    Source: Lambda developer guide, "Configuring an Amazon SQS queue to use with Lambda".
    """
    actions = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
    return _denial(role, function, [RequiredPermission(action, queue) for action in actions])


def target_denial(role: str, session: str, target: str) -> str | None:
    """Return why a rule or a schedule may not start this target (by its ARN) with its role, or None."""
    service = target.split(":")[2]
    permission = (
        invoke_permission(target, None)
        if service == "lambda"
        else RequiredPermission(TARGETS.get(service, f"{service}:*"), target)
    )
    return _denial(role, session, [permission])


def _denial(role: str, session: str, permissions: Sequence[RequiredPermission]) -> str | None:
    principal = AssumedRoleSession(role, session, by_code=False)
    decision = ACCESS_CONTROL.first_denial(principal, permissions)
    return None if decision is None else denial_message(principal.arn, decision)
