"""SQS with many concurrent consumers, and functions with queues as event sources."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

# The function sends each batch as one message to another queue; it reports the ids of bodies that contain "bad" as
# failed.
RECORDING = """
import boto3, json, os
sqs = boto3.client("sqs")
def handler(event, context):
    bodies = [record["body"] for record in event["Records"]]
    sqs.send_message(QueueUrl=os.environ["SEEN"], MessageBody=json.dumps(bodies))
    if "poison" in bodies:
        raise ValueError(bodies)
    return {"batchItemFailures": [{"itemIdentifier": r["messageId"]} for r in event["Records"] if r["body"] == "bad"]}
"""


def receive(aws: RunningAws, url: str, wait: int = 20) -> list[Any]:
    messages = (
        aws.client("sqs")
        .receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=wait)
        .get("Messages", [])
    )
    for message in messages:
        aws.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return [json.loads(message["Body"]) for message in messages]


VISIBLE_AGAIN = 6  # seconds: at least the function's timeout, with time for a cold start on a busy machine


def fed_function(aws: RunningAws, queue_arn: str, **mapping: Any) -> str:
    """Create a recording function behind the queue; return the URL of the queue in which it records."""
    seen, _ = aws.queue()
    name = aws.function(RECORDING, Environment={"Variables": {"SEEN": seen}}, Timeout=VISIBLE_AGAIN)
    aws.client("lambda").create_event_source_mapping(EventSourceArn=queue_arn, FunctionName=name, **mapping)
    return seen


def test_no_message_is_lost_or_given_twice_to_many_consumers(local_aws: RunningAws) -> None:
    url, _ = local_aws.queue()
    sqs = local_aws.client("sqs")

    def send(number: int) -> None:
        sqs.send_message(QueueUrl=url, MessageBody=str(number))

    def consume(_: int) -> list[int]:
        mine = []
        while len(found := receive(local_aws, url, wait=1)) > 0:
            mine += found
        return mine

    with ThreadPoolExecutor(8) as pool:
        consumers = [pool.submit(consume, number) for number in range(4)]
        list(pool.map(send, range(60)))
    got = [number for consumer in consumers for number in consumer.result()] + consume(0)
    assert sorted(got) == list(range(60))


def test_a_waiting_receiver_gets_a_message_at_once(local_aws: RunningAws) -> None:
    url, _ = local_aws.queue()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(receive, local_aws, url)
        local_aws.client("sqs").send_message(QueueUrl=url, MessageBody='"now"')
        assert waiting.result(timeout=10) == ["now"]


def test_a_message_received_too_often_is_moved_to_the_dead_letter_queue(local_aws: RunningAws) -> None:
    dead_url, dead_arn = local_aws.queue()
    url, _ = local_aws.queue(
        VisibilityTimeout="0", RedrivePolicy=json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2})
    )
    sqs = local_aws.client("sqs")
    sqs.send_message(QueueUrl=url, MessageBody='"never deleted"')

    received = [len(sqs.receive_message(QueueUrl=url).get("Messages", [])) for _ in range(3)]
    assert received == [1, 1, 0]
    assert receive(local_aws, dead_url) == ["never deleted"]


def test_a_batching_window_gathers_messages_for_one_invocation(local_aws: RunningAws) -> None:
    url, arn = local_aws.queue()
    for number in range(3):
        local_aws.client("sqs").send_message(QueueUrl=url, MessageBody=str(number))
    seen = fed_function(local_aws, arn, BatchSize=10, MaximumBatchingWindowInSeconds=1)

    assert sorted(receive(local_aws, seen)[0]) == ["0", "1", "2"]

    def left() -> int:
        counts = local_aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(counts["ApproximateNumberOfMessages"]) + int(counts["ApproximateNumberOfMessagesNotVisible"])

    assert eventually(lambda: left() == 0)  # they are deleted after the function has succeeded


def test_without_a_window_a_message_is_not_kept_waiting(local_aws: RunningAws) -> None:
    url, arn = local_aws.queue()
    seen = fed_function(local_aws, arn)
    local_aws.client("sqs").send_message(QueueUrl=url, MessageBody="first")
    assert receive(local_aws, seen, wait=15) == [["first"]]


def test_only_the_messages_reported_as_failed_come_back(local_aws: RunningAws) -> None:
    url, arn = local_aws.queue(VisibilityTimeout=str(VISIBLE_AGAIN))
    for body in ("good", "bad"):
        local_aws.client("sqs").send_message(QueueUrl=url, MessageBody=body)
    seen = fed_function(
        local_aws, arn, BatchSize=2, MaximumBatchingWindowInSeconds=1, FunctionResponseTypes=["ReportBatchItemFailures"]
    )
    assert sorted(receive(local_aws, seen)[0]) == ["bad", "good"]
    assert receive(local_aws, seen)[0] == ["bad"]


def test_a_batch_that_always_fails_ends_in_the_dead_letter_queue(local_aws: RunningAws) -> None:
    dead_url, dead_arn = local_aws.queue()
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2})
    url, arn = local_aws.queue(VisibilityTimeout=str(VISIBLE_AGAIN), RedrivePolicy=redrive)
    local_aws.client("sqs").send_message(QueueUrl=url, MessageBody="poison")
    seen = fed_function(local_aws, arn)

    eventually(lambda: local_aws.client("sqs").receive_message(QueueUrl=dead_url, WaitTimeSeconds=1).get("Messages"))
    assert receive(local_aws, seen) == [["poison"], ["poison"]]


def test_a_deleted_or_disabled_mapping_feeds_nothing(local_aws: RunningAws) -> None:
    url, arn = local_aws.queue()
    name = local_aws.function(RECORDING, Environment={"Variables": {"SEEN": url}}, Timeout=1)
    api = local_aws.client("lambda")
    mapping = api.create_event_source_mapping(EventSourceArn=arn, FunctionName=name, Enabled=False)
    local_aws.client("sqs").send_message(QueueUrl=url, MessageBody='"stays"')
    assert receive(local_aws, url, wait=1) == ["stays"]
    assert api.delete_event_source_mapping(UUID=mapping["UUID"])["UUID"] == mapping["UUID"]


def test_a_queue_must_hide_messages_for_longer_than_the_function_runs(local_aws: RunningAws) -> None:
    _, arn = local_aws.queue(VisibilityTimeout="5")
    name = local_aws.function(RECORDING, Timeout=30)
    with pytest.raises(ClientError, match="visibility timeout: 5 seconds is less than Function timeout: 30"):
        local_aws.client("lambda").create_event_source_mapping(EventSourceArn=arn, FunctionName=name)
