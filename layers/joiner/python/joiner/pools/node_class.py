"""A node class: the EC2 properties of a pool's nodes. AWSNodeTemplate and the inline provider become the same value."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal

from joiner.pools.conditions import Conditions
from joiner.pools.kubelet_configuration import KubeletConfiguration
from joiner.pools.node_pool import ClassKind, NodeClassRef

ImageFamily = Literal["AL2", "AL2023", "Bottlerocket", "Custom", "Ubuntu", "Windows2019", "Windows2022", "Windows2025"]
InterfaceKind = Literal["interface", "efa-only"]
IpFamily = Literal["ipv4", "ipv6"]
EFA_ONLY: Final[InterfaceKind] = "efa-only"
BESIDE_TEMPLATE: Final = ("context", "launchTemplate", "subnetSelector", "tags")
"""The fields of a class that a launch template does not decide."""

CLASS_API_VERSION: Mapping[ClassKind, str] = {
    "EC2NodeClass": "karpenter.k8s.aws/v1",
    "AWSNodeTemplate": "karpenter.k8s.aws/v1alpha1",
    "Inline": "karpenter.sh/v1alpha5",  # it is a part of a Provisioner, which is its object
}


@dataclass(frozen=True, slots=True)
class SubnetTerm:
    """Subnets by id or by tags (all must match; the value ``*`` requires only the key). Terms are ORed."""

    tags: Mapping[str, str] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class SecurityGroupTerm:
    """Security groups by id, by name or by tags. Terms are ORed."""

    tags: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ImageTerm:
    """Images by alias (``al2023@latest``), by id, by SSM parameter, or by tags, name and owner together.

    Terms are ORed.
    """

    alias: str = ""
    id: str = ""
    name: str = ""
    owner: str = ""
    ssm_parameter: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CapacityReservationTerm:
    """Capacity reservations by id, or by tags, match criteria and owner together. Terms are ORed."""

    tags: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    owner: str = ""
    match: str = ""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One volume of a node; ``size_gib`` is None if the snapshot decides."""

    device_name: str
    size_gib: int | None = None
    volume_type: str | None = None
    _: KW_ONLY
    iops: int | None = None
    throughput: int | None = None
    encrypted: bool | None = None
    kms_key_id: str | None = None
    snapshot_id: str | None = None
    delete_on_termination: bool | None = None
    initialization_rate: int | None = None
    root: bool = False


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """Options of the instance metadata service.

    Defaults are those of EC2NodeClass. The hop limit of an AWSNodeTemplate is 2.
    """

    http_endpoint: str = "enabled"
    http_protocol_ipv6: str = "disabled"
    http_put_response_hop_limit: int = 1
    http_tokens: str = "required"


@dataclass(frozen=True, slots=True, order=True)
class NetworkInterface:
    """One interface of a node: the index of its network card, its index on the card, ``interface`` or ``efa-only``.

    An interface of the kind ``efa-only`` has no addresses: it serves only EFA.
    """

    card: int
    device: int
    kind: InterfaceKind = "interface"


@dataclass(frozen=True, slots=True)
class ConnectionTracking:
    """Timeouts of idle connections in seconds; None is the default of EC2."""

    tcp_established: int | None = None
    udp_stream: int | None = None
    udp: int | None = None


@dataclass(frozen=True, slots=True)
class PlacementGroupTerm:
    """The placement group of a class, by name or by id."""

    name: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class NodeClass:
    """One class as declared; ``ami_family`` is None if it is not set (the cluster's version then decides).

    ``ip_family`` is that of the cluster, in which all pods and services have addresses of one family.
    ``launch_template`` is the name of a template that decides most other fields (``complete_class``).
    """

    name: str
    kind: ClassKind = "EC2NodeClass"
    _: KW_ONLY
    subnet_terms: tuple[SubnetTerm, ...] = ()
    security_group_terms: tuple[SecurityGroupTerm, ...] = ()
    image_terms: tuple[ImageTerm, ...] = ()
    ami_family: ImageFamily | None = None
    role: str | None = None
    instance_profile: str | None = None
    block_devices: tuple[BlockDevice, ...] = ()
    user_data: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata_options: MetadataOptions = field(default_factory=MetadataOptions)
    kubelet: KubeletConfiguration | None = None
    instance_store_policy: str | None = None
    detailed_monitoring: bool = False
    associate_public_ip_address: bool | None = None
    context: str | None = None
    launch_template: str | None = None
    capacity_reservation_terms: tuple[CapacityReservationTerm, ...] = ()
    network_interfaces: tuple[NetworkInterface, ...] = ()
    connection_tracking: ConnectionTracking | None = None
    nested_virtualization: str | None = None
    ip_prefix_count: int = 0
    placement_group: PlacementGroupTerm | None = None
    ip_family: IpFamily = "ipv4"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deleting: bool = False
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def limits_types(self) -> bool:
        """Return whether the class sets, or its cluster needs, something that not every instance type has."""
        return self.in_ipv6_cluster or bool(
            self.network_interfaces or self.connection_tracking or self.nested_virtualization or self.ip_prefix_count
        )

    @property
    def in_ipv6_cluster(self) -> bool:
        """Return whether the pods of the cluster have IPv6 addresses."""
        return self.ip_family == "ipv6"

    @property
    def ref(self) -> NodeClassRef:
        """Return the reference by which pools name the class."""
        return NodeClassRef(self.kind, self.name)

    @property
    def key(self) -> str:
        """Return the same key as ``NodeClassRef.key``: ``EC2NodeClass/default``.

        An inline provider has the name of its Provisioner.
        """
        return self.ref.key


def field_path(node_class: NodeClass, name: str) -> str:
    """Return the path of a field in the manifest of the class.

    >>> [field_path(NodeClass("default", kind), "subnetSelector") for kind in ("Inline", "EC2NodeClass")]
    ['spec.provider.subnetSelector', 'spec.subnetSelectorTerms']

    A field that a launch template decides is one of the template:

    >>> field_path(NodeClass("default", "AWSNodeTemplate", launch_template="mine"), "userData")
    'spec.launchTemplate (its userData)'
    """
    if node_class.launch_template and name not in BESIDE_TEMPLATE:
        return f"{field_path(node_class, 'launchTemplate')} (its {name})"
    terms = "Terms" if node_class.kind == "EC2NodeClass" and name.endswith("Selector") else ""
    return f"spec.{'provider.' if node_class.kind == 'Inline' else ''}{name}{terms}"
