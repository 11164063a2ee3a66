"""A launch template of a user: the class that it stands for, what it may not contain, and what its launches contain."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from joiner.catalogue import Catalogue, InstanceType
from joiner.cluster import Resources
from joiner.launching import LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from joiner.launching.node_class_queries import build_queries
from joiner.launching.node_class_resolution import resolve_node_class
from joiner.launching.user_launch_templates import (
    DescribedTemplate,
    explain_absence,
    find_content_problems,
    refuse_template,
)
from joiner.pools import (
    BlockDevice,
    ImageTerm,
    LaunchTemplateVersion,
    MetadataOptions,
    NodeClaimTemplate,
    NodeClass,
    NodeClassProblem,
    NodeClassRef,
    NodePool,
    SecurityGroupTerm,
    SubnetTerm,
    build_node_claim,
    complete_class,
)
from joiner.pools.node_class import ConnectionTracking, NetworkInterface, PlacementGroupTerm
from tests.unit.launching.launch_scenario import CEILINGS, CLUSTER, GROUPS, SUBNETS, VERSION, found

ID = "lt-0123456789abcdef0"
SCRIPT = "#!/bin/sh\n/etc/eks/bootstrap.sh prod # karpenter.sh/unregistered\n"
DATA: dict[str, Any] = {
    "ImageId": "ami-mine",
    "SecurityGroupIds": ["sg-1"],
    "IamInstanceProfile": {"Arn": "arn:aws:iam::123456789012:instance-profile/a/special"},
    "UserData": base64.b64encode(SCRIPT.encode()).decode(),
}
DECLARED = NodeClass(
    "default",
    "AWSNodeTemplate",
    subnet_terms=(SubnetTerm({"karpenter.sh/discovery": "prod"}),),
    metadata_options=MetadataOptions(http_put_response_hop_limit=2),
    launch_template="mine",
    tags={"team": "a"},
)
ALLOWED: NodeClassPolicy = replace(CEILINGS, launch_templates=AllowedResources((ID,)))


DESCRIBED = DescribedTemplate.from_ec2(
    {
        "LaunchTemplateId": ID,
        "LaunchTemplateName": "mine",
        "LatestVersionNumber": 3,
        "Tags": [{"Key": "a", "Value": ""}],
    }
)


def template(**data: Any) -> LaunchTemplateVersion:
    return DESCRIBED.with_version({"VersionNumber": 3, "LaunchTemplateData": {**DATA, **data}})


def shown(problems: Sequence[NodeClassProblem]) -> list[str]:
    return [f"{each.reason}: {each.message}" for each in problems if each.severity == "error"]


def errors(one: LaunchTemplateVersion) -> list[str]:
    return shown(find_content_problems(DECLARED, one))


def complete(**data: Any) -> NodeClass:
    return complete_class(DECLARED, template(**data))


def test_the_template_decides_all_but_subnets_tags_and_context() -> None:
    made = complete(
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 80, "VolumeType": "gp3"}}],
        MetadataOptions={"HttpTokens": "optional"},
        Monitoring={"Enabled": True},
        Placement={"GroupName": "near", "Tenancy": "default"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "cost", "Value": "9"}]}],
    )

    assert made == replace(
        DECLARED,
        ami_family="Custom",
        image_terms=(ImageTerm(id="ami-mine"),),
        security_group_terms=(SecurityGroupTerm(id="sg-1"),),
        instance_profile="special",
        user_data=SCRIPT,
        block_devices=(BlockDevice("/dev/xvda", 80, "gp3"),),
        metadata_options=MetadataOptions(http_tokens="optional", http_put_response_hop_limit=2),
        detailed_monitoring=True,
        placement_group=PlacementGroupTerm(name="near"),
        tags={"cost": "9", "team": "a"},
    )


def test_interfaces_of_the_template_are_those_of_the_nodes() -> None:
    single = {"DeviceIndex": 0, "Groups": ["sg-1"], "AssociatePublicIpAddress": True, "Ipv4PrefixCount": 2}
    tracked = {**single, "ConnectionTrackingSpecification": {"UdpTimeout": 45}}
    second = {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa-only", "Groups": ["sg-1"]}

    alone = complete(SecurityGroupIds=[], NetworkInterfaces=[tracked])
    both = complete(SecurityGroupIds=[], NetworkInterfaces=[{"DeviceIndex": 0, "Groups": ["sg-1"]}, second])

    assert (alone.associate_public_ip_address, alone.ip_prefix_count) == (True, 2)
    assert alone.connection_tracking == ConnectionTracking(udp=45)
    assert alone.network_interfaces == ()
    assert both.network_interfaces == (NetworkInterface(0, 0), NetworkInterface(1, 1, "efa-only"))
    assert both.security_group_terms == (SecurityGroupTerm(id="sg-1"),)


def test_an_efa_only_interface_before_the_others_hides_none_of_their_options() -> None:
    first = {"DeviceIndex": 1, "InterfaceType": "efa-only", "Groups": ["sg-1"]}
    options = {"AssociatePublicIpAddress": False, "Ipv4PrefixCount": 2}
    second = {"DeviceIndex": 0, "Groups": ["sg-1"], **options, "ConnectionTrackingSpecification": {"UdpTimeout": 45}}

    found = complete(SecurityGroupIds=[], NetworkInterfaces=[first, second])

    assert (found.associate_public_ip_address, found.ip_prefix_count) == (False, 2)
    assert found.connection_tracking == ConnectionTracking(udp=45)
    assert found.network_interfaces == (NetworkInterface(0, 1, "efa-only"), NetworkInterface(0, 0))


def test_an_image_may_be_a_public_parameter() -> None:
    asked = build_queries(complete(ImageId="resolve:ssm:/aws/service/some/image"), VERSION, cluster="prod")

    assert asked.image_parameters == ("/aws/service/some/image",)


def test_a_plain_template_has_no_problem() -> None:
    assert refuse_template(DECLARED, ALLOWED) == refuse_template(DECLARED, ALLOWED, DESCRIBED) == []
    assert find_content_problems(DECLARED, template()) == []


def test_a_template_that_does_not_exist_is_named() -> None:
    assert shown(explain_absence(DECLARED)) == [
        "LaunchTemplateNotFound: spec.launchTemplate: there is no launch template mine: create it, or name another"
    ]


def test_a_version_that_is_deleted_while_it_is_read_is_named_and_its_template_is_not_called_absent() -> None:
    assert shown(explain_absence(DECLARED, replace(DESCRIBED, latest=7))) == [
        f"LaunchTemplateNotFound: spec.launchTemplate: version 7, the latest of the launch template {DESCRIBED.name} "
        f"({DESCRIBED.id}), was deleted while Joiner read it: the next resolution of the class reads the latest "
        "version again"
    ]


def test_without_the_setting_a_class_with_a_template_is_refused_with_the_setting() -> None:
    refused = [
        "LaunchTemplateNotAllowed: spec.launchTemplate: the settings allow no launch template: allow mine by its id or "
        "by a tag in nodeClasses.launchTemplates in clusters/NAME.yaml, and deploy"
    ]
    assert shown(refuse_template(DECLARED, CEILINGS)) == refused
    assert shown(refuse_template(DECLARED, CEILINGS, DESCRIBED)) == refused
    assert refuse_template(replace(DECLARED, launch_template=None), CEILINGS) == []


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        (AllowedResources(("lt-00000000000000001",)), True),
        (AllowedResources((ID,)), False),
        (AllowedResources(tags={"a": ("*",)}), False),
        (AllowedResources(tags={"a": ("b",)}), True),
        (AllowedResources(), True),
    ],
    ids=["another id", "its id", "its tag", "its tag with another value", "none"],
)
def test_a_template_outside_the_settings_is_refused_with_the_setting(allowed: AllowedResources, refused: bool) -> None:
    problems = refuse_template(DECLARED, replace(CEILINGS, launch_templates=allowed), DESCRIBED)

    assert bool(problems) is refused
    for message in shown(problems):
        assert message.startswith("LaunchTemplateNotAllowed: spec.launchTemplate: the settings do not allow the launch")
        remedy = "tag it so, or add it to" if allowed.tags else "add it to"
        assert f"they allow {allowed}: {remedy} nodeClasses.launchTemplates" in message


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"KeyName": "mine"}, "sets KeyName: Joiner's role may use no key pair"),
        ({"DisableApiTermination": True}, "sets DisableApiTermination: Joiner could not terminate the node"),
        ({"InstanceMarketOptions": {"MarketType": "spot"}}, "sets InstanceMarketOptions.MarketType: the requirements"),
        ({"InstanceRequirements": {"VCpuCount": {"Min": 2}}}, "sets InstanceRequirements.VCpuCount: the requirements"),
        (
            {"CapacityReservationSpecification": {"CapacityReservationPreference": "open"}},
            "sets CapacityReservationSpecification.CapacityReservationPreference: reservations are selected",
        ),
        ({"CpuOptions": {"CoreCount": 1, "ThreadsPerCore": 1}}, "sets CpuOptions.CoreCount: plans count"),
        ({"CreditSpecification": {"CpuCredits": "standard"}}, "sets CreditSpecification.CpuCredits: plans and prices"),
        ({"Placement": {"Tenancy": "dedicated"}}, "sets Placement.Tenancy: subnetSelector decides"),
        ({"Placement": {"AvailabilityZone": "us-east-1a"}}, "sets Placement.AvailabilityZone: subnetSelector decides"),
        ({"MetadataOptions": {"InstanceMetadataTags": "enabled"}}, "sets MetadataOptions.InstanceMetadataTags: pods"),
        ({"HibernationOptions": {"Configured": True}}, "sets HibernationOptions.Configured: Joiner does not set it"),
        ({"LicenseSpecifications": [{"LicenseConfigurationArn": "a"}]}, "sets LicenseSpecifications."),
        (
            {"BlockDeviceMappings": [{"DeviceName": "/dev/xvdb", "VirtualName": "ephemeral0"}]},
            "sets BlockDeviceMappings.VirtualName: Joiner does not set it",
        ),
        (
            {"BlockDeviceMappings": [{"DeviceName": "/dev/xvdb", "Ebs": {"EbsCardIndex": 1}}]},
            "sets BlockDeviceMappings.Ebs.EbsCardIndex: Joiner does not set it",
        ),
        ({"NetworkInterfaces": [{"SubnetId": "subnet-1", "Groups": ["sg-1"]}]}, "sets NetworkInterfaces.SubnetId"),
        ({"NetworkInterfaces": [{"NetworkInterfaceId": "eni-1"}]}, "sets NetworkInterfaces.NetworkInterfaceId"),
        ({"NetworkInterfaces": [{"DeviceIndex": 1, "Groups": ["sg-1"]}]}, "has no interface with the device index 0"),
        ({"NetworkInterfaces": [{"InterfaceType": "efa", "Groups": ["sg-1"]}]}, "has an interface of the type efa"),
        (
            {"NetworkInterfaces": [{"Groups": ["sg-1"]}, {"DeviceIndex": 1, "Groups": ["sg-2"]}]},
            "has interfaces with different security groups",
        ),
        (
            {
                "NetworkInterfaces": [
                    {"Groups": ["sg-1"], "Ipv4PrefixCount": 1},
                    {"DeviceIndex": 1, "Groups": ["sg-1"], "Ipv4PrefixCount": 2},
                ]
            },
            "has interfaces with different values of Ipv4PrefixCount",
        ),
        ({"ImageId": ""}, "names no image: set ImageId"),
        ({"SecurityGroupIds": []}, "names no security group"),
        ({"UserData": base64.b64encode(b"\x1f\x8b\x08\xff").decode()}, "has user data that is no text"),
        (
            {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "karpenter.sh/nodepool"}]}]},
            "sets the tag karpenter.sh/nodepool",
        ),
        (
            {
                "TagSpecifications": [
                    {"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "1"}]},
                    {"ResourceType": "volume", "Tags": [{"Key": "a", "Value": "2"}]},
                ]
            },
            "gives a different values for different resources",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_nodes_would_not_get_is_refused_by_name(data: dict[str, Any], says: str) -> None:
    messages = errors(template(**data))

    assert any(f"spec.launchTemplate: version 3 of mine {says}" in each for each in messages), messages
    assert all(each.startswith("LaunchTemplateNotSupported: ") for each in messages)


def test_values_that_equal_a_default_are_no_problem() -> None:
    found = template(
        CapacityReservationSpecification={"CapacityReservationPreference": "none"},
        DisableApiTermination=False,
        HibernationOptions={"Configured": False},
        MetadataOptions={"State": "applied", "InstanceMetadataTags": "disabled", "HttpTokens": "required"},
        Placement={"Tenancy": "default"},
    )

    assert find_content_problems(DECLARED, found) == []


def test_fields_without_effect_are_reported() -> None:
    (problem,) = find_content_problems(DECLARED, template(InstanceType="m5.large", EbsOptimized=True))

    assert (problem.reason, problem.severity) == ("WithoutEffect", "info")
    assert "InstanceType has no effect: the requirements of the pool decide the instance type" in problem.message


def resolve(**data: Any) -> list[tuple[str, str]]:
    """Return reason and message of what the account refuses of a template's content."""
    image = {"ImageId": "ami-mine", "Architecture": "x86_64", "CreationDate": "2026-11-01", "OwnerId": "123456789012"}
    answers = found(images=[image], profile_roles={"special": ["special"], "other": ["other"]})
    made = resolve_node_class(complete(**data), answers, ALLOWED, cluster="prod", kubernetes_version=VERSION)
    return [(each.reason, each.message) for each in made.problems if each.severity == "error"]


