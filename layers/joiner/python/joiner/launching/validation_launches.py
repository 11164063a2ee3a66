"""The launches whose dry runs show whether EC2 allows the launches of a node class.

They are built as real launches are, so that conditions of policies on tags, subnets, images and profiles apply. A
policy may forbid only some instance types or zones: other ones can be launched, and the class is of use. So several
launches differ in pool, instance family and zone as far as the class allows. Launches into capacity reservations are
not tried: the reservation decides their type and zone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, family_labels
from joiner.catalogue.class_compatibility import find_incompatibility
from joiner.launching.image_families.node_settings import ClusterDescription
from joiner.launching.launch import Launch
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.launching.launch_offering import LaunchOffering
from joiner.pools import NodeClaimTemplate, NodeClass, NodePool, ResolvedNodeClass, build_node_claim
from joiner.pools.drift_hashes import build_hash_annotations

MOST_LAUNCHES: Final = 6
"""More are tried only while all before are refused."""
SUFFIX: Final = "validation"
"""Of the name that the instances of these launches would have."""


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
) -> tuple[Launch, ...]:
    """Return launches of one node each, the likeliest first; none if no instance type is possible.

    ``node_class`` has the fields that its launch template decides. ``pools`` are those that name the class; without
    any, the class is tried as if a pool of its own name allowed every instance type.
    """
    named = sorted(pools, key=lambda pool: pool.key) or [_pool_of(node_class)]
    possible = [each for pool in named for each in _candidates(pool, node_class, resolved, catalogue)]
    found: list[Launch] = []
    for number, each in enumerate(_select_different(possible)):
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
    return tuple(found)


def _pool_of(node_class: NodeClass) -> NodePool:
    return NodePool(
        node_class.name, node_class.ref, kind="NodePool" if node_class.kind == "EC2NodeClass" else "Provisioner"
    )


def _candidates(
    pool: NodePool, node_class: NodeClass, resolved: ResolvedNodeClass, catalogue: Catalogue
) -> Iterator[_Candidate]:
    """Yield what a plan could launch for the pool: on demand, or spot if the pool has nothing else."""
    capacity_type = next(
        (each for each in (names.ON_DEMAND, names.SPOT) if _allows(pool, names.CAPACITY_TYPE, each)), ""
    )
    strategy = resolved.placement_group.strategy if resolved.placement_group else ""
    for name in sorted(catalogue.types):
        known = catalogue.types[name]
        labels = {**known.labels, **family_labels(node_class)}
        decided = {key for key in pool.requirements if key in labels}
        if decided & set(pool.requirements.unmet(labels)) or resolved.image_for(known.labels) is None:
            continue
        if find_incompatibility(known, node_class, strategy):
            continue
        for sold in known.offerings:
            usable = sold.available and sold.capacity_type == capacity_type and sold.zone in resolved.zones
            if usable and _allows(pool, names.ZONE, sold.zone):
                yield _Candidate(pool, capacity_type, LaunchOffering(sold.price_per_hour, name, sold.zone))


def _select_different(candidates: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Yield the cheapest candidate of each pool, and then those with the least in common with the earlier ones."""
    used: Counter[tuple[str, str]] = Counter()
    left = list(candidates)
    for _ in range(min(MOST_LAUNCHES, len(left))):
        chosen = min(
            left,
            key=lambda each: (
                used["pool", each.pool.key],
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
