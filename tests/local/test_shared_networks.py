"""Launches into subnets that another account shares, with the permissions of `launch_instances`: EC2 authorizes them
against the ARN of the owner's account."""

from collections.abc import Iterator
from typing import Any

import pytest

from infra.node_class_settings import (
    AllowedPlacementGroups,
    AllowedSecurityGroups,
    AllowedSubnets,
    NodeClassSettings,
)
from joiner_local.aws.account_setup.cluster_network import DISCOVERY, Network, seed_network
from tests.local.launch_fixtures import errors, launched
from tests.local.permitted_launches import CLUSTER, permitted_fleet
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

NETWORK_ACCOUNT = "222222222222"


@pytest.fixture
def network(local_aws: RunningAws) -> Iterator[Network]:
    """Yield a network whose subnets and security group belong to another account."""
    found = seed_network(local_aws.endpoint, CLUSTER)
    shared = [*found.subnets.values(), found.security_group]
    tags = local_aws.client("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": shared}])["Tags"]
    local_aws.knob("shared-resources", owners=dict.fromkeys(shared, NETWORK_ACCOUNT))
    yield found
    local_aws.knob("shared-resources", owners={})
    for each in tags:
        local_aws.client("ec2").create_tags(
            Resources=[each["ResourceId"]], Tags=[{"Key": each["Key"], "Value": each["Value"]}]
        )


def of_network(network: Network) -> NodeClassSettings:
    """Return settings that name the subnets and the security group by their ids."""
    return NodeClassSettings(
        subnets=AllowedSubnets(ids=tuple(network.subnets.values())),
        security_groups=AllowedSecurityGroups(ids=(network.security_group,)),
    )


def test_nodes_are_launched_into_shared_subnets_that_the_settings_name(local_aws: RunningAws, network: Network) -> None:
    answer = permitted_fleet(local_aws, network, of_network(network))

    assert answer["Errors"] == []
    instance = local_aws.client("ec2").describe_instances(InstanceIds=launched(answer))
    subnet = instance["Reservations"][0]["Instances"][0]["SubnetId"]
    described = local_aws.client("ec2").describe_subnets(SubnetIds=[subnet])["Subnets"][0]
    assert described["OwnerId"] == NETWORK_ACCOUNT


def test_nodes_are_launched_into_shared_subnets_that_are_the_clusters_own(
    local_aws: RunningAws, network: Network
) -> None:
    own = (list(network.subnets.values()), [network.security_group])

    assert permitted_fleet(local_aws, network, own=own)["Errors"] == []


def test_a_shared_subnet_that_the_settings_do_not_name_is_refused(local_aws: RunningAws, network: Network) -> None:
    named = NodeClassSettings(
        subnets=AllowedSubnets(ids=(network.subnets["us-east-1b"],)),
        security_groups=AllowedSecurityGroups(ids=(network.security_group,)),
    )
    with pytest.raises(Exception, match=f"ec2:CreateFleet.*{NETWORK_ACCOUNT}:subnet/{network.subnets['us-east-1a']}"):
        permitted_fleet(local_aws, network, named)


def test_a_condition_of_iam_sees_no_tags_of_shared_subnets(local_aws: RunningAws, network: Network) -> None:
    ec2 = local_aws.client("ec2")
    shared = [*network.subnets.values()]
    before = ec2.describe_subnets(SubnetIds=shared)["Subnets"]
    ec2.create_tags(Resources=shared, Tags=[{"Key": DISCOVERY, "Value": CLUSTER}])
    after = ec2.describe_subnets(SubnetIds=shared)["Subnets"]

    assert not any(each.get("Tags") for each in before)
    assert all(each["Tags"] == [{"Key": DISCOVERY, "Value": CLUSTER}] for each in after)
    with pytest.raises(Exception, match=f"ec2:CreateFleet.*{NETWORK_ACCOUNT}:subnet/"):
        permitted_fleet(local_aws, network)


def test_nodes_are_launched_into_a_shared_placement_group_that_the_settings_name(
    local_aws: RunningAws, network: Network
) -> None:
    group = local_aws.client("ec2").create_placement_group(GroupName=local_aws.fresh("pg"), Strategy="spread")
    created = group["PlacementGroup"]
    local_aws.knob(
        "shared-resources",
        owners=dict.fromkeys([*network.subnets.values(), network.security_group, created["GroupId"]], NETWORK_ACCOUNT),
    )
    limits = of_network(network)
    named, none = (
        NodeClassSettings(
            subnets=limits.subnets,
            security_groups=limits.security_groups,
            placement_groups=AllowedPlacementGroups(names),
        )
        for names in ((created["GroupName"],), ("another",))
    )
    placement: dict[str, Any] = {"Placement": {"GroupId": created["GroupId"]}}

    assert errors(permitted_fleet(local_aws, network, named, data=placement)) == []
    with pytest.raises(Exception, match=f"ec2:CreateFleet.*{NETWORK_ACCOUNT}:placement-group/{created['GroupName']}"):
        permitted_fleet(local_aws, network, none, data=placement)
