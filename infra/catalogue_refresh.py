"""Refresh of the catalogue of instance types, offerings and prices: every hour, and once during the deployment."""

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.function_triggers import create_custom_resource, create_schedule
from infra.lambda_function import FunctionDependencies, LambdaFunction


class CatalogueRefreshSchedule(Construct):
    """`refresh_catalogue`, its schedule, and its first run."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies) -> None:
        super().__init__(scope, id)
        nodes, planning = dependencies.settings.nodes, dependencies.settings.planning
        estimate = {
            "JOINER_MEMORY_OVERHEAD_PERCENT": str(nodes.memory_overhead_percent),
            "JOINER_RESERVED_INTERFACES": str(nodes.reserved_interfaces),
            "JOINER_INTERRUPTION_LOST_HOURS": str(planning.interruption_lost_hours),
            "JOINER_PLACEMENT_SCORES": str(planning.spot_placement_scores).lower(),
        }
        commitments = dependencies.settings.commitments.to_json()
        if commitments:
            estimate["JOINER_COMMITMENTS"] = commitments
        self.function = LambdaFunction(
            self, "RefreshCatalogue", name="refresh_catalogue", dependencies=dependencies, environment=estimate
        )
        self.first_run = LambdaFunction(self, "AwaitCatalogue", name="await_catalogue", dependencies=dependencies)
        self.first_run.grant(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=self.function.arns))
        self.first = create_custom_resource(
            self,
            "First",
            self.first_run,
            "Custom::FirstCatalogue",
            # The version changes with the code, so a catalogue of the new schema exists before new code reads it
            {"Function": self.function.published.function_arn},
        )
        self.first.node.add_dependency(self.function, self.first_run)
        self.schedule = create_schedule(
            self,
            "Schedule",
            self.function,
            "Instance types, offerings and prices",
            every=Duration.hours(1),
            retry_attempts=2,
            max_event_age=Duration.minutes(10),
        )
        self.schedule.node.add_dependency(self.first)  # a rate fires as soon as it exists
