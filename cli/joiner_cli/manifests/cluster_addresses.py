"""The family of the addresses in the cluster of a dump, which decides how many pods a node takes."""

from collections.abc import Iterable, Mapping
from typing import Any

from joiner.pools.node_class import IpFamily


def find_ip_family(nodes: Iterable[Mapping[str, Any]]) -> IpFamily:
    """Return the family that nodes of a dump have; ipv4 without nodes.

    The kubelet of an IPv6 cluster gives the IPv6 address of its node only. A node with both is of a cluster outside of
    EKS, and its first address counts.

    >>> find_ip_family([{"status": {"addresses": [{"type": "InternalIP", "address": "2600:1f18::1"}]}}])
    'ipv6'
    """
    for node in nodes:
        for one in (node.get("status") or {}).get("addresses") or ():
            if one.get("type") == "InternalIP":
                return "ipv6" if ":" in str(one.get("address")) else "ipv4"
    return "ipv4"
