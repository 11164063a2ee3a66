"""Protected resources can be deleted only after another deployment; a bucket that is kept is never emptied."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from functions.empty_bucket import handler as empty_bucket
from infra.settings import Settings
from tests.infra.conftest import Synthesis, Synthesise, flat
from tests.infra.test_custom_resource_functions import Mailbox, Remaining, mailbox  # noqa: F401  the fixture
from tests.local.running_aws import RunningAws


@pytest.fixture(scope="module")
def protected(synthesise: Synthesise, example_settings: Settings) -> Iterator[Synthesis]:
    yield synthesise(replace(example_settings, deletion_protection=True))


def test_the_stack_refuses_deletion_before_any_resource_is_removed(protected: Synthesis, example: Synthesis) -> None:
    def protects(made: Synthesis) -> bool:
        manifest = json.loads((made.folder / "manifest.json").read_text())
        (stack,) = [each for each in manifest["artifacts"].values() if each["type"] == "aws:cloudformation:stack"]
        return bool(stack["properties"].get("terminationProtection", False))

    assert (protects(protected), protects(example)) == (True, False)


def test_the_table_and_the_bucket_are_protected_by_their_own_services(protected: Synthesis, example: Synthesis) -> None:
    def denied(made: Synthesis) -> bool:
        policies = [
            flat(each["Properties"]["PolicyDocument"]["Statement"])
            for each in made.resources("AWS::S3::BucketPolicy").values()
        ]
        deny = {"Effect": "Deny", "Action": "s3:DeleteBucket", "Principal": {"AWS": "*"}}
        return any(deny.items() <= statement.items() for policy in policies for statement in policy)

    assert (denied(protected), denied(example)) == (True, False)
    tables = [made.one("AWS::DynamoDB::Table", "Memory")["Properties"] for made in (protected, example)]
    assert [table.get("DeletionProtectionEnabled", False) for table in tables] == [True, False]


@pytest.mark.parametrize(
    ("retain", "protect", "empties"), [(False, False, "true"), (True, False, "false"), (False, True, "false")]
)
def test_the_bucket_is_emptied_only_where_nothing_is_to_be_kept(
    retain: bool, protect: bool, empties: str, synthesise: Synthesise, example_settings: Settings
) -> None:
    made = synthesise(replace(example_settings, retain_data=retain, deletion_protection=protect))

    # Present in each case: a resource that leaves the template is deleted, and its deletion would empty the bucket
    assert made.one("Custom::EmptiedBucket", "EmptiedBucket")["Properties"]["Empty"] == empties


@pytest.mark.local
@pytest.mark.parametrize(("empties", "left"), [("true", 0), ("false", 1)])
def test_the_end_of_the_custom_resource_leaves_what_is_to_be_kept(
    empties: str,
    left: int,
    mailbox: Mailbox,  # noqa: F811
    aws_of_handlers: RunningAws,
) -> None:
    s3, bucket = aws_of_handlers.client("s3"), aws_of_handlers.fresh("bucket").lower()
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="plans/a.json", Body=b"{}")

    empty_bucket.handler(mailbox.event("Delete", {"Bucket": bucket, "Empty": empties}, bucket), Remaining())

    assert [each["Status"] for each in mailbox.answers] == ["SUCCESS"]
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == left


@pytest.mark.local
def test_the_local_table_refuses_as_dynamodb_does(local_aws: RunningAws) -> None:
    dynamodb, table = local_aws.client("dynamodb"), local_aws.fresh("table")
    dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "kind", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "kind", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=True,
    )

    with pytest.raises(ClientError, match=r"(?i)deletion ?protection"):
        dynamodb.delete_table(TableName=table)
