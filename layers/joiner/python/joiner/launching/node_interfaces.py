"""The network interfaces of a launch template: those that the class declares, those for EFA, or one.

EC2 gives a public address only to a launch with a single interface: others have no `AssociatePublicIpAddress`.
Source: EC2 API reference, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest; EC2 user guide, "Elastic Fabric
Adapter for AI/ML and HPC workloads on Amazon EC2".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner.catalogue.instance_features import InstanceFeatures
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.node_class import EFA_ONLY, ConnectionTracking, NetworkInterface, field_path

WITH_EFA: Final = "efa"  # an interface with addresses that also serves EFA
NO_FEATURES: Final = InstanceFeatures()


def build_interface_fields(
    node_class: NodeClass, groups: Sequence[str], features: InstanceFeatures = NO_FEATURES
) -> dict[str, Any]:
    """Return the fields of the template with the security groups.

    ``features`` are those of the instance type if a pod of the node requests EFA.
    """
    interfaces = _choose_interfaces(node_class, features)
    built = [_interface(one, kind, node_class, groups, single=len(interfaces) == 1) for one, kind in sorted(interfaces)]
    if built == [{"DeviceIndex": 0, "Groups": list(groups)}]:
        return {"SecurityGroupIds": list(groups)}
    return {"NetworkInterfaces": built}


def lacks_public_address(node_class: NodeClass, features: InstanceFeatures) -> bool:
    """Return whether the class demands a public address, and the launch has several interfaces, which get none.

    >>> public = NodeClass("hpc", associate_public_ip_address=True)
    >>> lacks_public_address(public, InstanceFeatures(efa=4)), lacks_public_address(public, InstanceFeatures(efa=1))
    (True, False)
    """
    return bool(node_class.associate_public_ip_address) and len(_choose_interfaces(node_class, features)) > 1


def _choose_interfaces(node_class: NodeClass, features: InstanceFeatures) -> tuple[tuple[NetworkInterface, str], ...]:
    declared: tuple[tuple[NetworkInterface, str], ...] = tuple((one, one.kind) for one in node_class.network_interfaces)
    return declared or _for_efa(features) or ((NetworkInterface(0, 0), ""),)


def _for_efa(features: InstanceFeatures) -> tuple[tuple[NetworkInterface, str], ...]:
    """Return an EFA interface on each card that has EFA: the primary one, or device 1 of another card."""
    if not features.efa:
        return ()
    cards = range(features.efa_card, features.efa_card + features.efa)
    with_efa = tuple((NetworkInterface(card, min(card, 1)), WITH_EFA) for card in cards)
    return with_efa if features.efa_card == 0 else ((NetworkInterface(0, 0), "interface"), *with_efa)


def _interface(
    one: NetworkInterface, kind: str, node_class: NodeClass, groups: Sequence[str], *, single: bool
) -> dict[str, Any]:
    primary = one.card == 0 and one.device == 0
    built: dict[str, Any] = {"DeviceIndex": one.device, "Groups": list(groups)}
    if kind:
        built |= {"NetworkCardIndex": one.card, "InterfaceType": kind}
    if single and node_class.associate_public_ip_address is not None:
        built["AssociatePublicIpAddress"] = node_class.associate_public_ip_address
    if primary and node_class.in_ipv6_cluster:  # EC2 accepts either an IPv6 address or prefixes; the CNI adds a prefix
        built |= {"Ipv6AddressCount": 1, "PrimaryIpv6": True}
    elif primary and node_class.ip_prefix_count:
        built["Ipv4PrefixCount"] = node_class.ip_prefix_count
    if kind != EFA_ONLY and node_class.connection_tracking:
        built["ConnectionTrackingSpecification"] = build_timeouts(node_class.connection_tracking)
    return built


def build_timeouts(tracking: ConnectionTracking) -> Mapping[str, int]:
    """Return the timeouts that are set, as EC2 names them.

    >>> build_timeouts(ConnectionTracking(udp=45))
    {'UdpTimeout': 45}
    """
    timeouts = {
        "TcpEstablishedTimeout": tracking.tcp_established,
        "UdpStreamTimeout": tracking.udp_stream,
        "UdpTimeout": tracking.udp,
    }
    return {name: seconds for name, seconds in timeouts.items() if seconds is not None}


def gives_public_address(node_class: NodeClass) -> bool | None:
    """Return whether nodes get a public address; None if their subnet decides. Several interfaces never get one."""
    return False if len(node_class.network_interfaces) > 1 else node_class.associate_public_ip_address


def find_interface_problems(node_class: NodeClass, public_subnets: Sequence[str] = ()) -> list[NodeClassProblem]:
    """Return why the declared interfaces and public addresses exclude each other.

    ``public_subnets`` are the subnets that give a public address to a single interface.
    """
    count = len(node_class.network_interfaces)
    if count < 2:
        return []
    field = field_path(node_class, "networkInterfaces")
    if node_class.associate_public_ip_address:
        message = (
            f"{field}: EC2 gives no public address to a launch with {count} interfaces: remove "
            "associatePublicIPAddress, or keep one interface"
        )
        return [NodeClassProblem("ValidationSucceeded", "PublicAddressNotPossible", message)]
    if not public_subnets or node_class.associate_public_ip_address is False:
        return []
    message = (
        f"{field}: nodes with {count} interfaces get no public address in the subnets {', '.join(public_subnets)}: "
        "they reach the cluster only through a NAT gateway or endpoints"
    )
    return [NodeClassProblem("ValidationSucceeded", "NoPublicAddress", message, "warning")]
