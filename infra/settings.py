"""The settings of one cluster, `clusters/NAME.yaml`: every field with its type, its unit, its default and why that default.

What stands in the file is the whole of what may differ between two deployments. A key that nobody knows, a value of the wrong type or
out of range stops the synthesis with an error that names the file, the field, the value and what to write instead; all such mistakes of a
file are told together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

from infra.settings_reader import (
    NotEmpty,
    NumberRange,
    OneOf,
    SettingsMistake,
    TextPattern,
    read_settings,
    settings_error,
)

HOST_RUNTIME: Final = "host"
"""In `runtime`, the word for "as on this machine": the local stack runs the functions on the newest Python that the machine has; without
the stack it is the interpreter that synthesises."""

ROLE_NAME_LIMIT: Final = 64

RETENTION_DAYS: Final = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""The periods that CloudWatch Logs accepts."""

RoleName = TextPattern(r"[\w+=,.@-]{1,64}", "a role's name, without its path and without arn:")


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """What the functions run on."""

    python: Literal["3.12", "3.13", "3.14", "host"] = "3.14"
    """Lambda's newest runtime that every dependency has wheels for."""
    architecture: Literal["arm64", "x86_64", "host"] = "arm64"
    """A fifth cheaper a GB-second than x86_64."""


@dataclass(frozen=True, slots=True)
class NodeRoleSettings:
    """Which IAM roles nodes may have: a ceiling, nobody with kubectl can add to it."""

    names: Annotated[tuple[str, ...], RoleName] = ()
    """Names of existing roles; the first is the default and gets an instance profile. None: the deployment makes one, with the four
    policies that EKS asks of a node."""
    manage_node_access_entry: bool = True
    """Make the EC2_LINUX access entries of these roles; one that exists (a node group of the cluster uses the role) is used as it is. Turn
    it off where aws-auth maps the roles."""


@dataclass(frozen=True, slots=True)
class CeilingSettings:
    """What no NodePool can lift, whatever its limits say."""

    nodes: Annotated[int, NumberRange(0, 5000)] = 100
    """Nodes of Joiner at any time. Enough for a first cluster, few enough that a mistake is noticed before the bill."""
    price_per_hour: Annotated[float, NumberRange(0, 1_000_000)] = 50.0
    """US$ an hour of all nodes of Joiner, at the catalogue's prices; 100 nodes of 8 vCPUs cost about 40."""


KeyArn = TextPattern(
    r"arn:[\w-]+:kms:[a-z0-9-]+:\d{12}:key/[\w-]+",
    "the ARN of a KMS key, not of an alias: arn:aws:kms:REGION:ACCOUNT:key/ID",
)


@dataclass(frozen=True, slots=True)
class AllowedSubnets:
    """Subnets that node classes may select: those listed here, by id or by tag."""

    ids: Annotated[tuple[str, ...], TextPattern(r"subnet-[0-9a-f]{8,17}", "subnet ids: subnet-0123456789abcdef0")] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One of these tags is enough; the value * stands for any."""


@dataclass(frozen=True, slots=True)
class AllowedSecurityGroups:
    """Security groups that node classes may select: those listed here, by id or by tag."""

    ids: Annotated[
        tuple[str, ...], TextPattern(r"sg-[0-9a-f]{8,17}", "ids of security groups: sg-0123456789abcdef0")
    ] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """One of these tags is enough; the value * stands for any."""


@dataclass(frozen=True, slots=True)
class AllowedSnapshots:
    """Snapshots that a node class's volumes may begin as: those listed here, by owner, id or tag.

    The snapshots of an image that nodes may boot are not meant: EC2 takes them with the image.
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
    """One of these tags is enough; the value * stands for any. None: the cluster's tags, as for subnets."""


@dataclass(frozen=True, slots=True)
class NodeClassSettings:
    """What node classes may name, whoever may write them: ceilings that nobody with kubectl can lift."""

    subnets: AllowedSubnets | None = None
    """None: those tagged for the cluster (`kubernetes.io/cluster/NAME` owned or shared, or `karpenter.sh/discovery: NAME`), and those
    that EKS describes as the cluster's own."""
    security_groups: AllowedSecurityGroups | None = None
    """None: those tagged for the cluster, and the one that EKS made for it."""
    snapshots: AllowedSnapshots = AllowedSnapshots()
    kms_keys: Annotated[tuple[str, ...], KeyArn] = ()
    """Customer-managed keys that volumes may be encrypted with: those that node classes name in kmsKeyID, and the account's default key
    for EBS if that is one. `launch_instances` gets what EC2 needs of them; the key's own policy must allow it, too (docs/kms.md)."""


