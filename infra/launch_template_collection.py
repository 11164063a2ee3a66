"""Deletion of unused launch templates: every hour, and all of them when the stack is deleted."""

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.lambda_function import FunctionDependencies, LambdaFunction


class LaunchTemplateCollection(Construct):
    """`collect_launch_templates`, its schedule, and its custom resource."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies) -> None:
        super().__init__(scope, id)
        self.function = LambdaFunction(
            self, "CollectLaunchTemplates", name="collect_launch_templates", dependencies=dependencies
        )
        self.templates = CustomResource(
            self,
            "Templates",
            service_token=self.function.function.function_arn,
            resource_type="Custom::LaunchTemplates",
            service_timeout=Duration.seconds(self.function.configuration.timeout_seconds + 30),
            properties={"Cluster": dependencies.settings.cluster},
        )
        self.templates.node.add_dependency(self.function)
        self.schedule = scheduler.Schedule(
            self,
            "Schedule",
            schedule=scheduler.ScheduleExpression.rate(Duration.hours(1)),
            target=targets.LambdaInvoke(self.function.function, retry_attempts=0, max_event_age=Duration.minutes(10)),
            description="Deletes launch templates that nothing uses",
        )
