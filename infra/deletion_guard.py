"""What stops the deletion of a stack whose nodes run: a custom resource that CloudFormation deletes before anything else."""

from collections.abc import Iterable

from aws_cdk import CustomResource, Duration
from constructs import Construct, IConstruct

from infra.lambda_function import FunctionDependencies, LambdaFunction


class DeletionGuard(Construct):
    """`guard_deletion` and its custom resource, which depends on everything `before` it: what a resource depends on is deleted after it."""

    def __init__(
        self, scope: Construct, id: str, *, dependencies: FunctionDependencies, before: Iterable[IConstruct]
    ) -> None:
        super().__init__(scope, id)
        self.function = LambdaFunction(self, "GuardDeletion", name="guard_deletion", dependencies=dependencies)
        self.resource = CustomResource(
            self,
            "Guard",
            service_token=self.function.function.function_arn,
            resource_type="Custom::DeletionGuard",
            service_timeout=Duration.seconds(self.function.configuration.timeout_seconds + 30),
            properties={"Cluster": dependencies.settings.cluster},
        )
        self.resource.node.add_dependency(self.function, *before)
