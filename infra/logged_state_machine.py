"""A state machine of AWS Step Functions with its log group."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.lambda_function import log_retention
from infra.settings import Settings
from infra.states_language import State


class LoggedStateMachine(Construct):
    """A state machine with a fixed name, its log group, and the level ALL of its logs."""

    def __init__(
        self, scope: Construct, id: str, *, name: str, definition: State, kind: sfn.StateMachineType, settings: Settings
    ) -> None:
        super().__init__(scope, id)
        # Log groups with this prefix need no statement in CloudWatch Logs' resource policy, whose size is limited
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/vendedlogs/states/{name}",
            retention=log_retention(settings.logs.retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=name,
            state_machine_type=kind,
            definition_body=sfn.DefinitionBody.from_string(Stack.of(self).to_json_string(dict(definition), 1)),
            logs=sfn.LogOptions(
                destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=settings.logs.execution_data
            ),
        )

    @property
    def arn(self) -> str:
        """The ARN of the machine."""
        return self.machine.state_machine_arn

    def grant(self, *statements: iam.PolicyStatement) -> None:
        """Add statements to the policy of the machine's role; only the stack does."""
        for statement in statements:
            self.machine.add_to_role_policy(statement)
