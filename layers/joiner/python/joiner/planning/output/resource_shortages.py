"""Why no offer of a pool can hold a pod: the nearest offer, and the settings that leave no room.

Many groups of pods may be too large for every offer, and a pool has thousands of offers. So what does not depend on the
group is computed once: the order of the offers, and the capacities of nodes without each setting.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from joiner.catalogue import Catalogue
from joiner.catalogue.capacity_settings import NodeCapacities, describe_settings, find_tight_settings
from joiner.planning.model.node_offers import NodeOffer, OfferSet, PoolOffers
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.model.position_bits import bit_positions
from joiner.planning.plan import Reason

CapacitiesOf = Callable[[PoolOffers], NodeCapacities]
"""The capacities of the nodes of a pool, without each setting."""


class OrderedOffers:
    """The offers of one offer set in the order in which reasons name them: the cheapest first. Those of commitments are
    left out, because their types are offered at the on-demand price, too."""

    def __init__(self, offer_set: OfferSet) -> None:
        uncommitted = (one for one in offer_set.launchable if not one.offering.commitment)
        self._offers = sorted(uncommitted, key=lambda one: (one.offer, one.index))
        self._last: tuple[int, list[NodeOffer]] = (0, [])

    def select(self, bits: int) -> list[NodeOffer]:
        """Return the offers in these bits. Groups in succession often accept the same offers."""
        if self._last[0] != bits:
            selected = set(bit_positions(bits))
            self._last = bits, [one for one in self._offers if one.index in selected]
        return self._last[1]


def list_usable(group: PodGroup, pool_offers: PoolOffers) -> list[NodeOffer]:
    """Return the offers of a pool that accept the group, cheapest first. The plan may not consider all values of open
    labels that the group accepts."""
    bits: dict[OfferSet, int] = (
        {pool_offers.offer_set: others} if (others := pool_offers.waiting.get(group.index)) else {}
    )
    for variant in pool_offers.variants:
        bits[variant.offer_set] = bits.get(variant.offer_set, 0) | variant.bits[group.index]
    found = [offer_set.derived(OrderedOffers).select(accepted) for offer_set, accepted in bits.items()]
    return found[0] if len(found) == 1 else sorted(chain(*found), key=lambda one: (one.offer, one.index))


def find_capacities(pool_offers: PoolOffers, catalogue: Catalogue, cache: OfferCache) -> NodeCapacities:
    """Return the capacities of the pool's nodes without each setting. Pools of a class share them, unless they have
    kubelet settings of their own."""
    node_class, pool = pool_offers.node_class, pool_offers.pool
    own = (pool.key, pool.kubelet) if pool.kubelet else None
    # Comparing the catalogue takes longest.
    return cache.capacities((node_class, own, catalogue), lambda: NodeCapacities(node_class, pool))


def explain_shortage(
    group: PodGroup,
    pool_offers: PoolOffers,
    usable: Sequence[NodeOffer],
    *,
    catalogue: Catalogue,
    capacities: CapacitiesOf,
) -> Reason:
    """Return the reason when no offer holds such a pod: the settings that leave no room, if types have room without
    them; the nearest offer and what it lacks. ``usable`` are the offers that accept the group, cheapest first."""
    requests = group.constraints.requests
    shortfalls = {free: _compute_shortfall(group, free) for free in {one.free for one in usable}}
    nearest = min(usable, key=lambda one: shortfalls[one.free])
    lacks = requests.lacking(nearest.allocatable - nearest.overhead)
    types = {one.model.name: one.overhead for one in usable}
    tight = find_tight_settings(
        requests, ((catalogue.types[name], overhead) for name, overhead in types.items()), capacities(pool_offers)
    )
    why = f"no instance type has enough resources{describe_settings(tight)}"
    return Reason(pool_offers.pool.name, why, nearest.offer, lacks)


def _compute_shortfall(group: PodGroup, free: Sequence[int]) -> float:
    """Return the sum of the shares of its needs that a pod of the group lacks in this free capacity."""
    return sum(max(amount - free[position], 0) / amount for position, amount in group.needs)
