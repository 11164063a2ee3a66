"""What invokes a function beside state machines: custom resources of CloudFormation, and schedules."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.lambda_function import LambdaFunction

ANSWER_SECONDS: Final = 30
"""Time after a function's timeout until CloudFormation gives up waiting for its answer."""


def create_custom_resource(
    scope: Construct, id: str, function: LambdaFunction, resource_type: str, properties: Mapping[str, str]
) -> CustomResource:
    """Return a custom resource that the function serves; CloudFormation waits a little longer than its timeout."""
    return CustomResource(
        scope,
        id,
        service_token=function.function.function_arn,
        resource_type=resource_type,
        service_timeout=Duration.seconds(function.configuration.timeout_seconds + ANSWER_SECONDS),
        properties=dict(properties),
    )


def create_schedule(
    scope: Construct,
    id: str,
    function: LambdaFunction,
    description: str,
    *,
    every: Duration,
    retry_attempts: int,
    max_event_age: Duration,
) -> scheduler.Schedule:
    """Return a schedule that invokes the function at a rate. A rate fires as soon as the schedule exists."""
    return scheduler.Schedule(
        scope,
        id,
        schedule=scheduler.ScheduleExpression.rate(every),
        target=targets.LambdaInvoke(function.function, retry_attempts=retry_attempts, max_event_age=max_event_age),
        description=description,
    )
