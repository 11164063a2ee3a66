"""The offers that can replace a node alone: one new node holds all pods that fit on no other node."""

from collections.abc import Mapping

import numpy as np

from joiner.disruption.cluster_simulation import ClusterSimulation, Contents
from joiner.planning.arrays import Floats
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import group_mask
from joiner.planning.placement.address_limits import find_full_zones
from joiner.planning.relaxation.dominance import OfferFrontier

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
        total = np.zeros(len(self._state.groups.resources))
        for group, keys in contents.items():
            total += np.array(group.vector, float) * len(keys)
        mask = group_mask(contents)
        for choices, free, prices in self._tiers:
            fitting = np.flatnonzero((free >= total).all(axis=1)).tolist()
            able = [at for at in fitting if choices[at].groups & mask == mask]
            if able:
                return [choices[at] for at in sorted(able, key=lambda at: prices[at]) if prices[at] < below - 1e-9]
        return []
