"""The SSM parameter that pauses Joiner. While its value is `true`, state machines end as *Joiner is paused* and nothing
acts. `joiner uninstall` writes `drain` and `keep`; `joiner.names` defines what each value stops.

The deployment creates the parameter with `false`. CloudFormation would write that value again if a property of the
parameter changed in the template, and so undo a user's pause. So its properties are only the value and a description
that does not change.
"""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.settings import Settings
from joiner.names import pause_parameter


class PauseSsmParameter(Construct):
    """The parameter, and the permissions to use it."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        self.parameter = ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=pause_parameter(settings.cluster),
            string_value="false",
            description=f"true: Joiner does nothing in the cluster {settings.cluster}",
        )

    def allow_reading(self) -> iam.PolicyStatement:
        """Return the permission of everything that is paused by the parameter."""
        return iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[self.parameter.parameter_arn])

    def allow_writing(self) -> iam.PolicyStatement:
        """Return the permission of `guard_deletion`, which stops launches before the stack is deleted."""
        return iam.PolicyStatement(actions=["ssm:PutParameter"], resources=[self.parameter.parameter_arn])