@dataclass(frozen=True, slots=True)
class VpcSettings:
    """Where the functions that talk to Kubernetes sit if the cluster's endpoint is private. Those that talk to EC2 sit in none."""

    subnets: Annotated[
        tuple[str, ...],
        TextPattern(r"subnet-[0-9a-f]{8,17}", "subnet ids: subnet-0123456789abcdef0"),
        NotEmpty("at least one subnet, or leave vpc out"),
    ]
    """With a route to the endpoint and to the (free) gateway endpoints of S3 and DynamoDB. No NAT is needed."""
    security_group: Annotated[str, TextPattern(r"sg-[0-9a-f]{8,17}", "a security group's id: sg-0123456789abcdef0")]
    """One that the cluster's security group lets in on port 443."""


@dataclass(frozen=True, slots=True)
class RouteThrottle:
    """What one kind of route lets through. Past it the API server reads 429 and goes on; nothing is lost but the sweep's minute."""

    rate: Annotated[int, NumberRange(1, 10_000)]
    """Requests a second."""
    burst: Annotated[int, NumberRange(1, 5_000)]
    """Requests at once."""


@dataclass(frozen=True, slots=True)
class DoorbellSettings:
    """The HTTP API that the cluster's API server rings."""

    pods: RouteThrottle = RouteThrottle(rate=5, burst=10)
    """Unschedulable pods, and pools or classes that changed. A scale-up folds all rings of a second into one look, so that five a second
    are as good as five hundred."""
    nodes: RouteThrottle = RouteThrottle(rate=25, burst=50)
    """A node rings about five times while it joins (created, ready, taints), and ten may join in the same second."""
    concurrency: Annotated[int | None, NumberRange(1, 100)] = 30
    """Sandboxes set aside for ring_doorbell, so that no other function of the account can starve it: more than the bursts of pods and of
    pools (ten each), so that nodes find room beside a flood of quick rings. (The throttles bound what a flood costs.) null: none. Lambda
    keeps 100 of an account's quota for those without a share: where it is below 130, and a new account's is 10, set less aside, or none."""
    ca_parameter: Annotated[str | None, TextPattern(r"/?[\w./-]{1,1011}", "the name of an SSM parameter")] = None
    """SSM parameter with the CA of the door's certificate. Only the local stack needs it: API Gateway's is a public one."""


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """The look that needs no signal: it mends every lost ring and every dead execution."""

    every_minutes: Annotated[int, NumberRange(1, 60)] = 1
    """EventBridge Scheduler's finest rate. A sweep costs about US$ 0.000005."""
    looks_apart_seconds: Annotated[int, NumberRange(1, 3600)] = 45
    """What is not there is believed after two looks so far apart: EC2 may show a new instance a while after it was launched."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is written down, and for how long."""

    retention_days: Annotated[int, OneOf(RETENTION_DAYS)] = 14
    """As long as decisions stay in the bucket."""
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Of the functions. DEBUG tells more of each decision, and costs ingestion."""
    execution_data: bool = True
    """Inputs and outputs of states in the state machines' logs. They name pods, nodes and pools; turn it off where that is not allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All that differs between two clusters."""

    cluster: Annotated[
        str, TextPattern(r"[0-9A-Za-z][\w-]{0,63}", "the EKS cluster's name (up to 64 letters, digits, - and _)")
    ]
    """Known at synthesis, because keys of IAM conditions hold it. 64, because a state machine's name has 80 characters."""
    region: Annotated[str, TextPattern(r"[a-z]{2,4}(-[a-z]+)+-\d", "a region's name, such as eu-west-1")]
    account: Annotated[str | None, TextPattern(r"\d{12}", "twelve digits")] = None
    """None: the account of whoever deploys."""
    runtime: RuntimeSettings = RuntimeSettings()
    node_roles: NodeRoleSettings = NodeRoleSettings()
    ceilings: CeilingSettings = CeilingSettings()
    image_owners: Annotated[
        tuple[str, ...],
        TextPattern(
            r"self|amazon|aws-marketplace|\d{12}", "amazon, self, aws-marketplace, or account numbers in quotes"
        ),
        NotEmpty("an owner, else no image may boot, or leave the key out"),
    ] = ("amazon", "self")
    """Whose images nodes may boot."""
    node_classes: NodeClassSettings = NodeClassSettings()
    vpc: VpcSettings | None = None
    """None: the cluster's endpoint is public."""
    loopback_endpoint: bool = False
    """The API server is at an address of the machine that runs the functions, and nowhere else. Only the local stack's is: without this,
    functions send their tokens to EKS endpoints of the region only."""
    doorbell: DoorbellSettings = DoorbellSettings()
    sweep: SweepSettings = SweepSettings()
    logs: LogSettings = LogSettings()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """On everything that the deployment makes."""
    permissions_boundary: Annotated[
        str | None,
        TextPattern(r"arn:[\w-]+:iam::(\d{12}|aws):policy/[\w+=,.@/-]+|[\w+=,.@-]{1,128}", "a policy's name or ARN"),
    ] = None
    """A policy that bounds every role of the deployment, where an organisation asks for one."""
    alarm_topic: Annotated[
        str | None, TextPattern(r"arn:[\w-]+:sns:[a-z0-9-]+:\d{12}:[\w.-]+", "the ARN of an SNS topic")
    ] = None
    """Who hears of alarms. None: they show in CloudWatch only."""
    retain_data: bool = False
    """Keep the table and the bucket after `cdk destroy`. Nothing needs them then, the truth is in the cluster and in EC2; keep them to
    replay decisions later."""
    deletion_protection: bool = False
    """Refuse to delete the stack, its table and its bucket. Set it after the first deployment: CloudFormation could not remove what a first
    deployment that fails had protected. To remove the stack, deploy once with false."""


