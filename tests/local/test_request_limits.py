"""EC2's token buckets: requests beyond them are refused, and the counts say how many."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from joiner_local.aws.ec2.request_limits import CHANGING, INSTANCES, Ec2RequestLimits
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local


@pytest.fixture
def limited(local_aws: RunningAws) -> Iterator[RunningAws]:
    local_aws.knob("ec2/request-limits", on=True)
    yield local_aws
    local_aws.knob("ec2/request-limits", on=False)


def ec2_of_role(aws: RunningAws) -> Any:
    """Return a client with the credentials of a role that sends each request once."""
    role = aws.role("lambda.amazonaws.com")
    lent = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    session = boto3.Session(lent["AccessKeyId"], lent["SecretAccessKey"], lent["SessionToken"], region_name="us-east-1")
    once = Config(retries={"max_attempts": 0, "mode": "standard"})
    return session.client("ec2", endpoint_url=aws.endpoint, config=once)


def test_a_launch_of_more_instances_than_the_bucket_holds_is_refused_and_counted(limited: RunningAws) -> None:
    with pytest.raises(ClientError) as refused:
        ec2_of_role(limited).create_fleet(
            Type="instant",
            TargetCapacitySpecification={
                "TotalTargetCapacity": int(INSTANCES[0]) + 500,
                "DefaultTargetCapacityType": "on-demand",
            },
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": "any", "Version": "1"}}],
        )

    assert refused.value.response["Error"]["Code"] == "RequestLimitExceeded"
    counts = limited.knob("ec2/request-limits")["requests"]
    assert counts == {"CreateFleet": {"served": 0, "refused": 1, "last": 0.0}}


def test_requests_that_change_something_have_a_bucket_for_each_action() -> None:
    limits = Ec2RequestLimits(clock=lambda: 0.0)

    served = sum(limits.admits("CreateLaunchTemplate", filtered=False) for _ in range(200))

    assert served == CHANGING[0]
    assert limits.admits("CreateFleet", filtered=False)


def test_requests_of_users_are_neither_refused_nor_counted(limited: RunningAws) -> None:
    limited.client("ec2").describe_subnets()

    assert "DescribeSubnets" not in limited.knob("ec2/request-limits")["requests"]


def test_a_launch_takes_a_token_for_each_instance_and_the_bucket_refills() -> None:
    now = [0.0]
    limits = Ec2RequestLimits(clock=lambda: now[0])

    assert limits.admits("CreateFleet", filtered=False, instances=int(INSTANCES[0]))
    assert not limits.admits("CreateFleet", filtered=False, instances=10)
    now[0] += 5.0
    assert limits.admits("CreateFleet", filtered=False, instances=10)
    assert limits.set({})["requests"]["CreateFleet"] | {"last": 0} == {"served": 2, "refused": 1, "last": 0}
