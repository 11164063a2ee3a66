"""Instances as EC2 describes them, and the filters and tags of requests for them."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from joiner.catalogue.unavailable_offerings import zone_of_shortage
from joiner.lifecycle.immediate_terminations import describe_state_reason
from joiner.names import CLUSTER_NAME_TAG, DEFAULT_TENANCY, LAUNCH

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance as DescribeInstances shows it."""

    id: str
    _: KW_ONLY
    instance_type: str
    zone: str
    image: str
    state: str
    capacity_type: str
    launched_at: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    state_code: str = ""
    """EC2's ``StateReason``: why it is in its state, such as ``Client.VolumeLimitExceeded``."""
    state_message: str = ""
    subnet: str = ""
    security_groups: tuple[str, ...] = ()
    reservation: str = ""
    """The capacity reservation in which it runs; empty if it runs in none."""
    placement_group: str = ""
    """The id of its placement group; empty if it has none."""
    tenancy: str = DEFAULT_TENANCY

    @property
    def launch(self) -> str:
        """Return the id of the launch of this instance; empty if Joiner did not launch it."""
        return self.tags.get(LAUNCH, "")

    @property
    def zone_of_offering(self) -> str:
        """Return the zone that a shortage of its offering has: only its capacity reservation, if it runs in one, or its
        tenancy."""
        return zone_of_shortage(self.zone, "", self.tenancy, reservation=self.reservation)

    @property
    def state_reason(self) -> str:
        """Return why it is in its state, as one text that begins with the code; empty if EC2 gives no reason."""
        return describe_state_reason(self.state_code, self.state_message)

    @property
    def alive(self) -> bool:
        """Return whether the instance is neither terminated nor shutting down."""
        return self.state in ("pending", "running", "stopping", "stopped")

    @property
    def works(self) -> bool:
        """Return whether the instance runs pods or will soon."""
        return self.state in ("pending", "running")

    @classmethod
    def from_ec2(cls, response: Answer) -> "Instance":
        """Read one instance of the answer of DescribeInstances."""
        launched = response.get("LaunchTime")
        return cls(
            id=response["InstanceId"],
            instance_type=response["InstanceType"],
            zone=response["Placement"]["AvailabilityZone"],
            image=response.get("ImageId", ""),
            state=response["State"]["Name"],
            capacity_type=_capacity_type(response),
            launched_at=launched.isoformat() if launched is not None else "",
            tags={tag["Key"]: tag["Value"] for tag in response.get("Tags", ())},
            state_code=(response.get("StateReason") or {}).get("Code", ""),
            state_message=(response.get("StateReason") or {}).get("Message", ""),
            subnet=response.get("SubnetId", ""),
            security_groups=tuple(sorted(group["GroupId"] for group in response.get("SecurityGroups", ()))),
            reservation=response.get("CapacityReservationId") or "",
            placement_group=response["Placement"].get("GroupId") or "",
            tenancy=response["Placement"].get("Tenancy") or DEFAULT_TENANCY,
        )


def launched_for(cluster: str) -> list[Mapping[str, Any]]:
    """Return the filters for the instances that launches of this cluster started."""
    return [{"Name": f"tag:{CLUSTER_NAME_TAG}", "Values": [cluster]}, {"Name": "tag-key", "Values": [LAUNCH]}]


def _capacity_type(response: Answer) -> str:
    """Return the capacity type of an instance. EC2 reports a reservation also for instances that use an open one."""
    if response.get("InstanceLifecycle") == "spot":
        return "spot"
    return "reserved" if response.get("CapacityReservationId") else "on-demand"


def list_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the tags as EC2 takes them, sorted by key."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]
