"""What each function may ask of EC2 and other services: creation only with our tags, changes only of what carries them.

Keys of IAM conditions hold the cluster's name, which is why the name is known at synthesis: CloudFormation resolves values, never keys.
The tag keys are those of `joiner.names`, which the launching code uses: the two cannot drift apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import aws_iam as iam

from infra.node_class_limits import NodeClassLimit, security_group_limit, snapshot_limit, subnet_limit
from infra.settings import Settings, node_role_name
from joiner.names import CLUSTER_NAME_TAG, CLUSTER_TAG, NAME_TAG, NODECLAIM, NODEPOOL, cluster_tag, profile_path

LAUNCHED_KINDS: Final = (
    "fleet",
    "instance",
    "launch-template",
    "network-interface",
    "spot-instances-request",
    "volume",
)
"""What a launch makes; each must carry our tags in the request that makes it."""

CREATE_ACTIONS: Final = ("CreateFleet", "CreateLaunchTemplate", "RunInstances")


FLEET_DESCRIBE_CALLS: Final = (
    "CapacityReservations",
    "Images",
    "InstanceTypeOfferings",
    "InstanceTypes",
    "Instances",
    "LaunchTemplateVersions",
    "LaunchTemplates",
    "PlacementGroups",
    "SecurityGroups",
    "SpotPriceHistory",
    "Subnets",
)
"""What a launch reads. Our code asks for Instances and LaunchTemplateVersions; the others CreateFleet may ask for in the caller's name, so
they are in the policy that Karpenter publishes for its controller (DescribeInstanceStatus aside, which only its interruption handling
uses). The local EC2 does not ask for them: no local run shows whether one of them is needed."""


@dataclass(frozen=True, slots=True)
class AccountRegion:
    """Where the deployment is; account and region may be known to CloudFormation only."""

    partition: str
    region: str
    account: str

    def ec2(self, kind: str) -> str:
        """All resources of a kind in the account."""
        return f"arn:{self.partition}:ec2:{self.region}:{self.account}:{kind}/*"

    def public_ec2(self, kind: str) -> str:
        """Images and snapshots: their ARNs name no account."""
        return f"arn:{self.partition}:ec2:{self.region}::{kind}/*"


@dataclass(frozen=True, slots=True)
class ClusterNetwork:
    """Ids of the subnets and of the security group that EKS describes as the cluster's own; CloudFormation resolves them."""

    subnets: Sequence[str]
    security_groups: Sequence[str]


