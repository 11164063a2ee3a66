"""The offers that can replace a node alone: one new node holds all pods that fit on no other node. And the offers among
which the fleet chooses for the new nodes in place of a spot node."""

from collections.abc import Mapping, Sequence

import numpy as np

from joiner import names
from joiner.disruption.cluster_simulation import ClusterSimulation, Contents
from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.replacement_rules import cheapest_types, too_few_spot_types
from joiner.planning.arrays import Floats
from joiner.planning.model.node_offers import OfferChoice, PoolOffers
from joiner.planning.model.pod_groups import group_mask
from joiner.planning.placement.address_limits import find_full_zones
from joiner.planning.plan import Offer
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.relaxation.offer_table import columns_of, unpack_bits
from joiner.planning.state.node_state import NodeState
from joiner.pools import NodePool

Tiers = list[tuple[list[OfferChoice], Floats, Floats]]
"""The offers of each weight, their free resources and their prices."""


class ReplacementOffers:
    """The undominated offers as arrays, pools of the highest weight first, then in order of price.

    They are not in zones whose addresses the wave has used up; so they change with the wave.
    """

    def __init__(self, simulation: ClusterSimulation) -> None:
        self._state = simulation.state
        self._full = find_full_zones(self._state)
        self._tiers = self._without(self._full)
        self._prices: dict[PoolOffers, Floats] = {}

    def _without(self, full: Mapping[str, frozenset[str]]) -> Tiers:
        return [
            (
                choices,
                np.array([one.one.free for one in choices], float),
                np.array([one.one.offer.price_per_hour for one in choices]),
            )
            for _, choices in OfferFrontier(self._state, full).tiers
        ]

    def holding(self, contents: Contents, *, below: float) -> list[OfferChoice]:
        """Return the offers that hold all of these pods by resources and labels and cost less, the cheapest first.

        They are of the pools with the highest weight that can hold the pods.
        """
        if (full := find_full_zones(self._state)) != self._full:
            self._full, self._tiers = full, self._without(full)
        total, mask = self._sum(contents), group_mask(contents)
        for choices, free, prices in self._tiers:
            fitting = np.flatnonzero((free >= total).all(axis=1)).tolist()
            able = [at for at in fitting if choices[at].groups & mask == mask and _may_open(choices[at], contents)]
            if able:
                return [choices[at] for at in sorted(able, key=lambda at: prices[at]) if prices[at] < below - 1e-9]
        return []

    def describe_full_zones(self, contents: Contents, *, below: float) -> str:
        """Return in which zones these pods could be if an address were left there, as a part of the reason of a node
        that stays; empty if there is none. Where offers are known, one must hold all of the pods and cost less."""
        found: set[str] = set()
        for pool_offers in self._state.offered_pools if self._full else ():
            full = self._full.get(pool_offers.pool.key, frozenset())
            if full and not any(group.constraints.untolerated(pool_offers.pool.taints) for group in contents):
                unknown = full - pool_offers.domains(names.ZONE).keys()  # had no address from the start
                found |= {zone for zone in unknown if _may_be_in(zone, pool_offers.pool, contents)}
                found |= full & self._zones_holding(pool_offers, contents, below)
        return f" (the subnets in {', '.join(sorted(found))} have no further free address)" if found else ""

    def _zones_holding(self, pool_offers: PoolOffers, contents: Contents, below: float) -> set[str]:
        """Return the zones of the pool's offers that hold all of these pods by resources and labels and cost less."""
        if not pool_offers.launchable:
            return set()
        if pool_offers not in self._prices:
            self._prices[pool_offers] = np.array([one.offer.price_per_hour for one in pool_offers.launchable])
        cheaper, total = self._prices[pool_offers] < below - 1e-9, self._sum(contents)
        codes, zones = columns_of(pool_offers.offer_set).codes(names.ZONE)
        found: set[str] = set()
        for variant in pool_offers.variants:
            open_to = variant.common_to(group.index for group in contents)
            fitting = (columns_of(variant.offer_set).free >= total).all(axis=1)
            held = cheaper & fitting & unpack_bits(open_to, len(pool_offers.launchable))
            found |= {zone for code in np.unique(codes[held]).tolist() if (zone := zones[code]) is not None}
        return found

    def _sum(self, contents: Contents) -> Floats:
        """Return the resources of all of these pods."""
        total = np.zeros(len(self._state.groups.resources))
        for group, keys in contents.items():
            total += np.array(group.vector, float) * len(keys)
        return total


def fleet_choices(
    simulation: ClusterSimulation, removed: Sequence[Candidate], opened: Sequence[NodeState], saving: float
) -> Mapping[NodeState, tuple[Offer, ...]] | None:
    """Return the offers of the fleet for each new node of the simulation in place of a single spot node; None if for
    one of them the fleet could choose among too few types. Several nodes are replaced by the usual alternatives.

    ``saving`` is what the replacement saves, in $/h.
    """
    if len(removed) > 1:
        return {}
    found = {}
    for node in opened:
        if node.choice is not None:
            most = node.choice.one.offer.price_per_hour + saving / len(opened)
            cheaper = simulation.cheaper_offers(node, node.choice, most)
            if too_few_spot_types(removed[0], cheaper):
                return None
            found[node] = cheapest_types(removed[0], cheaper)
    return found


def _may_open(choice: OfferChoice, contents: Contents) -> bool:
    """Return whether one of these pods may open a node of the choice; all of them may be there."""
    return choice.variant.may_open((group.index for group in contents), choice.one)


def _may_be_in(zone: str, pool: NodePool, contents: Contents) -> bool:
    """Return whether the requirements of the pool and of these pods allow nodes in a zone."""
    asked = [pool.requirements]
    for group in contents:
        constraints = group.constraints
        if constraints.terms is not None and not any(zone in term.labels.on(names.ZONE) for term in constraints.terms):
            return False
        asked.append(constraints.selector)
    return all(zone in each.on(names.ZONE) for each in asked)
