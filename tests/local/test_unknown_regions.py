"""The local AWS refuses requests for a region that does not exist as AWS does, and the command reports one line."""

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from joiner_cli.aws_errors import UNKNOWN_REGION, describe_aws_error
from tests.local.running_aws import RunningAws
from tests.unit.cli.command_runs import joiner

CALLS = {
    "ssm": ("get_parameter", {"Name": "x"}, "InvalidSignatureException"),
    "dynamodb": ("list_tables", {}, "InvalidSignatureException"),
    "stepfunctions": ("list_state_machines", {}, "InvalidSignatureException"),
    "eks": ("list_clusters", {}, "InvalidSignatureException"),
    "lambda": ("list_functions", {}, "InvalidSignatureException"),
    "ec2": ("describe_instances", {}, "AuthFailure"),
    "sts": ("get_caller_identity", {}, "SignatureDoesNotMatch"),
    "cloudformation": ("describe_stacks", {}, "SignatureDoesNotMatch"),
    "s3": ("list_buckets", {}, "AuthorizationHeaderMalformed"),
}


@pytest.mark.parametrize("service", CALLS)
def test_every_protocol_refuses_a_region_that_does_not_exist(service: str, local_aws: RunningAws) -> None:
    method, arguments, code = CALLS[service]
    client: Any = boto3.Session().client(
        service,  # type: ignore[call-overload]  # a name that is only known at run time
        region_name="xx-nowhere-1",
        endpoint_url=local_aws.endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )

    with pytest.raises(ClientError) as refused:
        getattr(client, method)(**arguments)

    assert refused.value.response["Error"]["Code"] == code
    assert describe_aws_error(refused.value, needs="nothing") == UNKNOWN_REGION


@pytest.mark.parametrize(
    "arguments",
    [
        ("pause", "demo"),
        ("resume", "demo"),
        ("status", "demo"),
        ("uninstall", "--cluster", "demo", "--nodes", "keep"),
        ("accept", "--cluster", "demo"),
        ("admit-installer", "--cluster", "demo"),
    ],
    ids=lambda each: each[0],
)
def test_every_command_reports_the_region_in_one_line(
    arguments: tuple[str, ...], local_aws: RunningAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": local_aws.endpoint}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    answer = joiner(*arguments, "--region", "xx-nowhere-1")

    assert (answer.exit_code, answer.out, answer.err) == (1, "", f"joiner: {UNKNOWN_REGION}\n")
