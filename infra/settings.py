"""Settings of one cluster, `clusters/NAME.yaml`: every field with its type, its unit, its default and the reason for
the default.

Deployments differ only by these settings. An unknown key, and a value of the wrong type or out of range, stop the
synthesis with an error that names the file, the field, the value and the remedy. All mistakes of a file are reported
together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

from infra.commitment_settings import NO_COMMITMENTS, CommitmentSettings, check_commitments
from infra.node_class_settings import NodeClassSettings
from infra.node_role_settings import NodeRoleSettings, check_node_roles
from infra.planning_settings import DEFAULT_PLANNING, PlanningSettings, check_planning
from infra.price_settings import NO_PRICE_FILE, PriceSettings, check_prices
from infra.region_names import REGION
from infra.settings_reader import (
    NotEmpty,
    NumberRange,
    OneOf,
    SettingsMistake,
    TextPattern,
    read_settings,
    settings_error,
)
from joiner.names import installer_role_name

HOST_RUNTIME: Final = "host"
"""In `runtime`, the word for this machine: the local stack runs the functions with the newest Python of the machine.
Without the stack it is the interpreter that synthesises."""

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


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """What the functions run on."""

    python: Literal["3.12", "3.13", "3.14", "host"] = "3.14"
    """Lambda's newest runtime for which every dependency has wheels."""
    architecture: Literal["arm64", "x86_64", "host"] = "arm64"
    """A GB-second costs a fifth less than on x86_64."""


@dataclass(frozen=True, slots=True)
class CeilingSettings:
    """Limits that no NodePool can raise, whatever its own limits are."""

    nodes: Annotated[int, NumberRange(0, 5000)] = 100
    """Nodes of Joiner at any time. Enough for a first cluster, and few enough that a mistake is noticed before the
    bill."""
    price_per_hour: Annotated[float, NumberRange(0, 1_000_000)] = 50.0
    """US$ an hour of all nodes of Joiner, at their whole price in plans. 100 nodes of 8 vCPUs cost about 40."""


@dataclass(frozen=True, slots=True)
class NodeEstimateSettings:
    """What nodes have less than EC2 describes. The next refresh of the catalogue, within an hour, uses it."""

    memory_overhead_percent: Annotated[float, NumberRange(0, 50)] = 7.5
    """The share of the memory that hypervisor and firmware use. Karpenter's default, and more than most types use: a
    smaller value packs more pods on a node, and a value that is too small launches nodes that are too small."""
    reserved_interfaces: Annotated[int, NumberRange(0, 15)] = 0
    """Network interfaces of a node that have no addresses for pods: 1 with custom networking of the VPC CNI. The
    kubelet must have a `maxPods` that fits, as with every CNI."""


@dataclass(frozen=True, slots=True)
class VpcSettings:
    """Where functions that call the Kubernetes API run if the cluster's endpoint is private. Functions that call EC2
    run outside any VPC."""

    subnets: Annotated[
        tuple[str, ...],
        TextPattern(r"subnet-[0-9a-f]{8,17}", "subnet ids: subnet-0123456789abcdef0"),
        NotEmpty("at least one subnet, or leave vpc out"),
    ]
    """With a route to the endpoint and to the gateway endpoints of S3 and DynamoDB, which are free. No NAT gateway is
    needed."""
    security_group: Annotated[str, TextPattern(r"sg-[0-9a-f]{8,17}", "a security group's id: sg-0123456789abcdef0")]
    """A group from which the cluster's security group accepts port 443."""


@dataclass(frozen=True, slots=True)
class RouteThrottle:
    """Limits of a route of the doorbell. Beyond them the API server gets 429 and continues; the sweep finds the pods
    and nodes within a minute."""

    rate: Annotated[int, NumberRange(1, 10_000)]
    """Requests a second."""
    burst: Annotated[int, NumberRange(1, 5_000)]
    """Requests at the same time."""


POOLS_THROTTLE: Final = RouteThrottle(rate=5, burst=5)
"""For pools and node classes that changed."""

