"""Volumes of a class that EBS would refuse give a condition that names the field, the value and the remedy."""

from dataclasses import replace
from typing import Any

import pytest

from joiner.launching.block_devices import EbsDefaults, VolumeAnswers, find_volume_problems
from joiner.pools import BlockDevice
from tests.unit.launching.launch_scenario import CEILINGS, TEMPLATE
from tests.unit.launching.test_node_class_policy import refusals

KEY = CEILINGS.kms_keys[0]
ROOT = BlockDevice("/dev/xvda", 40, "gp3")


def snapshot(size: int = 20, owner: str = "123456789012", **more: Any) -> dict[str, Any]:
    return {"SnapshotId": "snap-1", "VolumeSize": size, "OwnerId": owner, "Encrypted": False, **more}


def image(size: int, *, encrypted: bool = False) -> dict[str, Any]:
    ebs = {"VolumeSize": size, "SnapshotId": "snap-image", "Encrypted": encrypted}
    return {"ImageId": "ami-1", "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": ebs}]}


def problems_of(device: BlockDevice, answers: VolumeAnswers | None = None) -> list[str]:
    return [each.message for each in find_volume_problems([device], answers or VolumeAnswers(), CEILINGS)]


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (
            BlockDevice("/dev/xvdb", 100, "st1"),
            ".volumeSize: 100Gi: st1 volumes have 125Gi to 16384Gi: change volumeSize or volumeType",
        ),
        (
            BlockDevice("/dev/xvdb", 2000, "standard"),
            ".volumeSize: 2000Gi: standard volumes have 1Gi to 1024Gi: change volumeSize or volumeType",
        ),
        (
            BlockDevice("/dev/xvdb", 20_000),
            ".volumeSize: 20000Gi: gp2 volumes have 1Gi to 16384Gi: change volumeSize or volumeType",
        ),
        (BlockDevice("/dev/xvdb", 100, "io1"), ".iops: it is missing: io1 volumes need it: give iops, or use gp3"),
        (
            BlockDevice("/dev/xvdb", 100, "gp2", iops=300),
            ".iops: 300: gp2 volumes take no iops: remove it, or use gp3, io1 or io2",
        ),
        (
            BlockDevice("/dev/xvdb", 100, "gp3", iops=100),
            ".iops: 100: gp3 volumes have 3000 to 80000 IOPS: change iops",
        ),
        (
            BlockDevice("/dev/xvdb", 10, "gp3", iops=6000),
            ".iops: 6000: gp3 of 10Gi has at most 5000 IOPS: lower iops or raise volumeSize",
        ),
        (
            BlockDevice("/dev/xvdb", 4, "io1", iops=201),
            ".iops: 201: io1 of 4Gi has at most 200 IOPS: lower iops or raise volumeSize",
        ),
        (
            BlockDevice("/dev/xvdb", 40, "io2", iops=4000, throughput=200),
            ".throughput: 200: only gp3 volumes take a throughput: remove it, or use gp3",
        ),
        (
            BlockDevice("/dev/xvdb", 40, "gp3", throughput=2001),
            ".throughput: 2001: gp3 volumes have 125 to 2000 MiB/s: change throughput",
        ),
        (
            BlockDevice("/dev/xvdb", 40, "gp3", throughput=1000),
            ".throughput: 1000: 3000 IOPS give at most 750 MiB/s: lower throughput or raise iops",
        ),
    ],
)
def test_ranges_and_ratios_of_each_type(device: BlockDevice, message: str) -> None:
    assert problems_of(device) == [f"spec.blockDeviceMappings[0].ebs{message}"]


