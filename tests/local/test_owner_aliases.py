"""Owners of images and snapshots with an alias: IAM's condition key `ec2:Owner` has the alias, and not the number."""

from dataclasses import replace

import pytest

from infra.node_class_settings import AllowedSnapshots, NodeClassSettings
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.launch_fixtures import IMAGE_PARAMETER, errors
from tests.local.permitted_launches import CLUSTER, permitted_fleet
from tests.local.running_aws import RunningAws
from tests.local.test_launching import LaunchAccount

pytestmark = pytest.mark.local

EKS = "602401143452"


@pytest.fixture
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, CLUSTER)


def test_images_with_an_alias_are_launched_only_with_the_alias_in_the_settings(
    local_aws: RunningAws, network: Network
) -> None:
    by_number = permitted_fleet(local_aws, network, image_owners=(EKS, "self"))
    by_alias = permitted_fleet(local_aws, network, image_owners=("amazon",))

    assert errors(by_number) == [("UnauthorizedOperation", "m5.large", "us-east-1a")]
    assert "ec2:RunInstances on resource: arn:aws:ec2:us-east-1::image/" in by_number["Errors"][0]["ErrorMessage"]
    assert errors(by_alias) == []


def test_snapshots_with_an_alias_are_used_only_with_the_alias_in_the_settings(
    local_aws: RunningAws, network: Network
) -> None:
    ec2, ssm = local_aws.client("ec2"), local_aws.client("ssm")
    image = ssm.get_parameter(Name=IMAGE_PARAMETER.format("x86_64"))["Parameter"]["Value"]
    (mapping,) = ec2.describe_images(ImageIds=[image])["Images"][0]["BlockDeviceMappings"]
    snapshot = mapping["Ebs"]["SnapshotId"]
    described = ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]
    volume = {"SnapshotId": snapshot, "VolumeSize": 30, "VolumeType": "gp3"}
    data = {"BlockDeviceMappings": [{"DeviceName": mapping["DeviceName"], "Ebs": volume}]}
    by_alias, by_number = (
        NodeClassSettings(snapshots=AllowedSnapshots(owners=(owner,), tags={})) for owner in ("amazon", EKS)
    )

    assert (described["OwnerId"], described["OwnerAlias"]) == (EKS, "amazon")
    assert errors(permitted_fleet(local_aws, network, by_alias, data=data)) == []
    with pytest.raises(Exception, match=f"ec2:CreateFleet on resource: arn:aws:ec2:us-east-1::snapshot/{snapshot}"):
        permitted_fleet(local_aws, network, by_number, data=data)


def test_a_class_whose_images_need_another_alias_is_refused_with_what_to_write(local_aws: RunningAws) -> None:
    account = LaunchAccount(local_aws, seed_network(local_aws.endpoint, "launching"))
    by_number = replace(account.ceilings(), image_owners=(EKS,))
    terms = [{"owner": EKS, "name": "amazon-eks-node-al2023-x86_64-standard-1.36-*"}]

    answer, classes = account.resolve(ceilings=by_number, amiFamily="AL2023", amiSelectorTerms=terms)

    (problem,) = [each for each in classes["EC2NodeClass/default"].problems if each.severity == "error"]
    assert answer["ready"] == 0
    assert problem.reason == "ImageOwnerNotAllowed"
    assert f"{EKS}, has the alias amazon" in problem.message
    assert "write amazon in imageOwners" in problem.message
