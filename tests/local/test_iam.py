"""Roles of functions and state machines are limited to their policies: a call that a role does not allow does not reach
the service.
"""

import json
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from joiner_local.aws.account_setup.cluster_network import seed_network
from joiner_local.aws.local_aws import ACCOUNT
from joiner_local.aws_sessions import aws_session
from tests.local.launch_fixtures import LaunchPad, errors, launched
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

Act = Callable[[str], Any]


def allow(action: Any, resource: Any = "*", **condition: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": action,
        "Resource": resource,
        **({"Condition": condition} if condition else {}),
    }


@pytest.fixture
def acting(local_aws: RunningAws) -> Callable[..., Act]:
    """Return clients of a new function role with these statements."""

    def act(*statements: dict[str, Any]) -> Act:
        role = local_aws.role("lambda.amazonaws.com", list(statements))
        keys = local_aws.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
        session = aws_session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
        config = Config(retries={"total_max_attempts": 1}, inject_host_prefix=False, s3={"addressing_style": "path"})
        return partial(session.client, endpoint_url=local_aws.endpoint, config=config)

    return act


@pytest.fixture
def table(local_aws: RunningAws) -> str:
    name = local_aws.fresh("table")
    names = ("kind", "id")
    local_aws.client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in names],
        KeySchema=[
            {"AttributeName": each, "KeyType": kind} for each, kind in zip(names, ("HASH", "RANGE"), strict=True)
        ],
    )
    return name


def key(kind: str) -> dict[str, Any]:
    return {"kind": {"S": kind}, "id": {"S": "1"}}


