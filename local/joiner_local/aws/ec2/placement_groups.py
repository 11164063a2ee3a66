"""Placement groups: creation, description, and what a launch in one must meet.

A cluster group is in one zone and takes only types with that strategy. A spread group takes seven instances a zone. A
partition group has up to seven partitions; EC2 chooses one for an instance that names none. Dedicated Instances are
launched into no spread group, and into partition groups with at most two partitions. Source: EC2 user guide,
"Placement groups for your Amazon EC2 instances"; EC2 API reference, PlacementGroup.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2 import utils
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import add_items, replace_attribute
from joiner_local.aws.ec2.capacity_pools import CapacityPool
from joiner_local.aws.ec2.shared_resources import owner_of

STRATEGIES: Final = ("cluster", "spread", "partition")
SPREAD_A_ZONE: Final = 7
MOST_PARTITIONS: Final = 7
DEFAULT_PARTITIONS: Final = 2
LIVING: Final = ("pending", "running", "stopping", "stopped")

Problem = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """One placement group of the account."""

    id: str
    name: str
    strategy: str
    partitions: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)

    def arn(self, region: str) -> str:
        """Return the ARN, which has the name and not the id."""
        return f"arn:aws:ec2:{region}:{owner_of(self.id)}:placement-group/{self.name}"

    def shown(self, region: str) -> dict[str, Any]:
        """Return the group as EC2 describes it."""
        return {
            "GroupName": self.name,
            "GroupId": self.id,
            "GroupArn": self.arn(region),
            "State": "available",
            "Strategy": self.strategy,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            **({"PartitionCount": self.partitions} if self.partitions else {}),
        }


GROUPS: Final[dict[str, Group]] = {}


def create_placement_group(response: Any) -> ActionResult:
    """Create a placement group. EC2 refuses a name in use, and partitions of another strategy."""
    name, strategy = response._get_param("GroupName"), response._get_param("Strategy") or "cluster"
    partitions = int(response._get_param("PartitionCount") or 0)
    if not name:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter GroupName")
    if any(one.name == name for one in list(GROUPS.values())):
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
    if strategy not in STRATEGIES:
        raise EC2ClientError("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
    if partitions and (strategy != "partition" or partitions > MOST_PARTITIONS):
        raise EC2ClientError("InvalidParameterCombination", "The partition count is invalid for this strategy.")
    if strategy == "partition":
        partitions = partitions or DEFAULT_PARTITIONS
    made = Group(f"pg-{uuid.uuid4().hex[:17]}", name, strategy, partitions)
    GROUPS[made.id] = made
    return ActionResult({"PlacementGroup": made.shown(response.region)})


def delete_placement_group(response: Any) -> ActionResult:
    """Delete a placement group. EC2 refuses one that has instances."""
    found = find_group({"GroupName": response._get_param("GroupName")})
    if found is None:
        raise unknown(str(response._get_param("GroupName")))
    if any(_members(found, response.ec2_backend)):
        raise EC2ClientError("InvalidPlacementGroup.InUse", f"The placement group '{found.name}' is in use.")
    del GROUPS[found.id]
    return ActionResult({})


def describe_placement_groups(response: Any) -> ActionResult:
    """Return placement groups by name or id. EC2 refuses unknown ones."""
    names, ids = response._get_param("GroupNames", []), response._get_param("GroupIds", [])
    if response._get_param("Filters", []):
        raise EC2ClientError("InvalidParameterValue", "the local EC2 has no filters of placement groups")
    for key, values in (("GroupName", names), ("GroupId", ids)):
        if missing := next((value for value in values if find_group({key: value}) is None), None):
            raise unknown(missing)
    found = [one for one in list(GROUPS.values()) if (not names or one.name in names) and (not ids or one.id in ids)]
    return ActionResult({"PlacementGroups": [one.shown(response.region) for one in found]})


def unknown(name: str) -> EC2ClientError:
    """Return EC2's error for a group that does not exist."""
    return EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")


