"""The whole price of a node: its instance and what it costs beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from joiner import names
from joiner.catalogue.commitments import NOTHING_COVERED, Coverage
from joiner.catalogue.instance_types import Catalogue
from joiner.pools import NodePool, Overlays, ResolvedNodeClass
from joiner.pools.additional_node_costs import NO_COSTS, NodeCosts
from joiner.pools.capacity_reservations import PRICE_SHARE


def node_costs(pool: NodePool, resolved: ResolvedNodeClass | None, zone: str) -> NodeCosts:
    """Return what a node of this pool costs in a zone beside its instance."""
    return resolved.node_costs(zone, pool.planning.overhead_price) if resolved else NO_COSTS


@dataclass(frozen=True, slots=True)
class NodePrices:
    """Prices of existing nodes, as plans reckon with them. ``pools`` and ``classes`` are by key. ``coverage`` is which
    share of each node's price commitments pay for, by the name of the node or the key of its claim."""

    catalogue: Catalogue
    pools: Mapping[str, NodePool]
    classes: Mapping[str, ResolvedNodeClass]
    overlays: Overlays = field(default_factory=Overlays)
    coverage: Coverage = NOTHING_COVERED

    def of(self, labels: Mapping[str, str], pool_key: str, machine: str = "") -> float:
        """Return the whole price of a node with these labels in $/h; 0 if the price of its instance is unknown."""
        instance, costs = self._instance_and_costs(labels, pool_key, machine)
        return round(instance + costs.total, 10)

    def parts(self, labels: Mapping[str, str], pool_key: str, machine: str = "") -> dict[str, float]:
        """Return the parts of this price in $/h, as those of a planned node."""
        instance, costs = self._instance_and_costs(labels, pool_key, machine)
        return {"instance": round(instance, 10), **costs.to_json()}

    def _instance_and_costs(self, labels: Mapping[str, str], pool_key: str, machine: str) -> tuple[float, NodeCosts]:
        instance_type, zone, capacity_type = (
            labels.get(key, "") for key in (names.INSTANCE_TYPE, names.ZONE, names.CAPACITY_TYPE)
        )
        offering = self.catalogue.offering(instance_type, zone, capacity_type)
        pool = self.pools.get(pool_key)
        if offering is None or not offering.price_per_hour:
            return 0.0, NO_COSTS
        price, lost = offering.price_per_hour, offering.interruptions
        if labels.get(names.TENANCY) == names.DEDICATED_TENANCY:
            price += self.catalogue.types[instance_type].dedicated_surcharge or 0.0
        elif covered := self.coverage.shares.get(machine):
            price *= max(1 - covered, PRICE_SHARE)
        if pool is None:
            return price, NodeCosts(interruptions=lost) if lost else NO_COSTS
        costs = node_costs(pool, self.classes.get(pool.class_ref.key), zone)
        price = self.overlays.price(labels, price)
        return price, replace(costs, interruptions=costs.interruptions + lost) if lost else costs
