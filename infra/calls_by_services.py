"""Calls that AWS services make, or may make, with a role of Joiner: no code of Joiner makes them."""

from typing import Final

FLEET_DESCRIBE_CALLS: Final = (
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
"""What a launch reads. Joiner's code calls Instances and LaunchTemplateVersions. CreateFleet may make the other calls
in the caller's name, so they are in the policy that Karpenter publishes for its controller (except
DescribeInstanceStatus, which only its interruption handling uses). The local EC2 does not make them, so no local test
shows which of them are needed."""

VPC_ACTIONS: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
"""Calls that Lambda makes with a function's role to place the function in a VPC. IAM cannot limit them to the
interfaces of one VPC."""

NETWORK_INTERFACE_ACTIONS: Final = (*VPC_ACTIONS, "ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface")
"""Calls that the code of a function must not make with these permissions."""
