"""Refresh of the catalogue of instance types, offerings and prices: every hour, and once during the deployment."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from infra.function_triggers import create_custom_resource, create_schedule
from infra.lambda_function import FunctionDependencies, LambdaFunction
from infra.settings import Settings


class CatalogueRefreshSchedule(Construct):
    """`refresh_catalogue`, its schedule, and its first run."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies) -> None:
        super().__init__(scope, id)
        self.function = LambdaFunction(
            self,
            "RefreshCatalogue",
            name="refresh_catalogue",
            dependencies=dependencies,
            environment=_list_variables(dependencies.settings),
        )
        if dependencies.settings.prices.file:
            self._add_price_file(dependencies.settings.prices.file)
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

    def _add_price_file(self, path: str) -> None:
        """Deploy the price file of the settings, and let the function read it."""
        file = s3_assets.Asset(self, "PriceFile", path=path)
        place = {"bucket": file.s3_bucket_name, "key": file.s3_object_key}
        self.function.function.add_environment("JOINER_PRICE_FILE", Stack.of(self).to_json_string(place))
        objects = file.bucket.arn_for_objects(file.s3_object_key)
        self.function.grant(iam.PolicyStatement(actions=["s3:GetObject"], resources=[objects]))


def _list_variables(settings: Settings) -> dict[str, str]:
    planning, commitments = settings.planning, settings.commitments.to_json()
    return {
        "JOINER_MEMORY_OVERHEAD_PERCENT": str(settings.nodes.memory_overhead_percent),
        "JOINER_RESERVED_INTERFACES": str(settings.nodes.reserved_interfaces),
        "JOINER_INTERRUPTION_LOST_HOURS": str(planning.interruption_lost_hours),
        "JOINER_PLACEMENT_SCORES": str(planning.spot_placement_scores).lower(),
        **({"JOINER_COMMITMENTS": commitments} if commitments else {}),
    }
