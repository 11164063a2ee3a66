"""The switch that stops Joiner: one SSM parameter. While its value is `true`, machines end as *Joiner is paused* and nothing acts. `drain`
and `keep` are written by `joiner uninstall`; `joiner.names` says what each value stops.

The deployment makes it with `false` and leaves whatever people wrote since, as long as no property of the parameter changes in the
template: CloudFormation then writes the value again. So it has no property but its value and a description that stays.
"""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.settings import Settings
from joiner.names import pause_parameter


class PauseParameter(Construct):
    """The parameter, and who may read it."""

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
        """What whoever honours the pause needs."""
        return iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[self.parameter.parameter_arn])

    def allow_writing(self) -> iam.PolicyStatement:
        """For the deletion of the stack, which must not race a launch."""
        return iam.PolicyStatement(actions=["ssm:PutParameter"], resources=[self.parameter.parameter_arn])
