"""What a class's manifest shows without AWS is what the cluster reports of it, too."""

from dataclasses import replace

import pytest

from joiner.launching.class_manifest_problems import find_manifest_problems
from joiner.pools import BlockDevice, ImageTerm, KubeletConfiguration, NodeClass
from joiner.pools.node_class import ImageFamily
from tests.unit.launching.launch_scenario import CEILINGS, TEMPLATE, resolved

MODERN = replace(TEMPLATE, kind="EC2NodeClass", ami_family="AL2023", image_terms=(ImageTerm(alias="al2023@latest"),))
CUSTOM = replace(MODERN, ami_family="Custom")
KEY = "arn:aws:kms:us-east-1:123456789012:key/99999999-12ab-34cd-56ef-1234567890ab"

CASES: dict[str, tuple[NodeClass, list[str]]] = {
    "a good class": (MODERN, []),
    "no family": (TEMPLATE, ["FamilyAssumed"]),
    "user data that the family cannot read": (
        replace(MODERN, ami_family="Bottlerocket", image_terms=(), user_data="reboot"),
        ["PodsVolumeNotMapped", "InvalidUserData"],
    ),
    "a parameter of the account": (
        replace(MODERN, image_terms=(ImageTerm(ssm_parameter="/a"),)),
        ["TermNotSupported"],
    ),
    "another owner": (
        replace(MODERN, image_terms=(ImageTerm(name="x", owner="111122223333"),)),
        ["ImageOwnerNotAllowed"],
    ),
    "another role": (replace(MODERN, role="admin"), ["RoleNotAllowed"]),
    "a role without a profile": (replace(MODERN, role="special"), ["InstanceProfileMissing"]),
    "a custom class without user data": (
        replace(CUSTOM, kubelet=KubeletConfiguration({"maxPods": 5}), instance_store_policy="RAID0"),
        ["UserDataMissing", "DeclaredOnly", "DeclaredOnly"],
    ),
    "a root volume of Bottlerocket that has no files of pods": (
        replace(
            MODERN,
            ami_family="Bottlerocket",
            image_terms=(ImageTerm(alias="bottlerocket@latest"),),
            block_devices=(BlockDevice("/dev/xvda", 20, "gp3", root=True),),
        ),
        ["WithoutEffect"],
    ),
    "a root volume that nothing mounts": (
        replace(MODERN, block_devices=(BlockDevice("/dev/xvdb", 100, "gp3", root=True),)),
        ["RootVolumeNotMounted"],
    ),
    "a root volume that user data mounts": (
        replace(MODERN, block_devices=(BlockDevice("/dev/xvdb", 100, "gp3", root=True),), user_data="#!/bin/sh"),
        [],
    ),
    "a NodeConfig that is no YAML": (
        replace(MODERN, user_data="apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: [1,"),
        ["InvalidUserData"],
    ),
    "large user data": (replace(MODERN, user_data="#!" + "x" * 16385), ["UserDataSizeLimitExceeded"]),
    "a volume beyond its type": (
        replace(MODERN, block_devices=(BlockDevice("/dev/xvdb", 20, "sc1"),)),
        ["BlockDeviceInvalid"],
    ),
    "another key": (
        replace(MODERN, block_devices=(BlockDevice("/dev/xvda", 20, "gp3", encrypted=True, kms_key_id=KEY),)),
        ["KMSKeyNotAllowed"],
    ),
}


@pytest.mark.parametrize(("node_class", "reasons"), CASES.values(), ids=CASES)
def test_the_cluster_reports_each_problem_that_the_manifest_shows(node_class: NodeClass, reasons: list[str]) -> None:
    declared = find_manifest_problems(node_class, CEILINGS)

    assert [problem.reason for problem in declared] == reasons
    assert {problem for problem in declared if problem.severity != "info"} <= {*resolved(node_class).problems}


def test_without_the_settings_no_limit_of_the_settings_is_known() -> None:
    beyond = replace(
        MODERN,
        role="admin",
        image_terms=(ImageTerm(name="x", owner="111122223333"),),
        block_devices=(BlockDevice("/dev/xvda", 20, "gp3", encrypted=True, kms_key_id=KEY),),
    )

    assert find_manifest_problems(beyond) == []


