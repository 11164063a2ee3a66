"""A resolved node class: the subnets, security groups, images and instance profile that EC2 has for it now.

A resource that is not found becomes a condition, not an exception. Pools of such a class plan no nodes; other pools
continue.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from joiner import names
from joiner.cluster import Requirements
from joiner.pools.additional_node_costs import NO_COSTS, NodeCosts
from joiner.pools.capacity_reservations import CapacityReservation
from joiner.pools.conditions import Conditions
from joiner.pools.invalid_manifests import InvalidManifest, Severity
from joiner.pools.launch_template_version import LaunchTemplateVersion, complete_class
from joiner.pools.node_class import ImageFamily, NodeClass
from joiner.pools.node_pool import ClassKind, NodeClassRef

CONDITIONS = ("SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady", "ValidationSucceeded")
PLACEMENT_GROUP_READY = "PlacementGroupReady"
"""The condition that only classes with a placement group have."""


PATH: Final = re.compile(r"((?:spec|status)\.[^\s:]+(?: \(its \w+\))?): ")
"""The path of a field at the beginning of a message."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet in which nodes may be launched. ``free_ips`` is None if it is unknown. ``public`` is whether nodes there
    get a public IPv4 address."""

    id: str
    zone: str
    free_ips: int | None = None
    zone_id: str = ""
    public: bool = False

    @property
    def has_addresses(self) -> bool:
        """Return whether a node can get an address there, as far as is known."""
        return self.free_ips is None or self.free_ips > 0

    @property
    def precedence(self) -> tuple[int, str]:
        """Return the sort key by which subnets are preferred: the most free addresses first, then the smallest id."""
        return (-(self.free_ips or 0), self.id)


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    """A security group of a class."""

    id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """An image and the instance types that can use it.

    ``requirements`` name the architecture, and GPUs or accelerators for variants. ``created`` is the text from EC2 (RFC
    3339). Of the images that fit an instance type, the newest that is not deprecated is used.
    """

    id: str
    arch: str
    requirements: Requirements = field(default_factory=Requirements)
    name: str = ""
    created: str = ""
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    """The placement group of a class; ``strategy`` is cluster, spread or partition. Only groups of the last have
    ``partitions``."""

    id: str
    name: str
    strategy: str
    partitions: int = 0

    def choose_partition(self, requirements: Requirements) -> int:
        """Return the partition of nodes that must meet these requirements; 0 if EC2 shall choose it.

        It is the lowest that the requirements allow. Without a requirement on partitions EC2 distributes the instances
        evenly, and the partition is no label. Karpenter differs: it has an offering for each partition, also for pools
        that do not require one.

        >>> group = PlacementGroup("pg-1", "racks", "partition", 3)
        >>> group.choose_partition(Requirements.from_labels({names.PLACEMENT_PARTITION: "2"}))
        2
        >>> group.choose_partition(Requirements())
        0
        """
        if names.PLACEMENT_PARTITION not in requirements:
            return 0
        allowed = requirements[names.PLACEMENT_PARTITION]
        return next((number for number in range(1, self.partitions + 1) if str(number) in allowed), 0)


@dataclass(frozen=True, slots=True)
class NodeClassProblem:
    """The reason why one condition of the class is not met, and the remedy. ``info`` only reports an assumption.

    The message about a field begins with its path in the manifest and a colon; else ``about`` is the path, if the
    problem is about a field.

    >>> NodeClassProblem("AMIsReady", "a", "spec.userData: it is no TOML").field
    'spec.userData'
    >>> NodeClassProblem("AMIsReady", "a", "nodes have the default role", about="spec.role").field
    'spec.role'
    """

    condition: str
    reason: str
    message: str
    severity: Severity = "error"
    about: str = ""

    @property
    def field(self) -> str:
        """Return the path of the field in the manifest of the class; empty if the problem is about the whole class."""
        beginning = PATH.match(self.message)
        return self.about or (beginning[1] if beginning else "")


@dataclass(frozen=True, slots=True)
class ResolvedNodeClass:
    """The AWS resources of one node class. Nodes can be launched from it if ``ready``. ``costs`` are those of a node
    with a public address; None plans with the prices of instances only."""

    name: str
    kind: ClassKind
    _: KW_ONLY
    ami_family: ImageFamily = "AL2023"
    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    images: tuple[Image, ...] = ()
    instance_profile: str = ""
    problems: tuple[NodeClassProblem, ...] = ()
    generation: int = 0
    costs: NodeCosts | None = None
    reservations: tuple[CapacityReservation, ...] = ()
    placement_group: PlacementGroup | None = None
    launch_template: LaunchTemplateVersion | None = None

    def placement_labels(self, requirements: Requirements) -> dict[str, str]:
        """Return the labels of the placement group of its nodes, if they have one, and of the partition that the
        requirements decide."""
        if self.placement_group is None:
            return {}
        partition = self.placement_group.choose_partition(requirements)
        chosen = {names.PLACEMENT_PARTITION: str(partition)} if partition else {}
        return {names.PLACEMENT_GROUP: self.placement_group.id, **chosen}

    @property
    def ref(self) -> NodeClassRef:
        """Return the reference by which pools name the class."""
        return NodeClassRef(self.kind, self.name)

    @property
    def key(self) -> str:
        """Return a key that is unique over both kinds."""
        return self.ref.key

    @property
    def ready(self) -> bool:
        """Return whether the class has no error; warnings do not count."""
        return all(problem.severity != "error" for problem in self.problems)

    @property
    def zones(self) -> frozenset[str]:
        """Return the zones in which it has a subnet with a free address."""
        return frozenset(subnet.zone for subnet in self.subnets if subnet.has_addresses)

    def subnet_in(self, zone: str) -> Subnet | None:
        """Return the subnet of this zone with the most free addresses, or None.

        For equal numbers of addresses it is the smallest id, so that the result is always the same.
        """
        return next(iter(self.subnets_in(zone)), None)

    def subnets_in(self, zone: str) -> tuple[Subnet, ...]:
        """Return the subnets of this zone in which a node can get an address, those with the most free addresses
        first; all of them if none has an address."""
        there = sorted((one for one in self.subnets if one.zone == zone), key=lambda one: one.precedence)
        return tuple(one for one in there if one.has_addresses) or tuple(there)

    def node_costs(self, zone: str, overhead_price: float | None = None) -> NodeCosts:
        """Return what a node costs in this zone beside its instance. ``overhead_price`` replaces the price of its
        running."""
        if self.costs is None:
            return NO_COSTS
        subnet = self.subnet_in(zone)
        address = self.costs.address if subnet and subnet.public else 0.0
        running = self.costs.running if overhead_price is None else overhead_price
        return replace(self.costs, address=address, running=running)

    def image_for(self, labels: Mapping[str, str]) -> Image | None:
        """Return the image for an instance type with these labels, or None.

        It is the newest that fits; a deprecated image is used only if no other fits.
        """
        return next((image for image in self.images if image.requirements.allow(labels)), None)

    def with_problems(self, problems: Iterable[NodeClassProblem]) -> "ResolvedNodeClass":
        """Return the class with these problems in addition to its own."""
        return replace(self, problems=(*self.problems, *problems))

    def conditions(self, before: Conditions, *, at: datetime, declared: Iterable[InvalidManifest] = ()) -> Conditions:
        """Return the conditions of this class, based on the current conditions ``before``.

        ``declared`` are the warnings about the manifest of the class.
        """
        ignored = "; ".join(problem.message for problem in declared)
        warned = (NodeClassProblem("ValidationSucceeded", "WithoutEffect", ignored, "warning"),) if ignored else ()
        problems = (*self.problems, *warned)
        after, checked = before, self._checked()
        for name in checked:
            errors = [problem for problem in problems if problem.condition == name and problem.severity == "error"]
            others = [problem for problem in problems if problem.condition == name]
            refused = bool(errors)
            shown = errors or others[:1]
            reason, message = (shown[0].reason, "; ".join(each.message for each in shown)) if shown else (name, "")
            after = after.set(
                name, "False" if refused else "True", reason, message, at=at, generation=self.generation or None
            )
        return after.with_ready(*checked, at=at, generation=self.generation or None)

    def _checked(self) -> tuple[str, ...]:
        """Return the conditions of this class."""
        problems = any(problem.condition == PLACEMENT_GROUP_READY for problem in self.problems)
        return (*CONDITIONS, PLACEMENT_GROUP_READY) if self.placement_group or problems else CONDITIONS

    def status_to_kube(
        self, before: Conditions, *, at: datetime, declared: Iterable[InvalidManifest] = ()
    ) -> dict[str, Any]:
        """Return ``{"status": ...}`` of the EC2NodeClass or AWSNodeTemplate.

        An inline provider has no status of its own.
        """
        return {
            "status": {
                "subnets": [
                    {"id": subnet.id, "zone": subnet.zone} | ({"zoneID": subnet.zone_id} if subnet.zone_id else {})
                    for subnet in sorted(self.subnets, key=lambda subnet: subnet.precedence)
                ],
                "securityGroups": [
                    {"id": group.id} | ({"name": group.name} if group.name else {}) for group in self.security_groups
                ],
                "amis": [
                    {"id": image.id, "requirements": image.requirements.to_kube()}
                    | ({"name": image.name} if image.name else {})
                    | ({"deprecated": True} if image.deprecated else {})
                    for image in self.images
                ],
                "instanceProfile": self.instance_profile,
                **self._shown_reservations(),
                "conditions": self.conditions(before, at=at, declared=declared).to_kube(),
            }
        }

    def _shown_reservations(self) -> dict[str, Any]:
        """Return the reservations for the status; only an EC2NodeClass has them."""
        modern = self.kind == "EC2NodeClass"
        return {"capacityReservations": [one.to_status() for one in self.reservations]} if modern else {}

    def to_json(self) -> dict[str, Any]:
        """Return plain values only; ``from_json`` reads them."""
        return {
            "name": self.name,
            "kind": self.kind,
            "amiFamily": self.ami_family,
            "subnets": [
                {"id": s.id, "zone": s.zone, "freeIps": s.free_ips, "zoneId": s.zone_id, "public": s.public}
                for s in self.subnets
            ],
            "securityGroups": [{"id": group.id, "name": group.name} for group in self.security_groups],
            "images": [
                {
                    "id": image.id,
                    "arch": image.arch,
                    "requirements": image.requirements.to_kube(),
                    "name": image.name,
                    "created": image.created,
                    "deprecated": image.deprecated,
                }
                for image in self.images
            ],
            "instanceProfile": self.instance_profile,
            "problems": [
                {"condition": p.condition, "reason": p.reason, "message": p.message, "severity": p.severity}
                | ({"about": p.about} if p.about else {})
                for p in self.problems
            ],
            "generation": self.generation,
            "costs": self.costs.to_json() if self.costs else None,
            "reservations": [one.to_json() for one in self.reservations],
            "placementGroup": asdict(self.placement_group) if self.placement_group else None,
            "launchTemplate": self.launch_template.to_json() if self.launch_template else None,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "ResolvedNodeClass":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            name=raw["name"],
            kind=raw["kind"],
            ami_family=raw["amiFamily"],
            subnets=tuple(
                Subnet(s["id"], s["zone"], s["freeIps"], s["zoneId"], s.get("public", False)) for s in raw["subnets"]
            ),
            security_groups=tuple(SecurityGroup(group["id"], group["name"]) for group in raw["securityGroups"]),
            images=tuple(
                Image(
                    id=image["id"],
                    arch=image["arch"],
                    requirements=Requirements.from_kube(image["requirements"]),
                    name=image["name"],
                    created=image["created"],
                    deprecated=image["deprecated"],
                )
                for image in raw["images"]
            ),
            instance_profile=raw["instanceProfile"],
            problems=tuple(
                NodeClassProblem(p["condition"], p["reason"], p["message"], p["severity"], p.get("about", ""))
                for p in raw["problems"]
            ),
            generation=raw["generation"],
            costs=NodeCosts.from_json(raw["costs"]) if raw.get("costs") else None,
            reservations=tuple(CapacityReservation.from_json(one) for one in raw.get("reservations", ())),
            placement_group=PlacementGroup(**raw["placementGroup"]) if raw.get("placementGroup") else None,
            launch_template=LaunchTemplateVersion.from_json(given) if (given := raw.get("launchTemplate")) else None,
        )


MANY_ADDRESSES: Final = 64
"""From so many free addresses on, a zone counts as one whose addresses limit nothing."""


def digest_free_addresses(classes: Iterable[ResolvedNodeClass]) -> str:
    """Return the free addresses of each class in each zone in powers of two: a few more or less change nothing.

    >>> subnets = tuple(Subnet(f"subnet-{free}", zone, free) for zone, free in (("a", 5), ("a", 6), ("b", None)))
    >>> digest_free_addresses([ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)])
    'EC2NodeClass/default/a/8'
    """
    found: Counter[str] = Counter()
    for each in classes:
        unknown = {subnet.zone for subnet in each.subnets if subnet.free_ips is None}
        for subnet in each.subnets:
            if subnet.zone not in unknown:
                found[f"{each.key}/{subnet.zone}"] += subnet.free_ips or 0
    return ",".join(f"{place}/{_round_down(free)}" for place, free in sorted(found.items()))


def _round_down(free: int) -> int:
    return min(MANY_ADDRESSES, 1 << free.bit_length() - 1) if free else 0


def complete_classes(classes: Iterable[NodeClass], resolved: Mapping[str, ResolvedNodeClass]) -> tuple[NodeClass, ...]:
    """Return the classes with what the launch templates that they name decide, as far as these were read."""
    return tuple(
        complete_class(each, found.launch_template) if (found := resolved.get(each.key)) else each for each in classes
    )
