"""SQS queues and SNS topics with their policies."""

import json
from typing import Any

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)

# The value of an attribute that an update no longer sets.
DEFAULTS: dict[str, Any] = {
    "DelaySeconds": 0,
    "MaximumMessageSize": 262144,
    "MessageRetentionPeriod": 345600,
    "ReceiveMessageWaitTimeSeconds": 0,
    "VisibilityTimeout": 30,
}
ATTRIBUTES = (
    *DEFAULTS,
    "ContentBasedDeduplication",
    "FifoQueue",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
)


def _attributes(declared: DeclaredResource) -> dict[str, str]:
    given = declared.pick(*ATTRIBUTES)
    return {name: json.dumps(value) if isinstance(value, dict | bool) else str(value) for name, value in given.items()}


def _create_queue(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("QueueName", limit=80)
    url = clients.call("sqs", "create_queue", QueueName=name, Attributes=_attributes(declared), tags=declared.tags)[
        "QueueUrl"
    ]
    arn = clients.call("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    return CreatedResource(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


def _update_queue(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    wanted = {name: str(value) for name, value in DEFAULTS.items()} | _attributes(declared)
    if "RedrivePolicy" in existing.properties and "RedrivePolicy" not in declared.properties:
        wanted["RedrivePolicy"] = ""
    clients.call("sqs", "set_queue_attributes", QueueUrl=existing.physical_id, Attributes=wanted)
    if declared.tags:
        clients.call("sqs", "tag_queue", QueueUrl=existing.physical_id, Tags=declared.tags)
    return existing.made


def _put_queue_policy(clients: ServiceClients, existing: ExistingResource) -> None:
    policy = {"Policy": json.dumps(existing.properties["PolicyDocument"])}
    for url in existing.properties["Queues"]:
        clients.call("sqs", "set_queue_attributes", QueueUrl=url, Attributes=policy)


def _delete_queue_policy(clients: ServiceClients, existing: ExistingResource) -> None:
    for url in existing.properties["Queues"]:
        clients.call("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": ""})


def _create_topic(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("TopicName", limit=256)
    display = declared.properties.get("DisplayName")
    attributes = {"DisplayName": display} if display else None
    arn = clients.call("sns", "create_topic", Name=name, Attributes=attributes, Tags=declared.tag_list)["TopicArn"]
    return CreatedResource(arn, {"TopicArn": arn, "TopicName": name})


def _put_topic_policy(clients: ServiceClients, existing: ExistingResource) -> None:
    for arn in existing.properties["Topics"]:
        document = json.dumps(existing.properties["PolicyDocument"])
        clients.call("sns", "set_topic_attributes", TopicArn=arn, AttributeName="Policy", AttributeValue=document)


def _subscribe(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    answer = clients.call(
        "sns", "subscribe", ReturnSubscriptionArn=True, **declared.pick("TopicArn", "Protocol", "Endpoint")
    )
    return CreatedResource(answer["SubscriptionArn"])


TYPES = (
    ResourceType(
        name="AWS::SQS::Queue",
        honoured=" ".join((*ATTRIBUTES, "QueueName", "Tags")),
        attributes="Arn QueueName QueueUrl",
        immutable="FifoQueue QueueName",
        named_by="QueueName",
        create=_create_queue,
        update=_update_queue,
        delete=calling("sqs", "delete_queue", "QueueUrl"),
    ),
    ResourceType(
        name="AWS::SQS::QueuePolicy",
        honoured="PolicyDocument Queues",
        immutable="Queues",
        create=lambda _clients, declared: CreatedResource(declared.name("", limit=128)),
        configure=_put_queue_policy,
        delete=_delete_queue_policy,
    ),
    ResourceType(
        name="AWS::SNS::Topic",
        honoured="DisplayName Tags TopicName",
        ignored={"KmsMasterKeyId": "nothing here is encrypted at rest"},
        attributes="TopicArn TopicName",
        create=_create_topic,
        delete=calling("sns", "delete_topic", "TopicArn"),
    ),
    ResourceType(
        name="AWS::SNS::TopicPolicy",
        honoured="PolicyDocument Topics",
        create=lambda _clients, declared: CreatedResource(declared.name("", limit=128)),
        configure=_put_topic_policy,
        delete=lambda _clients, _existing: None,  # deleted with its topic
    ),
    ResourceType(
        name="AWS::SNS::Subscription",
        honoured="Endpoint Protocol TopicArn",
        create=_subscribe,
        delete=calling("sns", "unsubscribe", "SubscriptionArn"),
    ),
)
