"""Interruption notices of EC2 and AWS Health: event rules, a queue, and the function that handles the messages.

EventBridge cannot filter by tags of instances, so the rules match notices of every instance of the account. The
function knows Joiner's instances from the table, and drops other notices with a log line, without a call of EC2.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.lambda_function import FunctionDependencies, LambdaFunction

PATTERNS: Final[Mapping[str, events.EventPattern]] = {
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html: two minutes
    "Notices": events.EventPattern(
        source=["aws.ec2"],
        detail_type=[
            "EC2 Spot Instance Interruption Warning",
            "EC2 Instance Rebalance Recommendation",
            "EC2 Capacity Reservation Instance Interruption Warning",
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-monitor.html: ten minutes before
            # the first termination. AWS's pages differ in the name
            "Capacity Block Reservation Expiration Warning",
            "Capacity Block Expiration Warning",
        ],
    ),
    "StateChanges": events.EventPattern(
        source=["aws.ec2"],
        detail_type=["EC2 Instance State-change Notification"],
        detail={"state": ["stopping", "stopped", "shutting-down", "terminated"]},
    ),
    "Health": events.EventPattern(
        source=["aws.health"],
        detail_type=["AWS Health Event"],
        detail={"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]},
    ),
}

RETENTION_PERIOD: Final = Duration.hours(1)
"""A notice of two minutes is useless after an hour; by then the sweep has found the rest."""


MAX_RECEIVES: Final = 6
"""A message that was not handled becomes visible after 30 seconds, not after six timeouts as AWS recommends: a notice
of two minutes is then retried three times before the instance ends."""


BATCH_SIZE: Final = 10
"""Messages in one invocation. There is no batching window: with one, a quiet queue may wait up to 20 seconds for
messages (Lambda developer guide, "Using Lambda with Amazon SQS"), a sixth of a notice of two minutes. Without one,
batches grow only while messages arrive faster than they are handled."""

MAX_CONCURRENCY: Final = 5
"""Concurrent invocations: fifty notices at a time. More would wait for each other, since about one retirement a second
is started."""


class InterruptionEventQueue(Construct):
    """The rules, the queue with its dead-letter queue, and `handle_interruption`."""

    def __init__(
        self, scope: Construct, id: str, *, dependencies: FunctionDependencies, scale_up_arn: str, retire_arn: str
    ) -> None:
        super().__init__(scope, id)
        self.function = LambdaFunction(
            self,
            "HandleInterruption",
            name="handle_interruption",
            dependencies=dependencies,
            environment={"SCALE_UP_ARN": scale_up_arn, "RETIRE_ARN": retire_arn},
        )
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=RETENTION_PERIOD,
            visibility_timeout=Duration.seconds(2 * self.function.configuration.timeout_seconds),
            dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=MAX_RECEIVES, queue=self.dead_letters),
        )
        # Without a dead-letter queue of the target, EventBridge drops what it cannot deliver, and reports nothing
        target = targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letters, max_event_age=RETENTION_PERIOD)
        rules = [events.Rule(self, id_, event_pattern=pattern, targets=[target]) for id_, pattern in PATTERNS.items()]
        self.queue.add_to_resource_policy(_refuse_others([rule.rule_arn for rule in rules], self.queue.queue_arn))
        self.function.function.add_event_source(
            event_sources.SqsEventSource(
                self.queue, batch_size=BATCH_SIZE, max_concurrency=MAX_CONCURRENCY, report_batch_item_failures=True
            )
        )


def _refuse_others(rules: Sequence[str], queue: str) -> iam.PolicyStatement:
    """Refuse messages of all principals but these rules, also of those whose own policies allow it: a message is
    believed, and a spot warning drains a node regardless of budgets. Without the key, a negated operator applies, too.
    """
    return iam.PolicyStatement(
        sid="OnlyRules",
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["sqs:SendMessage"],
        resources=[queue],
        conditions={"ArnNotEquals": {"aws:SourceArn": list(rules)}},
    )
