"""IAM limits the values in node classes to the settings, independently of the resolver."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.node_class_settings import (
    AllowedCapacityReservations,
    AllowedLaunchTemplates,
    AllowedPlacementGroups,
    AllowedSecurityGroups,
    AllowedSnapshots,
    AllowedSubnets,
    NodeClassSettings,
)
from infra.settings import Settings, load_settings
from infra.settings_reader import SettingsError
from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from tests.infra.conftest import Synthesis, Synthesise, flat

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LAUNCHING = ["ec2:CreateFleet", "ec2:RunInstances"]


def statements(synthesis: Synthesis, function: str) -> list[Mapping[str, Any]]:
    """Return the statements of a function's role; a split attribute as its text."""
    functions = synthesis.resources("AWS::Lambda::Function").values()
    chosen = next(
        each
        for each in functions
        if each["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] == function
    )
    role = chosen["Properties"]["Role"]["Fn::GetAtt"][0]
    policies = synthesis.resources("AWS::IAM::Policy").values()
    return [
        flat(each)
        for policy in policies
        if {"Ref": role} in policy["Properties"]["Roles"]
        for each in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def ceilings_of(synthesis: Synthesis) -> dict[str, Any]:
    """Return the ceilings that the resolver gets."""
    functions = synthesis.resources("AWS::Lambda::Function").values()
    variables = [each["Properties"]["Environment"]["Variables"] for each in functions]
    (found,) = (
        each["JOINER_NODE_CLASSES"] for each in variables if each["POWERTOOLS_SERVICE_NAME"] == "resolve_node_classes"
    )
    read: dict[str, Any] = json.loads(found)
    return read


def conditions(synthesis: Synthesis, kind: str) -> list[tuple[str, Any]]:
    """Return the resources and the condition of each statement that allows launching into resources of a kind. CDK
    joins equal statements.
    """
    return [
        (arn.rpartition(":")[2], each.get("Condition"))
        for each in statements(synthesis, "launch_instances")
        if each["Action"] == LAUNCHING
        for arn in (each["Resource"] if isinstance(each["Resource"], list) else [each["Resource"]])
        if f":{kind}/" in arn
    ]


def test_by_default_only_what_is_the_clusters_can_be_used(example: Synthesis) -> None:
    tagged = [
        {"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/example": ["owned", "shared"]}},
        {"StringEquals": {"aws:ResourceTag/karpenter.sh/discovery": "example"}},
    ]
    subnets = conditions(example, "subnet")
    groups = conditions(example, "security-group")

    assert [each for each in subnets if "ec2:SubnetID" not in str(each)] == [("subnet/*", each) for each in tagged]
    assert [each for each in groups if "ec2:SecurityGroupID" not in str(each)] == [
        ("security-group/*", each) for each in tagged
    ]
    assert [("ec2:SubnetID" in str(each), "SubnetIds" in str(each)) for each in subnets[2:]] == [(True, True)]
    assert [("ec2:SecurityGroupID" in str(each), "SecurityGroupId" in str(each)) for each in groups[2:]] == [
        (True, True)
    ]
    assert conditions(example, "snapshot") == [
        *(("snapshot/*", each) for each in tagged),
        ("snapshot/*", {"StringEquals": {"ec2:Owner": ["amazon"]}}),
    ]
    assert conditions(example, "capacity-reservation") == [("capacity-reservation/*", None)]
    assert conditions(example, "placement-group") == [("placement-group/*", None)]


def test_no_function_may_use_a_key_that_the_settings_do_not_name(example: Synthesis) -> None:
    assert [each for each in statements(example, "launch_instances") if "kms:" in str(each["Action"])] == []


@pytest.fixture(scope="session")
def narrowed(synthesise: Synthesise, example_settings: Settings) -> Synthesis:
    chosen = NodeClassSettings(
        subnets=AllowedSubnets(ids=("subnet-0123456789abcdef0",), tags={"tier": "nodes"}),
        security_groups=AllowedSecurityGroups(tags={"tier": "*"}),
        snapshots=AllowedSnapshots(owners=("self",), tags={}),
        kms_keys=(KEY,),
        capacity_reservations=AllowedCapacityReservations(("cr-0123456789abcdef0",), {"team": "ml"}),
        placement_groups=AllowedPlacementGroups(("trainers",)),
        launch_templates=AllowedLaunchTemplates(("lt-0123456789abcdef0",), {"team": "ml"}),
    )
    return synthesise(replace(example_settings, node_classes=chosen))


def test_the_settings_replace_the_default(narrowed: Synthesis) -> None:
    assert conditions(narrowed, "subnet") == [
        ("subnet/*", {"StringEquals": {"aws:ResourceTag/tier": "nodes"}}),
        ("subnet/subnet-0123456789abcdef0", None),
    ]
    assert conditions(narrowed, "security-group") == [
        ("security-group/*", {"StringLike": {"aws:ResourceTag/tier": "*"}})
    ]
    assert sorted(conditions(narrowed, "capacity-reservation")) == [
        ("capacity-reservation/*", {"StringEquals": {"aws:ResourceTag/team": "ml"}}),
        ("capacity-reservation/cr-0123456789abcdef0", None),
    ]
    assert conditions(narrowed, "placement-group") == [("placement-group/trainers", None)]
    assert conditions(narrowed, "snapshot") == [("snapshot/*", {"StringEquals": {"ec2:Owner": ["${AWS::AccountId}"]}})]


def template_calls(synthesis: Synthesis) -> set[str]:
    """Return the calls about launch templates that the resolver may make."""
    granted = {action for each in statements(synthesis, "resolve_node_classes") for action in each["Action"]}
    return {action for action in granted if "LaunchTemplate" in action}


def test_launch_templates_of_users_can_be_read_only_if_the_settings_allow_some(
    example: Synthesis, narrowed: Synthesis, synthesise: Synthesise, example_settings: Settings
) -> None:
    """Their user data may contain secrets, and IAM cannot limit which templates a role reads."""
    nothing = NodeClassSettings(launch_templates=AllowedLaunchTemplates())
    empty = synthesise(replace(example_settings, node_classes=nothing))
    for synthesis in (example, empty):
        assert template_calls(synthesis) == set()
        assert "launchTemplates" not in ceilings_of(synthesis)
        assert NodeClassPolicy((), "").with_limits(ceilings_of(synthesis)).launch_templates is None

    assert template_calls(narrowed) == {"ec2:DescribeLaunchTemplates", "ec2:DescribeLaunchTemplateVersions"}
    allowed = NodeClassPolicy((), "").with_limits(ceilings_of(narrowed)).launch_templates
    assert allowed == AllowedResources(("lt-0123456789abcdef0",), {"team": ("ml",)})


def test_a_key_in_china_can_be_used_through_both_forms_of_the_host(
    synthesise: Synthesise, example_settings: Settings
) -> None:
    key = KEY.replace("arn:aws:kms:eu-west-1", "arn:aws-cn:kms:cn-north-1")
    china = replace(example_settings, region="cn-north-1", node_classes=NodeClassSettings(kms_keys=(key,)))

    (first, *_) = [each for each in statements(synthesise(china), "launch_instances") if "kms:" in str(each["Action"])]

    hosts = ["ec2.cn-north-1.amazonaws.com", "ec2.cn-north-1.amazonaws.com.cn"]
    assert first["Condition"] == {"StringEquals": {"kms:ViaService": hosts}}


def test_a_key_of_the_settings_can_be_used_through_ec2_only(narrowed: Synthesis) -> None:
    via = {"kms:ViaService": "ec2.eu-west-1.amazonaws.com"}
    allowed = [each for each in statements(narrowed, "launch_instances") if "kms:" in str(each["Action"])]

    assert [(each["Action"], each["Resource"], each["Condition"]) for each in allowed] == [
        (
            [
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:GenerateDataKeyWithoutPlaintext",
                "kms:ReEncryptFrom",
                "kms:ReEncryptTo",
            ],
            KEY,
            {"StringEquals": via},
        ),
        ("kms:CreateGrant", KEY, {"StringEquals": via, "Bool": {"kms:GrantIsForAWSResource": "true"}}),
    ]


def test_the_resolver_is_given_the_same_limits(example: Synthesis, narrowed: Synthesis) -> None:
    default = NodeClassPolicy((), "").with_limits(ceilings_of(example)).with_own(["subnet-own"], "sg-own")
    chosen = NodeClassPolicy((), "").with_limits(ceilings_of(narrowed)).with_own(["subnet-own"], "sg-own")

    for tags in ({"kubernetes.io/cluster/example": "shared"}, {"karpenter.sh/discovery": "example"}):
        assert default.subnets.allows("subnet-1", tags)
        assert default.security_groups.allows("sg-1", tags)
        assert default.snapshots.allows("snap-1", tags)
        assert not chosen.subnets.allows("subnet-1", tags)
    assert default.subnets.allows("subnet-own", {})
    assert default.security_groups.allows("sg-own", {})
    assert (default.snapshot_owners, default.kms_keys) == (("amazon",), ())
    assert not chosen.subnets.allows("subnet-own", {})
    assert chosen.subnets.allows("subnet-0123456789abcdef0", {})
    assert chosen.subnets.allows("subnet-1", {"tier": "nodes"})
    assert chosen.security_groups.allows("sg-1", {"tier": "whatever"})
    assert (default.reservations, default.placement_groups) == (None, None), "all are allowed"
    assert chosen.reservations == AllowedResources(("cr-0123456789abcdef0",), {"team": ("ml",)})
    assert chosen.placement_groups == AllowedResources(("trainers",))
    assert (chosen.snapshot_owners, chosen.kms_keys) == (("self",), (KEY,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("subnets: {}", "nodeClasses.subnets allows none: write ids or tags below it, or leave it out"),
        (
            "kmsKeys: [alias/mine]",
            "nodeClasses.kmsKeys[0] is 'alias/mine': write the ARN of a KMS key, not of an alias",
        ),
        ("subnets: {ids: [vpc-1]}", "nodeClasses.subnets.ids[0] is 'vpc-1': write subnet ids"),
        (
            "capacityReservations: {ids: [r-1]}",
            "nodeClasses.capacityReservations.ids[0] is 'r-1': write ids of capacity reservations",
        ),
        ("snapshots: {owners: [anybody]}", "nodeClasses.snapshots.owners[0] is 'anybody': write amazon, self"),
    ],
)
def test_a_limit_that_means_nothing_stops_the_synthesis(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text(f"cluster: prod\nregion: eu-west-1\nnodeClasses:\n  {text}\n")

    with pytest.raises(SettingsError) as refused:
        load_settings(path)

    assert message in str(refused.value)
