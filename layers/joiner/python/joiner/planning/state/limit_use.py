"""How much of the limits of pools, of the cluster's ceilings and of limited supplies is used while a plan is made."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from joiner.planning.model.node_offers import NodeOffer, OfferChoice, PoolOffers
from joiner.planning.model.pool_limits import allow_a_node
from joiner.planning.plan_policies import Ceilings
from joiner.planning.state.address_use import AddressUse
from joiner.planning.state.limit_violations import (
    AddressViolation,
    CeilingViolation,
    LimitViolation,
    PoolLimitViolation,
    ReservationViolation,
)
from joiner.planning.state.node_state import NodeState
from joiner.pools import NodePool

NOTHING_DRAWN: Final[Mapping[tuple[str, ...], int]] = {}


class LimitUse:
    """The use of all limits by existing nodes, and by the new nodes that are counted here."""

    def __init__(
        self,
        used: Mapping[str, Mapping[str, int]],
        ceilings: Ceilings,
        *,
        nodes: int,
        price: float,
        drawn: Mapping[tuple[str, ...], int] = NOTHING_DRAWN,
    ) -> None:
        """Count the existing nodes: what they use of each pool's limits, their number and their price in $/h.
        ``drawn``: what they use of each limited supply, in units."""
        self.used = {key: dict(amounts) for key, amounts in used.items()}
        self._ceilings = ceilings
        self._nodes = nodes
        self._price = price
        self._drawn: dict[tuple[str, ...], int] = dict(drawn)
        self.addresses: AddressUse | None = None
        """The addresses of subnets, while they limit new nodes."""

    def allow_a_node(self, pool_offers: PoolOffers) -> bool:
        """Return whether the pool's limits allow one more node of some size."""
        return allow_a_node(pool_offers.pool, self.used.get(pool_offers.pool.key, {}), pool_offers.launchable)

    def allows_no_more_nodes(self, pools: Iterable[NodePool], new: Sequence[NodeState]) -> bool:
        """Return whether the number of nodes is used up, that of one of these pools or of the cluster's ceiling, and
        some of it by these ``new`` nodes, so that fewer of them leave room for others."""
        left = self.left_of_ceilings(new)[0]
        if new and left is not None and left < 1:
            return True
        planned = {node.choice.pool_offers.pool.key for node in new if node.choice}
        limited = (
            (self.used[one.key]["nodes"], one.limits.amounts.get("nodes")) for one in pools if one.key in planned
        )
        return any(most is not None and used >= most for used, most in limited)

    def count(self, node: NodeState, number: int) -> None:
        """Add a new node to the use of its pool's limits and of its supply; remove it if ``number`` is -1."""
        if node.choice:
            pool = node.choice.pool_offers.pool
            if self.addresses is not None:
                self.addresses.count(node.choice, number)
            if node.choice.one.supply is not None:
                self.draw(node.choice.one, number)
            used = self.used.setdefault(pool.key, {})
            used["nodes"] = used.get("nodes", 0) + number
            capacity = node.choice.one.capacity.amounts
            for name in pool.limits.amounts:
                if name != "nodes":
                    used[name] = used.get(name, 0) + number * capacity.get(name, 0)

    def draw(self, one: NodeOffer, number: int) -> None:
        """Add the units of ``number`` nodes to the use of an offer's supply."""
        known = one.supply_key
        self._drawn[known] = self._drawn.get(known, 0) + number * one.units

    def keep(self, nodes: Sequence[NodeState]) -> None:
        """Count these new nodes against the ceilings like existing ones."""
        self._nodes += len(nodes)
        self._price += sum(node.price for node in nodes)

    def release(self, nodes: Sequence[NodeState]) -> None:
        """Count these nodes as new ones again, the reverse of ``keep``."""
        self._nodes -= len(nodes)
        self._price -= sum(node.price for node in nodes)

    def find_violation(self, choice: OfferChoice, new: Sequence[NodeState]) -> LimitViolation | None:
        """Return the limit that one more node of this choice would exceed beside the ``new`` nodes, or None."""
        pool, one = choice.pool_offers.pool, choice.one
        if limits := pool.limits.amounts:  # this is the most frequent question of all searches
            used, capacity = self.used.get(pool.key, {}), one.capacity.amounts
            for name, limit in limits.items():
                more = 1 if name == "nodes" else capacity.get(name, 0)
                if used.get(name, 0) + more > limit:
                    return PoolLimitViolation(pool, name, limit, used.get(name, 0), more)
        if one.supply is not None and self.nodes_left(one) <= 0:
            return ReservationViolation(one.supply)
        nodes = self._nodes + len(new)
        if self._ceilings.nodes is not None and nodes + 1 > self._ceilings.nodes:
            return CeilingViolation("nodes", self._ceilings.nodes, nodes, 1)
        ceiling, price = self._ceilings.price_per_hour, one.offer.price_per_hour
        if ceiling is not None:
            spent = self._price + sum(node.price for node in new)
            if spent + price > ceiling + 1e-9:
                return CeilingViolation("price", ceiling, spent, price)
        # Last, because an address may be free soon, and a limit that lasts is the reason that helps
        if self.addresses is not None and self.addresses.left(choice) < 1:
            return AddressViolation(self.addresses.describe(choice))
        return None

    def nodes_left(self, one: NodeOffer) -> int:
        """Return how many more nodes the supply of an offer suffices for; call it for offers with a supply only."""
        return self.units_left(one) // one.units

    def units_left(self, one: NodeOffer) -> int:
        """Return how many units are left of the supply of an offer."""
        return (one.supply or 0) - self._drawn.get(one.supply_key, 0)

    def left_of_ceilings(self, new: Sequence[NodeState]) -> tuple[int | None, float | None]:
        """Return how many more nodes, and how many more $/h, the cluster's ceilings allow beside the ``new`` nodes;
        None for each ceiling that is not set."""
        nodes, price = self._ceilings.nodes, self._ceilings.price_per_hour
        return (
            None if nodes is None else nodes - self._nodes - len(new),
            None if price is None else price - self._price - sum(node.price for node in new),
        )