def load_settings(path: Path) -> Settings:
    """The settings in one file. Raises SettingsError, and nothing else, for all that is wrong with it."""
    settings, mistakes = read_settings(path, Settings)
    doorbell_in_doubt = any(mistake.field.startswith("doorbell") for mistake in mistakes)
    name_in_doubt = any(mistake.field.partition(".")[0] in {"cluster", "region", "nodeRoles"} for mistake in mistakes)
    if not name_in_doubt and not settings.node_roles.names and len(name := node_role_name(settings)) > ROLE_NAME_LIMIT:
        too_long = f"the node role would be named {name}, which is longer than IAM's {ROLE_NAME_LIMIT} characters"
        remedy = "make a role and write its name under nodeRoles.names"
        mistakes.append(SettingsMistake("cluster", f"cluster is {settings.cluster!r}: {too_long}: {remedy}"))
    if not doorbell_in_doubt:
        aside, others = settings.doorbell.concurrency, 2 * settings.doorbell.pods.burst
        if aside is not None and aside <= others:
            left = f"doorbell.pods.burst lets pods and pools take {others} at once, so that nodes may find none"
            told = f"doorbell.concurrency is {aside}: {left}: set aside more than {others}, or null"
            mistakes.append(SettingsMistake("doorbell.concurrency", told))
    mistakes += (
        _find_empty_limits(settings) if not any(each.field.startswith("nodeClasses") for each in mistakes) else []
    )
    if mistakes:
        raise settings_error(path, mistakes)
    return settings


def _find_empty_limits(settings: Settings) -> list[SettingsMistake]:
    """Subnets and security groups that the file limits to none: no node could be launched."""
    limits = {"subnets": settings.node_classes.subnets, "securityGroups": settings.node_classes.security_groups}
    empty = [
        f"nodeClasses.{name}" for name, limit in limits.items() if limit is not None and not (limit.ids or limit.tags)
    ]
    return [
        SettingsMistake(where, f"{where} allows none: write ids or tags below it, or leave it out") for where in empty
    ]


def node_role_name(settings: Settings) -> str:
    """What the node role is called if the deployment makes it: people write this name into their node classes.

    The region is in it because IAM is global and cluster names are not.
    """
    return f"joiner-node-{settings.cluster}-{settings.region}"
