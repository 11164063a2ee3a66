"""The offers among which EC2 may choose for a spot node: every type that can hold its pods and costs no more than the
cheapest on-demand node that can.

Spot capacity of one type is interrupted together, so EC2 shall choose among many. The rules follow Karpenter: at most
60 types; types that cost more than the cheapest on-demand offer are dropped; bare metal and accelerators only where the
planned node has them. The nodes of a plan may all become their largest alternative without exceeding a limit of the
pool or of the cluster.
"""

from typing import Final

from joiner import names
from joiner.planning.arrays import Floats
from joiner.planning.model.node_offers import NodeOffer, PoolOffers
from joiner.planning.state.plan_state import PlanState

MOST_TYPES: Final = 60
MOST_OFFERS: Final = 120
"""A fleet accepts 300 offers. Plans and claims list them for every node, so this keeps them small."""


class SpareAllowance:
    """How much larger or more expensive than planned each new spot node may become, within limits and ceilings."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        made = [node for node in (*state.new, *state.existing) if node.choice or node.made]
        spot = [one for node in made if (one := node.choice or node.made) and is_spot(one.one)]
        self._nodes = max(len(spot), 1)
        self._of_pool: dict[str, int] = {}
        for one in spot:
            self._of_pool[one.pool_offers.pool.key] = self._of_pool.get(one.pool_offers.pool.key, 0) + 1

    def more(self, pool_offers: PoolOffers, resource: str) -> float:
        """Return how much more of a limited resource each spot node of the pool may have."""
        used = self._state.limits.used.get(pool_offers.pool.key, {}).get(resource, 0)
        left = max(pool_offers.pool.limits[resource] - used, 0)
        return left / max(self._of_pool.get(pool_offers.pool.key, 0), 1)

    def more_per_hour(self) -> float:
        """Return how much more each spot node may cost ($/h) within the ceiling of the cluster."""
        left = self._state.left_of_ceilings[1]
        return float("inf") if left is None else max(left, 0.0) / self._nodes


def is_spot(one: NodeOffer) -> bool:
    """Return whether the offer is spot capacity."""
    return one.offering.capacity_type == names.SPOT


def limit_price(on_demand: Floats, own: float, tolerance: float, spare: float) -> float:
    """Return the highest price of an alternative. ``on_demand`` are the prices of on-demand offers that hold the pods.

    >>> import numpy as np
    >>> limit_price(np.array([0.2, 0.1]), 0.05, 0.1, float("inf"))
    0.1
    """
    near = own * (1 + tolerance)
    cheapest = float(on_demand.min()) if len(on_demand) else float("inf")
    return min(max(cheapest, near), max(own + spare, own))


def choose_offers(offers: list[NodeOffer], own: NodeOffer) -> list[NodeOffer]:
    """Return the first offers, of at most 60 types with that of ``own``."""
    types = {own.model.name}
    kept: list[NodeOffer] = []
    for one in offers:
        if len(kept) >= MOST_OFFERS - 1:
            break
        if one.model.name in types or len(types) < MOST_TYPES:
            types.add(one.model.name)
            kept.append(one)
    return kept
