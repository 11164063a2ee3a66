"""Whether the limits of a pool allow a node at all."""

from collections.abc import Iterable, Mapping

from joiner.planning.model.node_offers import NodeOffer
from joiner.pools import NodePool


def allow_a_node(pool: NodePool, used: Mapping[str, int], offers: Iterable[NodeOffer]) -> bool:
    """Return whether the pool's limits allow one more node of one of these offers beside what is ``used``."""
    left = {name: limit - used.get(name, 0) for name, limit in pool.limits.items()}
    return not left or any(all(_of_a_limit(name, one) <= amount for name, amount in left.items()) for one in offers)


def _of_a_limit(name: str, one: NodeOffer) -> int:
    """Return how much of a limit a node of this offer uses."""
    return 1 if name == "nodes" else one.capacity.amounts.get(name, 0)
