"""Variants of a pool: values for the labels that it leaves open, and for each variant the offers that every pending
group may use."""

from collections.abc import Iterable, Mapping

from joiner.cluster import ABSENT, ValueSet
from joiner.planning.model.blast_radius import within_vcpus
from joiner.planning.model.exotic_offers import find_openings
from joiner.planning.model.node_offers import OfferSet, PoolVariant
from joiner.planning.model.pod_groups import PodGroups
from joiner.planning.model.variant_daemons import OffersBesideDaemons
from joiner.pools import NodePool


def compile_variants(
    pool: NodePool, offer_set: OfferSet, groups: PodGroups, values: Iterable[Mapping[str, str]]
) -> tuple[PoolVariant, ...]:
    """Return a variant of the pool for each of these ``values`` of its open labels (`considered_values`), and for each
    the offers that every pending group may use."""
    beside, found = OffersBesideDaemons(pool, offer_set, groups), []
    for labels in values:
        own = beside.on(labels)
        openings = find_openings(pool, own, groups.pending, find_accepted(pool, labels, own, groups))
        found.append(PoolVariant(pool, labels, own, within_vcpus(pool, own, groups.pending, openings)))
    return tuple(found)


def find_accepted(pool: NodePool, labels: Mapping[str, str], offer_set: OfferSet, groups: PodGroups) -> dict[int, int]:
    """Return by group index the offers whose labels the group accepts, as bits; none of a pool that launches no node
    for the group. Taints are evaluated elsewhere, because they belong to the pool and not to the offer."""
    every = offer_set.every
    found: dict[int, int] = {}
    memory: dict[tuple[str, ValueSet], int] = {}
    for group in groups.pending:
        accepted = 0
        for requirements in group.where if pool.key not in group.held else ():
            bits = every
            for key, allowed in requirements.items():
                if not bits:
                    break
                if key in labels:
                    bits &= every if labels[key] in allowed else 0
                    continue
                if (key, allowed) not in memory:
                    by_value, missing = offer_set.positions(key)
                    mine = missing if ABSENT in allowed else 0
                    for value, positions in by_value.items():
                        mine |= positions if value in allowed else 0
                    memory[key, allowed] = mine
                bits &= memory[key, allowed]
            accepted |= bits
        found[group.index] = accepted
    return found
