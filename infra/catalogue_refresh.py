"""Refresh of the catalogue of instance types, offerings and prices: every hour, and once during the deployment."""

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.lambda_function import FunctionDependencies, LambdaFunction


class CatalogueRefreshSchedule(Construct):
    """`refresh_catalogue`, its schedule, and its first run."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies) -> None:
        super().__init__(scope, id)
        self.function = LambdaFunction(self, "RefreshCatalogue", name="refresh_catalogue", dependencies=dependencies)
        self.first_run = LambdaFunction(self, "AwaitCatalogue", name="await_catalogue", dependencies=dependencies)
        self.first_run.grant(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=self.function.arns))
        self.first = CustomResource(
            self,
            "First",
            service_token=self.first_run.function.function_arn,
            resource_type="Custom::FirstCatalogue",
            service_timeout=Duration.seconds(self.first_run.configuration.timeout_seconds + 30),
            # The version changes with the code, so a catalogue of the new schema exists before new code reads it
            properties={"Function": self.function.published.function_arn},
        )
        self.first.node.add_dependency(self.function, self.first_run)
        self.schedule = scheduler.Schedule(
            self,
            "Schedule",
            schedule=scheduler.ScheduleExpression.rate(Duration.hours(1)),
            target=targets.LambdaInvoke(self.function.function, retry_attempts=2, max_event_age=Duration.minutes(10)),
            description="Instance types, offerings and prices",
        )
        self.schedule.node.add_dependency(self.first)  # a rate fires as soon as it exists
