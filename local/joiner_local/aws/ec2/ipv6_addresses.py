"""The IPv6 addresses of a launch: the checks of EC2, and what `DescribeInstances` and `DescribeSubnets` show of them.

moto gives new instances no IPv6 addresses. Sources: EC2 API reference, InstanceNetworkInterfaceSpecification
(Ipv6AddressCount, Ipv6PrefixCount, PrimaryIpv6), Instance and Subnet; Karpenter's issues 2187, 2975 and 9201 (EC2's
messages).
"""

import ipaddress
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance
from moto.ec2.models.subnets import Subnet

from joiner_local.aws.attribute_patches import replace_attribute

Problem = tuple[str, str]

RESERVED: Final = 16  # the first addresses of a subnet are AWS's own
_numbers = itertools.count(RESERVED)


def ipv6_problems(nic: Mapping[str, Any], instance_type: str, subnet: Any) -> Iterator[Problem]:
    """Return the errors of RunInstances for the IPv6 addresses of one interface."""
    addresses, prefixes = (int(nic.get(name) or 0) for name in ("Ipv6AddressCount", "Ipv6PrefixCount"))
    if addresses and prefixes:
        yield (
            "InvalidParameterValue",
            "You can specify one and only one of ipv6Address or ipv6AddressCount or ipv6Prefix or ipv6PrefixCount in "
            "interfaces to create.",
        )
    if nic.get("PrimaryIpv6") and not addresses:
        yield "InvalidParameterCombination", "A primary IPv6 address requires an IPv6 address of the interface."
    if not (addresses or prefixes):
        return
    network = INSTANCE_TYPES[instance_type]["NetworkInfo"]
    if not network.get("Ipv6Supported"):
        yield "UnsupportedOperation", f"IPv6 addresses are not supported on {instance_type}"
    if nic.get("InterfaceType") == "efa-only":
        yield "InvalidParameterCombination", "IP addresses cannot be specified for network interfaces of type efa-only."
    if max(addresses, prefixes) > network.get("Ipv6AddressesPerInterface", 0):
        yield "PrivateIpAddressLimitExceeded", f"Number of IPv6 addresses will exceed limit for {instance_type}."
    if subnet is not None and not _ranges(subnet):
        yield "InvalidSubnet", f"The subnet '{subnet.id}' has no IPv6 CIDR block."


def give_addresses(interface: Any, nic: Mapping[str, Any]) -> None:
    """Give an interface the addresses that the launch requests, or the one that its subnet gives each."""
    subnet = interface.subnet
    automatic = subnet.assign_ipv6_address_on_creation in (True, "true") and not nic.get("Ipv6PrefixCount")
    count = int(nic.get("Ipv6AddressCount") or automatic)
    if nic.get("InterfaceType") == "efa-only" or not _ranges(subnet):
        return
    first = ipaddress.ip_network(_ranges(subnet)[0]).network_address
    interface.ipv6_addresses = [str(first + next(_numbers)) for _ in range(count)]
    interface.primary_ipv6 = bool(nic.get("PrimaryIpv6"))


def _ranges(subnet: Any) -> Sequence[str]:
    return [each["Ipv6CidrBlock"] for each in subnet.ipv6_cidr_block_association_set]


def _associations(subnet: Any) -> list[dict[str, Any]]:
    return [
        {
            "AssociationId": each["associationId"],
            "Ipv6CidrBlock": each["ipv6CidrBlock"],
            "Ipv6CidrBlockState": each["ipv6CidrBlockState"],
        }
        for each in subnet.ipv6_cidr_block_associations.values()
        if each["ipv6CidrBlockState"]["State"] == "associated"
    ]


def _addresses(interface: Any) -> list[dict[str, Any]]:
    primary = getattr(interface, "primary_ipv6", False)
    return [
        {"Ipv6Address": address, "IsPrimaryIpv6": primary and index == 0}
        for index, address in enumerate(interface.ipv6_addresses)
    ]


def _address(instance: Any) -> str | None:
    first = instance.nics.get(0)
    return next(iter(first.ipv6_addresses), None) if first is not None else None


def install() -> None:
    """Show the addresses in moto's answers."""
    replace_attribute(Subnet, "ipv6_cidr_block_association_set", property(_associations))
    replace_attribute(NetworkInterface, "instance_ipv6_address_list", property(_addresses))
    replace_attribute(Instance, "ipv6_address", property(_address))
