"""Calls of the deployment are counted, calls of a person are not."""

import subprocess

import boto3

from tests.local.running_aws import RunningAws


def test_calls_of_roles_are_counted_by_service_and_action_and_those_of_people_are_not(
    own_aws: tuple[RunningAws, subprocess.Popen[str]],
) -> None:
    aws, _ = own_aws
    held = aws.client("sts").assume_role(RoleArn=aws.role("lambda.amazonaws.com"), RoleSessionName="counted")[
        "Credentials"
    ]
    session = boto3.Session(held["AccessKeyId"], held["SecretAccessKey"], held["SessionToken"], region_name="us-east-1")
    as_role = session.client("dynamodb", endpoint_url=aws.endpoint)

    aws.client("dynamodb").list_tables()
    assert aws.knob("accounts") == {"calls": {}}

    as_role.list_tables()
    as_role.list_tables()
    assert aws.knob("accounts", reset=True) == {"calls": {"dynamodb": {"ListTables": 2}}}
    assert aws.knob("accounts") == {"calls": {}}
