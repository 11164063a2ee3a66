"""The resources that a node class names and the settings limit, and what the settings say of them without AWS.

A class and the settings name resources by id, by name or by tags. An id that the settings name is allowed, whatever
tags it has; if the settings allow no tags, every other id is refused. Of the rest, only the account shows the tags, the
owner or the role: a cluster decides, and a plan from files reports what it did not check.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from joiner.launching.image_owners import is_undecided
from joiner.launching.node_class_policy import ANY_VALUE, AllowedResources, NodeClassPolicy
from joiner.launching.placement_group_matching import SELECTOR
from joiner.launching.selected_resources import RESERVATIONS, explain_not_allowed
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.node_class import field_path
from joiner.pools.resolved_node_class import PLACEMENT_GROUP_READY

UNKNOWN: Final = AllowedResources(of_cluster=True)
"""Settings that are not given, which may allow anything."""


@dataclass(frozen=True, slots=True)
class NamedResource:
    """A resource that a class names, as messages name it, and the setting that limits it."""

    setting: str
    text: str


@dataclass(frozen=True, slots=True)
class _Selection:
    """What one term of a class selects: a resource with the ``id`` by which settings know it, one with another
    ``name``, or those with ``tags``. The rest are what the settings allow (None: everything), and the problem of a
    class that selects something else."""

    setting: str
    kind: str
    allowed: AllowedResources | None
    problem: tuple[str, str, str]
    id: str = ""
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_allowed(self) -> bool | None:
        """Return whether the settings allow all that is selected; None if only the account shows it."""
        return True if self.allowed is None else self.allowed.decide(self.id, self.tags)

    @property
    def text(self) -> str:
        if self.id or self.name:
            return self.id or self.name
        tags = (f"tag {key}" + ("" if value == ANY_VALUE else f" = {value}") for key, value in self.tags.items())
        return f"with {' and '.join(tags)}" if self.tags else "of the other terms"


def find_refused_resources(node_class: NodeClass, ceilings: NodeClassPolicy) -> list[NodeClassProblem]:
    """Return the problems of what the class selects and the settings do not allow, whatever the account has.

    ``resolve_node_class`` reports them in the same words, except that what tags select is named by its tags here.
    """
    refused: dict[str, list[_Selection]] = {}
    for one in _selections(node_class, ceilings):
        if one.is_allowed is False:
            refused.setdefault(one.setting, []).append(one)
    problems = []
    for setting, selected in refused.items():
        first, named = selected[0], [one.text for one in selected]
        where, condition, reason = first.problem
        message = explain_not_allowed(where, first.kind, setting, named, first.allowed or AllowedResources())
        problems.append(NodeClassProblem(condition, reason, message))
    return problems


def list_unchecked_resources(node_class: NodeClass, ceilings: NodeClassPolicy | None) -> Iterator[NamedResource]:
    """Yield the resources of which only the account shows whether the settings allow them; without ``ceilings``, those
    that the class names by id or name."""
    yield from _unchecked_identities(node_class, ceilings)
    for one in _selections(node_class, ceilings):
        if one.is_allowed is None and (ceilings or one.id or one.name):
            yield NamedResource(f"nodeClasses.{one.setting}", one.text.removeprefix("with "))
    for device in node_class.block_devices:
        if device.snapshot_id and (ceilings is None or ceilings.decide_snapshot(device.snapshot_id) is None):
            yield NamedResource("nodeClasses.snapshots", device.snapshot_id)


def _unchecked_identities(node_class: NodeClass, ceilings: NodeClassPolicy | None) -> Iterator[NamedResource]:
    """Yield roles, owners, keys and templates. With the settings, only the role of an instance profile is unknown, and
    whether an owner is the account itself."""
    if node_class.role and ceilings is None:
        yield NamedResource("nodeRoles", node_class.role)
    if node_class.instance_profile:
        yield NamedResource("nodeRoles", f"the role of {node_class.instance_profile}")
    for owner in (term.owner for term in node_class.image_terms if term.owner):
        if ceilings is None or is_undecided(owner, ceilings):
            yield NamedResource("imageOwners", owner)
    if ceilings is not None:
        return
    for device in node_class.block_devices:
        if device.kms_key_id:
            yield NamedResource("nodeClasses.kmsKeys", device.kms_key_id)
    if node_class.launch_template:
        yield NamedResource("nodeClasses.launchTemplates", node_class.launch_template)


def _selections(node_class: NodeClass, ceilings: NodeClassPolicy | None) -> Iterator[_Selection]:
    subnets = (field_path(node_class, "subnetSelector"), "SubnetsReady", "SubnetNotAllowed")
    for subnet in node_class.subnet_terms:
        allowed = ceilings.subnets if ceilings else UNKNOWN
        yield _Selection("subnets", "subnet", allowed, subnets, subnet.id, tags=subnet.tags)
    groups = (field_path(node_class, "securityGroupSelector"), "SecurityGroupsReady", "SecurityGroupNotAllowed")
    for group in node_class.security_group_terms:
        allowed = ceilings.security_groups if ceilings else UNKNOWN
        yield _Selection("securityGroups", "security group", allowed, groups, group.id, group.name, group.tags)
    reservations = (RESERVATIONS, "ValidationSucceeded", "CapacityReservationNotAllowed")
    for term in node_class.capacity_reservation_terms:
        reserved = ceilings.reservations if ceilings else UNKNOWN
        yield _Selection(
            "capacityReservations", "capacity reservation", reserved, reservations, term.id, tags=term.tags
        )
    if chosen := node_class.placement_group:
        near = ceilings.placement_groups if ceilings else UNKNOWN
        placement = (SELECTOR, PLACEMENT_GROUP_READY, "PlacementGroupNotAllowed")
        yield _Selection("placementGroups", "placement group", near, placement, chosen.name, chosen.id)
