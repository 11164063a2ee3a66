"""Calls that a service makes with a role that it assumes: they do not pass the middleware, so the services ask here.

Lambda writes log lines and polls queues with the role of the function; EventBridge and EventBridge Scheduler start their targets with the
role of the target. Each function returns why the call is denied, or None.
"""

from collections.abc import Sequence
from typing import Final

from joiner_local.aws.iam.checks import arn, invocation
from joiner_local.aws.iam.evaluation import Question, message
from joiner_local.aws.iam.guard import GUARD, Principal

TARGETS: Final = {"sqs": "sqs:SendMessage", "states": "states:StartExecution"}


def log_denial(role: str, function: str, group: str, stream: str) -> str | None:
    """Why Lambda may not write to this log stream for the function.

    Source: Lambda developer guide, "Sending Lambda function logs to CloudWatch Logs".
    """
    resource = arn("logs", f"log-group:{group}:log-stream:{stream}")
    return _denial(role, function, [Question("logs:CreateLogStream", resource), Question("logs:PutLogEvents", resource)])


def poll_denial(role: str, function: str, queue: str) -> str | None:
    """Why Lambda may not poll this queue (by its ARN) for the function.

    Source: Lambda developer guide, "Configuring an Amazon SQS queue to use with Lambda".
    """
    actions = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
    return _denial(role, function, [Question(action, queue) for action in actions])


def target_denial(role: str, session: str, target: str) -> str | None:
    """Why a rule or a schedule may not start this target (by its ARN) with its role."""
    service = target.split(":")[2]
    question = invocation(target, None) if service == "lambda" else Question(TARGETS.get(service, f"{service}:*"), target)
    return _denial(role, session, [question])


def _denial(role: str, session: str, questions: Sequence[Question]) -> str | None:
    principal = Principal(role, session, by_code=False)
    decision = GUARD.refusal(principal, questions)
    return None if decision is None else message(principal.arn, decision)
