"""A custom resource that refuses the deletion of the stack while nodes run. CloudFormation deletes it before anything
else."""

from collections.abc import Iterable

from aws_cdk import CustomResource, Duration
from constructs import Construct, IConstruct

from infra.lambda_function import FunctionDependencies, LambdaFunction


class DeletionGuard(Construct):
    """`guard_deletion` and its custom resource. The resource depends on everything in `before`: CloudFormation deletes
    a resource before those on which it depends."""

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
