"""The placement group of a node class: all of its nodes are in it.

A cluster group is in one zone: the one of its instances, or that of the subnet with the most free addresses while it
has none. EC2 chooses the partition of a node, unless the requirements of its pool do. Source: EC2 user guide,
"Placement groups for your Amazon EC2 instances".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner.pools import NodeClass, NodeClassProblem, Subnet
from joiner.pools.resolved_node_class import PLACEMENT_GROUP_READY, PlacementGroup

AVAILABLE: Final = "available"
CLUSTER: Final = "cluster"
SELECTOR: Final = "spec.placementGroupSelector"
"""The field of an EC2NodeClass; no other kind has it."""


def read_placement_group(described: Sequence[Mapping[str, Any]]) -> PlacementGroup | None:
    """Return the group that DescribePlacementGroups answers, if it can take instances."""
    found = next((one for one in described if one.get("State") == AVAILABLE), None)
    if found is None:
        return None
    return PlacementGroup(
        found["GroupId"], found["GroupName"], found["Strategy"], int(found.get("PartitionCount") or 0)
    )


def find_placement_problems(
    node_class: NodeClass, group: PlacementGroup | None, subnets: Sequence[Subnet] = (), zones: Sequence[str] = ()
) -> list[NodeClassProblem]:
    """Return the problem of a selected group that does not exist, or whose zone has no subnet of the class.

    ``subnets`` are all that the class selects, ``zones`` those of the group's instances.
    """
    term = node_class.placement_group
    if term is None:
        return []
    if group is not None:
        if not subnets or limit_subnets(tuple(subnets), group, zones):
            return []
        message = (
            f"{SELECTOR}: the instances of the placement group {group.name} "
            f"are in {min(zones)}, and the class selects no subnet there: select one, or another placement group"
        )
        return [NodeClassProblem(PLACEMENT_GROUP_READY, "PlacementGroupInOtherZone", message)]
    message = f"{SELECTOR}: no placement group {term.id or term.name} is available: create it, or select another"
    return [NodeClassProblem(PLACEMENT_GROUP_READY, "PlacementGroupNotFound", message)]


def limit_subnets(
    subnets: tuple[Subnet, ...], group: PlacementGroup | None, zones: Sequence[str]
) -> tuple[Subnet, ...]:
    """Return the subnets in which nodes of the group can run. ``zones`` are those of the group's instances."""
    if group is None or group.strategy != CLUSTER or not subnets:
        return subnets
    zone = min(zones, default=subnets[0].zone)
    return tuple(subnet for subnet in subnets if subnet.zone == zone)
