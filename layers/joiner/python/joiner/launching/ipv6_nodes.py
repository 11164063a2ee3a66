"""What nodes of an IPv6 cluster need: subnets with an IPv6 range, and an image family that joins such a cluster.

A node has an IPv4 and an IPv6 address; its pods and the services of the cluster have IPv6 addresses only. Sources:
Amazon EKS user guide, "Learn about IPv6 addresses to clusters, Pods, and services"; EC2 API reference, Subnet.
"""

from collections.abc import Sequence
from typing import Final

from joiner.launching.image_families.image_family import warn
from joiner.launching.node_class_answers import Answer
from joiner.launching.node_images import choose_family
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.node_class import field_path

ASSOCIATED: Final = "associated"


def select_usable_subnets(node_class: NodeClass, described: Sequence[Answer]) -> list[Answer]:
    """Return the subnets in which nodes of the cluster can run: in an IPv6 cluster those with an IPv6 range."""
    return [one for one in described if not node_class.in_ipv6_cluster or _has_ipv6(one)]


def find_ipv6_problems(node_class: NodeClass, described: Sequence[Answer] = ()) -> list[NodeClassProblem]:
    """Return the problems of a class in an IPv6 cluster; none in another. ``described`` are the selected subnets."""
    if not node_class.in_ipv6_cluster:
        return []
    family = choose_family(node_class)
    problems = [*_subnet_problems(node_class, described)]
    if family.startswith("Windows"):
        message = (
            f"{field_path(node_class, 'amiFamily')}: EKS has no Windows nodes in a cluster of ipFamily ipv6: "
            "use a family of Linux"
        )
        problems.append(NodeClassProblem("ValidationSucceeded", "IPv6NotSupported", message))
    if node_class.ip_prefix_count:
        message = (
            "it has no effect in a cluster of ipFamily ipv6: EC2 gives an interface either an IPv6 address, which the "
            "node needs, or prefixes; the VPC CNI adds the prefix of the pods: remove it"
        )
        problems.append(warn(node_class, "ipPrefixCount", "WithoutEffect", message))
    return problems


def _subnet_problems(node_class: NodeClass, described: Sequence[Answer]) -> list[NodeClassProblem]:
    without = sorted(one["SubnetId"] for one in described if not _has_ipv6(one))
    if not without:
        return []
    field, remedy = field_path(node_class, "subnetSelector"), "give them one, or select other subnets"
    found = f"{field}: {', '.join(without)} {'have' if len(without) > 1 else 'has'} no IPv6 range"
    if len(without) == len(described):
        message = f"{found}, and the cluster's ipFamily is ipv6: {remedy}"
        return [NodeClassProblem("SubnetsReady", "SubnetsWithoutIPv6", message)]
    message = f"{found}, so no node is launched there: {remedy}"
    return [NodeClassProblem("SubnetsReady", "SubnetsWithoutIPv6", message, "warning")]


def _has_ipv6(subnet: Answer) -> bool:
    ranges = subnet.get("Ipv6CidrBlockAssociationSet") or ()
    return any((one.get("Ipv6CidrBlockState") or {}).get("State") == ASSOCIATED for one in ranges)
