"""The offers that can replace a node alone: one new node holds all pods that fit on no other node."""

import numpy as np

from joiner.disruption.cluster_simulation import ClusterSimulation, Contents
from joiner.planning.arrays import Floats
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import group_mask
from joiner.planning.relaxation.dominance import OfferFrontier


class ReplacementOffers:
    """The undominated offers as arrays, pools of the highest weight first, then in order of price."""

    def __init__(self, simulation: ClusterSimulation) -> None:
        self._state = simulation.state
        self._tiers: list[tuple[list[OfferChoice], Floats, Floats]] = []
        for _, choices in OfferFrontier(simulation.state).tiers:
            free = np.array([one.one.free for one in choices], float)
            self._tiers.append((choices, free, np.array([one.one.offer.price_per_hour for one in choices])))

    def holding(self, contents: Contents, *, below: float) -> list[OfferChoice]:
        """Return the offers that hold all of these pods by resources and labels and cost less, the cheapest first.

        They are of the pools with the highest weight that can hold the pods.
        """
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
