"""CloudWatch alarms.

There are few: a scale-up or a retirement that failed or timed out, sweeps that fail or are missing, an old catalogue, a
doorbell that loses rings, an interruption that was not handled, instances or records that Joiner refuses to touch, and
claims that the API server refuses to write.
Everything else shows in the histories of the state machines.

A schedule, a rule or an asynchronous invocation that fails reports nothing. So an alarm watches the result of what it
starts: no sweep that succeeds, no catalogue that is written. For these alarms, missing data is breaching.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Final

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

FIVE_MINUTES: Final = Duration.minutes(5)
"""Period of most metrics."""


@dataclass(frozen=True, slots=True)
class DoorbellLogs:
    """Log groups that show failures of the doorbell: of its function, and of its API."""

    function: logs.ILogGroup
    access: logs.ILogGroup


@dataclass(frozen=True, slots=True)
class AlarmSources:
    """The resources whose metrics the alarms read."""

    scale_up: sfn.IStateMachine
    retirement: sfn.IStateMachine
    retirement_of_empty: sfn.IStateMachine
    _: KW_ONLY
    disruption: sfn.IStateMachine
    sweep: sfn.IStateMachine
    survey: lambda_.IFunction
    """Each sweep invokes it once, and nothing else does: executions of the sweep that only warm up do not."""
    dead_letters: sqs.IQueue
    interruptions: sqs.IQueue
    catalogue: lambda_.IFunction
    node_access: lambda_.IFunction
    launch_templates: lambda_.IFunction
    describer: lambda_.IFunction
    elevator: lambda_.IFunction | None
    """None: the deployment has no such function."""
    doorbell_logs: DoorbellLogs


class Alarms(Construct):
    """The alarms; they notify the topic of the settings, if there is one."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings, sources: AlarmSources) -> None:
        super().__init__(scope, id)
        self._topic = sns.Topic.from_topic_arn(self, "Topic", settings.alarm_topic) if settings.alarm_topic else None
        self._watch_executions(sources)
        self._watch_sweeps(sources, settings.sweep.every_minutes)
        self._watch_catalogue(sources.catalogue)
        if settings.prices.file:
            self._watch_price_file(settings.cluster, settings.prices.maximum_age_days)
        if settings.commitments.from_account:
            self._watch_commitments(settings.cluster)
        self._watch_scheduled_functions(sources)
        self._watch_doorbell(sources.doorbell_logs, settings.cluster)
        self._watch_interruptions(sources.interruptions, sources.dead_letters)
        self._watch_refusals(settings.cluster)

    def _watch_executions(self, sources: AlarmSources) -> None:
        watched = (
            ("ScaleUp", "A scale-up", sources.scale_up),
            ("Retirement", "A retirement", sources.retirement),
            ("RetirementOfEmpty", "A retirement of empty nodes", sources.retirement_of_empty),
            ("Disruption", "A disruption", sources.disruption),
        )
        for name, subject, machine in watched:
            failed, timed_out = (
                machine.metric_failed(period=FIVE_MINUTES),
                machine.metric_timed_out(period=FIVE_MINUTES),
            )
            self._alarm_from(f"{name}Failed", failed, 1, 1, f"{subject} failed: read the last state of its execution.")
            # For CloudWatch an execution that timed out has not failed. A user knows of one that was aborted
            self._alarm_from(
                f"{name}TimedOut", timed_out, 1, 1, f"{subject} timed out: read what its execution waited for."
            )

    def _watch_sweeps(self, sources: AlarmSources, every_minutes: int) -> None:
        minutes = max(5, every_minutes)  # a period without a sweep would end the alarm
        period = Duration.minutes(minutes)
        self._alarm_from(
            "SweepFails",
            sources.sweep.metric_failed(period=period),
            1,
            3,
            f"Sweeps have failed for {3 * minutes} minutes, so pods and nodes whose rings were lost are not found: "
            "read the last states in the log of the sweep.",
        )
        self._alarm_from(
            "SweepTimedOut",
            sources.sweep.metric_timed_out(period=FIVE_MINUTES),
            1,
            1,
            "A sweep timed out: read in its log which state took long. Lists of a very large cluster take long.",
        )
        self._alarm_below(
            "NoSweepRuns",
            sources.survey.metric_invocations(period=period),
            f"No sweep has looked at the cluster for {3 * minutes} minutes: empty and expired nodes stay, and pods "
            "and nodes whose rings were lost are not found. Check that the schedule is enabled and that its role may "
            "start the machine, and read the log of the sweep. After the first deployment the alarm lasts until the "
            "first sweep.",
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
            "The catalogue was not refreshed for three hours: plans use old prices, and lack new instance types. Read "
            "the log of refresh_catalogue. If it has no new lines, check that its schedule is enabled and may invoke "
            "it.",
        )

    def _watch_price_file(self, cluster: str, days: int) -> None:
        self._alarm_from(
            "PricesAreOld",
            _function_metric("PriceTableAgeDays", cluster, Duration.hours(1)),
            days,
            3,
            f"The price file of the settings was published {days} days ago or earlier: plans use old prices, and no "
            "on-demand nodes of instance types that came later. Write a newer file, with its day in `published`, and "
            "deploy.",
        )

    def _watch_commitments(self, cluster: str) -> None:
        self._alarm_from(
            "CommitmentsAreOld",
            _function_metric("CommitmentsNotRead", cluster, Duration.hours(1)),
            1,
            3,
            "The account's reserved instances, savings plans or instances could not be read for three hours: plans use "
            "what was read last, or the commitments of the settings only. The log of refresh_catalogue has the reason. "
            "If a policy of the organization denies the calls, set commitments.fromAccount to false.",
        )

    def _watch_scheduled_functions(self, sources: AlarmSources) -> None:
        self._alarm_from(
            "NodeAccessStays",
            sources.node_access.metric_errors(period=Duration.hours(1)),
            1,
            3,
            "The hourly removal of unused access entries, profiles and roles has failed for three hours: read the log "
            "of keep_node_access. Nodes are not affected, but roles that the settings no longer name keep their "
            "access.",
        )
        self._alarm_from(
            "LaunchTemplatesStay",
            sources.launch_templates.metric_errors(period=Duration.hours(1)),
            1,
            3,
            "Unused launch templates could not be deleted for three hours: read the log of collect_launch_templates. "
            "Nodes are not affected until the region has 5,000 launch templates.",
        )
        self._alarm_from(
            "ClusterIsNotDescribed",
            sources.describer.metric_errors(period=FIVE_MINUTES),
            1,
            3,
            "The cluster could not be described for 15 minutes: read the log of describe_cluster. Functions would not "
            "know a rotated CA or a changed endpoint.",
        )
        if sources.elevator is not None:
            self._watch_elevator(sources.elevator)

    def _watch_elevator(self, elevator: lambda_.IFunction) -> None:
        self._alarm_from(
            "InstallerStaysAdministrator",
            elevator.metric_errors(period=FIVE_MINUTES),
            1,
            3,
            "The installer's access could not be checked for 15 minutes: read the log of elevate_installer. Its role "
            "may still be an administrator of the cluster.",
        )

    def _watch_doorbell(self, doorbell: DoorbellLogs, cluster: str) -> None:
        """Create the filters and the alarm for lost rings. Both filters count into one metric, because each costs
        money. It has data only when rings are lost."""
        namespace, name = f"Joiner/{cluster}", "RingsLost"
        patterns = {
            "LostByTheFunction": (doorbell.function, '{ $.level = "ERROR" }'),
            # 403: the webhook's secret is not the table's. 5xx: the function failed, was throttled, or timed out
            "LostByTheApi": (doorbell.access, '{ $.status = "403" || $.status = "5*" }'),
        }
        for id, (group, pattern) in patterns.items():
            logs.MetricFilter(
                self,
                id,
                log_group=group,
                metric_namespace=namespace,
                metric_name=name,
                filter_pattern=logs.FilterPattern.literal(pattern),
                metric_value="1",
            )
        self._alarm_from(
            "RingsAreLost",
            cloudwatch.Metric(namespace=namespace, metric_name=name, statistic="Sum", period=FIVE_MINUTES),
            1,
            3,
            "The doorbell has lost rings for 15 minutes, so pods wait for the next sweep. Its access log shows the "
            "status. 403: the webhook's secret is not the table's, deploy with -c rotate=WORD. 5xx: read the log of "
            "ring_doorbell; if it is throttled, raise doorbell.concurrency, or the account's quota.",
        )

    def _watch_interruptions(self, interruptions: sqs.IQueue, dead_letters: sqs.IQueue) -> None:
        self._alarm_from(
            "InterruptionUnhandled",
            dead_letters.metric_approximate_number_of_messages_visible(period=FIVE_MINUTES),
            1,
            1,
            "An interruption notice could not be delivered or handled: read the dead-letter queue. Do not send its "
            "messages again: the policy of the queue refuses them, and sweeps find what became of the instances.",
        )
        # A message that exceeds the retention period of the queue does not become a dead letter
        self._alarm_from(
            "InterruptionsWait",
            interruptions.metric_approximate_age_of_oldest_message(period=Duration.minutes(1)),
            60,
            3,
            "Interruption notices wait for more than one of the two minutes that spot instances have left: read the "
            "log of handle_interruption, and check whether it is throttled.",
        )

    def _watch_refusals(self, cluster: str) -> None:
        """Create alarms for metrics that functions publish, with the names and the dimension of
        `joiner.adapters.metrics`."""
        self._alarm_from(
            "TooManyOrphans",
            _function_metric("OrphansRefused", cluster),
            1,
            1,
            "So many instances or nodes seem to be orphans that Joiner terminates none: read the last sweep. Delete "
            "the real orphans: a claim with kubectl delete nodeclaim, an instance in the EC2 console.",
        )
        self._alarm_from(
            "GarbageIsRefused",
            _function_metric("GarbageRefused", cluster),
            1,
            3,
            "EC2 has refused to terminate instances without claim and node for 15 minutes, so they cost money: read "
            "the log of collect_garbage. Remove what protects the instance, such as its termination protection, or "
            "terminate it in the EC2 console.",
        )
        self._alarm_from(
            "ClaimsAreNotWritten",
            _function_metric("ClaimsNotWritten", cluster),
            1,
            3,
            "The API server has refused to write or to delete claims for 15 minutes, so instances may run without a "
            "node: the events LaunchNotRecorded and ClaimNotDeleted give the reason. Correct the admission policy or "
            "the webhook, or delete the claim.",
        )
        self._alarm_from(
            "RecordsAreUnreadable",
            _function_metric("UnreadableRecords", cluster),
            1,
            3,
            "Items of the table could not be read for 15 minutes: read the logs of survey_cluster and "
            "survey_instances. Joiner skips such an item until it is repaired or deleted.",
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


def _function_metric(name: str, cluster: str, period: Duration = FIVE_MINUTES) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="Joiner",
        metric_name=name,
        dimensions_map={"cluster": cluster},
        statistic="Maximum",
        period=period,
    )
