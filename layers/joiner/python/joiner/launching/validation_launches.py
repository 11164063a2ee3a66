"""The launches whose dry runs show whether EC2 allows the launches of a node class.

They are built as real launches are, so that conditions of policies on tags, subnets, images and profiles apply. A
policy may forbid only some instance types or zones: other ones can be launched, and the class is of use. So several
launches differ in pool, instance family and zone as far as the class allows. Launches into capacity reservations are
not tried: the reservation decides their type and zone.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, family_labels
from joiner.catalogue.capacity_settings import NodeCapacities
from joiner.catalogue.class_compatibility import find_exclusion
from joiner.launching.image_families.node_settings import ClusterDescription
from joiner.launching.launch import Launch
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.launching.launch_offering import LaunchOffering
from joiner.pools import NodeClaimTemplate, NodeClass, NodePool, ResolvedNodeClass, build_node_claim
from joiner.pools.drift_hashes import build_hash_annotations

MOST_LAUNCHES: Final = 12
"""More are tried only while all before are refused."""
MOST_POOLS: Final = 12
MOST_OF_A_POOL: Final = 60
"""Offers of one pool among which the launches are chosen: the cheapest of each family, zone and capacity type."""
SUFFIX: Final = "validation"
"""Of the name that the instances of these launches would have."""


@dataclass(frozen=True, slots=True)
class ValidationLaunches:
    """Launches of one node each, the likeliest first; ``whole`` if the class has no other ones."""

    launches: tuple[Launch, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    pool: NodePool
    capacity_type: str
    offer: LaunchOffering

    @property
    def family(self) -> str:
        return self.offer.instance_type.partition(".")[0]


def build_validation_launches(
    node_class: NodeClass,
    resolved: ResolvedNodeClass,
    pools: Iterable[NodePool],
    catalogue: Catalogue,
    cluster: ClusterDescription,
    *,
    execution: str,
) -> ValidationLaunches:
    """Return the launches to try; none if no instance type is possible.

    ``node_class`` has the fields that its launch template decides. ``pools`` are those that name the class; without
    any, the class is tried as if a pool of its own name allowed every instance type.
    """
    named = sorted(pools, key=lambda pool: pool.key) or [_pool_of(node_class)]
    possible, whole = [], len(named) <= MOST_POOLS
    for pool in named[:MOST_POOLS]:
        of_pool = list(_candidates(pool, node_class, resolved, catalogue))
        kept = _cheapest(of_pool) if len(of_pool) > MOST_LAUNCHES else of_pool
        possible += kept
        whole = whole and len(kept) == len(of_pool)
    chosen = list(_select_different(possible))
    whole = whole and len(chosen) == len(possible)
    found: list[Launch] = []
    for number, each in enumerate(chosen):
        labels = {} if _allows_default_tenancy(each.pool) else {names.TENANCY: names.DEDICATED_TENANCY}
        template = NodeClaimTemplate(
            requirements=each.pool.requirements,
            labels=labels,
            annotations=build_hash_annotations(each.pool, node_class),
        )
        claim = build_node_claim(each.pool, template, suffix=f"{SUFFIX}{number}", lease=0, execution=execution)
        wanted = ClaimToLaunch(claim, each.pool, node_class, resolved, each.capacity_type, (each.offer,))
        launches, _ = group_launches([wanted], catalogue, cluster, execution=execution, attempt=number)
        found += launches
    return ValidationLaunches(tuple(found), whole)


def _pool_of(node_class: NodeClass) -> NodePool:
    return NodePool(
        node_class.name, node_class.ref, kind="NodePool" if node_class.kind == "EC2NodeClass" else "Provisioner"
    )


def _candidates(
    pool: NodePool, node_class: NodeClass, resolved: ResolvedNodeClass, catalogue: Catalogue
) -> Iterator[_Candidate]:
    """Yield what a plan could launch for the pool. A policy may allow spot only, or on-demand only."""
    bought = {each for each in (names.ON_DEMAND, names.SPOT) if _allows(pool, names.CAPACITY_TYPE, each)}
    zones = {zone for zone in resolved.zones if _allows(pool, names.ZONE, zone)}
    capacities = NodeCapacities(node_class, pool)
    for name in sorted(catalogue.types):
        known = catalogue.types[name]
        labels = {**known.labels, **family_labels(node_class)}
        decided = {key for key in pool.requirements if key in labels}
        if decided & set(pool.requirements.unmet(labels)) or resolved.image_for(known.labels) is None:
            continue
        if find_exclusion(known, node_class, resolved) or capacities.exhausted(known):
            continue
        for sold in known.offerings:
            if sold.available and sold.capacity_type in bought and sold.zone in zones:
                offer = LaunchOffering(sold.price_per_hour, name, sold.zone)
                yield _Candidate(pool, sold.capacity_type, offer)


def _cheapest(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Return the cheapest candidate of each family, zone and capacity type, and of these the cheapest."""
    best: dict[tuple[str, str, str], _Candidate] = {}
    for each in candidates:
        key = (each.family, each.offer.zone, each.capacity_type)
        if key not in best or each.offer < best[key].offer:
            best[key] = each
    return heapq.nsmallest(MOST_OF_A_POOL, best.values(), key=lambda each: (each.offer, each.capacity_type))


def _select_different(candidates: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Yield the cheapest candidate of each pool, and then those with the least in common with the earlier ones."""
    used: Counter[tuple[str, str]] = Counter()
    left = list(candidates)
    for _ in range(min(MOST_LAUNCHES, len(left))):
        chosen = min(
            left,
            key=lambda each: (
                used["pool", each.pool.key],
                used["capacity type", each.capacity_type],
                used["type", each.offer.instance_type],
                used["family", each.family],
                used["zone", each.offer.zone],
                each.offer,
            ),
        )
        left.remove(chosen)
        used.update(
            [
                ("pool", chosen.pool.key),
                ("capacity type", chosen.capacity_type),
                ("type", chosen.offer.instance_type),
                ("family", chosen.family),
                ("zone", chosen.offer.zone),
            ]
        )
        yield chosen


def _allows(pool: NodePool, key: str, value: str) -> bool:
    return key not in pool.requirements or value in pool.requirements[key]


def _allows_default_tenancy(pool: NodePool) -> bool:
    return _allows(pool, names.TENANCY, names.DEFAULT_TENANCY)