def find_group(placement: Mapping[str, Any]) -> Group | None:
    """Return the group that `Placement` of a launch names by id or name; None if there is none."""
    if found := GROUPS.get(str(placement.get("GroupId"))):
        return found
    return next((one for one in list(GROUPS.values()) if one.name == placement.get("GroupName")), None)


def _members(group: Group, backend: Any) -> Iterator[Any]:
    for reservation in list(backend.reservations.values()):  # launches add some meanwhile
        for instance in reservation.instances:
            if instance.state in LIVING and getattr(instance.placement, "group_id", None) == group.id:
                yield instance


def placement_problems(data: Mapping[str, Any], pool: CapacityPool, backend: Any) -> Iterator[Problem]:
    """Return the errors of RunInstances for the placement of a launch."""
    placement: Mapping[str, Any] = data.get("Placement") or {}
    if other := sorted(placement.keys() - {"GroupId", "GroupName", "PartitionNumber", "Tenancy"}):
        yield "UnsupportedOperation", f"the local EC2 has no Placement {', '.join(other)}"
    if placement.get("Tenancy") not in (None, "", "default", "dedicated"):
        yield "UnsupportedOperation", "the local EC2 has only the tenancies default and dedicated"
    if not (placement.get("GroupId") or placement.get("GroupName")):
        return
    found = find_group(placement)
    if found is None:
        error = unknown(str(placement.get("GroupId") or placement.get("GroupName")))
        yield "InvalidPlacementGroup.Unknown", error.message
        return
    if placement.get("Tenancy") == "dedicated" and (found.strategy == "spread" or found.partitions > 2):
        yield (
            "InvalidParameterCombination",
            (f"Dedicated Instances cannot be launched into the {found.strategy} placement group '{found.name}'."),
        )
    strategies = INSTANCE_TYPES[pool.instance_type].get("PlacementGroupInfo", {}).get("SupportedStrategies", ())
    if found.strategy not in strategies:
        message = f"{found.strategy} placement groups may not be used with instances of type '{pool.instance_type}'."
        yield "InvalidParameterCombination", message
    zones = [instance.placement.zone for instance in _members(found, backend)]
    if found.strategy == "cluster" and any(zone != pool.zone for zone in zones):
        message = f"The placement group '{found.name}' is in the Availability Zone {zones[0]}."
        yield "InvalidParameterValue", message
    if found.strategy == "spread" and zones.count(pool.zone) >= SPREAD_A_ZONE:
        message = (
            f"The maximum number of instances ({SPREAD_A_ZONE}) in the spread placement group '{found.name}' has been "
            f"reached in {pool.zone}."
        )
        yield "InsufficientInstanceCapacity", message
    if int(placement.get("PartitionNumber") or 0) > found.partitions:
        yield "InvalidParameterValue", f"The placement group '{found.name}' has {found.partitions} partitions."


def describe_on(instance: Any, data: Mapping[str, Any], backend: Any) -> None:
    """Show the tenancy of a launched instance, its placement group, and its partition."""
    instance.placement.tenancy = (data.get("Placement") or {}).get("Tenancy") or "default"
    found = find_group(data.get("Placement") or {})
    if found is None:
        return
    if found.partitions:
        asked = int((data.get("Placement") or {}).get("PartitionNumber") or 0)
        taken = [instance.placement.partition_number for instance in _members(found, backend)]
        numbers = range(1, found.partitions + 1)
        instance.placement.partition_number = asked or min(numbers, key=lambda number: (taken.count(number), number))
    instance.placement.group_id, instance.placement.group_name = found.id, found.name


def install() -> None:
    """Install the actions in moto."""
    replace_attribute(EC2Response, "create_placement_group", create_placement_group)
    replace_attribute(EC2Response, "delete_placement_group", delete_placement_group)
    replace_attribute(EC2Response, "describe_placement_groups", describe_placement_groups)
    add_items(utils, "filter_dict_attribute_mapping", {"placement-group-name": "placement.group_name"})