def test_the_limits_of_the_settings_hold_for_the_content() -> None:
    assert resolve() == []
    ((reason, message),) = resolve(IamInstanceProfile={"Name": "other"})
    assert reason == "RoleNotAllowed"
    assert message.startswith(
        "spec.launchTemplate (its instanceProfile): the instance profile other has the role other"
    )
    key = {"VolumeSize": 20, "KmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/other", "Encrypted": True}
    ((reason, _),) = resolve(BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": key}])
    assert reason == "KMSKeyNotAllowed"


def test_a_launch_has_the_content_and_joiners_tags_in_a_template_of_joiner() -> None:
    made = complete()
    image = {"ImageId": "ami-mine", "Architecture": "x86_64", "CreationDate": "2026-11-01", "OwnerId": "123456789012"}
    answers = found(images=[image], subnets=SUBNETS, security_groups=GROUPS, profile_roles={"special": ["special"]})
    resolved = replace(
        resolve_node_class(made, answers, ALLOWED, cluster="prod", kubernetes_version=VERSION),
        launch_template=template(),
    )
    pool = NodePool("default", NodeClassRef("AWSNodeTemplate", "default"), kind="Provisioner", uid="u-1")
    m5 = InstanceType("m5.large", {"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.large"})
    claim = build_node_claim(
        pool, NodeClaimTemplate(requests=Resources.of(cpu=1)), suffix="a", lease=1, execution="up-1"
    )
    offer = LaunchOffering(0.096, "m5.large", "us-east-1a")

    ((launch,), refusals) = group_launches(
        [ClaimToLaunch(claim, pool, made, resolved, "on-demand", (offer,))],
        Catalogue.of([m5]),
        CLUSTER,
        execution="up-1",
    )

    (used,) = launch.templates
    assert refusals == ()
    assert used.name.startswith("joiner/prod/")
    assert {name: used.data[name] for name in ("ImageId", "UserData", "SecurityGroupIds")} == {
        name: DATA[name] for name in ("ImageId", "UserData", "SecurityGroupIds")
    }
    assert used.data["IamInstanceProfile"] == {"Name": "special"}
    assert used.data["CapacityReservationSpecification"] == {"CapacityReservationPreference": "none"}
    tags = {tag["Key"]: tag["Value"] for tag in used.data["TagSpecifications"][0]["Tags"]}
    assert tags["kubernetes.io/cluster/prod"] == "owned"
    assert tags["team"] == "a"
    assert launch.user_template is not None
    assert "UserData" not in launch.user_template.data
    assert type(launch).from_json(launch.to_json()) == launch
