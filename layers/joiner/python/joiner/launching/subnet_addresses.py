"""Zones of a node class in whose subnets no address is free: a node there would be refused.

The class stays ready even if no zone has one: nothing voluntary removes nodes of a class that is not ready, and the
addresses of empty nodes are the ones that can become free.
"""

from collections.abc import Sequence

from joiner.pools import NodeClass, NodeClassProblem, Subnet
from joiner.pools.node_class import field_path

REMEDY = "use larger or more subnets, or release addresses"


def find_address_problems(node_class: NodeClass, subnets: Sequence[Subnet]) -> list[NodeClassProblem]:
    """Return a warning for the zones without a free address."""
    full = {subnet.zone for subnet in subnets} - {subnet.zone for subnet in subnets if subnet.has_addresses}
    if not full:
        return []
    field, zones = field_path(node_class, "subnetSelector"), ", ".join(sorted(full))
    if len(full) == len({subnet.zone for subnet in subnets}):
        message = f"{field}: the subnets have no free address, so no node is launched: {REMEDY}"
    else:
        message = f"{field}: the subnets in {zones} have no free address, so no node is launched there: {REMEDY}"
    return [NodeClassProblem("SubnetsReady", "NoFreeAddresses", message, "warning")]
