"""The network interfaces of a launch: the checks of EC2, and what `DescribeInstances` shows of them.

Sources: EC2 API reference, InstanceNetworkInterfaceSpecification; EC2 user guide, "Multiple network interfaces for your
Amazon EC2 instances" (network cards) and "Elastic Fabric Adapter". moto knows one card and one kind of interface.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.instance_types import INSTANCE_TYPES

from joiner_local.aws.attribute_patches import wrap_attribute
from joiner_local.aws.ec2 import ipv6_addresses
from joiner_local.aws.ec2.ipv6_addresses import give_addresses, ipv6_problems

Problem = tuple[str, str]

KINDS: Final = ("interface", "efa", "efa-only")
TIMEOUTS: Final = {
    "TcpEstablishedTimeout": (60, 432_000),
    "UdpStreamTimeout": (60, 180),
    "UdpTimeout": (30, 60),
}


def interface_problems(data: Mapping[str, Any], instance_type: str, subnet: Any = None) -> Iterator[Problem]:
    """Return the errors of RunInstances for the interfaces of a launch into a subnet."""
    given: Sequence[Mapping[str, Any]] = data.get("NetworkInterfaces") or ()
    if not given:
        return
    if data.get("SecurityGroupIds"):
        yield (
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups may not be specified on the same request",
        )
    places = Counter((_number(nic, "NetworkCardIndex"), _number(nic, "DeviceIndex")) for nic in given)
    if any(count > 1 for count in places.values()):
        yield "InvalidParameterValue", "Each network interface requires a unique device index."
    if (0, 0) not in places:
        yield "InvalidParameterValue", "A primary network interface with network card 0 and device 0 must be specified."
    if len(given) > 1 and any(_given(nic, "AssociatePublicIpAddress") for nic in given):
        yield (
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network "
            "interfaces.",
        )
    yield from _card_problems(given, instance_type)
    for nic in given:
        yield from _address_problems(nic, instance_type)
        yield from ipv6_problems(nic, instance_type, subnet)


def _card_problems(given: Sequence[Mapping[str, Any]], instance_type: str) -> Iterator[Problem]:
    network = INSTANCE_TYPES[instance_type]["NetworkInfo"]
    cards = {card["NetworkCardIndex"]: card for card in network["NetworkCards"]}
    counts = Counter(_number(nic, "NetworkCardIndex") for nic in given)
    for index, count in counts.items():
        if index not in cards:
            yield "InvalidParameterValue", f"The network card index {index} is not valid for {instance_type}."
        elif count > cards[index]["MaximumNetworkInterfaces"]:
            yield (
                "AttachmentLimitExceeded",
                f"Interface count {count} exceeds the limit for {instance_type}, network card {index}",
            )
    kinds = [(_number(nic, "NetworkCardIndex"), nic.get("InterfaceType") or "interface") for nic in given]
    for index, kind in kinds:
        if kind not in KINDS:
            yield "InvalidParameterValue", f"Invalid value '{kind}' for InterfaceType."
        elif index in cards and kind not in cards[index]["InterfaceTypes"]:
            yield (
                "InvalidParameterCombination",
                f"Interface type {kind} is not supported on network card {index} of {instance_type}.",
            )
    with_efa = [index for index, kind in kinds if kind != "interface"]
    if len(with_efa) != len(set(with_efa)):
        yield "InvalidParameterCombination", "Only one EFA interface may be attached to a network card."
    if len(with_efa) > (network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0):
        yield "AttachmentLimitExceeded", f"EFA interface count {len(with_efa)} exceeds the limit for {instance_type}"


def _address_problems(nic: Mapping[str, Any], instance_type: str) -> Iterator[Problem]:
    info = INSTANCE_TYPES[instance_type]
    prefixes, tracking = _number(nic, "Ipv4PrefixCount"), nic.get("ConnectionTrackingSpecification") or {}
    if nic.get("InterfaceType") == "efa-only" and (prefixes or tracking or _given(nic, "AssociatePublicIpAddress")):
        yield "InvalidParameterCombination", "IP addresses cannot be specified for network interfaces of type efa-only."
    if (prefixes or tracking) and info.get("Hypervisor") == "xen":
        what = "Prefixes" if prefixes else "Connection tracking timeouts"
        yield "InvalidParameterCombination", f"{what} are not supported on {instance_type}, which is no Nitro instance."
    if prefixes and prefixes >= info["NetworkInfo"]["Ipv4AddressesPerInterface"]:
        yield (
            "PrivateIpAddressLimitExceeded",
            f"Number of private addresses will exceed limit for {instance_type}: {prefixes} prefixes.",
        )
    for name, value in tracking.items():
        least, most = TIMEOUTS.get(name, (1, 0))
        if not least <= int(value) <= most:
            yield "InvalidParameterValue", f"Invalid value '{value}' for {name}. It must be from {least} to {most}."


def as_moto_takes_them(given: Sequence[Mapping[str, Any]], subnet_id: str) -> list[dict[str, Any]]:
    """Return the interfaces with a device index each: moto keeps one interface an index, for all cards together.

    They are deleted with the instance unless the template says otherwise; moto's default would leak addresses.
    """
    ordered = sorted(given or [{}], key=lambda nic: (_number(nic, "NetworkCardIndex"), _number(nic, "DeviceIndex")))
    return [
        {"DeleteOnTermination": True, "SubnetId": subnet_id, **nic, "DeviceIndex": index}
        for index, nic in enumerate(ordered)
    ]


def describe_on(instance: Any, given: Sequence[Mapping[str, Any]]) -> None:
    """Give the interfaces of a launched instance their kinds, cards, addresses, prefixes and timeouts.

    `DescribeInstances` shows the groups of the primary interface as those of the instance; moto shows none if the
    request has them on the interface.
    """
    ordered = sorted(given or [{}], key=lambda nic: (_number(nic, "NetworkCardIndex"), _number(nic, "DeviceIndex")))
    for index, nic in enumerate(ordered):
        interface = instance.nics[index]
        give_addresses(interface, nic)
        interface.interface_type = nic.get("InterfaceType") or "interface"
        interface.place = SimpleNamespace(card=_number(nic, "NetworkCardIndex"), device=_number(nic, "DeviceIndex"))
        count, base = _number(nic, "Ipv4PrefixCount"), int(interface.id[-2:], 16)
        prefixes = [{"Ipv4Prefix": f"10.{base}.{number // 16}.{number % 16 * 16}/28"} for number in range(count)]
        interface.ipv4_prefixes = prefixes
        interface.connection_tracking_configuration = dict(nic.get("ConnectionTrackingSpecification") or {}) or None
    if not instance.security_groups:
        instance.security_groups = list(instance.nics[0].group_set)


def install() -> None:
    """Show the network card and the device index of an attachment; moto shows card 0 for each. Show IPv6 addresses."""
    ipv6_addresses.install()
    original = NetworkInterface.attachment

    def attachment(interface: Any) -> Any:
        shown = original.fget(interface)
        place = getattr(interface, "place", None)
        if shown is not None and place is not None:
            shown.network_card_index, shown.device_index = place.card, place.device
        return shown

    wrap_attribute(NetworkInterface, "attachment", property(attachment), original)


def _number(nic: Mapping[str, Any], name: str) -> int:
    return int(nic.get(name) or 0)


def _given(nic: Mapping[str, Any], name: str) -> bool:
    return nic.get(name) not in (None, "")
