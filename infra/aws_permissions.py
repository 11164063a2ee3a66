"""Permissions for EC2 and other AWS services: resources are created only with the cluster's tags, and changed only if
they carry them.

Keys of IAM conditions contain the name of the cluster. CloudFormation resolves values but no keys, so the name must be
known at synthesis. The tag keys are those of `joiner.names`, which the launching code uses, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import aws_iam as iam

from infra.calls_by_services import FLEET_DESCRIBE_CALLS
from infra.node_class_limits import (
    NodeClassLimit,
    launch_template_limit,
    placement_group_limit,
    reservation_limit,
    security_group_limit,
    snapshot_limit,
    subnet_limit,
)
from infra.node_role_settings import bare_role_name
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
"""What a launch creates. The request must tag each of them with the cluster's tags."""

CREATE_ACTIONS: Final = ("CreateFleet", "CreateLaunchTemplate", "RunInstances")


@dataclass(frozen=True, slots=True)
class AccountRegion:
    """Partition, region and account of the deployment. Region and account may be tokens that only CloudFormation
    resolves."""

    partition: str
    region: str
    account: str

    def ec2(self, kind: str) -> str:
        """Return the ARN pattern of all EC2 resources of a kind in the account."""
        return f"arn:{self.partition}:ec2:{self.region}:{self.account}:{kind}/*"

    def public_ec2(self, kind: str) -> str:
        """Return the ARN pattern of images or snapshots, whose ARNs contain no account."""
        return f"arn:{self.partition}:ec2:{self.region}::{kind}/*"

    def shared_ec2(self, kind: str) -> str:
        """Return the ARN pattern of resources that other accounts may share, such as subnets: EC2 authorizes their use
        against the ARN of the owner's account."""
        return f"arn:{self.partition}:ec2:{self.region}:*:{kind}/*"


@dataclass(frozen=True, slots=True)
class ClusterNetwork:
    """Ids of the subnets and of the security group that EKS describes as the cluster's own; CloudFormation resolves
    them.

    They are as of the last deployment that changed anything. A subnet that is added to the cluster later is allowed
    from the next such deployment on, unless it carries the cluster's tags; one that is removed stays allowed until
    then.
    """

    subnets: Sequence[str]
    security_groups: Sequence[str]


