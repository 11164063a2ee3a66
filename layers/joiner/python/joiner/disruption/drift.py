"""Drift: the nodes that their pool or their node class would not launch like this any more.

Source: Karpenter, core `pkg/controllers/nodeclaim/disruption/drift.go`, provider AWS `pkg/cloudprovider/drift.go`. The
first difference in this order is the reason:

    the pool's digest ▸ its requirements ▸ the instance type ▸ the class's digest ▸ image ▸ security groups ▸ subnet
    ▸ capacity reservation ▸ placement group

Digests are compared only if both are of the same version. Claims that another version wrote, such as Karpenter's, get
the present digests instead (``stamp_digests``), so taking over a cluster replaces no node. A comparison whose input is
missing decides nothing: the condition stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from joiner import names
from joiner.catalogue import Catalogue, InstanceType
from joiner.pools import NodeClaim, NodeClass, NodePool, ResolvedNodeClass
from joiner.pools.drift_hashes import VERSION, build_hash_annotations, hash_class, hash_pool

DRIFTED: Final = "Drifted"
YOUNG: Final = timedelta(hours=1)
"""Until this age of a claim, an unknown instance type is no drift: the catalogue may be older than the claim."""

DriftReason = Literal[
    "NodePoolDrifted",
    "RequirementsDrifted",
    "InstanceTypeNotFound",
    "NodeClassDrift",
    "AMIDrift",
    "SecurityGroupDrift",
    "SubnetDrift",
    "CapacityReservationDrift",
    "PlacementGroupDrift",
]


@dataclass(frozen=True, slots=True)
class ObservedInstance:
    """What EC2 shows of an instance. ``reservation`` and ``placement_group`` are None if they were not
    recorded."""

    image: str
    subnet: str
    security_groups: frozenset[str]
    reservation: str | None = ""
    placement_group: str | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """A difference between a node and what would be launched now."""

    reason: DriftReason
    message: str


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A comparison without input. ``message`` names the missing input; earlier comparisons found no difference."""

    message: str


@dataclass(frozen=True, slots=True)
class DesiredNodes:
    """What would be launched now, and what runs. ``pools`` and the classes are by key, ``instances`` by instance id.

    ``classes`` have what their launch templates decide (``complete_classes``).
    """

    pools: Mapping[str, NodePool] = field(default_factory=dict)
    classes: Mapping[str, NodeClass] = field(default_factory=dict)
    resolved: Mapping[str, ResolvedNodeClass] = field(default_factory=dict)
    catalogue: Catalogue = field(default_factory=Catalogue)
    instances: Mapping[str, ObservedInstance] = field(default_factory=dict)


def find_drift(claim: NodeClaim, desired: DesiredNodes, now: datetime) -> Drift | NotCompared | None:
    """Return the first difference of a claim; None if there is none, and for claims that are not launched or leave."""
    pool = desired.pools.get(claim.pool_key)
    if not claim.launched or claim.deleting or not claim.pool:
        return None
    if pool is None or pool.deleting:
        return NotCompared(f"{claim.pool_key} does not exist, is invalid, or is being deleted")
    kind = desired.catalogue.types.get(claim.instance_type)
    return (
        _compare_digests(claim, pool)
        or _compare_requirements(claim, pool, kind)
        or _compare_offering(claim, desired.catalogue, kind, now)
        or _compare_class(claim, desired, kind)
    )


def apply_drift(claim: NodeClaim, found: Drift | NotCompared | None, *, at: datetime) -> NodeClaim:
    """Return the claim with the condition Drifted as found; the same value if nothing changes.

    The transition time stays that of the first drift while the reason changes.
    """
    before = claim.conditions[DRIFTED]
    match found:
        case NotCompared():
            return claim
        case Drift(reason, message):
            if (before.status, before.reason, before.message) == ("True", reason, message):
                return claim
            return claim.with_condition(DRIFTED, "True", reason, message, at=at)
        case None:
            after = claim.conditions.without(DRIFTED)
            return claim if after == claim.conditions else replace(claim, conditions=after)


