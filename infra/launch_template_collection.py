"""Deletion of unused launch templates: every hour, and all of them when the stack is deleted."""

from aws_cdk import Duration
from constructs import Construct

from infra.function_triggers import create_custom_resource, create_schedule
from infra.lambda_function import FunctionDependencies, LambdaFunction


class LaunchTemplateCollection(Construct):
    """`collect_launch_templates`, its schedule, and its custom resource."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies) -> None:
        super().__init__(scope, id)
        self.function = LambdaFunction(
            self, "CollectLaunchTemplates", name="collect_launch_templates", dependencies=dependencies
        )
        self.templates = create_custom_resource(
            self, "Templates", self.function, "Custom::LaunchTemplates", {"Cluster": dependencies.settings.cluster}
        )
        self.templates.node.add_dependency(self.function)
        self.schedule = create_schedule(
            self,
            "Schedule",
            self.function,
            "Deletes launch templates that nothing uses",
            every=Duration.hours(1),
            retry_attempts=0,
            max_event_age=Duration.minutes(10),
        )
