"""A custom resource that refuses the deletion of the stack while nodes run. CloudFormation deletes it before anything
else."""

from collections.abc import Iterable

from constructs import Construct, IConstruct

from infra.function_triggers import create_custom_resource
from infra.lambda_function import FunctionDependencies, LambdaFunction


class DeletionGuard(Construct):
    """`guard_deletion` and its custom resource. The resource depends on everything in `before`: CloudFormation deletes
    a resource before those on which it depends."""

    def __init__(
        self, scope: Construct, id: str, *, dependencies: FunctionDependencies, before: Iterable[IConstruct]
    ) -> None:
        super().__init__(scope, id)
        self.function = LambdaFunction(self, "GuardDeletion", name="guard_deletion", dependencies=dependencies)
        self.resource = create_custom_resource(
            self, "Guard", self.function, "Custom::DeletionGuard", {"Cluster": dependencies.settings.cluster}
        )
        self.resource.node.add_dependency(self.function, *before)
