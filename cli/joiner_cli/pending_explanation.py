"""Why a pod stays pending: for each pool and each group of instance types the first rule that excludes the pod.

The rules are in the order of the planner: the pool's requirements, its offerings, the pod's requirements, the pod's
size; then limits and the constraints between pods. ``remedies`` says what would have to change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

from joiner import names
from joiner.catalogue import InstanceType, Offering
from joiner.catalogue.capacity_settings import LEAST_NEEDS, NodeCapacities, describe_settings, find_tight_settings
from joiner.catalogue.class_compatibility import find_exclusion
from joiner.catalogue.instance_features import EFA
from joiner.catalogue.instance_tenancy import DedicatedPrices, list_tenancies, requires_dedicated
from joiner.catalogue.reserved_offerings import list_reserved_offerings
from joiner.cluster import Pod, Requirements, VolumeUnusable, sum_resources
from joiner.cluster.quantities import format_amount
from joiner.planning import Offer, Reason, Snapshot
from joiner.planning.model.node_labels import node_labels, open_keys
from joiner.planning.model.pool_offers import explain_closure
from joiner.planning.output.explanation import NO_TERMS
from joiner.pools import NodePool
from joiner_cli.manifest_plan import ManifestPlan
from joiner_cli.missing_spot_prices import SPOT_POD, SPOT_POOLS
from joiner_cli.remedies import RemedySearch
from joiner_cli.rendering.text_columns import format_columns, format_dollars
from joiner_cli.unknown_zone_ids import ZONE_ID_POD
from joiner_cli.what_if_plans import plan_with_spot

POOL, OFFERED, POD, SIZE, FITS = range(5)
"""The rules that exclude an instance type, in the order of the planner; FITS means that none of them does."""


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """Instance types that the same rule excludes."""

    stage: int
    rule: str
    types: tuple[str, ...]


def _has_spot_only(pool: NodePool, found: ManifestPlan) -> bool:
    return found.manifests.snapshot.closed_pools.get(pool.key) in SPOT_POOLS


def explain_pending_pod(pod: Pod, reasons: Sequence[Reason], found: ManifestPlan) -> str:
    """Return the lines about a pending pod: its requests, and the reason of each pool."""
    asked = ", ".join(format_amount(name, value) for name, value in pod.requests.items() if name != "pods")
    lines = [f"{pod.key} stays pending. It requests {asked or 'nothing'}."]
    with_spot = cache(partial(plan_with_spot, found))
    for reason in reasons:
        pool = find_pool(reason.pool, found)
        lines += ["", f"{reason.pool or 'Every pool'}: {reason.reason}."]
        if pool is None:
            continue
        lacks_price = reason.reason == SPOT_POD or _has_spot_only(pool, found)
        if reason.reason == ZONE_ID_POD:
            continue
        if not lacks_price and _closed(pool, found):
            lines += _describe_closure(pool, reason, found)
            continue
        remedy = RemedySearch.of(pod, pool, reason, found, with_spot).describe()
        if lacks_price:
            lines.append(f"  What would have to change: {remedy}.")
            continue
        groups = group_types(pod, pool, found)
        if pod.constraints.untolerated(pool.taints) is None:
            rows = [
                [f"{len(group.types):,}", _summarize_types(group.types), _first_rule(group, reason)] for group in groups
            ]
            lines.append(format_columns([">TYPES", "WHICH", "FIRST RULE THAT EXCLUDES THE POD"], rows, indent="  "))
        if reason.nearest:
            short = f"; it is short of {reason.short_of}" if reason.lacks else ""
            lines.append(f"  Nearest: {describe_offer(reason.nearest)}{short}.")
        lines.append(f"  What would have to change: {remedy}.")
    return "\n".join(lines)


def _closed(pool: NodePool, found: ManifestPlan) -> bool:
    """Return whether the pool has no nodes in this plan, whatever the pod requires."""
    resolved = found.classes.get(pool.class_ref.key)
    unusable = resolved is None or not resolved.ready or pool.key in found.manifests.snapshot.closed_pools
    return unusable or pool.deleting or pool.replicas is not None


def _describe_closure(pool: NodePool, reason: Reason, found: ManifestPlan) -> list[str]:
    """Return why no pod gets a node of the pool, if the reason of this pod is another one."""
    why = explain_closure(pool, found.manifests.snapshot, found.classes.get(pool.class_ref.key))
    return [f"  No other pod gets a node of it: {why}."] if why and why not in reason.reason else []


def _first_rule(group: TypeGroup, reason: Reason) -> str:
    return reason.reason if group.stage == FITS else group.rule


def group_types(pod: Pod, pool: NodePool | None, found: ManifestPlan) -> list[TypeGroup]:
    """Group all instance types of the catalogue by the rule that excludes the pod, in the order of the planner."""
    if pool is None:
        return []
    wanted = _pod_requirements(pod, found.manifests.snapshot)
    daemons = found.manifests.snapshot.daemon_sets
    grouped: dict[tuple[int, str], list[str]] = {}
    own = found.manifests.snapshot.node_class(pool)
    capacities, efa, of_pool = NodeCapacities(own, pool), EFA in pod.requests, _open_labels(pool, wanted)
    for known in found.catalogue.catalogue.types.values():
        stage, rule = _first_failed_rule(pod, pool, known, wanted, found)
        if stage == FITS:
            labels = {**node_labels(pool, own, known, "", ""), **of_pool}
            overhead = sum_resources(one.requests for one in daemons if one.runs_on(labels, pool.taints))
            lacks = {*pod.requests.lacking(capacities.allocatable(known, efa=efa) - overhead)}
            if lacks := lacks.union(capacities.exhausted(known)):
                needs = pod.requests | LEAST_NEEDS
                tight = describe_settings(find_tight_settings(needs, [(known, overhead)], capacities))
                stage, rule = SIZE, f"too small: short of {' and '.join(sorted(lacks))}{tight}"
        grouped.setdefault((stage, rule), []).append(known.name)
    return [TypeGroup(stage, rule, tuple(sorted(types))) for (stage, rule), types in sorted(grouped.items())]


def _open_labels(pool: NodePool, wanted: Sequence[Requirements]) -> dict[str, str]:
    """Return values, which the pod accepts, for the labels that the pool leaves open."""
    for one in wanted:
        both = {key: pool.requirements[key] & one.on(key) for key in open_keys(pool)}
        if all(both.values()):
            return {key: str(values.any_value()) for key, values in both.items() if not values.absent}
    return {}


def _pod_requirements(pod: Pod, snapshot: Snapshot) -> tuple[Requirements, ...]:
    own = pod.constraints.on_new_nodes()
    try:
        places = (
            snapshot.volumes.where(pod.namespace, pod.constraints.volume_claims)
            if pod.constraints.volume_claims
            else (Requirements(),)
        )
    except VolumeUnusable:
        places = (Requirements(),)
    return tuple(one & place for one, place in product(own, places))


def _first_failed_rule(
    pod: Pod, pool: NodePool, known: InstanceType, wanted: Sequence[Requirements], found: ManifestPlan
) -> tuple[int, str]:
    """Return the stage and the rule for one type; the pod's size is not checked here."""
    labels = node_labels(pool, found.manifests.snapshot.node_class(pool), known, "", "")
    left_open = set(open_keys(pool))
    place = {names.ZONE, names.CAPACITY_TYPE, names.TENANCY, names.REGION, names.HOSTNAME}
    if key := _unmet_key(pool.requirements, labels, place | left_open):
        return POOL, f"the pool requires {pool.describe_requirement(key)}"
    resolved = found.classes[pool.class_ref.key]
    if exclusion := find_exclusion(known, found.manifests.snapshot.node_class(pool), resolved):
        by = f"{exclusion.field} of {resolved.key} excludes it" if exclusion.field else "the IPv6 cluster excludes it"
        return OFFERED, by
    tenancies = list_tenancies(pool, dedicated_required=any(map(requires_dedicated, wanted)))
    offerings = DedicatedPrices(found.catalogue.catalogue).offerings(
        known, tenancies, list_reserved_offerings(resolved.reservations, known)
    )
    if not offerings and known.offerings:
        required = f"the pool requires {pool.describe_requirement(names.TENANCY)}"
        return OFFERED, "it is not sold as a Dedicated Instance" if tenancies else required
    offered = [one for one in offerings if one.available and one.zone in resolved.zones]
    allowed = [
        one
        for one in offered
        if pool.requirements.allow({**labels, **_offering_labels(one), **dict.fromkeys(left_open, "")})
        or not _unmet_key(pool.requirements, {**labels, **_offering_labels(one)}, left_open | {names.HOSTNAME})
    ]
    if not allowed:
        return OFFERED, "it has no offering in the zones and capacity types of the pool"
    rules = {_failed_pod_requirement(one, labels, allowed, left_open, pool) for one in wanted}
    if rules and "" not in rules:
        return POD, f"the pod requires {' or '.join(sorted(rules))}"
    return (FITS, "") if wanted else (POD, _unsatisfiable_affinity(pod))


