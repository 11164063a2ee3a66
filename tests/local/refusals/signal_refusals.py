"""Queues, rules, schedules, logs and alarms: the services that start functions, and those that report on them."""

import json
from typing import Any, Final

from tests.local.refusals.refused_calls import Refused, not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws

SQS: Final = "sqs"
EVENTS: Final = "events"
SCHEDULER: Final = "scheduler"
LOGS: Final = "logs"
CLOUDWATCH: Final = "cloudwatch"
QUEUE_API: Final = "SQS API reference, CreateQueue"
RULES: Final = "EventBridge user guide, Quotas"
SCHEDULES: Final = "EventBridge Scheduler API reference, CreateSchedule"
FUNCTION: Final = "arn:aws:lambda:us-east-1:123456789012:function:any"

# Queues


@refuses(SQS, "CreateQueue", "a name with a space", code="InvalidParameterValue", source=QUEUE_API)
def a_queue_with_a_space(aws: RunningAws) -> None:
    aws.client(SQS).create_queue(QueueName="two words")


@refuses(SQS, "CreateQueue", "a visibility timeout above 12 hours", code="InvalidAttributeValue", source=QUEUE_API)
def a_long_visibility_timeout(aws: RunningAws) -> None:
    aws.queue(VisibilityTimeout="43201")


@refuses(SQS, "CreateQueue", "messages kept for less than a minute", code="InvalidAttributeValue", source=QUEUE_API)
def a_short_retention(aws: RunningAws) -> None:
    aws.queue(MessageRetentionPeriod="59")


@refuses(SQS, "CreateQueue", "a dead-letter queue that does not exist", code="InvalidParameterValue", source=QUEUE_API)
def a_dead_letter_queue_that_does_not_exist(aws: RunningAws) -> None:
    arn = "arn:aws:sqs:us-east-1:123456789012:nowhere"
    aws.queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3}))


@refuses(SQS, "CreateQueue", "a name in use with other attributes", code="QueueAlreadyExists", source=QUEUE_API)
def a_queue_with_other_attributes(aws: RunningAws) -> None:
    name = aws.fresh("queue")
    for seconds in ("30", "60"):
        aws.client(SQS).create_queue(QueueName=name, Attributes={"VisibilityTimeout": seconds})


not_modelled(
    SQS,
    "CreateQueue",
    "the name of a queue that was deleted within the last minute",
    code="QueueDeletedRecently",
    source=QUEUE_API,
    why="CloudFormation gives our queues a new name each time",
)
nothing_known(SQS, "AWS::SQS::Queue", "AWS::SQS::QueuePolicy", why="the refusals of SQS's API are listed")

# Rules


def rule(aws: RunningAws, pattern: str) -> str:
    name = aws.fresh("rule")
    aws.client(EVENTS).put_rule(Name=name, EventPattern=pattern)
    return name


@refuses(
    EVENTS,
    "PutRule",
    "a pattern that is no JSON",
    code="InvalidEventPatternException",
    source="EventBridge API reference, PutRule",
)
def a_pattern_that_is_no_json(aws: RunningAws) -> None:
    rule(aws, "{source: aws.ec2}")


@refuses(
    EVENTS,
    "PutRule",
    "a pattern whose values are no lists",
    code="InvalidEventPatternException",
    source="EventBridge API reference, PutRule",
)
def a_pattern_without_lists(aws: RunningAws) -> None:
    rule(aws, '{"source": "aws.ec2"}')


@refuses(EVENTS, "PutRule", "a pattern above 2,048 characters", code="InvalidEventPatternException", source=RULES)
def a_long_pattern(aws: RunningAws) -> None:
    rule(aws, json.dumps({"source": [f"aws.service{number}" for number in range(200)]}))


@refuses(EVENTS, "PutTargets", "a sixth target", code="LimitExceededException", source=RULES)
def six_targets(aws: RunningAws) -> None:
    queues = [aws.queue()[1] for _ in range(6)]
    name = rule(aws, '{"source": ["aws.ec2"]}')
    answer = aws.client(EVENTS).put_targets(
        Rule=name, Targets=[{"Id": str(number), "Arn": arn} for number, arn in enumerate(queues)]
    )
    _raise_failures(answer)