def stamp_digests(claim: NodeClaim, desired: DesiredNodes) -> dict[str, str]:
    """Return the annotations that give a claim of another version the present digests; empty if it needs none.

    A claim that is drifted gets only the version, so it stays drifted: whether it still is cannot be known. Source:
    Karpenter, core `pkg/controllers/nodepool/hash`.
    """
    pool = desired.pools.get(claim.pool_key)
    if pool is None or claim.deleting:
        return {}
    declared = desired.classes.get(claim.class_ref.key)
    if declared and _lacks_template(declared, desired.resolved.get(declared.key)):
        declared = None
    present = build_hash_annotations(pool, declared)
    versions = {name for name in present if name.endswith("-version")}
    old = {name for name in versions if claim.annotations.get(name) != VERSION}
    stamped = old if claim.conditions.true(DRIFTED) else old | {name.removesuffix("-version") for name in old}
    return {name: present[name] for name in sorted(stamped)}


def _compare_digests(claim: NodeClaim, pool: NodePool) -> Drift | None:
    digest, version = (
        (names.PROVISIONER_HASH, names.PROVISIONER_HASH_VERSION)
        if pool.legacy
        else (names.NODEPOOL_HASH, names.NODEPOOL_HASH_VERSION)
    )
    if _differs(claim, digest, version, hash_pool(pool)):
        return Drift("NodePoolDrifted", f"the template of {pool.key} was changed after the launch")
    return None


def _differs(claim: NodeClaim, digest: str, version: str, present: str) -> bool:
    annotated = claim.annotations.get(digest)
    return annotated is not None and claim.annotations.get(version) == VERSION and annotated != present


def _compare_requirements(claim: NodeClaim, pool: NodePool, kind: InstanceType | None) -> Drift | None:
    """Compare the requirements with the labels. Claims of other origins may lack labels that follow from the type."""
    labels = {**(kind.labels if kind else {}), **claim.labels}
    unmet = pool.requirements.unmet(labels)
    if not unmet:
        return None
    differences = "; ".join(f"{key} is {labels.get(key, 'missing')}, wanted {pool.requirements[key]}" for key in unmet)
    return Drift("RequirementsDrifted", f"it no longer meets the requirements of {pool.key}: {differences}")


def _compare_offering(
    claim: NodeClaim, catalogue: Catalogue, kind: InstanceType | None, now: datetime
) -> Drift | NotCompared | None:
    """Find out whether EC2 still offers the instance type, available or not."""
    if not claim.instance_type or claim.created is None or now - claim.created < YOUNG:
        return None
    if not catalogue.types:
        return NotCompared("the catalogue of instance types is empty")
    if kind is None:
        return Drift("InstanceTypeNotFound", f"{claim.instance_type} is not in the catalogue of instance types")
    wanted = names.ON_DEMAND if claim.capacity_type == names.RESERVED else claim.capacity_type
    if all((one.zone, one.capacity_type) != (claim.zone, wanted) for one in kind.offerings):
        offering = f"{claim.instance_type} is not offered as {claim.capacity_type} in {claim.zone} any more"
        return Drift("InstanceTypeNotFound", offering)
    return None


def _compare_class(claim: NodeClaim, desired: DesiredNodes, kind: InstanceType | None) -> Drift | NotCompared | None:
    key = claim.class_ref.key
    declared, resolved = desired.classes.get(key), desired.resolved.get(key)
    if declared is None:
        return NotCompared(f"{key} does not exist")
    if _lacks_template(declared, resolved):
        return NotCompared(f"the launch template {declared.launch_template} of {key} was not read")
    if _differs(claim, names.NODECLASS_HASH, names.NODECLASS_HASH_VERSION, hash_class(declared)):
        template = f"{key}, or the launch template that it names," if declared.launch_template else key
        return Drift("NodeClassDrift", f"{template} was changed after the launch")
    if resolved is None or resolved.generation != declared.generation:
        return NotCompared(f"{key} is not resolved")
    seen = desired.instances.get(claim.instance_id)
    if seen is None:
        return NotCompared(f"instance {claim.instance_id} was not described")
    found: tuple[Drift | NotCompared | None, ...] = (
        _compare_image(claim, resolved, seen, kind),
        _compare_security_groups(resolved, seen),
        _compare_subnet(resolved, seen),
        _compare_reservation(claim, resolved, seen),
        _compare_placement_group(resolved, seen),
    )
    differing = (one for one in found if isinstance(one, Drift))
    return next(differing, None) or next((one for one in found if one is not None), None)