PODS_THROTTLE: Final = RouteThrottle(rate=60, burst=100)
"""For unschedulable pods. kube-scheduler writes 50 events a second by default, and up to 100 at once after a quiet
time, so none is refused: the API server logs each refused call. Few of the calls are counted (functions/ring_doorbell);
the others cost an invocation of a few milliseconds.
"""

LEFT_FOR_NODES: Final = 10
"""Reserved concurrency that the default burst of pods leaves for nodes."""


@dataclass(frozen=True, slots=True)
class DoorbellSettings:
    """The HTTP API that the cluster's API server calls."""

    pods: RouteThrottle | None = None
    """For unschedulable pods; see `pods_throttle`."""
    nodes: RouteThrottle = RouteThrottle(rate=25, burst=50)
    """A node rings about five times while it registers (created, ready, taints), and ten may register in the same
    second."""
    concurrency: Annotated[int | None, NumberRange(1, 1000)] = None
    """Reserved concurrency of ring_doorbell, so that no other function of the account can use it up: more than the
    bursts of pods and of pools (five), so that rings of nodes are handled during many quick rings of pods. (The
    throttles limit what rings cost.) null: none, because Lambda keeps 100 of an account's quota unreserved, so that an
    account with the quota of a new one, 10, can reserve none."""
    ca_parameter: Annotated[str | None, TextPattern(r"/?[\w./-]{1,1011}", "the name of an SSM parameter")] = None
    """SSM parameter with the CA of the doorbell's certificate. Only the local stack needs it: API Gateway has a public
    certificate."""

    @property
    def pods_throttle(self) -> RouteThrottle:
        """The throttle for unschedulable pods: `pods`, or the default with a burst that a smaller reserved concurrency
        serves.

        >>> DoorbellSettings().pods_throttle.burst, DoorbellSettings(concurrency=65).pods_throttle.burst
        (100, 50)
        """
        if self.pods is not None or self.concurrency is None:
            return self.pods or PODS_THROTTLE
        served = self.concurrency - POOLS_THROTTLE.burst - LEFT_FOR_NODES
        return RouteThrottle(PODS_THROTTLE.rate, max(1, min(PODS_THROTTLE.burst, served)))


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """The sweep reads the cluster and EC2 without a signal. It finds what a lost ring or a crashed execution left."""

    every_minutes: Annotated[int, NumberRange(1, 60)] = 1
    """1 is the highest rate of EventBridge Scheduler. A sweep costs about US$ 0.000005."""
    confirm_after_seconds: Annotated[int, NumberRange(1, 3600)] = 45
    """Seconds between two sweeps that must both miss something before Joiner treats it as gone: EC2 may show a new
    instance only some time after its launch."""
    warm_up_minutes: Annotated[int | None, NumberRange(1, 60)] = 5
    """Minutes between two invocations of each function from a ring to CreateFleet. Lambda ends what is idle for some
    minutes, and the start of six functions takes seconds. They cost about US$ 0.05 a month. null: they are only
    started by a ring that finds its own function cold. Not less than `every_minutes`: sweeps invoke them."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How long pending pods gather before they are planned together. A batch whose controllers have created all their
    pods is planned at once. The defaults are Karpenter's."""

    idle_seconds: Annotated[int, NumberRange(1, 60)] = 1
    """A batch ends when no new pod has come for so long; twice as long if a controller still creates pods."""
    longest_seconds: Annotated[int, NumberRange(1, 300)] = 10
    """A batch ends after so long even if pods keep coming. The lease lasts longer: each listing renews it."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how long logs are kept."""

    retention_days: Annotated[int, OneOf(RETENTION_DAYS)] = 14
    """Documents with decisions stay in the bucket as long."""
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Of the functions. DEBUG logs more of each decision, and costs ingestion."""
    execution_data: bool = True
    """Inputs and outputs of states in the logs of the state machines. They contain names of pods, nodes and pools; set
    it to false where that is not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything in which two clusters differ."""

    cluster: Annotated[
        str, TextPattern(r"[0-9A-Za-z][\w-]{0,63}", "the EKS cluster's name (up to 64 letters, digits, - and _)")
    ]
    """Known at synthesis, because keys of IAM conditions contain it. At most 64 characters, because the name of a state
    machine has at most 80."""
    region: Annotated[str, TextPattern(REGION, "a region's name, such as eu-west-1")]
    account: Annotated[str | None, TextPattern(r"\d{12}", "twelve digits")] = None
    """None: the account of the credentials that deploy."""
    runtime: RuntimeSettings = RuntimeSettings()
    authentication_mode: Literal["API", "API_AND_CONFIG_MAP", "CONFIG_MAP"] = "API"
    """The cluster's authentication mode, as EKS describes it. With CONFIG_MAP the installer maps the roles of nodes and
    functions in the ConfigMap kube-system/aws-auth; with the other modes they have access entries. The deployment is
    refused if EKS describes another mode, because with the wrong mode no role has access."""
    node_roles: NodeRoleSettings = field(default_factory=NodeRoleSettings)
    ceilings: CeilingSettings = CeilingSettings()
    nodes: NodeEstimateSettings = NodeEstimateSettings()
    planning: PlanningSettings = DEFAULT_PLANNING
    commitments: CommitmentSettings = NO_COMMITMENTS
    """Reserved instances and savings plans of the account."""
    prices: PriceSettings = NO_PRICE_FILE
    """Where on-demand prices come from."""
    image_owners: Annotated[
        tuple[str, ...],
        TextPattern(
            r"self|amazon|aws-marketplace|\d{12}", "amazon, self, aws-marketplace, or account numbers in quotes"
        ),
        NotEmpty("at least one owner, since no image could boot otherwise, or leave the key out"),
    ] = ("amazon", "self")
    """Owners of the images that nodes may boot."""
    node_classes: NodeClassSettings = field(default_factory=NodeClassSettings)
    vpc: VpcSettings | None = None
    """None: the cluster's endpoint is public."""
    loopback_endpoint: bool = False
    """Whether the API server is at a loopback address of the machine that runs the functions, as the local stack's is.
    With false, functions send their tokens only to EKS endpoints of the region."""
    doorbell: DoorbellSettings = DoorbellSettings()
    batching: BatchSettings = BatchSettings()
    sweep: SweepSettings = SweepSettings()
    logs: LogSettings = LogSettings()
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Tags of every resource of the deployment."""
    permissions_boundary: Annotated[
        str | None,
        TextPattern(r"arn:[\w-]+:iam::(\d{12}|aws):policy/[\w+=,.@/-]+|[\w+=,.@-]{1,128}", "a policy's name or ARN"),
    ] = None
    """A policy that limits every role of the deployment, where an organisation requires one."""
    alarm_topic: Annotated[
        str | None, TextPattern(r"arn:[\w-]+:sns:[a-z0-9-]+:\d{12}:[\w.-]+", "the ARN of an SNS topic")
    ] = None
    """The topic that alarms notify. None: they show in CloudWatch only."""
    retain_data: bool = False
    """Keep the table and the bucket after `cdk destroy`. Nothing needs them then, since the cluster and EC2 hold the
    state; keep them to replay decisions later."""
    deletion_protection: bool = False
    """Refuse to delete the stack, its table and its bucket. Set it after the first deployment: CloudFormation could not
    roll back a first deployment with protected resources. To remove the stack, deploy once with false."""

    @property
    def uses_aws_auth(self) -> bool:
        """Whether the cluster reads IAM roles from the ConfigMap aws-auth only."""
        return self.authentication_mode == "CONFIG_MAP"


def load_settings(path: Path) -> Settings:
    """Return the settings in one file. Raises SettingsError, and nothing else, for everything that is wrong with it."""
    settings, mistakes = read_settings(path, Settings)
    wrong = {mistake.field.partition(".")[0] for mistake in mistakes}  # checks below read only fields without mistakes
    if not wrong & {"cluster", "region", "nodeRoles"}:
        mistakes += _check_node_role_name(settings)
        mistakes += check_node_roles(settings.node_roles)
        mistakes += _check_installer_role_name(settings)
    if "commitments" not in wrong:
        mistakes += check_commitments(settings.commitments)
    price_file = None if "prices" in wrong else settings.prices.path(path)
    if not wrong & {"prices", "region"}:
        mistakes += check_prices(settings.prices, price_file, settings.region)
    if "planning" not in wrong:
        mistakes += check_planning(settings.planning)
    if "sweep" not in wrong:
        mistakes += _check_warm_ups(settings.sweep)
    if "batching" not in wrong:
        mistakes += _check_batching(settings.batching)
    if "doorbell" not in wrong:
        mistakes += _check_reserved_concurrency(settings)
    if "nodeClasses" not in wrong:
        mistakes += _find_empty_limits(settings)
    if mistakes:
        raise settings_error(path, mistakes)
    if price_file is None:
        return settings
    return replace(settings, prices=replace(settings.prices, file=str(price_file.resolve())))


def _check_node_role_name(settings: Settings) -> list[SettingsMistake]:
    name = node_role_name(settings)
    if settings.node_roles.names or len(name) <= ROLE_NAME_LIMIT:
        return []
    cause = f"the node role would be named {name}, which is longer than IAM's {ROLE_NAME_LIMIT} characters"
    remedy = "create a role and write its name under nodeRoles.names"
    return [SettingsMistake("cluster", f"cluster is {settings.cluster!r}: {cause}: {remedy}")]


def _check_installer_role_name(settings: Settings) -> list[SettingsMistake]:
    name = installer_role_name(settings.cluster, settings.region)
    if not settings.uses_aws_auth or len(name) <= ROLE_NAME_LIMIT:
        return []
    cause = f"the installer's role would be named {name}, which is longer than IAM's {ROLE_NAME_LIMIT} characters"
    remedy = "change the cluster's authentication mode to API_AND_CONFIG_MAP, and write that in authenticationMode"
    return [SettingsMistake("cluster", f"cluster is {settings.cluster!r}: {cause}: {remedy}")]


def _check_batching(batching: BatchSettings) -> list[SettingsMistake]:
    idle, longest = batching.idle_seconds, batching.longest_seconds
    if idle <= longest:
        return []
    message = (
        f"batching.idleSeconds is {idle}: no batch is longer than batching.longestSeconds, {longest}: write at most"
    )
    return [SettingsMistake("batching.idleSeconds", f"{message} that")]


def _check_warm_ups(sweep: SweepSettings) -> list[SettingsMistake]:
    minutes, every = sweep.warm_up_minutes, sweep.every_minutes
    if minutes is None or minutes >= every:
        return []
    cause = f"sweeps keep functions warm, and they run every {every} minutes (sweep.everyMinutes)"
    message = f"sweep.warmUpMinutes is {minutes}: {cause}: write at least {every}, or null"
    return [SettingsMistake("sweep.warmUpMinutes", message)]


def _check_reserved_concurrency(settings: Settings) -> list[SettingsMistake]:
    reserved, others = settings.doorbell.concurrency, settings.doorbell.pods_throttle.burst + POOLS_THROTTLE.burst
    if reserved is None or reserved > others:
        return []
    cause = (
        f"bursts of pods (doorbell.pods.burst) and pools may be {others} concurrent requests and leave none for nodes"
    )
    lower = ", a lower burst" if settings.doorbell.pods is not None else ""
    message = f"doorbell.concurrency is {reserved}: {cause}: reserve more than {others}{lower}, or null"
    return [SettingsMistake("doorbell.concurrency", message)]


def _find_empty_limits(settings: Settings) -> list[SettingsMistake]:
    """Return the limits that allow no subnet or no security group at all: no node could be launched."""
    limits = {"subnets": settings.node_classes.subnets, "securityGroups": settings.node_classes.security_groups}
    empty = [
        f"nodeClasses.{name}" for name, limit in limits.items() if limit is not None and not (limit.ids or limit.tags)
    ]
    return [
        SettingsMistake(where, f"{where} allows none: write ids or tags below it, or leave it out") for where in empty
    ]


def node_role_name(settings: Settings) -> str:
    """Return the name of the node role that the deployment creates; users write this name into their node classes.

    It contains the region because IAM is global and names of clusters are not.
    """
    return f"joiner-node-{settings.cluster}-{settings.region}"