def test_the_ranges_of_a_volume_without_a_type_are_those_of_its_image_and_unknown() -> None:
    assert find_manifest_problems(replace(MODERN, block_devices=(BlockDevice("/dev/xvda", 20, iops=4000),))) == []


def volumes(node_class: NodeClass, *devices: BlockDevice) -> list[str]:
    found = find_manifest_problems(replace(node_class, block_devices=devices), CEILINGS)
    assert {one.severity for one in found} <= {"warning", "info"}
    return [one.message for one in found]


def test_a_volume_with_the_name_of_another_familys_root_is_reported_with_the_right_name() -> None:
    data = BlockDevice("/dev/xvdb", 100, "gp3")
    further = "this one is a further volume, and the root keeps the size of the image: write"
    windows = replace(MODERN, ami_family="Windows2022", image_terms=(ImageTerm(alias="windows2022@latest"),))

    for name in ("/dev/sda1", "xvda", "/dev/sda"):
        assert volumes(MODERN, data, BlockDevice(name, 100, "gp3")) == [
            f"spec.blockDeviceMappings[1].deviceName: {name}: the root volume of the images is /dev/xvda: {further} "
            "/dev/xvda"
        ]
    assert volumes(windows, BlockDevice("/dev/xvda", 100, "gp3")) == [
        f"spec.blockDeviceMappings[0].deviceName: /dev/xvda: the root volume of the images is /dev/sda1: {further} "
        "/dev/sda1"
    ]
    assert volumes(MODERN, data) == []
    assert volumes(MODERN, BlockDevice("/dev/xvda", 100, "gp3"), BlockDevice("/dev/sda1", 100, "gp3")) == []


def test_the_root_device_of_images_that_a_class_selects_is_unknown_without_aws() -> None:
    own = replace(MODERN, image_terms=(ImageTerm(id="ami-0123456789abcdef0"),))

    assert volumes(own, BlockDevice("/dev/sda1", 4, "gp3")) == []
    assert volumes(own, BlockDevice("/dev/xvda", 4, "gp3")) == []


@pytest.mark.parametrize(
    ("family", "device", "least"),
    [("AL2023", "/dev/xvda", 20), ("Bottlerocket", "/dev/xvda", 2), ("Windows2022", "/dev/sda1", 50)],
)
def test_a_volume_that_is_smaller_than_the_snapshots_of_awss_images_is_reported(
    family: ImageFamily, device: str, least: int
) -> None:
    alias = ImageTerm(alias=f"{family.lower()}@latest")
    node_class = replace(MODERN, ami_family=family, image_terms=(alias,))

    assert volumes(node_class, BlockDevice(device, least, "gp3")) == []
    assert volumes(node_class, BlockDevice(device, least - 1, "gp3", snapshot_id="snap-1")) == []
    assert volumes(node_class, BlockDevice(device, least - 1, "gp3")) == [
        f"spec.blockDeviceMappings[0].ebs.volumeSize: {least - 1}Gi: the snapshots of AWS's images have {least}Gi or "
        "more, and EC2 refuses a smaller volume (InvalidBlockDeviceMapping): raise volumeSize"
    ]


def test_a_larger_system_volume_of_bottlerocket_does_not_help_pods() -> None:
    bottlerocket = replace(MODERN, ami_family="Bottlerocket", image_terms=(ImageTerm(alias="bottlerocket@latest"),))
    system, of_pods = BlockDevice("/dev/xvda", 100, "gp3"), BlockDevice("/dev/xvdb", 100, "gp3")

    assert volumes(bottlerocket, system) == [
        "spec.blockDeviceMappings: /dev/xvda has only the system: Bottlerocket keeps the files of pods on /dev/xvdb, "
        "which is not mapped and has 20Gi: map it, with the size"
    ]
    assert volumes(bottlerocket, system, of_pods) == volumes(bottlerocket, of_pods) == []
