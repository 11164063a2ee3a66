"""IPv6 ranges of subnets, for a test or a fixture: the VPC gets one if it has none."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ipv6_range(ec2: Any, subnet: str, number: int = 0) -> Iterator[ipaddress.IPv6Network]:
    """Give the subnet the range of this number of its VPC, and take it away afterwards."""
    vpc = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    own = ipaddress.IPv6Network(_range_of_vpc(ec2, vpc))
    given = list(own.subnets(new_prefix=64))[number]
    made = ec2.associate_subnet_cidr_block(SubnetId=subnet, Ipv6CidrBlock=str(given))
    try:
        yield given
    finally:
        identifier = made["Ipv6CidrBlockAssociation"]["AssociationId"]
        ec2.disassociate_subnet_cidr_block(AssociationId=identifier)


def _range_of_vpc(ec2: Any, vpc: str) -> str:
    for _ in range(2):
        described = ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]
        for one in described.get("Ipv6CidrBlockAssociationSet", ()):
            if one["Ipv6CidrBlockState"]["State"] == "associated":
                return str(one["Ipv6CidrBlock"])
        ec2.associate_vpc_cidr_block(VpcId=vpc, AmazonProvidedIpv6CidrBlock=True)
    raise AssertionError(f"{vpc} has no IPv6 range")
