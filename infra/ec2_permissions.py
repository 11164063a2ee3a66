"""What each function may ask of EC2 and other services: creation only with our tags, changes only of what carries them.

Keys of IAM conditions hold the cluster's name, which is why the name is known at synthesis: CloudFormation resolves values, never keys.
The tag keys are those of `joiner.names`, which the launching code uses: the two cannot drift apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import aws_iam as iam

from infra.settings import Settings
from joiner.names import CLUSTER_NAME_TAG, NAME_TAG, NODECLAIM, NODEPOOL, cluster_tag

CREATED: Final = ("fleet", "instance", "launch-template", "network-interface", "spot-instances-request", "volume")
"""What a launch makes; each must carry our tags in the request that makes it."""

CREATING: Final = ("CreateFleet", "CreateLaunchTemplate", "RunInstances")


LOOKED_UP_BY_FLEETS: Final = (
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
class Place:
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


def may_launch(settings: Settings, place: Place, node_roles: Sequence[str]) -> list[iam.PolicyStatement]:
    """CreateFleet and all that it does in the caller's name (RunInstances, PassRole), and tagging what was launched."""
    asked = _tags("aws:RequestTag", settings.cluster)
    owned = _tags("aws:ResourceTag", settings.cluster)
    launching = ["ec2:CreateFleet", "ec2:RunInstances"]
    owners = [place.account if owner == "self" else owner for owner in settings.image_owners]
    return [
        # A fleet needs both permissions for everything, so one of them is enough to hold images to their owners
        _allow(["ec2:RunInstances"], [place.public_ec2("image")], {"StringEquals": {"ec2:Owner": owners}}),
        _allow(["ec2:CreateFleet"], [place.public_ec2("image")]),
        _allow(launching, [place.public_ec2("snapshot"), place.ec2("security-group"), place.ec2("subnet")]),
        _allow(launching, [place.ec2("launch-template")], owned),
        _allow([*launching, "ec2:CreateLaunchTemplate"], [place.ec2(kind) for kind in CREATED], asked),
        _allow(
            ["ec2:CreateTags"],
            [place.ec2(kind) for kind in CREATED],
            {**asked, "StringEquals": {**asked["StringEquals"], "ec2:CreateAction": list(CREATING)}},
        ),
        may_name(settings, place),
        _allow(
            ["iam:PassRole"],
            list(node_roles),
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        may_look(settings, *LOOKED_UP_BY_FLEETS),
    ]


def may_name(settings: Settings, place: Place) -> iam.PolicyStatement:
    """Tag an instance of ours with its claim after the launch, and with nothing else."""
    owned = _tags("aws:ResourceTag", settings.cluster)
    named = {**owned, "ForAllValues:StringEquals": {"aws:TagKeys": [NAME_TAG, NODECLAIM]}}
    return _allow(["ec2:CreateTags"], [place.ec2("instance")], named)


def may_terminate(settings: Settings, place: Place) -> list[iam.PolicyStatement]:
    """End instances that carry our tags, and no others."""
    return [
        _allow(["ec2:TerminateInstances"], [place.ec2("instance")], _tags("aws:ResourceTag", settings.cluster)),
        may_look(settings, "Instances"),
    ]


def may_resolve_node_classes(settings: Settings, place: Place) -> list[iam.PolicyStatement]:
    """Look up what a node class names."""
    return [
        may_look(settings, "Images", "SecurityGroups", "Subnets"),
        _allow(["ssm:GetParameter", "ssm:GetParameters"], [f"arn:{place.partition}:ssm:{place.region}::parameter/aws/service/*"]),
        _allow(["iam:GetInstanceProfile"], [f"arn:{place.partition}:iam::{place.account}:instance-profile/*"]),
    ]


def may_read_the_market(settings: Settings) -> list[iam.PolicyStatement]:
    """Instance types, where they are offered, and what they cost; the price list has no resources and one region."""
    return [
        may_look(settings, "AvailabilityZones", "InstanceTypeOfferings", "InstanceTypes", "SpotPriceHistory"),
        _allow(["pricing:GetProducts"], ["*"]),
    ]


def may_look(settings: Settings, *what: str) -> iam.PolicyStatement:
    """EC2's Describe calls know no resources; they are held to the cluster's region."""
    return _allow([f"ec2:Describe{each}" for each in what], ["*"], {"StringEquals": {"aws:RequestedRegion": settings.region}})


def _tags(kind: str, cluster: str) -> dict[str, Any]:
    """That something carries, or is made with, the three tags by which it is known as ours."""
    return {
        "StringEquals": {f"{kind}/{cluster_tag(cluster)}": "owned", f"{kind}/{CLUSTER_NAME_TAG}": cluster},
        "StringLike": {f"{kind}/{NODEPOOL}": "*"},
    }


def _allow(actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, Any] | None = None) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