@refuses(
    EVENTS, "PutTargets", "a state machine without a role", code="ValidationException", message="RoleArn", source=RULES
)
def a_state_machine_without_a_role(aws: RunningAws) -> None:
    name = rule(aws, '{"source": ["aws.ec2"]}')
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:any"
    _raise_failures(aws.client(EVENTS).put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn}]))


@refuses(
    EVENTS,
    "PutTargets",
    "a rule that does not exist",
    code="ResourceNotFoundException",
    source="EventBridge API reference, PutTargets",
)
def targets_of_no_rule(aws: RunningAws) -> None:
    aws.client(EVENTS).put_targets(Rule="nowhere", Targets=[{"Id": "1", "Arn": FUNCTION}])


def _raise_failures(answer: dict[str, Any]) -> None:
    for failed in answer["FailedEntries"]:
        raise Refused(failed["ErrorCode"], failed["ErrorMessage"])


nothing_known(EVENTS, "AWS::Events::Rule", why="the refusals of EventBridge's API are listed")

# Schedules


def schedule(aws: RunningAws, expression: str = "rate(1 minute)", **asked: Any) -> str:
    name = aws.fresh("schedule")
    target = {"Arn": aws.queue()[1], "RoleArn": aws.role("scheduler.amazonaws.com")}
    aws.client(SCHEDULER).create_schedule(
        **{
            "Name": name,
            "ScheduleExpression": expression,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": target,
            **asked,
        }
    )
    return name


@refuses(SCHEDULER, "CreateSchedule", "a rate of nothing", code="ValidationException", source=SCHEDULES)
def a_rate_of_nothing(aws: RunningAws) -> None:
    schedule(aws, "rate(0 minutes)")


@refuses(SCHEDULER, "CreateSchedule", "a rate in seconds", code="ValidationException", source=SCHEDULES)
def a_rate_in_seconds(aws: RunningAws) -> None:
    schedule(aws, "rate(30 seconds)")


@refuses(SCHEDULER, "CreateSchedule", "a name in use", code="ConflictException", source=SCHEDULES)
def a_schedule_in_use(aws: RunningAws) -> None:
    schedule(aws, Name=schedule(aws))


@refuses(
    SCHEDULER,
    "CreateSchedule",
    "a role that Scheduler cannot assume",
    code="ValidationException",
    message="assume the role",
    source=SCHEDULES,
)
def a_role_of_another_service(aws: RunningAws) -> None:
    schedule(aws, Target={"Arn": aws.queue()[1], "RoleArn": aws.role("lambda.amazonaws.com")})


@refuses(
    SCHEDULER,
    "CreateSchedule",
    "an input of a state machine that is no JSON",
    code="ValidationException",
    source=SCHEDULES,
)
def an_input_that_is_no_json(aws: RunningAws) -> None:
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:any"
    schedule(aws, Target={"Arn": arn, "RoleArn": aws.role("scheduler.amazonaws.com"), "Input": "nothing"})


nothing_known(SCHEDULER, "AWS::Scheduler::Schedule", why="the refusals of Scheduler's API are listed")

# Logs and alarms


@refuses(
    LOGS,
    "PutRetentionPolicy",
    "17 days",
    code="InvalidParameterException",
    source="CloudWatch Logs API reference, PutRetentionPolicy",
)
def a_retention_of_17_days(aws: RunningAws) -> None:
    name = aws.fresh("group")
    aws.client(LOGS).create_log_group(logGroupName=name)
    aws.client(LOGS).put_retention_policy(logGroupName=name, retentionInDays=17)


@refuses(
    LOGS,
    "CreateLogGroup",
    "a name in use",
    code="ResourceAlreadyExistsException",
    source="CloudWatch Logs API reference, CreateLogGroup",
)
def a_log_group_in_use(aws: RunningAws) -> None:
    name = aws.fresh("group")
    for _ in range(2):
        aws.client(LOGS).create_log_group(logGroupName=name)