def allow_launches(
    settings: Settings, where: AccountRegion, node_roles: Sequence[str], own: ClusterNetwork
) -> list[iam.PolicyStatement]:
    """CreateFleet and all that it does in the caller's name (RunInstances, PassRole), and tagging what was launched."""
    asked = _cluster_tag_conditions("aws:RequestTag", settings.cluster)
    owned = _cluster_tag_conditions("aws:ResourceTag", settings.cluster)
    launching = ["ec2:CreateFleet", "ec2:RunInstances"]
    owners = _owner_condition_values(settings.image_owners, where)
    return [
        # A fleet needs both permissions for everything, so one of them is enough to hold images to their owners
        _allow(["ec2:RunInstances"], [where.public_ec2("image")], {"StringEquals": {"ec2:Owner": owners}}),
        _allow(["ec2:CreateFleet"], [where.public_ec2("image")]),
        *_allow_use_of(launching, where.ec2("subnet"), subnet_limit(settings), {"ec2:SubnetID": own.subnets}),
        *_allow_use_of(
            launching,
            where.ec2("security-group"),
            security_group_limit(settings),
            {"ec2:SecurityGroupID": own.security_groups},
        ),
        *_allow_use_of(launching, where.public_ec2("snapshot"), snapshot_limit(settings)),
        *_allow_snapshots_of_owners(launching, where, settings),
        *_allow_encryption(settings, where),
        _allow(launching, [where.ec2("launch-template")], owned),
        _allow([*launching, "ec2:CreateLaunchTemplate"], [where.ec2(kind) for kind in LAUNCHED_KINDS], asked),
        _allow(
            ["ec2:CreateTags"],
            [where.ec2(kind) for kind in LAUNCHED_KINDS],
            {**asked, "StringEquals": {**asked["StringEquals"], "ec2:CreateAction": list(CREATE_ACTIONS)}},
        ),
        allow_naming_instances(settings, where),
        _allow(
            ["iam:PassRole"],
            list(node_roles),
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        allow_describing(settings, *FLEET_DESCRIBE_CALLS),
    ]


def allow_naming_instances(settings: Settings, where: AccountRegion) -> iam.PolicyStatement:
    """Tag an instance of ours with its claim after the launch, and with nothing else."""
    owned = _cluster_tag_conditions("aws:ResourceTag", settings.cluster)
    named = {**owned, "ForAllValues:StringEquals": {"aws:TagKeys": [NAME_TAG, NODECLAIM]}}
    return _allow(["ec2:CreateTags"], [where.ec2("instance")], named)


def allow_terminations(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """End instances that carry our tags, and no others."""
    return [
        _allow(
            ["ec2:TerminateInstances"],
            [where.ec2("instance")],
            _cluster_tag_conditions("aws:ResourceTag", settings.cluster),
        ),
        allow_describing(settings, "Instances"),
    ]


def allow_resolving_node_classes(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """Look up what a node class names."""
    return [
        allow_describing(settings, "Images", "SecurityGroups", "Snapshots", "Subnets"),
        # Calls without resources, as the Describe calls
        _allow(["ec2:GetEbsDefaultKmsKeyId", "ec2:GetEbsEncryptionByDefault"], ["*"], _in_region(settings)),
        _allow(
            ["ssm:GetParameter", "ssm:GetParameters"],
            [f"arn:{where.partition}:ssm:{where.region}::parameter/aws/service/*"],
        ),
        _allow(["iam:GetInstanceProfile"], [f"arn:{where.partition}:iam::{where.account}:instance-profile/*"]),
    ]


def allow_keeping_node_access(
    settings: Settings, where: AccountRegion, node_roles: Sequence[str]
) -> list[iam.PolicyStatement]:
    """Make access entries for nodes, of the roles of the settings and no others; remove what a deployment made, and nothing else."""
    cluster = f"arn:{where.partition}:eks:{where.region}:{where.account}:cluster/{settings.cluster}"
    entries = f"arn:{where.partition}:eks:{where.region}:{where.account}:access-entry/{settings.cluster}/*"
    # IAM's ARNs hold a path without its first slash; listing by a path asks for the path itself
    profiles = (
        f"arn:{where.partition}:iam::{where.account}:instance-profile{profile_path(settings.cluster, settings.region)}*"
    )
    own_role = f"arn:{where.partition}:iam::{where.account}:role/{node_role_name(settings)}"
    marked = {f"aws:RequestTag/{CLUSTER_TAG}": settings.cluster}
    return [
        _allow(["eks:ListAccessEntries"], [cluster]),
        _allow(
            ["eks:CreateAccessEntry"],
            [cluster],
            {
                "StringEquals": {**marked, "eks:accessEntryType": "EC2_LINUX"},
                "ArnEquals": {"eks:principalArn": list(node_roles)},
            },
        ),
        _allow(["eks:TagResource"], [entries], {"StringEquals": marked}),
        _allow(["eks:DescribeAccessEntry"], [entries]),
        _allow(
            ["eks:DeleteAccessEntry"], [entries], {"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": settings.cluster}}
        ),
        _allow(
            [
                "iam:ListInstanceProfiles",
                "iam:GetInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:DeleteInstanceProfile",
            ],
            [profiles],
        ),
        _allow(["iam:ListInstanceProfilesForRole"], [f"arn:{where.partition}:iam::{where.account}:role/*"]),
        _allow(
            [
                "iam:GetRole",
                "iam:ListAttachedRolePolicies",
                "iam:ListRolePolicies",
                "iam:DetachRolePolicy",
                "iam:DeleteRole",
            ],
            [own_role],
        ),
        allow_describing(settings, "Instances"),
    ]


def allow_reading_prices(settings: Settings) -> list[iam.PolicyStatement]:
    """Instance types, where they are offered, and what they cost; the price list has no resources and one region."""
    return [
        allow_describing(settings, "InstanceTypeOfferings", "InstanceTypes", "SpotPriceHistory"),
        _allow(["pricing:GetProducts"], ["*"]),
    ]


def allow_describing(settings: Settings, *what: str) -> iam.PolicyStatement:
    """EC2's Describe calls know no resources; they are held to the cluster's region."""
    return _allow([f"ec2:Describe{each}" for each in what], ["*"], _in_region(settings))


def _in_region(settings: Settings) -> dict[str, Any]:
    return {"StringEquals": {"aws:RequestedRegion": settings.region}}


def _owner_condition_values(named: Sequence[str], where: AccountRegion) -> list[str]:
    """Owners as the condition key ``ec2:Owner`` has them: a number, or an alias of AWS."""
    return [where.account if owner == "self" else owner for owner in named]


def _allow_use_of(
    actions: Sequence[str], every: str, limit: NodeClassLimit, own: Mapping[str, Sequence[str]] | None = None
) -> list[iam.PolicyStatement]:
    """One statement an alternative, for IAM joins the conditions of a statement by *and*: each tag, the ids, the cluster's own."""
    by_tag = [
        _allow(
            actions,
            [every],
            {"StringLike" if "*" in values else "StringEquals": {f"aws:ResourceTag/{key}": _one_or_all(values)}},
        )
        for key, values in limit.tags.items()
    ]
    named = [f"{every.removesuffix('*')}{identifier}" for identifier in limit.ids]
    by_id = [_allow(actions, named)] if named else []
    return [*by_tag, *by_id, *([_allow(actions, [every], {"StringEquals": own})] if limit.of_cluster and own else [])]


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


def _allow_snapshots_of_owners(
    actions: Sequence[str], where: AccountRegion, settings: Settings
) -> list[iam.PolicyStatement]:
    owners = _owner_condition_values(settings.node_classes.snapshots.owners, where)
    return [_allow(actions, [where.public_ec2("snapshot")], {"StringEquals": {"ec2:Owner": owners}})] if owners else []


def _allow_encryption(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """What EC2 does with a customer-managed key in the name of who launches; without it the instance ends seconds after its launch.

    Source: Amazon EBS user guide, "Permissions for IAM users" of EBS encryption. ReEncrypt* is spelled out.
    """
    keys = list(settings.node_classes.kms_keys)
    if not keys:
        return []
    via = {"kms:ViaService": f"ec2.{where.region}.amazonaws.com"}
    uses = ["Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"]
    return [
        _allow([f"kms:{each}" for each in uses], keys, {"StringEquals": via}),
        _allow(["kms:CreateGrant"], keys, {"StringEquals": via, "Bool": {"kms:GrantIsForAWSResource": "true"}}),
    ]


def _cluster_tag_conditions(kind: str, cluster: str) -> dict[str, Any]:
    """That something carries, or is made with, the three tags by which it is known as ours."""
    return {
        "StringEquals": {f"{kind}/{cluster_tag(cluster)}": "owned", f"{kind}/{CLUSTER_NAME_TAG}": cluster},
        "StringLike": {f"{kind}/{NODEPOOL}": "*"},
    }


def _allow(
    actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
