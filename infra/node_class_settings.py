"""Settings that limit what node classes may name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated

from infra.settings_reader import TextPattern

KeyArn = TextPattern(
    r"arn:[\w-]+:kms:[a-z0-9-]+:\d{12}:key/[\w-]+",
    "the ARN of a KMS key, not of an alias: arn:aws:kms:REGION:ACCOUNT:key/ID",
)


@dataclass(frozen=True, slots=True)
class AllowedSubnets:
    """Subnets that node classes may select, by id or by tag."""

    ids: Annotated[tuple[str, ...], TextPattern(r"subnet-[0-9a-f]{8,17}", "subnet ids: subnet-0123456789abcdef0")] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One of these tags suffices; the value * matches any value."""


@dataclass(frozen=True, slots=True)
class AllowedSecurityGroups:
    """Security groups that node classes may select, by id or by tag."""

    ids: Annotated[
        tuple[str, ...], TextPattern(r"sg-[0-9a-f]{8,17}", "ids of security groups: sg-0123456789abcdef0")
    ] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One of these tags suffices; the value * matches any value."""


@dataclass(frozen=True, slots=True)
class AllowedSnapshots:
    """Snapshots that volumes of a node class may be created from, by owner, id or tag.

    The snapshots of an image that nodes may boot need no entry: EC2 uses them with the image.
    """

    owners: Annotated[
        tuple[str, ...],
        TextPattern(
            r"self|amazon|aws-marketplace|\d{12}", "amazon, self, aws-marketplace, or account numbers in quotes"
        ),
    ] = ("amazon",)
    """`self` would let node classes mount every snapshot of the account."""
    ids: Annotated[tuple[str, ...], TextPattern(r"snap-[0-9a-f]{8,17}", "snapshot ids: snap-0123456789abcdef0")] = ()
    tags: Mapping[str, str] | None = None
    """One of these tags suffices; the value * matches any value. None: the cluster's tags, as for subnets."""


@dataclass(frozen=True, slots=True)
class AllowedCapacityReservations:
    """Capacity reservations that node classes may select, by id or by tag. EC2 shows the tags of a shared reservation
    to its owner only, so those of other accounts need their id."""

    ids: Annotated[
        tuple[str, ...], TextPattern(r"cr-[0-9a-f]{8,17}", "ids of capacity reservations: cr-0123456789abcdef0")
    ] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One of these tags suffices; the value * matches any value."""


@dataclass(frozen=True, slots=True)
class AllowedPlacementGroups:
    """Placement groups that node classes may select, by name or by tag. Names, because IAM knows groups by name."""

    names: Annotated[tuple[str, ...], TextPattern(r"[!-~ ]{1,255}", "names of placement groups")] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One of these tags suffices; the value * matches any value."""


@dataclass(frozen=True, slots=True)
class AllowedLaunchTemplates:
    """Launch templates that Provisioners and AWSNodeTemplates may name, by id or by tag. Ids, because another template
    may get the name of a deleted one."""

    ids: Annotated[
        tuple[str, ...], TextPattern(r"lt-[0-9a-f]{8,17}", "ids of launch templates: lt-0123456789abcdef0")
    ] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One of these tags suffices; the value * matches any value."""


@dataclass(frozen=True, slots=True)
class NodeClassSettings:
    """What node classes may name: limits that users of kubectl cannot raise."""

    subnets: AllowedSubnets | None = None
    """None: subnets that are tagged for the cluster (`kubernetes.io/cluster/NAME` owned or shared, or
    `karpenter.sh/discovery: NAME`), and those that EKS describes as the cluster's own."""
    security_groups: AllowedSecurityGroups | None = None
    """None: security groups that are tagged for the cluster, and the one that EKS created for it."""
    snapshots: AllowedSnapshots = AllowedSnapshots()
    kms_keys: Annotated[tuple[str, ...], KeyArn] = ()
    """Customer-managed keys that may encrypt volumes: those that node classes name in kmsKeyID, and the account's
    default key for EBS if it is one. `launch_instances` gets the permissions that EC2 needs; the policy of the key must
    allow them, too (docs/kms.md)."""
    capacity_reservations: AllowedCapacityReservations | None = None
    """None: all of the account, and those shared with it."""
    placement_groups: AllowedPlacementGroups | None = None
    """None: all of the account."""
    launch_templates: AllowedLaunchTemplates | None = None
    """None: none. Only with this setting may `resolve_node_classes` read launch templates, those of the whole account:
    IAM cannot limit which, and their user data may contain secrets. `launch_instances` may always read them, because it
    compares its own."""
    validate_launches: bool = True
    """Try the launches of each node class as dry runs, at most every 29 minutes while they are allowed, and write what
    EC2 refuses to the class. false: where a policy refuses dry runs and allows launches."""
