"""What node classes may use, by the default settings and against the responses of EC2."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.running_aws import RunningAws
from tests.local.test_launching import LaunchAccount

pytestmark = pytest.mark.local

CANONICAL = "099720109477"
ANOTHER_KEY = "arn:aws:kms:us-east-1:123456789012:key/00000000-1111-2222-3333-444444444444"


@pytest.fixture
def account(local_aws: RunningAws) -> Iterator[LaunchAccount]:
    yield LaunchAccount(local_aws, seed_network(local_aws.endpoint, "launching"))
    local_aws.client("ec2").reset_ebs_default_kms_key_id()


def refusals(account: LaunchAccount, **node_class: Any) -> list[tuple[str, str]]:
    """Return reason and message of each error of the class."""
    answer, classes = account.resolve(**node_class)
    errors = [each for each in classes["EC2NodeClass/default"].problems if each.severity == "error"]
    assert answer["ready"] == (0 if errors else 1)
    return [(each.reason, each.message) for each in errors]


def test_the_discovery_tags_of_the_network_are_enough(account: LaunchAccount) -> None:
    assert refusals(account) == []


def test_a_subnet_and_a_group_of_the_account_without_the_clusters_tags_are_refused(account: LaunchAccount) -> None:
    ec2 = account.aws.client("ec2")
    vpc = account.network.vpc
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="172.31.250.0/24", AvailabilityZone="us-east-1a")["Subnet"][
        "SubnetId"
    ]
    group = ec2.create_security_group(GroupName=account.aws.fresh("db"), Description="database", VpcId=vpc)["GroupId"]
    chosen = {"subnetSelectorTerms": [{"id": subnet}], "securityGroupSelectorTerms": [{"id": group}]}
    try:
        found = refusals(account, **chosen)
        ec2.create_tags(Resources=[subnet, group], Tags=[{"Key": "kubernetes.io/cluster/launching", "Value": "shared"}])
        tagged = refusals(account, **chosen)
    finally:
        ec2.delete_subnet(SubnetId=subnet)

    assert [reason for reason, _ in found] == ["SubnetNotAllowed", "SecurityGroupNotAllowed"]
    assert f"the settings do not allow the subnet {subnet}" in found[0][1]
    assert tagged == []


def test_a_subnet_of_another_cluster_is_refused(account: LaunchAccount) -> None:
    ec2 = account.aws.client("ec2")
    subnet = ec2.create_subnet(VpcId=account.network.vpc, CidrBlock="172.31.251.0/24", AvailabilityZone="us-east-1a")[
        "Subnet"
    ]["SubnetId"]
    ec2.create_tags(Resources=[subnet], Tags=[{"Key": "kubernetes.io/cluster/other", "Value": "owned"}])
    try:
        assert [reason for reason, _ in refusals(account, subnetSelectorTerms=[{"id": subnet}])] == ["SubnetNotAllowed"]
    finally:
        ec2.delete_subnet(SubnetId=subnet)


def test_no_snapshot_of_the_account_can_be_mounted_unless_it_is_the_clusters(account: LaunchAccount) -> None:
    ec2 = account.aws.client("ec2")
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=8)["VolumeId"]
    snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    devices = [{"deviceName": "/dev/xvdb", "ebs": {"snapshotID": snapshot, "volumeType": "gp3"}}]

    ((reason, message),) = refusals(account, blockDeviceMappings=devices)

    assert reason == "SnapshotNotAllowed"
    assert f"spec.blockDeviceMappings[0].ebs.snapshotID: nodes may not have {snapshot}" in message
    ec2.create_tags(Resources=[snapshot], Tags=[{"Key": "karpenter.sh/discovery", "Value": "launching"}])
    assert refusals(account, blockDeviceMappings=devices) == []


def test_an_owner_that_is_not_allowed_never_selects_images_of_others(account: LaunchAccount) -> None:
    named = {"amiFamily": "AL2023", "amiSelectorTerms": [{"owner": CANONICAL, "name": "*"}]}
    amazon = {
        "amiFamily": "AL2023",
        "amiSelectorTerms": [{"owner": "amazon", "name": "amazon-eks-node-al2023-x86_64-standard-1.36-*"}],
    }

    ((reason, message),) = refusals(account, **named)

    assert reason == "ImageOwnerNotAllowed"
    assert (
        f"spec.amiSelectorTerms[0].owner: nodes may not boot images of {CANONICAL}; the settings allow amazon, self"
    ) in message
    assert refusals(account, **amazon) == []


def test_a_volume_that_ec2_would_refuse_is_refused_before_a_launch(account: LaunchAccount) -> None:
    def message(**ebs: Any) -> str:
        ((reason, message),) = refusals(account, blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": ebs}])
        assert reason == "BlockDeviceInvalid"
        return message

    assert message(volumeSize="8Gi") == (
        "spec.blockDeviceMappings[0].ebs.volumeSize: 8Gi: the image's snapshot needs 20Gi: raise volumeSize"
    )
    assert message(volumeSize="40Gi", volumeType="io2").startswith(
        "spec.blockDeviceMappings[0].ebs.iops: it is missing"
    )


def test_the_accounts_default_key_is_checked(account: LaunchAccount) -> None:
    key = account.aws.client("kms").create_key()["KeyMetadata"]["Arn"]
    account.aws.client("ec2").modify_ebs_default_kms_key_id(KmsKeyId=key)
    allowed = replace(account.ceilings(), kms_keys=(key,))

    ((reason, message),) = refusals(account)

    assert reason == "DefaultKMSKeyNotAllowed"
    assert key in message
    assert refusals(account, ceilings=allowed) == []
    assert refusals(account, blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "40Gi"}}]) == []


def test_a_key_beyond_the_settings_is_refused(account: LaunchAccount) -> None:
    devices = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "40Gi", "encrypted": True, "kmsKeyID": ANOTHER_KEY}}]

    assert [reason for reason, _ in refusals(account, blockDeviceMappings=devices)] == ["KMSKeyNotAllowed"]
    assert (
        refusals(account, ceilings=replace(account.ceilings(), kms_keys=(ANOTHER_KEY,)), blockDeviceMappings=devices)
        == []
    )
