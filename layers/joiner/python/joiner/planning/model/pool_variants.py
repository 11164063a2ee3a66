"""Variants of a pool: values for the labels that it leaves open, and for each variant the offers that every pending
group may use."""

from collections.abc import Mapping
from itertools import product
from typing import Final

from joiner.cluster import ABSENT, ValueSet
from joiner.planning.model.blast_radius import within_vcpus
from joiner.planning.model.exotic_offers import find_openings
from joiner.planning.model.node_labels import open_keys
from joiner.planning.model.node_offers import OfferSet, PoolVariant
from joiner.planning.model.pod_groups import PodGroups
from joiner.planning.model.variant_daemons import OffersBesideDaemons
from joiner.pools import NodePool

MOST_VARIANTS: Final = 64
"""The maximum number of variants of a pool in one plan."""


def compile_variants(pool: NodePool, offer_set: OfferSet, groups: PodGroups) -> tuple[PoolVariant, ...]:
    """Return the variants of the pool, and for each the offers that every pending group may use."""
    asked, beside = asked_values(groups), OffersBesideDaemons(pool, offer_set, groups)
    choices: list[list[tuple[str, str | None]]] = []
    for key in open_keys(pool):
        values = pool.requirements[key]
        wanted = [value for value in sorted(asked.get(key, ())) if value in values]
        if values.finite and key in asked:
            wanted = sorted({*wanted, *values})
        unasked = values - ValueSet.of(*wanted)
        neutral = None if values.absent else str((unasked - beside.named(key) or unasked or values).any_value())
        choices.append([(key, value) for value in dict.fromkeys([neutral, *wanted])])
    found = []
    for number, combination in enumerate(product(*choices)):
        if number >= MOST_VARIANTS:
            break
        labels = {key: value for key, value in combination if value is not None}
        own = beside.on(labels)
        openings = find_openings(pool, own, groups.pending, _bits(pool, labels, own, groups))
        found.append(PoolVariant(pool, labels, own, within_vcpus(pool, own, groups.pending, openings)))
    return tuple(found)


def asked_values(groups: PodGroups) -> dict[str, set[str]]:
    """Return the label keys that pending pods or daemons use in rules about nodes or domains, with their values."""
    found: dict[str, set[str]] = {}
    for group in groups.pending:
        for requirements in (*group.where, *(one.term.labels for one in group.constraints.preferences)):
            for key, values in requirements.items():
                found.setdefault(key, set()).update(values.exceptions)
        for spread in group.constraints.spreads:
            found.setdefault(spread.topology_key, set())
        for term in (*group.constraints.affinity, *group.constraints.anti_affinity):
            found.setdefault(term.topology_key, set())
    return found


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
