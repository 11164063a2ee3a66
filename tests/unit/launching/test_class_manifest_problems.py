"""What a class's manifest shows without AWS is what the cluster reports of it, too."""

from dataclasses import replace

import pytest

from joiner.launching.class_manifest_problems import find_manifest_problems
from joiner.pools import BlockDevice, ImageTerm, KubeletConfiguration, NodeClass
from tests.unit.launching.launch_scenario import CEILINGS, TEMPLATE, resolved

MODERN = replace(TEMPLATE, kind="EC2NodeClass", ami_family="AL2023", image_terms=(ImageTerm(alias="al2023@latest"),))
CUSTOM = replace(MODERN, ami_family="Custom")
KEY = "arn:aws:kms:us-east-1:123456789012:key/99999999-12ab-34cd-56ef-1234567890ab"

CASES: dict[str, tuple[NodeClass, list[str]]] = {
    "a good class": (MODERN, []),
    "no family": (TEMPLATE, ["FamilyAssumed"]),
    "user data that the family cannot read": (
        replace(MODERN, ami_family="Bottlerocket", image_terms=(), user_data="reboot"),
        ["InvalidUserData"],
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