@refuses(
    LOGS,
    "CreateLogGroup",
    "a name with a space",
    code="InvalidParameterException",
    source="CloudWatch Logs API reference, CreateLogGroup",
)
def a_log_group_with_a_space(aws: RunningAws) -> None:
    aws.client(LOGS).create_log_group(logGroupName="two words")


not_modelled(
    LOGS,
    "PutResourcePolicy",
    "a resource policy for log deliveries above 5,120 characters",
    code="LimitExceededException",
    source="Step Functions developer guide, Using CloudWatch Logs: log group names that begin with /aws/vendedlogs/ "
    "need no entry",
    why="our log groups of state machines and stages have such names, which tests/infra/test_calls_have_refusals.py "
    "checks",
)
not_modelled(
    LOGS,
    "PutLogEvents",
    "a line above 256 KB",
    code="the line is cut",
    source="CloudWatch Logs user guide, Quotas",
    why="log lines are kept whole here",
)


def metric_filter(aws: RunningAws, group: str, **counted: Any) -> None:
    counts = {"metricNamespace": "Joiner", "metricName": "RingsLost", "metricValue": "1", **counted}
    aws.client(LOGS).put_metric_filter(
        logGroupName=group, filterName="f", filterPattern="ERROR", metricTransformations=[counts]
    )


FILTERS: Final = "CloudWatch Logs API reference, PutMetricFilter and MetricTransformation"


@refuses(LOGS, "PutMetricFilter", "a log group that does not exist", code="ResourceNotFoundException", source=FILTERS)
def a_filter_of_no_log_group(aws: RunningAws) -> None:
    metric_filter(aws, aws.fresh("group"))


@refuses(LOGS, "PutMetricFilter", "a default value beside dimensions", code="InvalidParameterException", source=FILTERS)
def a_filter_with_a_default_and_dimensions(aws: RunningAws) -> None:
    group = aws.fresh("group")
    aws.client(LOGS).create_log_group(logGroupName=group)
    metric_filter(aws, group, defaultValue=0.0, dimensions={"level": "$.level"})


nothing_known(
    LOGS, "AWS::Logs::LogGroup", "AWS::Logs::MetricFilter", why="the refusals of CloudWatch Logs' API are listed"
)


def alarm(aws: RunningAws, **asked: Any) -> None:
    measured = {"Namespace": "Joiner", "MetricName": "Sweeps", "Statistic": "Sum", "Period": 60}
    compared = {"EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": "LessThanThreshold"}
    aws.client(CLOUDWATCH).put_metric_alarm(**{"AlarmName": aws.fresh("alarm"), **measured, **compared, **asked})


ALARMS: Final = "CloudWatch API reference, PutMetricAlarm"


@refuses(
    CLOUDWATCH,
    "PutMetricAlarm",
    "periods of more than a day together",
    code="ValidationError",
    message="more than a day",
    source=ALARMS,
)
def an_alarm_over_days(aws: RunningAws) -> None:
    alarm(aws, Period=300, EvaluationPeriods=300)


@refuses(
    CLOUDWATCH,
    "PutMetricAlarm",
    "a period of 45 seconds",
    code="ValidationError",
    message="multiple of 60",
    source=ALARMS,
)
def a_period_of_45_seconds(aws: RunningAws) -> None:
    alarm(aws, Period=45)


@refuses(
    CLOUDWATCH,
    "PutMetricAlarm",
    "more data points than periods",
    code="ValidationError",
    message="DatapointsToAlarm",
    source=ALARMS,
)
def more_points_than_periods(aws: RunningAws) -> None:
    alarm(aws, EvaluationPeriods=2, DatapointsToAlarm=3)


nothing_known(CLOUDWATCH, "AWS::CloudWatch::Alarm", why="the refusals of CloudWatch's API are listed")
not_modelled(
    CLOUDWATCH,
    "embedded metrics",
    "more than 100 metrics or 30 dimensions in one line",
    code="the line is no metric",
    source="CloudWatch user guide, Embedded metric format specification",
    why="functions write one to three metrics a line, with one dimension",
)