def allow_launches(
    settings: Settings, where: AccountRegion, node_roles: Sequence[str], own: ClusterNetwork
) -> list[iam.PolicyStatement]:
    """Allow CreateFleet with the calls that it makes in the caller's name (RunInstances, PassRole), and tagging at the
    launch."""
    asked = _cluster_tag_conditions("aws:RequestTag", settings.cluster)
    owned = _cluster_tag_conditions("aws:ResourceTag", settings.cluster)
    launching = ["ec2:CreateFleet", "ec2:RunInstances"]
    owners = _owner_condition_values(settings.image_owners, where)
    return [
        # A fleet needs both permissions for every resource, so a condition on one of them limits the owners of images
        _allow(["ec2:RunInstances"], [where.public_ec2("image")], {"StringEquals": {"ec2:Owner": owners}}),
        _allow(["ec2:CreateFleet"], [where.public_ec2("image")]),
        *_allow_use_of(launching, where.shared_ec2("subnet"), subnet_limit(settings), {"ec2:SubnetID": own.subnets}),
        *_allow_use_of(
            launching,
            where.shared_ec2("security-group"),
            security_group_limit(settings),
            {"ec2:SecurityGroupID": own.security_groups},
        ),
        *_allow_use_of(launching, where.public_ec2("snapshot"), snapshot_limit(settings)),
        *_allow_use_of(launching, where.shared_ec2("capacity-reservation"), reservation_limit(settings)),
        *_allow_use_of(launching, where.shared_ec2("placement-group"), placement_group_limit(settings)),
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
    """Allow two tags on instances of the cluster after their launch: the name, and the NodeClaim."""
    owned = _cluster_tag_conditions("aws:ResourceTag", settings.cluster)
    named = {**owned, "ForAllValues:StringEquals": {"aws:TagKeys": [NAME_TAG, NODECLAIM]}}
    return _allow(["ec2:CreateTags"], [where.ec2("instance")], named)


def allow_reading_consoles(settings: Settings, where: AccountRegion) -> iam.PolicyStatement:
    """Allow reading the console output of instances that carry the cluster's tags, and of no others."""
    owned = _cluster_tag_conditions("aws:ResourceTag", settings.cluster)
    return _allow(["ec2:GetConsoleOutput"], [where.ec2("instance")], owned)


def allow_terminations(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """Allow terminating instances that carry the cluster's tags, and no others."""
    return [
        _allow(
            ["ec2:TerminateInstances"],
            [where.ec2("instance")],
            _cluster_tag_conditions("aws:ResourceTag", settings.cluster),
        ),
        allow_describing(settings, "Instances"),
    ]


def allow_collecting_launch_templates(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """Allow deleting launch templates that carry the cluster's tags, and reading whether instances use them."""
    return [
        _allow(
            ["ec2:DeleteLaunchTemplate"],
            [where.ec2("launch-template")],
            _cluster_tag_conditions("aws:ResourceTag", settings.cluster),
        ),
        allow_describing(settings, "Instances", "LaunchTemplates"),
    ]


def allow_resolving_node_classes(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """Allow looking up what a node class names.

    Launch templates, with the user data of all of them, can be read only if the settings allow any: IAM cannot limit
    which.
    """
    templates = ("LaunchTemplateVersions", "LaunchTemplates") if launch_template_limit(settings) else ()
    return [
        allow_describing(
            settings,
            "CapacityReservations",
            "Images",
            "Instances",
            *templates,
            "PlacementGroups",
            "SecurityGroups",
            "Snapshots",
            "Subnets",
        ),
        # Like the Describe calls, these have no resources
        _allow(["ec2:GetEbsDefaultKmsKeyId", "ec2:GetEbsEncryptionByDefault"], ["*"], _in_region(settings)),
        _allow(
            ["ssm:GetParameter", "ssm:GetParameters"],
            [f"arn:{where.partition}:ssm:{where.region}::parameter/aws/service/*"],
        ),
        _allow(["iam:GetInstanceProfile"], [f"arn:{where.partition}:iam::{where.account}:instance-profile/*"]),
    ]


def allow_keeping_node_access(
    settings: Settings, where: AccountRegion, node_roles: Sequence[str], windows_roles: Sequence[str]
) -> list[iam.PolicyStatement]:
    """Allow creating access entries for the node roles of the settings, and removing what a deployment created."""
    return [
        *_allow_access_entries(settings, where, node_roles, windows_roles),
        *_allow_removing_own_role(settings, where),
        allow_describing(settings, "Instances"),
    ]


def _allow_access_entries(
    settings: Settings, where: AccountRegion, node_roles: Sequence[str], windows_roles: Sequence[str]
) -> list[iam.PolicyStatement]:
    of_type = {
        "EC2_LINUX": [role for role in node_roles if role not in windows_roles],
        "EC2_WINDOWS": list(windows_roles),
    }
    cluster = f"arn:{where.partition}:eks:{where.region}:{where.account}:cluster/{settings.cluster}"
    entries = f"arn:{where.partition}:eks:{where.region}:{where.account}:access-entry/{settings.cluster}/*"
    marked = {f"aws:RequestTag/{CLUSTER_TAG}": settings.cluster}
    return [
        _allow(["eks:ListAccessEntries"], [cluster]),
        *(
            _allow(
                ["eks:CreateAccessEntry"],
                [cluster],
                {
                    "StringEquals": {**marked, "eks:accessEntryType": kind},
                    "ArnEquals": {"eks:principalArn": roles},
                },
            )
            for kind, roles in of_type.items()
            if roles
        ),
        # Not those of other roles: with the tag, this function could delete them
        _allow(["eks:TagResource"], _entries_of(settings, where), {"StringEquals": marked}),
        _allow(["eks:DescribeAccessEntry"], [entries]),
        _allow(
            ["eks:DeleteAccessEntry"], [entries], {"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": settings.cluster}}
        ),
    ]


def _entries_of(settings: Settings, where: AccountRegion) -> list[str]:
    """Return the ARNs of the access entries of the node roles: EKS names the role, and ends them with an id. Not
    documented are the ARN for which EKS checks the tags of an entry that is created, which has no id yet, and whether
    the name of a role with a path has the path."""
    entries = f"arn:{where.partition}:eks:{where.region}:{where.account}:access-entry/{settings.cluster}"
    named = settings.node_roles.names or (node_role_name(settings),)
    roles = dict.fromkeys(each for name in named for each in (name, bare_role_name(name)))
    return [f"{entries}/role/{where.account}/{role}{end}" for role in roles for end in ("", "/*")]


def _allow_removing_own_role(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    # An ARN of IAM contains the path without its first slash; a call that lists by path passes the path itself
    profiles = (
        f"arn:{where.partition}:iam::{where.account}:instance-profile{profile_path(settings.cluster, settings.region)}*"
    )
    own_role = f"arn:{where.partition}:iam::{where.account}:role/{node_role_name(settings)}"
    return [
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
    ]


def allow_reading_prices(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """Allow reading instance types, their offerings and their prices, and, if the settings ask for it, the commitments
    of the account. The price list and the API of savings plans have one region and no resources to name."""
    described = ["InstanceTypeOfferings", "InstanceTypes", "SpotPriceHistory"]
    elsewhere = [] if settings.prices.file else ["pricing:GetProducts"]
    if settings.commitments.from_account:
        described += ["Instances", "ReservedInstances"]
        elsewhere += ["savingsplans:DescribeSavingsPlans", "savingsplans:DescribeSavingsPlanRates"]
    scores = []
    if settings.planning.spot_placement_scores:
        described.append("AvailabilityZones")
        scores.append(_allow(["ec2:GetSpotPlacementScores"], ["*"], _in_region(settings)))
    return [
        allow_describing(settings, *described),
        *scores,
        *([_allow(elsewhere, ["*"])] if elsewhere else []),
        *_allow_decrypting_price_file(settings, where),
    ]


def _allow_decrypting_price_file(settings: Settings, where: AccountRegion) -> list[iam.PolicyStatement]:
    """Allow what S3 does in the reader's name if the bootstrap bucket has a customer-managed key.

    Source: Amazon S3 user guide, "Using server-side encryption with AWS KMS keys".
    """
    if settings.prices.kms_key is None:
        return []
    via = _called_via("s3", where)
    return [_allow(["kms:Decrypt"], [settings.prices.kms_key], {"StringEquals": via})]


def allow_describing(settings: Settings, *what: str) -> iam.PolicyStatement:
    """Allow EC2's Describe calls. They have no resources, so they are limited to the cluster's region."""
    return _allow([f"ec2:Describe{each}" for each in what], ["*"], _in_region(settings))


def _in_region(settings: Settings) -> dict[str, Any]:
    return {"StringEquals": {"aws:RequestedRegion": settings.region}}


def _owner_condition_values(named: Sequence[str], where: AccountRegion) -> list[str]:
    """Return owners as values of the condition key ``ec2:Owner``: an account number, or an alias of AWS."""
    return [where.account if owner == "self" else owner for owner in named]


def _allow_use_of(
    actions: Sequence[str], every: str, limit: NodeClassLimit | None, own: Mapping[str, Sequence[str]] | None = None
) -> list[iam.PolicyStatement]:
    """Return one statement for each alternative (each tag, the ids, the cluster's own), since IAM joins the conditions
    of one statement with *and*. Without a limit every resource is allowed."""
    if limit is None:
        return [_allow(actions, [every])]
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
    """Allow what EC2 does with a customer-managed key in the caller's name. Without it an instance terminates seconds
    after its launch.

    Source: Amazon EBS user guide, "Permissions for IAM users" of EBS encryption. ReEncrypt* is written as its two
    actions.
    """
    keys = list(settings.node_classes.kms_keys)
    if not keys:
        return []
    via = _called_via("ec2", where)
    uses = ["Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"]
    return [
        _allow([f"kms:{each}" for each in uses], keys, {"StringEquals": via}),
        _allow(["kms:CreateGrant"], keys, {"StringEquals": via, "Bool": {"kms:GrantIsForAWSResource": "true"}}),
    ]


def _cluster_tag_conditions(kind: str, cluster: str) -> dict[str, Any]:
    """Return the condition that a resource carries, or a request sets, the three tags that identify Joiner's resources.
    `kind` is `aws:ResourceTag` or `aws:RequestTag`."""
    return {
        "StringEquals": {f"{kind}/{cluster_tag(cluster)}": "owned", f"{kind}/{CLUSTER_NAME_TAG}": cluster},
        "StringLike": {f"{kind}/{NODEPOOL}": "*"},
    }


def _allow(
    actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)


def _called_via(service: str, where: AccountRegion) -> dict[str, Any]:
    """Return the condition that KMS is called by this service. Hosts in China end in `.cn`; no document says whether
    the value of the condition key does, so both are allowed there."""
    host = f"{service}.{where.region}.amazonaws.com"
    return {"kms:ViaService": [host, f"{host}.cn"] if where.region.startswith("cn-") else host}
