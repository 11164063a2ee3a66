"""What is written down about the state machines, and the few alarms that mean "look at Joiner".

Alarms are few on purpose: a scale-up or a retirement that failed or ran out of time, a sweep that fails again and again, an interruption
that nobody could handle. All else shows in the state machines' own history.
"""

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.functions import retention_of
from infra.settings import Settings
from infra.states import State


class Machine(Construct):
    """A state machine from its states, with its log group and a name that people find in the console."""

    def __init__(self, scope: Construct, id: str, *, name: str, definition: State, kind: sfn.StateMachineType, settings: Settings) -> None:
        super().__init__(scope, id)
        # Groups of this prefix need no line of their own in CloudWatch Logs' resource policy, which has room for few
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/vendedlogs/states/{name}",
            retention=retention_of(settings.logs.retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=name,
            state_machine_type=kind,
            definition_body=sfn.DefinitionBody.from_string(Stack.of(self).to_json_string(dict(definition), 1)),
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=settings.logs.execution_data),
        )

    @property
    def arn(self) -> str:
        """The machine's ARN."""
        return self.machine.state_machine_arn

    def may(self, *statements: iam.PolicyStatement) -> None:
        """Grant the machine's role more; only the stack does."""
        for statement in statements:
            self.machine.add_to_role_policy(statement)


class Alarms(Construct):
    """The alarms, told to the settings' topic if there is one."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        scale_up: sfn.IStateMachine,
        retirement: sfn.IStateMachine,
        retirement_of_empty: sfn.IStateMachine,
        sweep: sfn.IStateMachine,
        dead_letters: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id)
        minutes = Duration.minutes(5)
        self._topic = sns.Topic.from_topic_arn(self, "Topic", settings.alarm_topic) if settings.alarm_topic else None
        watched = (
            ("ScaleUp", "A scale-up", scale_up),
            ("Retirement", "A retirement", retirement),
            ("RetirementOfEmpty", "A retirement of empty nodes", retirement_of_empty),
        )
        for name, said, machine in watched:
            failed, timed_out = machine.metric_failed(period=minutes), machine.metric_timed_out(period=minutes)
            self._alarm(f"{name}Failed", failed, 1, 1, f"{said} failed: read its execution's last state.")
            # One that timed out is no failed one to CloudWatch. One that was aborted has somebody who knows.
            self._alarm(f"{name}TimedOut", timed_out, 1, 1, f"{said} ran out of time: read what its execution waited for.")
        self._alarm("SweepFails", sweep.metric_failed(period=minutes), 1, 3, "Sweeps fail for 15 minutes: lost rings are not mended.")
        self._alarm(
            "InterruptionUnhandled",
            dead_letters.metric_approximate_number_of_messages_visible(period=minutes),
            1,
            1,
            "An interruption event could not be handled: read the dead-letter queue.",
        )
        # Of the function that told it; its name and dimension are those of `joiner.adapters.metrics`
        refused = cloudwatch.Metric(
            namespace="Joiner",
            metric_name="OrphansRefused",
            dimensions_map={"cluster": settings.cluster},
            statistic="Maximum",
            period=minutes,
        )
        self._alarm(
            "TooManyOrphans",
            refused,
            1,
            1,
            "So many instances or nodes seem to be orphans that Joiner ends none: read the last sweep. Those that really are, delete: "
            "kubectl delete nodeclaim for a claim, the EC2 console for an instance.",
        )

    def _alarm(self, id: str, metric: cloudwatch.Metric, threshold: int, periods: int, text: str) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=text,
        )
        if self._topic is not None:
            alarm.add_alarm_action(actions.SnsAction(self._topic))