@pytest.mark.parametrize(
    "device",
    [
        ROOT,
        BlockDevice("/dev/xvdb", 1, "gp3", iops=3000, throughput=750),  # the baseline is for every size
        BlockDevice("/dev/xvdb", 65_536, "gp3", iops=80_000, throughput=2000),
        BlockDevice("/dev/xvdb", 4, "io2", iops=4000),
        BlockDevice("/dev/xvdb", 125, "sc1"),
        BlockDevice("/dev/xvdb", 1),
    ],
)
def test_a_volume_that_ebs_accepts_has_no_problem(device: BlockDevice) -> None:
    assert problems_of(device) == []


def test_a_volume_is_at_least_as_large_as_the_images_snapshot_and_as_encrypted() -> None:
    answers = VolumeAnswers(images=[image(75, encrypted=True)])

    assert problems_of(replace(ROOT, encrypted=False), answers) == [
        "spec.blockDeviceMappings[0].ebs.volumeSize: 40Gi: the image's snapshot needs 75Gi: raise volumeSize",
        "spec.blockDeviceMappings[0].ebs.encrypted: false: the image's snapshot is encrypted, and stays so: "
        "remove encrypted or set it to true",
    ]
    assert problems_of(replace(ROOT, size_gib=75), answers) == []


def test_a_volume_too_small_for_some_of_the_images_only_is_reported_without_refusing_the_class() -> None:
    (problem,) = find_volume_problems([ROOT], VolumeAnswers(images=[image(20), image(75)]), CEILINGS)

    assert (problem.severity, problem.reason) == ("warning", "BlockDeviceInvalid")


def test_a_device_name_must_be_known_to_ec2_and_a_root_volume_bootable() -> None:
    root = {"ImageId": "ami-1", "RootDeviceName": "/dev/xvda"}

    assert problems_of(BlockDevice("/dev/disk7", 40)) == [
        "spec.blockDeviceMappings[0].deviceName: /dev/disk7: EC2 has no such device name: use one such as /dev/xvdb "
        "(Amazon Linux's root is /dev/xvda)"
    ]
    assert problems_of(BlockDevice("/dev/xvda", 200, "st1"), VolumeAnswers(images=[root])) == [
        (
            "spec.blockDeviceMappings[0].ebs.volumeType: st1: no instance boots from it, and /dev/xvda is the "
            "image's root: use gp3"
        )
    ]
    assert problems_of(BlockDevice("/dev/xvdb", 200, "st1"), VolumeAnswers(images=[root])) == []


def test_a_root_name_that_the_images_do_not_have_is_a_warning_with_their_root() -> None:
    images = [{"ImageId": "ami-1", "RootDeviceName": "/dev/sda1"}, {"ImageId": "ami-2"}]

    (found,) = find_volume_problems([ROOT], VolumeAnswers(images=images), CEILINGS)

    assert (found.severity, found.reason) == ("warning", "RootDeviceNotMapped")
    assert found.message == (
        "spec.blockDeviceMappings[0].deviceName: /dev/xvda: the root volume of the images is /dev/sda1: this one is a "
        "further volume, and the root keeps the size of the image: write /dev/sda1"
    )
    assert find_volume_problems([ROOT], VolumeAnswers(images=images[1:]), CEILINGS) == []


def test_a_snapshot_exists_is_allowed_and_fits() -> None:
    device = replace(ROOT, snapshot_id="snap-1", size_gib=10, encrypted=False)
    where = "spec.blockDeviceMappings[0].ebs"

    assert problems_of(device) == [
        (
            f"{where}.snapshotID: there is no snapshot snap-1: name one that exists in this region and that this "
            f"account may use"
        )
    ]
    assert problems_of(device, VolumeAnswers(snapshots=[snapshot(Encrypted=True)])) == [
        f"{where}.snapshotID: nodes may not have snap-1 of 123456789012; the settings allow owners amazon, "
        "tag karpenter.sh/discovery = prod: tag the snapshot, or add it to snapshots of nodeClasses in "
        "clusters/NAME.yaml and deploy",
        f"{where}.volumeSize: 10Gi: the snapshot snap-1 needs 20Gi: raise volumeSize",
        f"{where}.encrypted: false: the snapshot snap-1 is encrypted, and stays so: remove encrypted or set it to true",
    ]


