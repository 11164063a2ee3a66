"""CloudWatch alarms.

There are few: a scale-up or a retirement that failed or timed out, sweeps that fail or are missing, an old catalogue, a
doorbell that loses rings, an interruption that was not handled, and instances or records that Joiner refuses to touch.
Everything else shows in the histories of the state machines.

A schedule, a rule or an asynchronous invocation that fails reports nothing. So an alarm watches the result of what it
starts: no sweep that succeeds, no catalogue that is written. For these alarms, missing data is breaching.
"""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.settings import Settings


@dataclass(frozen=True, slots=True)
class DoorbellLogs:
    """Log groups that show failures of the doorbell: of its function, and of its API."""

    function: logs.ILogGroup
    access: logs.ILogGroup


class Alarms(Construct):
    """The alarms; they notify the topic of the settings, if there is one."""

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
        interruptions: sqs.IQueue,
        catalogue: lambda_.IFunction,
        node_access: lambda_.IFunction,
        describer: lambda_.IFunction,
        elevator: lambda_.IFunction,
        doorbell_logs: DoorbellLogs,
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
            self._alarm_from(f"{name}Failed", failed, 1, 1, f"{said} failed: read its execution's last state.")
            # For CloudWatch an execution that timed out has not failed. A user knows of one that was aborted
            self._alarm_from(
                f"{name}TimedOut", timed_out, 1, 1, f"{said} ran out of time: read what its execution waited for."
            )
        self._watch_sweeps(sweep, settings.sweep.every_minutes)
        self._watch_catalogue(catalogue)
        self._alarm_from(
            "NodeAccessStays",
            node_access.metric_errors(period=Duration.hours(1)),
            1,
            3,
            "The hourly removal of unused access entries, profiles and roles fails for three hours: read the log of keep_node_access. "
            "Nodes are not affected, but roles that no settings name keep their access.",
        )
        self._alarm_from(
            "ClusterIsNotDescribed",
            describer.metric_errors(period=minutes),
            1,
            3,
            "The cluster could not be described for 15 minutes: read the log of describe_cluster. A rotated CA or a changed "
            "endpoint would not be known.",
        )
        self._alarm_from(
            "InstallerStaysAdministrator",
            elevator.metric_errors(period=minutes),
            1,
            3,
            "An installer's access could not be looked after for 15 minutes: read the log of elevate_installer. Its role may still be an "
            "administrator of the cluster.",
        )
        self._watch_doorbell(doorbell_logs, settings.cluster)
        self._watch_interruptions(interruptions, dead_letters)
        # Written by survey_instances, with the name and the dimension of `joiner.adapters.metrics`
        refused = cloudwatch.Metric(
            namespace="Joiner",
            metric_name="OrphansRefused",
            dimensions_map={"cluster": settings.cluster},
            statistic="Maximum",
            period=minutes,
        )
        self._alarm_from(
            "TooManyOrphans",
            refused,
            1,
            1,
            "So many instances or nodes seem to be orphans that Joiner ends none: read the last sweep. Those that really are, delete: "
            "kubectl delete nodeclaim for a claim, the EC2 console for an instance.",
        )

    def _watch_sweeps(self, sweep: sfn.IStateMachine, every_minutes: int) -> None:
        minutes = Duration.minutes(5)
        failing = "Sweeps fail for 15 minutes, so that lost rings are not made up for: read the last states in the sweep's log."
        self._alarm_from("SweepFails", sweep.metric_failed(period=minutes), 1, 3, failing)
        self._alarm_from(
            "SweepTimedOut",
            sweep.metric_timed_out(period=minutes),
            1,
            1,
            "A sweep ran out of time: read in its log which state took so long. A cluster that is too large for one look lists for long.",
        )
        period = Duration.minutes(max(5, every_minutes))
        self._alarm_below(
            "NoSweepSucceeds",
            sweep.metric_succeeded(period=period, statistic="Sum"),
            f"No sweep has succeeded for {3 * max(5, every_minutes)} minutes: nodes that are empty or too old stay, and lost rings are "
            "not made up for. Is the schedule enabled, and may its role start the machine? Read the sweep's log. After the first "
            "deployment this alarm lasts until the first sweep.",
        )

    def _watch_catalogue(self, refresh: lambda_.IFunction) -> None:
        hour = Duration.hours(1)
        invocations, errors = refresh.metric_invocations(period=hour), refresh.metric_errors(period=hour)
        succeeded = cloudwatch.MathExpression(
            expression="invocations - errors",
            using_metrics={"invocations": invocations, "errors": errors},
            period=hour,
            label="Refreshes",
        )
        self._alarm_below(
            "CatalogueIsOld",
            succeeded,
            "The catalogue was not refreshed for three hours: plans use old prices, and miss new instance types. Read the log of "
            "refresh_catalogue. If it has no new lines, see whether its schedule is enabled and may invoke it.",
        )

    def _watch_doorbell(self, doorbell: DoorbellLogs, cluster: str) -> None:
        """Both filters count into one metric, because each metric costs money. It has data only while rings are
        lost."""
        space, name = f"Joiner/{cluster}", "RingsLost"
        patterns = {
            "LostByTheFunction": (doorbell.function, '{ $.level = "ERROR" }'),
            # 403: the webhook's secret is not the table's. 5xx: the function failed, was throttled, or took too long.
            "LostByTheApi": (doorbell.access, '{ $.status = "403" || $.status = "5*" }'),
        }
        for id, (group, pattern) in patterns.items():
            logs.MetricFilter(
                self,
                id,
                log_group=group,
                metric_namespace=space,
                metric_name=name,
                filter_pattern=logs.FilterPattern.literal(pattern),
                metric_value="1",
            )
        lost = cloudwatch.Metric(namespace=space, metric_name=name, statistic="Sum", period=Duration.minutes(5))
        self._alarm_from(
            "RingsAreLost",
            lost,
            1,
            3,
            "The doorbell loses rings for 15 minutes, so that pods wait for the next sweep. Its access log shows the status. 403: the "
            "webhook's secret is not the table's, deploy with -c rotate=WORD. 5xx: read ring_doorbell's log; if it is throttled, raise "
            "doorbell.concurrency, or the account's quota.",
        )

    def _watch_interruptions(self, interruptions: sqs.IQueue, dead_letters: sqs.IQueue) -> None:
        self._alarm_from(
            "InterruptionUnhandled",
            dead_letters.metric_approximate_number_of_messages_visible(period=Duration.minutes(5)),
            1,
            1,
            "An interruption event could not be delivered or handled: read the dead-letter queue.",
        )
        # A message that exceeds the retention period of the queue does not become a dead letter
        self._alarm_from(
            "InterruptionsWait",
            interruptions.metric_approximate_age_of_oldest_message(period=Duration.minutes(1)),
            60,
            3,
            "Interruption events wait for more than a minute of the two that spot instances have left: read the log of "
            "handle_interruption, and see whether it is throttled.",
        )

    def _alarm_from(self, id: str, metric: cloudwatch.IMetric, threshold: int, periods: int, text: str) -> None:
        """Alarm if the metric reaches the threshold in each of the periods; missing data is not breaching."""
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
        self._notify(alarm)

    def _alarm_below(self, id: str, metric: cloudwatch.IMetric, text: str) -> None:
        """Alarm if the metric is below 1 in three periods; missing data is breaching."""
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=metric,
            threshold=1,
            evaluation_periods=3,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
            alarm_description=text,
        )
        self._notify(alarm)

    def _notify(self, alarm: cloudwatch.Alarm) -> None:
        if self._topic is not None:
            alarm.add_alarm_action(actions.SnsAction(self._topic))