def _unsatisfiable_affinity(pod: Pod) -> str:
    """Return the rule for a pod whose node affinity no new node can satisfy."""
    return NO_TERMS if pod.constraints.suits_no_node else "the pod requires a node by name"


def _failed_pod_requirement(
    wanted: Requirements, labels: Mapping[str, str], allowed: Iterable[Offering], left_open: set[str], pool: NodePool
) -> str:
    """Return the pod requirement that no offering of this type satisfies; empty if an offering satisfies all."""
    rules = []
    for offering in allowed:
        there = {**labels, **_offering_labels(offering)}
        key = _unmet_key(wanted, there, left_open)
        if not key:
            closed = [key for key in wanted if key in left_open and not (wanted[key] & pool.requirements[key])]
            key = closed[0] if closed else ""
        if not key:
            return ""
        rules.append(f"{key} {wanted[key]}")
    return sorted(rules)[0]


def _unmet_key(requirements: Requirements, labels: Mapping[str, str], ignored: Iterable[str]) -> str:
    left_out = set(ignored)
    return next(
        (key for key, values in sorted(requirements.items())
         if key not in left_out and not Requirements({key: values}).allow(labels)),
        "",
    )  # fmt: skip


def _offering_labels(offering: Offering) -> dict[str, str]:
    return {
        names.ZONE: offering.zone,
        names.CAPACITY_TYPE: offering.capacity_type,
        names.TENANCY: offering.tenancy,
        names.REGION: names.region_of(offering.zone),
    }


def find_pool(key: str, found: ManifestPlan) -> NodePool | None:
    """Return the pool with this key or name."""
    return next((pool for pool in found.manifests.snapshot.pools if key in (pool.key, pool.name)), None)


def _summarize_types(types: Sequence[str]) -> str:
    """Return the names of up to three types, or the largest families: ``m5.* (9), c5.* (8)``."""
    if len(types) <= 3:
        return ", ".join(types)
    families: dict[str, int] = {}
    for one in types:
        family = one.partition(".")[0]
        families[family] = families.get(family, 0) + 1
    families_text = [
        f"{family}.* ({number})" for family, number in sorted(families.items(), key=lambda one: (-one[1], one[0]))
    ]
    return ", ".join(families_text[:3]) + and_more(len(families_text) - 3, "families")


def and_more(number: int, noun: str = "") -> str:
    """Return ``and 3 more``, or an empty text for none."""
    return f" and {number} more{f' {noun}' if noun else ''}" if number > 0 else ""


def describe_offer(offer: Offer) -> str:
    """Return the offering and its price as text."""
    return f"{offer.instance_type} in {offer.zone}, {offer.capacity_type}, {format_dollars(offer.price_per_hour)}/h"
