"""Node roles that have an IAM path: their ARN contains the path, in access entries and in permissions."""

import json

import pytest
from botocore.exceptions import ClientError

from infra.node_role_settings import NodeRoleSettings
from infra.settings import Settings
from joiner.adapters.node_access import NodeAccess
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from joiner_local.aws.local_aws import ACCOUNT, REGION
from tests.local.launch_fixtures import errors
from tests.local.permitted_launches import CLUSTER, assume_role, permitted_fleet
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

TRUST = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}


@pytest.fixture
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, CLUSTER)


@pytest.fixture
def role(local_aws: RunningAws) -> str:
    """Return the name of a role with the path `/teams/web/`."""
    name = local_aws.fresh("nodes")
    local_aws.client("iam").create_role(RoleName=name, Path="/teams/web/", AssumeRolePolicyDocument=json.dumps(TRUST))
    return name


def arn_of(named: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{named}"


def test_ec2_is_passed_a_role_by_its_arn_with_the_path(local_aws: RunningAws, network: Network, role: str) -> None:
    iam = local_aws.client("iam")
    iam.create_instance_profile(InstanceProfileName=role)
    iam.add_role_to_instance_profile(InstanceProfileName=role, RoleName=role)
    profile = {"IamInstanceProfile": {"Name": role}}

    by_path, by_name = (
        permitted_fleet(local_aws, network, passed=arn_of(named), override=profile)
        for named in (f"teams/web/{role}", role)
    )

    assert errors(by_path) == []
    assert errors(by_name) == [("UnauthorizedOperation", "m5.large", "us-east-1a")]
    assert f"iam:PassRole on resource: {arn_of(f'teams/web/{role}')}" in by_name["Errors"][0]["ErrorMessage"]


@pytest.mark.usefixtures("network")
def test_an_access_entry_is_made_for_the_arn_with_the_path(local_aws: RunningAws, role: str) -> None:
    from infra.aws_permissions import AccountRegion, allow_keeping_node_access  # they import the CDK

    roles = NodeRoleSettings(names=(f"teams/web/{role}",))
    settings, here = Settings(cluster=CLUSTER, region=REGION, node_roles=roles), AccountRegion("aws", REGION, ACCOUNT)
    allowed = allow_keeping_node_access(settings, here, [arn_of(f"teams/web/{role}"), arn_of(role)], [])
    session = assume_role(local_aws, [each.to_json() for each in allowed])
    eks, iam, ec2 = (session.client(each, endpoint_url=local_aws.endpoint) for each in ("eks", "iam", "ec2"))
    access = NodeAccess(CLUSTER, eks=eks, iam=iam, ec2=ec2)

    with pytest.raises(ClientError, match="The specified principalArn is invalid: invalid principal"):
        access.grant(arn_of(role))
    assert access.grant(arn_of(f"teams/web/{role}"))
    assert arn_of(f"teams/web/{role}") in access.entries()
    with pytest.raises(ClientError, match="is not authorized to perform: eks:CreateAccessEntry"):
        access.grant(arn_of(f"teams/data/{role}"))