def refused(call: Callable[..., Any], **asked: Any) -> tuple[str, str, int]:
    """Return the error's code, message and HTTP status."""
    with pytest.raises(ClientError) as caught:
        call(**asked)
    response: Any = caught.value.response
    return response["Error"]["Code"], response["Error"]["Message"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_each_protocol_names_the_principal_and_the_denied_action(acting: Callable[..., Act], table: str) -> None:
    client = acting()
    calls: dict[str, tuple[str, int, Callable[..., Any], dict[str, Any]]] = {
        "dynamodb:GetItem": (
            "AccessDeniedException",
            400,
            client("dynamodb").get_item,
            {"TableName": table, "Key": key("A")},
        ),
        "ssm:GetParameter": ("AccessDeniedException", 400, client("ssm").get_parameter, {"Name": "/x"}),
        "eks:DescribeCluster": ("AccessDeniedException", 403, client("eks").describe_cluster, {"name": "x"}),
        "lambda:InvokeFunction": ("AccessDeniedException", 403, client("lambda").invoke, {"FunctionName": "f"}),
        "iam:GetRole": ("AccessDenied", 403, client("iam").get_role, {"RoleName": "x"}),
        "s3:PutObject": (
            "AccessDenied",
            403,
            client("s3").put_object,
            {"Bucket": "b", "Key": "k", "Body": b"x" * 100_000},
        ),
        "ec2:DescribeInstances": ("UnauthorizedOperation", 403, client("ec2").describe_instances, {}),
        "pricing:GetProducts": (
            "AccessDeniedException",
            400,
            client("pricing").get_products,
            {"ServiceCode": "AmazonEC2"},
        ),
    }
    for action, (code, status, call, asked) in calls.items():
        found = refused(call, **asked)
        assert (found[0], found[2]) == (code, status), action
        assert f"User: arn:aws:sts::{ACCOUNT}:assumed-role/" in found[1]
        assert f"/session is not authorized to perform: {action} on resource: " in found[1]
        assert f"because no identity-based policy allows the {action} action" in found[1]
    assert client("sts").get_caller_identity()["Account"] == ACCOUNT  # which requires no permission


def test_a_role_reaches_only_the_items_of_its_partitions(acting: Callable[..., Act], table: str) -> None:
    leading = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["A"]}}
    actions = ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem", "dynamodb:BatchGetItem"]
    client = acting(allow(actions, f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{table}", **leading))("dynamodb")

    def query(kind: str) -> dict[str, Any]:
        values = {
            "TableName": table,
            "ExpressionAttributeNames": {"#k": "kind"},
            "ExpressionAttributeValues": {":k": {"S": kind}},
        }
        return {**values, "KeyConditionExpression": "#k = :k"}

    update = {
        "Update": {
            "TableName": table,
            "Key": key("A"),
            "UpdateExpression": "SET x = :x",
            "ExpressionAttributeValues": {":x": {"N": "1"}},
        }
    }
    put = {"Put": {"TableName": table, "Item": key("A")}}
    client.get_item(TableName=table, Key=key("A"))
    client.query(**query("A"))
    client.batch_get_item(RequestItems={table: {"Keys": [key("A")]}})
    client.transact_write_items(TransactItems=[update])
    for call, asked in (
        (client.get_item, {"TableName": table, "Key": key("B")}),
        (client.query, query("B")),
        (client.batch_get_item, {"RequestItems": {table: {"Keys": [key("A"), key("B")]}}}),
        (client.transact_write_items, {"TransactItems": [update, put]}),
        (client.delete_item, {"TableName": table, "Key": key("A")}),
    ):
        assert refused(call, **asked)[0] == "AccessDeniedException"


def test_a_missing_object_is_a_refusal_without_the_permission_to_list(
    local_aws: RunningAws, acting: Callable[..., Act]
) -> None:
    bucket = local_aws.fresh("bucket")
    local_aws.client("s3").create_bucket(Bucket=bucket)
    local_aws.client("s3").put_object(Bucket=bucket, Key="a/1", Body=b"1")
    reading = allow("s3:GetObject", f"arn:aws:s3:::{bucket}/a/*")
    listing = allow("s3:ListBucket", f"arn:aws:s3:::{bucket}", StringLikeIfExists={"s3:prefix": ["a/*"]})
    blind, seeing = acting(reading)("s3"), acting(reading, listing)("s3")

    assert blind.get_object(Bucket=bucket, Key="a/1")["Body"].read() == b"1"
    assert refused(blind.get_object, Bucket=bucket, Key="a/2")[0] == "AccessDenied"
    assert refused(seeing.get_object, Bucket=bucket, Key="a/2")[0] == "NoSuchKey"
    assert refused(seeing.get_object, Bucket=bucket, Key="b/1")[0] == "AccessDenied"
    assert seeing.list_objects_v2(Bucket=bucket, Prefix="a/")["KeyCount"] == 1
    assert refused(seeing.list_objects_v2, Bucket=bucket, Prefix="b/")[0] == "AccessDenied"


def test_a_pool_whose_launch_is_not_allowed_is_an_error_of_the_fleet(
    local_aws: RunningAws, acting: Callable[..., Act]
) -> None:
    network = seed_network(local_aws.endpoint, "iam")
    everything = allow(["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags"])
    running = allow("ec2:RunInstances")
    passing = allow("iam:PassRole", network.node_role_arn, StringEquals={"iam:PassedToService": "ec2.amazonaws.com"})
    here = {
        "Effect": "Deny",
        "Action": "ec2:RunInstances",
        "Resource": f"arn:aws:ec2:*:*:subnet/{network.subnets['us-east-1a']}",
    }

    def fleet(*statements: dict[str, Any]) -> Any:
        ssm, ec2 = local_aws.client("ssm"), acting(everything, *statements)("ec2")
        pad = LaunchPad.build(ec2, ssm, network, local_aws.fresh("iam"))
        return pad.fleet([pad.override()])

    assert len(launched(fleet(running, passing))) == 1
    for granted, action in (
        ([running], "iam:PassRole"),
        ([passing], "ec2:RunInstances"),
        ([running, passing, here], "ec2:RunInstances"),
    ):
        answer = fleet(*granted)
        assert errors(answer) == [("UnauthorizedOperation", "m5.large", "us-east-1a")]
        assert f"is not authorized to perform: {action} on resource: " in answer["Errors"][0]["ErrorMessage"]


def test_a_dry_run_is_not_asked_for_the_tags_of_a_template_that_does_not_exist(acting: Callable[..., Act]) -> None:
    tagged = {"StringEquals": {"aws:RequestTag/owner/x": "us"}}
    ec2 = acting(allow(["ec2:CreateFleet", "ec2:CreateTags"], **tagged))("ec2")
    tags = [{"Key": "owner/x", "Value": "us"}]
    asked: dict[str, Any] = {
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": {"LaunchTemplateName": "none", "Version": "1"}}],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        "Type": "instant",
        "DryRun": True,
    }

    def specified(*kinds: str) -> list[dict[str, Any]]:
        return [{"ResourceType": kind, "Tags": tags} for kind in kinds]

    found = refused(ec2.create_fleet, **asked, TagSpecifications=specified("fleet", "instance", "volume"))
    assert found[0] == "InvalidLaunchTemplateName.NotFoundException"
    assert (
        refused(ec2.create_fleet, **asked, TagSpecifications=specified("instance", "volume"))[0]
        == "UnauthorizedOperation"
    )


def test_the_encoded_message_of_a_denial_can_be_decoded(local_aws: RunningAws, acting: Callable[..., Act]) -> None:
    message = refused(acting()("ec2").create_tags, Resources=["i-1"], Tags=[{"Key": "a", "Value": "b"}])[1]
    code = message.partition("Encoded authorization failure message: ")[2]

    answer = local_aws.client("sts").decode_authorization_message(EncodedMessage=code)

    found = json.loads(answer["DecodedMessage"])["context"]
    assert found["action"] == "ec2:CreateTags"
    assert {"key": "aws:requesttag/a", "values": {"items": [{"value": "b"}]}} in found["conditions"]["items"]
    sts = local_aws.client("sts")
    assert refused(sts.decode_authorization_message, EncodedMessage="AAAA")[0] == "InvalidAuthorizationMessageException"


def test_a_malformed_policy_cannot_be_stored(local_aws: RunningAws, acting: Callable[..., Act]) -> None:
    iam = local_aws.client("iam")
    client = acting(allow("*"))
    role = client("sts").get_caller_identity()["Arn"].split("/")[1]
    refused_document = json.dumps({"Version": "2012-10-17", "Statement": [allow("ssm:*", StringEqual={"a": "b"})]})

    assert (
        refused(iam.put_role_policy, RoleName=role, PolicyName="p", PolicyDocument=refused_document)[0]
        == "MalformedPolicyDocument"
    )


def test_only_instances_with_the_tag_are_ended(local_aws: RunningAws, acting: Callable[..., Act]) -> None:
    network = seed_network(local_aws.endpoint, "iam")
    pad = LaunchPad.build(local_aws.client("ec2"), local_aws.client("ssm"), network, local_aws.fresh("iam"))
    ours, other = pad.launch(count=2)
    local_aws.client("ec2").create_tags(Resources=[ours], Tags=[{"Key": "owner/x", "Value": "us"}])
    ec2 = acting(allow("ec2:TerminateInstances", StringEquals={"aws:ResourceTag/owner/x": "us"}))("ec2")

    assert refused(ec2.terminate_instances, InstanceIds=[ours, other])[0] == "UnauthorizedOperation"
    assert pad.state(ours) != "terminated"
    ec2.terminate_instances(InstanceIds=[ours])


def test_a_boundary_limits_a_role(local_aws: RunningAws, acting: Callable[..., Act]) -> None:
    iam = local_aws.client("iam")
    boundary = json.dumps({"Version": "2012-10-17", "Statement": [allow("ssm:*")]})
    arn = iam.create_policy(PolicyName=local_aws.fresh("boundary"), PolicyDocument=boundary)["Policy"]["Arn"]
    client = acting(allow("*"))
    role = client("sts").get_caller_identity()["Arn"].split("/")[1]
    client("ec2").describe_instances()

    iam.put_role_permissions_boundary(RoleName=role, PermissionsBoundary=arn)

    assert (
        "because no permissions boundary allows the ec2:DescribeInstances action"
        in refused(client("ec2").describe_instances)[1]
    )
    assert refused(client("ssm").get_parameter, Name="/none")[0] == "ParameterNotFound"


def test_a_state_machine_invokes_only_what_its_role_may(local_aws: RunningAws) -> None:
    function = local_aws.function("def handler(event, context):\n    return 1\n")
    arguments = {"FunctionName": function, "Payload": {}}
    state = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Arguments": arguments, "End": True}
    definition = json.dumps({"QueryLanguage": "JSONata", "StartAt": "Call", "States": {"Call": state}})
    states, found = local_aws.client("stepfunctions"), {}
    for name, granted in (("may", [allow("lambda:InvokeFunction")]), ("may not", [])):
        role = local_aws.role("states.amazonaws.com", granted)
        machine = states.create_state_machine(name=local_aws.fresh("machine"), definition=definition, roleArn=role)[
            "stateMachineArn"
        ]
        execution = states.start_execution(stateMachineArn=machine)["executionArn"]

        def ended(execution: str = execution) -> Any:
            described = states.describe_execution(executionArn=execution)
            return described if described["status"] != "RUNNING" else None

        found[name] = eventually(ended)
    assert found["may"]["status"] == "SUCCEEDED"
    assert found["may not"]["error"] == "Lambda.AWSLambdaException"
    assert "not authorized to perform: lambda:InvokeFunction" in found["may not"]["cause"]


def test_lambda_writes_the_log_of_a_function_only_with_its_roles_permission(local_aws: RunningAws) -> None:
    code = "def handler(event, context):\n    print('a line')\n"
    writing = allow(["logs:CreateLogStream", "logs:PutLogEvents"], f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:*:*")
    silent = local_aws.function(code, Role=local_aws.role("lambda.amazonaws.com", []))
    logged = local_aws.function(code, Role=local_aws.role("lambda.amazonaws.com", [writing]))
    for function in (silent, logged):
        assert local_aws.client("lambda").invoke(FunctionName=function)["StatusCode"] == 200

    def streams(function: str) -> list[Any]:
        groups = local_aws.client("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{function}")["logGroups"]
        return [
            each
            for group in groups
            for each in local_aws.client("logs").describe_log_streams(logGroupName=group["logGroupName"])["logStreams"]
        ]

    assert eventually(lambda: streams(logged))
    assert streams(silent) == []


def test_lambda_polls_a_queue_only_with_the_functions_permission(local_aws: RunningAws) -> None:
    url, queue = local_aws.queue()
    code = "import boto3\n\ndef handler(event, context):\n    pass\n"
    polling = allow(["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], queue)
    blind = local_aws.function(code, Role=local_aws.role("lambda.amazonaws.com", []))
    seeing = local_aws.function(code, Role=local_aws.role("lambda.amazonaws.com", [polling]))
    create = local_aws.client("lambda").create_event_source_mapping

    answer = refused(create, FunctionName=blind, EventSourceArn=queue)
    assert answer[0] == "InvalidParameterValueException"
    assert "does not have permissions to call ReceiveMessage on SQS" in answer[1]
    create(FunctionName=seeing, EventSourceArn=queue)
    local_aws.client("sqs").send_message(QueueUrl=url, MessageBody="1")

    def left() -> list[str]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = local_aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return [each for each in found.values() if each != "0"]

    assert eventually(lambda: not left())


def test_a_schedule_starts_its_target_only_with_its_roles_permission(local_aws: RunningAws) -> None:
    url, queue = local_aws.queue()
    scheduler, name = local_aws.client("scheduler"), local_aws.fresh("schedule")
    for granted, allowed in (([], False), ([allow("sqs:SendMessage", queue)], True)):
        role = local_aws.role("scheduler.amazonaws.com", granted)
        target = {"Arn": queue, "RoleArn": role, "Input": "now", "RetryPolicy": {"MaximumRetryAttempts": 0}}
        asked = {
            "ScheduleExpression": "at(2099-01-01T00:00:00)",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": target,
        }
        scheduler.create_schedule(Name=f"{name}-{allowed}", **asked)

    with pytest.raises(AssertionError, match=f"not authorized to perform: sqs:SendMessage on resource: {queue}"):
        local_aws.knob("schedules/fire", name=f"{name}-False")
    local_aws.knob("schedules/fire", name=f"{name}-True")
    (message,) = local_aws.client("sqs").receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "now"


def test_the_knobs_name_refusals_what_was_used_and_calls_that_no_table_knows(
    local_aws: RunningAws, acting: Callable[..., Act]
) -> None:
    ssm = acting({"Sid": "Reading", **allow("ssm:GetParameter")})("ssm")
    refused(ssm.get_parameter, Name="/none")
    refused(ssm.put_parameter, Name="/none", Value="1")
    unknown = refused(ssm.start_session, Target=str(uuid.uuid4()))  # the tables do not have this one
    assert unknown[0] == "AccessDeniedException"
    assert "because the local IAM does not know which permissions ssm:StartSession needs" in unknown[1]
    role = acting()("sts").get_caller_identity()["Arn"]

    report = local_aws.knob("iam/denied")
    assert report["enforced"]
    assert any("ssm:PutParameter" in each["message"] for each in report["denied"])
    assert any(each["call"] == "ssm:StartSession" for each in report["unmapped"])
    assert any("own[Reading]" in statements for statements in local_aws.knob("iam/used").values())
    assert role not in local_aws.knob("iam/used")
