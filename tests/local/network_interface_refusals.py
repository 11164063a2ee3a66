"""What EC2 refuses of the network interfaces of a launch."""

from collections.abc import Callable
from typing import Any, Final

from tests.local.ipv6_ranges import ipv6_range
from tests.local.refused_launches import Bench, LaunchRefusal, fleet


def six_groups(bench: Bench) -> Any:
    vpc = bench.ec2.describe_security_groups(GroupIds=[bench.network.security_group])["SecurityGroups"][0]["VpcId"]
    made = [
        bench.ec2.create_security_group(VpcId=vpc, GroupName=bench.aws.fresh("group"), Description="of a test")
        for _ in range(6)
    ]
    return fleet({"SecurityGroupIds": [each["GroupId"] for each in made]})(bench)


def interfaces(*given: dict[str, Any], instance_type: str = "m5.large") -> Callable[[Bench], Any]:
    def call(bench: Bench) -> Any:
        pad = bench.pad(NetworkInterfaces=list(given), SecurityGroupIds=[])
        return pad.fleet([pad.override(instance_type)])

    return call


def nic(card: int = 0, device: int = 0, kind: str = "interface", **more: Any) -> dict[str, Any]:
    return {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": kind, **more}


INTERFACE_SOURCE: Final = "EC2 user guide, Multiple network interfaces for your Amazon EC2 instances"

PREFIX_SOURCE: Final = (
    "Karpenter pull request 9201 (EC2's message); EC2 API reference, InstanceNetworkInterfaceSpecification"
)


def in_ipv6_subnet(**given: Any) -> Callable[[Bench], Any]:
    """Launch with this primary interface into a subnet with an IPv6 range."""

    def call(bench: Bench) -> Any:
        with ipv6_range(bench.ec2, bench.network.subnets["us-east-1a"]):
            return interfaces(nic(**given))(bench)

    return call


INTERFACE_ROWS: Final = (
    LaunchRefusal(
        "an IPv6 address and an IPv6 prefix of one interface",
        in_ipv6_subnet(Ipv6AddressCount=1, Ipv6PrefixCount=1),
        "InvalidParameterValue",
        "You can specify one and only one of ipv6Address or ipv6AddressCount or ipv6Prefix or ipv6PrefixCount in "
        "interfaces to create.",
        PREFIX_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "an IPv6 address of a type that has none",
        interfaces(nic(Ipv6AddressCount=1), instance_type="m3.medium"),
        "UnsupportedOperation",
        "IPv6 addresses are not supported on m3.medium",
        "Karpenter issue 2975 (EC2's message)",
        pool=True,
    ),
    LaunchRefusal(
        "an IPv6 address in a subnet without an IPv6 range",
        interfaces(nic(Ipv6AddressCount=1)),
        "InvalidSubnet",
        "The subnet 'subnet-",
        "EC2 API reference, InstanceNetworkInterfaceSpecification (Ipv6AddressCount: from the range of the subnet)",
        pool=True,
    ),
    LaunchRefusal(
        "a public address of a launch with two interfaces",
        interfaces(nic(AssociatePublicIpAddress=False), nic(device=1)),
        "InvalidParameterCombination",
        "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        "EC2 API reference, InstanceNetworkInterfaceSpecification",
        pool=True,
    ),
    LaunchRefusal(
        "security groups of the launch beside interfaces",
        fleet({"NetworkInterfaces": [nic()]}),
        "InvalidParameterCombination",
        "Network interfaces and an instance-level security groups may not be specified on the same request",
        "EC2 API reference, RunInstances",
        pool=True,
    ),
    LaunchRefusal(
        "interfaces without a primary one",
        interfaces(nic(device=1)),
        "InvalidParameterValue",
        "A primary network interface with network card 0 and device 0 must be specified.",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "two interfaces in one place",
        interfaces(nic(), nic()),
        "InvalidParameterValue",
        "Each network interface requires a unique device index.",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "an interface on a card that the type lacks",
        interfaces(nic(), nic(card=1, device=1)),
        "InvalidParameterValue",
        "The network card index 1 is not valid for m5.large.",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "more interfaces than a card has",
        interfaces(*(nic(device=device) for device in range(4))),
        "AttachmentLimitExceeded",
        "Interface count 4 exceeds the limit for m5.large, network card 0",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "EFA on a type without it",
        interfaces(nic(kind="efa")),
        "InvalidParameterCombination",
        "Interface type efa is not supported on network card 0 of m5.large.",
        "EC2 user guide, Elastic Fabric Adapter",
        pool=True,
    ),
    LaunchRefusal(
        "addresses of an interface for EFA only",
        interfaces(nic(), nic(device=1, kind="efa-only", Ipv4PrefixCount=1), instance_type="p4d.24xlarge"),
        "InvalidParameterCombination",
        "IP addresses cannot be specified for network interfaces of type efa-only.",
        "EC2 user guide, Elastic Fabric Adapter",
        pool=True,
    ),
    LaunchRefusal(
        "more prefixes than an interface takes",
        interfaces(nic(Ipv4PrefixCount=10)),
        "PrivateIpAddressLimitExceeded",
        "Number of private addresses will exceed limit for m5.large: 10 prefixes.",
        "EC2 user guide, Prefix delegation for Amazon EC2 network interfaces",
        pool=True,
    ),
    LaunchRefusal(
        "timeouts on a type that is not based on Nitro",
        interfaces(nic(ConnectionTrackingSpecification={"UdpTimeout": 45}), instance_type="m4.large"),
        "InvalidParameterCombination",
        "Connection tracking timeouts are not supported on m4.large, which is no Nitro instance.",
        "EC2 user guide, Security group connection tracking",
        pool=True,
    ),
    LaunchRefusal(
        "a timeout out of range",
        interfaces(nic(ConnectionTrackingSpecification={"UdpTimeout": 61})),
        "InvalidParameterValue",
        "Invalid value '61' for UdpTimeout. It must be from 30 to 60.",
        "EC2 user guide, Security group connection tracking",
        pool=True,
    ),
    LaunchRefusal(
        "more security groups than an interface may have",
        six_groups,
        "SecurityGroupsPerInterfaceLimitExceeded",
        "The maximum number of security groups per interface has been reached.",
        "Amazon VPC user guide, Amazon VPC quotas; EC2 API reference, Error codes",
        pool=True,
    ),
)
"""Refusals of network interfaces."""