def _lacks_template(declared: NodeClass, resolved: ResolvedNodeClass | None) -> bool:
    """Return whether the class names a launch template whose content is unknown: then its digest is unknown, too."""
    return bool(declared.launch_template) and (resolved is None or resolved.launch_template is None)


def _is_known(resolved: ResolvedNodeClass, condition: str) -> bool:
    return not any(one.condition == condition and one.severity == "error" for one in resolved.problems)


def _compare_image(
    claim: NodeClaim, resolved: ResolvedNodeClass, seen: ObservedInstance, kind: InstanceType | None
) -> Drift | NotCompared | None:
    if not resolved.images or not _is_known(resolved, "AMIsReady"):
        return NotCompared(f"the images of {resolved.key} are not known")
    image = resolved.image_for({**(kind.labels if kind else {}), **claim.labels})
    if image is not None and image.id == seen.image:
        return None
    now = f"selects {image.id} now" if image else f"selects no image for {claim.instance_type} any more"
    return Drift("AMIDrift", f"its image is {seen.image}, and {resolved.key} {now}")


def _compare_security_groups(resolved: ResolvedNodeClass, seen: ObservedInstance) -> Drift | NotCompared | None:
    if not resolved.security_groups or not _is_known(resolved, "SecurityGroupsReady"):
        return NotCompared(f"the security groups of {resolved.key} are not known")
    if not seen.security_groups:  # an instance has at least one, until it is terminated
        return NotCompared("EC2 shows no security groups of the instance")
    wanted = {group.id for group in resolved.security_groups}
    if wanted == seen.security_groups:
        return None
    shown = ", ".join(sorted(seen.security_groups))
    selected = ", ".join(sorted(wanted))
    return Drift("SecurityGroupDrift", f"its security groups are {shown}, and {resolved.key} selects {selected} now")


def _compare_reservation(
    claim: NodeClaim, resolved: ResolvedNodeClass, seen: ObservedInstance
) -> Drift | NotCompared | None:
    """Find out whether the class still selects the capacity reservation of the instance, and it does not end soon.

    An on-demand instance of another origin may run in an open reservation that no class selects: it is not drifted.
    """
    if claim.capacity_type != names.RESERVED or not seen.reservation:
        return None
    if seen.reservation in {one.id for one in resolved.reservations}:
        return None
    if not _is_known(resolved, "ValidationSucceeded"):
        return NotCompared(f"the capacity reservations of {resolved.key} are not known")
    message = f"{resolved.key} selects no active capacity reservation {seen.reservation} any more"
    return Drift("CapacityReservationDrift", message)


def _compare_placement_group(resolved: ResolvedNodeClass, seen: ObservedInstance) -> Drift | NotCompared | None:
    """Find out whether the instance is in the group that the class selects now: a new group may have the same name."""
    if seen.placement_group is None:
        return None
    if not _is_known(resolved, "PlacementGroupReady"):
        return NotCompared(f"the placement group of {resolved.key} is not known")
    if resolved.placement_group is None:
        return None
    wanted = resolved.placement_group.id
    if seen.placement_group == wanted:
        return None
    shown = f"is {seen.placement_group}" if seen.placement_group else "is missing"
    return Drift("PlacementGroupDrift", f"its placement group {shown}, and {resolved.key} selects {wanted} now")


def _compare_subnet(resolved: ResolvedNodeClass, seen: ObservedInstance) -> Drift | NotCompared | None:
    if not resolved.subnets or not _is_known(resolved, "SubnetsReady"):
        return NotCompared(f"the subnets of {resolved.key} are not known")
    if seen.subnet in {subnet.id for subnet in resolved.subnets}:
        return None
    return Drift("SubnetDrift", f"its subnet {seen.subnet} is not selected by {resolved.key} any more")