@pytest.mark.parametrize(
    "allowed",
    [
        snapshot(Tags=[{"Key": "karpenter.sh/discovery", "Value": "prod"}]),
        snapshot(owner="602401143452", OwnerAlias="amazon"),
    ],
    ids=["tagged", "Amazon's"],
)
def test_a_snapshot_is_allowed_by_tag_or_owner(allowed: dict[str, Any]) -> None:
    assert problems_of(replace(ROOT, snapshot_id="snap-1"), VolumeAnswers(snapshots=[allowed])) == []


def test_a_snapshot_of_an_owner_with_an_alias_needs_the_alias_in_the_settings() -> None:
    by_number = replace(CEILINGS, snapshot_owners=("602401143452",))
    answers = VolumeAnswers(snapshots=[snapshot(owner="602401143452", OwnerAlias="amazon")])

    (refused,) = find_volume_problems(
        (replace(ROOT, snapshot_id="snap-1"),), answers, by_number, field="spec.blockDeviceMappings"
    )

    assert "nodes may not have snap-1 of amazon; the settings allow owners 602401143452" in refused.message


@pytest.mark.parametrize("key", [KEY, "1234abcd-12ab-34cd-56ef-1234567890ab", "alias/aws/ebs"])
def test_a_key_of_the_settings_may_be_named_by_arn_or_id(key: str) -> None:
    assert problems_of(replace(ROOT, encrypted=True, kms_key_id=key)) == []


@pytest.mark.parametrize("key", ["alias/mine", "not a key", KEY.replace("1234abcd", "ffff0000")])
def test_a_key_that_the_settings_do_not_name_is_refused(key: str) -> None:
    assert problems_of(replace(ROOT, encrypted=True, kms_key_id=key)) == [
        f"spec.blockDeviceMappings[0].ebs.kmsKeyID: {key}: the settings' kmsKeys name {KEY}, and without a "
        f"grant the instance would end "
        "seconds after its launch: add the key's ARN to kmsKeys of nodeClasses in clusters/NAME.yaml, deploy, "
        "and see docs/kms.md"
    ]


def test_a_key_needs_encryption() -> None:
    assert problems_of(replace(ROOT, kms_key_id=KEY)) == [
        f"spec.blockDeviceMappings[0].ebs.kmsKeyID: {KEY}: EC2 takes a key only with encrypted: true: set encrypted"
    ]


@pytest.mark.parametrize(
    ("devices", "defaults", "refused"),
    [
        ((replace(ROOT, encrypted=True),), EbsDefaults("arn:aws:kms:us-east-1:123456789012:key/other"), True),
        ((replace(ROOT, encrypted=True),), EbsDefaults(KEY), False),
        ((replace(ROOT, encrypted=True),), EbsDefaults(), False),
        (
            (replace(ROOT, encrypted=True, kms_key_id=KEY),),
            EbsDefaults("arn:aws:kms:us-east-1:123456789012:key/other"),
            False,
        ),
        ((ROOT,), EbsDefaults("arn:aws:kms:us-east-1:123456789012:key/other"), False),
        ((ROOT,), EbsDefaults("arn:aws:kms:us-east-1:123456789012:key/other", encrypted=True), True),
        ((), EbsDefaults("arn:aws:kms:us-east-1:123456789012:key/other"), True),  # the family's own volume is encrypted
    ],
)
def test_the_accounts_default_key_counts_where_a_volume_would_have_it(
    devices: tuple[BlockDevice, ...], defaults: EbsDefaults, refused: bool
) -> None:
    reasons = [reason for _, reason, _ in refusals(replace(TEMPLATE, block_devices=devices), ebs_defaults=defaults)]

    assert reasons == (["DefaultKMSKeyNotAllowed"] if refused else [])
