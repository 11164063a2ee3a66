"""Variants of a pool: values for the labels that it leaves open, and for each variant the offers that every pending
group may use."""

from collections.abc import Mapping

from joiner.cluster import ABSENT, ValueSet
from joiner.planning.model.blast_radius import within_vcpus
from joiner.planning.model.exotic_offers import find_openings
from joiner.planning.model.node_labels import open_keys
from joiner.planning.model.node_offers import OfferSet, PoolVariant
from joiner.planning.model.open_label_values import OpenLabelValues
from joiner.planning.model.pod_groups import PodGroups
from joiner.planning.model.variant_daemons import OffersBesideDaemons
from joiner.pools import NodePool


def compile_variants(pool: NodePool, offer_set: OfferSet, groups: PodGroups) -> tuple[PoolVariant, ...]:
    """Return the variants of the pool, and for each the offers that every pending group may use."""
    keys, beside = open_keys(pool), OffersBesideDaemons(pool, offer_set, groups)
    values = OpenLabelValues(pool, keys, groups, beside.rules)
    found = []
    for combination in values.combinations():
        labels = {key: value for key, value in zip(keys, combination, strict=True) if value is not None}
        own = beside.on(labels)
        openings = find_openings(pool, own, groups.pending, _bits(pool, labels, own, groups))
        found.append(PoolVariant(pool, labels, own, within_vcpus(pool, own, groups.pending, openings)))
    return tuple(found)


def _bits(pool: NodePool, labels: Mapping[str, str], offer_set: OfferSet, groups: PodGroups) -> dict[int, int]:
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
