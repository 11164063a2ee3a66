"""The SSM parameter that pauses Joiner. While its value is `true`, state machines end as *Joiner is paused* and nothing
acts. `joiner uninstall` writes `drain` and `keep`; `joiner.names` defines what each value stops.

A custom resource creates it. For an `AWS::SSM::Parameter`, CloudFormation writes the template's value at each change of
a property, also of the tags that the stack gives to its resources, and so ends a user's pause.
"""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.function_triggers import create_custom_resource
from infra.lambda_function import FunctionDependencies, LambdaFunction
from joiner.names import pause_parameter


class PauseSsmParameter(Construct):
    """The parameter, and the permissions to use it. What reads it depends on it, so it is deleted last."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies) -> None:
        super().__init__(scope, id)
        cluster = dependencies.settings.cluster
        self.name = pause_parameter(cluster)
        self._arn = Stack.of(self).format_arn(
            service="ssm", resource="parameter", resource_name=self.name.removeprefix("/")
        )
        function = LambdaFunction(
            self, "CreatePauseParameter", name="create_pause_parameter", dependencies=dependencies
        )
        function.grant(
            self.allow_writing(), iam.PolicyStatement(actions=["ssm:DeleteParameter"], resources=[self._arn])
        )
        self.resource = create_custom_resource(
            self, "Parameter", function, "Custom::PauseParameter", {"Cluster": cluster}
        )

    def allow_reading(self) -> iam.PolicyStatement:
        """Return the permission of everything that is paused by the parameter."""
        return iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[self._arn])

    def allow_writing(self) -> iam.PolicyStatement:
        """Return the permission to write it; `guard_deletion` has it, which stops launches before the stack is
        deleted."""
        return iam.PolicyStatement(actions=["ssm:PutParameter"], resources=[self._arn])
