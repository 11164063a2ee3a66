"""What RunInstances refuses of volumes beyond its schema: a table with one test a row. The local EC2 answers as EC2
does.

All rows are of one call, CreateFleet of type instant. Volumes of a launch template that RunInstances would refuse are
an error in the response; other pools still launch. No call refuses a key that cannot be used: `test_kms_keys.py`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from joiner_local.aws.account_setup.cluster_network import seed_network
from joiner_local.aws_sessions import aws_session
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

API = "EC2 API reference, EbsBlockDevice"
CODES = "EC2 API reference, Error codes"
ENCRYPTION = "hashicorp/terraform#1205; EC2 API reference, EbsBlockDevice: in no case can encryption be removed"
RATIO = "ministryofjustice/cloud-platform-terraform-monitoring#110"

Ebs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VolumeRefusal:
    """One refusal. `ebs` is the volume, or creates it from resources of the account; `message` is a part of EC2's
    message.
    """

    what: str
    ebs: Ebs | Callable[["VolumeAccount"], Ebs]
    code: str
    message: str
    source: str
    device: str = "/dev/xvdb"


@dataclass(frozen=True, slots=True)
class VolumeAccount:
    aws: RunningAws
    pad: LaunchPad

    def snapshot(self, gib: int, *, encrypted: bool = False) -> str:
        """Return a snapshot of a volume of this size."""
        volume = self.pad.ec2.create_volume(AvailabilityZone="us-east-1a", Size=gib, Encrypted=encrypted)["VolumeId"]
        found: str = self.pad.ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
        return found

    def foreign_snapshot(self) -> str:
        """Return a snapshot that another account has and does not share: it counts as missing."""
        role = "arn:aws:iam::210987654321:role/backup"
        found_keys = self.aws.client("sts").assume_role(RoleArn=role, RoleSessionName="backup")["Credentials"]
        session = aws_session(found_keys["AccessKeyId"], found_keys["SecretAccessKey"], found_keys["SessionToken"])
        other = session.client("ec2", endpoint_url=self.aws.endpoint)
        volume = other.create_volume(AvailabilityZone="us-east-1a", Size=8)["VolumeId"]
        found: str = other.create_snapshot(VolumeId=volume)["SnapshotId"]
        return found


def sized(gib: int, kind: str = "gp3", **more: Any) -> Ebs:
    return {"VolumeSize": gib, "VolumeType": kind, **more}


MAPPING = "InvalidBlockDeviceMapping"
VALUE = "InvalidParameterValue"
COMBINATION = "InvalidParameterCombination"
ROWS = (
    VolumeRefusal(
        "gp2 larger than 16 TiB", sized(16_385, "gp2"), VALUE, "too large for volume type gp2; maximum is 16384GiB", API
    ),
    VolumeRefusal("standard larger than 1 TiB", sized(1025, "standard"), VALUE, "maximum is 1024GiB", API),
    VolumeRefusal(
        "st1 smaller than 125 GiB", sized(124, "st1"), VALUE, "too small for volume type st1; minimum is 125GiB", API
    ),
    VolumeRefusal("sc1 smaller than 125 GiB", sized(1, "sc1"), VALUE, "minimum is 125GiB", API),
    VolumeRefusal("io1 smaller than 4 GiB", sized(3, "io1", Iops=100), VALUE, "minimum is 4GiB", API),
    VolumeRefusal("a type that there is not", sized(10, "gp9"), "UnknownVolumeType", "gp9", CODES),
    VolumeRefusal(
        "neither size nor snapshot",
        {"VolumeType": "gp3"},
        MAPPING,
        "Either snapshot ID or volume size must be provided for: /dev/xvdb",
        "nortontruter/infracoders-workshop#3",
    ),
    VolumeRefusal(
        "io1 without IOPS",
        sized(10, "io1"),
        COMBINATION,
        "iops must be specified for io1",
        "kubernetes-sigs/aws-ebs-csi-driver#766",
    ),
    VolumeRefusal(
        "io2 without IOPS",
        sized(10, "io2"),
        COMBINATION,
        "iops must be specified for io2",
        "velero-io/velero-plugin-for-aws#119",
    ),
    VolumeRefusal(
        "gp2 with IOPS", sized(10, "gp2", Iops=300), COMBINATION, "iops is not supported for gp2", "boto/boto3#3653"
    ),
    VolumeRefusal(
        "st1 with IOPS", sized(200, "st1", Iops=300), COMBINATION, "iops is not supported for st1", "boto/boto3#3653"
    ),
    VolumeRefusal("gp3 with too few IOPS", sized(100, Iops=2999), VALUE, "minimum is 3000", API),
    VolumeRefusal("gp3 with too many IOPS", sized(1000, Iops=80_001), VALUE, "maximum is 80000", API),
    VolumeRefusal("io1 with too many IOPS", sized(2000, "io1", Iops=64_001), VALUE, "maximum is 64000", API),
    VolumeRefusal(
        "gp3: IOPS to size",
        sized(20, Iops=15_000),
        VALUE,
        "ratio of 750.000000 is too high; maximum is 500",
        "rocicorp/mono#4410",
    ),
    VolumeRefusal(
        "io1: IOPS to size",
        sized(10, "io1", Iops=501),
        VALUE,
        "Iops to volume size ratio of 50.100000 is too high; maximum is 50",
        RATIO,
    ),
    VolumeRefusal(
        "io2: IOPS to size",
        sized(4, "io2", Iops=4001),
        VALUE,
        "maximum is 1000",
        "EBS user guide, Provisioned IOPS SSD volumes",
    ),
    VolumeRefusal(
        "throughput of another type than gp3",
        sized(10, "io2", Iops=100, Throughput=125),
        COMBINATION,
        "throughput can only be specified for volumeType gp3",
        "runs-on/runs-on#426",
    ),
    VolumeRefusal("gp3 with too little throughput", sized(10, Throughput=124), VALUE, "minimum is 125", API),
    VolumeRefusal(
        "gp3 with too much throughput", sized(1000, Iops=80_000, Throughput=2001), VALUE, "maximum is 2000", API
    ),
    VolumeRefusal(
        "gp3: throughput to IOPS",
        sized(10, Throughput=1000),
        VALUE,
        "Throughput (MiBps) to iops ratio of 0.333333 is too high; maximum is 0.250000 MiBps per iops",
        "runs-on/runs-on#260",
    ),
    VolumeRefusal(
        "a root volume smaller than its image's snapshot",
        sized(8),
        MAPPING,
        "Volume of size 8GB is smaller than snapshot",
        "aws/karpenter-provider-aws#3302",
        device="/dev/xvda",
    ),
    VolumeRefusal(
        "a volume smaller than its snapshot",
        lambda account: sized(10, SnapshotId=account.snapshot(12)),
        MAPPING,
        "expect size >= 12GB",
        "scylladb/scylladb#6999",
    ),
    VolumeRefusal(
        "an encrypted snapshot made unencrypted",
        lambda account: sized(10, SnapshotId=account.snapshot(8, encrypted=True), Encrypted=False),
        MAPPING,
        "the encrypted flag cannot be specified since device /dev/xvdb has a snapshot specified",
        ENCRYPTION,
    ),
    VolumeRefusal(
        "no such snapshot",
        sized(10, SnapshotId="snap-00000000000000000"),
        "InvalidSnapshot.NotFound",
        "does not exist",
        CODES,
    ),
    VolumeRefusal(
        "a snapshot that the account may not use",
        lambda account: sized(10, SnapshotId=account.foreign_snapshot()),
        "InvalidSnapshot.NotFound",
        "does not exist",
        "kvnn/OrdControl#2",
    ),
    VolumeRefusal(
        "a key without encryption",
        sized(10, KmsKeyId="alias/aws/ebs"),
        "InvalidParameterDependency",
        "The parameter KmsKeyId requires the parameter Encrypted to be set.",
        "keithvassallomt/parsec-aws-automation#12",
    ),
    VolumeRefusal(
        "a device that there is not", sized(10), MAPPING, "Invalid device name /dev/disk7", CODES, device="/dev/disk7"
    ),
)


@pytest.fixture
def account(local_aws: RunningAws) -> Iterator[VolumeAccount]:
    network = seed_network(local_aws.endpoint, "volumes")
    pad = LaunchPad.build(local_aws.client("ec2"), local_aws.client("ssm"), network, local_aws.fresh("volumes"))
    yield VolumeAccount(local_aws, pad)


def fleet_with(account: VolumeAccount, device: str, ebs: Ebs) -> dict[str, Any]:
    """Launch one instance with this volume, from a launch template of its own."""
    pad = account.pad
    name = account.aws.fresh("volumes")
    data = {
        "SecurityGroupIds": [pad.network.security_group],
        "BlockDeviceMappings": [{"DeviceName": device, "Ebs": ebs}],
    }
    pad.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    return LaunchPad(pad.ec2, pad.ssm, pad.network, name).fleet([pad.override()])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what.replace(" ", "-"))
def test_the_local_ec2_refuses_a_volume_with_the_error_of_ec2(row: VolumeRefusal, account: VolumeAccount) -> None:
    ebs = row.ebs(account) if callable(row.ebs) else row.ebs

    answer = fleet_with(account, row.device, ebs)

    assert answer["Instances"] == []
    assert [error["ErrorCode"] for error in answer["Errors"]] == [row.code], answer["Errors"]
    assert row.message in answer["Errors"][0]["ErrorMessage"]


@pytest.mark.parametrize(
    ("device", "ebs"),
    [
        ("/dev/xvda", sized(20)),
        ("/dev/xvdb", sized(1, Iops=3000, Throughput=750)),
        ("/dev/sdf", sized(125, "st1")),
        ("/dev/xvdcz", {"VolumeSize": 10}),
        ("/dev/xvdb", sized(4, "io2", Iops=4000)),
    ],
    ids=["as large as the image", "gp3 at its baseline", "st1 at its least", "no type", "io2 at its ratio"],
)
def test_what_ec2_takes_is_launched(device: str, ebs: Ebs, account: VolumeAccount) -> None:
    answer = fleet_with(account, device, ebs)

    assert answer["Errors"] == []
    assert len(answer["Instances"]) == 1


def test_every_row_has_a_source_and_a_name_of_its_own() -> None:
    assert len({row.what for row in ROWS}) == len(ROWS)
    assert [row.what for row in ROWS if not row.source] == []
