"""Instance types that a plan launches only for pods that ask for them: bare metal and accelerators.

The planner's own rule decides, on the offers that it compiles: with zones, prices of whole nodes and NodeOverlays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Final

from joiner.catalogue.exotic_types import COMMON, exotic_kinds, named_kinds
from joiner.cluster import Pod
from joiner.planning.model.node_offers import NodeOffer, PoolOffers
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.model.position_bits import bit_positions
from joiner.planning.planner import Planner
from joiner.pools import NodePool
from joiner_cli.manifest_plan import ManifestPlan


@dataclass(frozen=True, slots=True)
class UnrequestedTypes:
    """The types of a pool that could hold a pod and of which it may not open a node, by name: the kinds that neither
    the pod nor the pool asks for, and the price per hour of the cheapest node that the pod accepts.

    ``openers`` are other pods that may open a node, by the name of its type.
    """

    kinds: Mapping[str, str]
    prices: Mapping[str, float]
    openers: Mapping[str, frozenset[str]]

    def rule(self, name: str) -> str:
        """Return why a plan does not launch the type for the pod."""
        return f"{self.kinds[name]}: neither the pod nor the pool asks for it"


NO_TYPES: Final = UnrequestedTypes({}, {}, {})


def find_unrequested_types(pod: Pod, pool: NodePool, found: ManifestPlan) -> UnrequestedTypes:
    """Return the types of the pool that the planner launches only for other pods than this one."""
    state = Planner().state(
        replace(found.manifests.snapshot, pools=(pool,)),
        found.catalogue.catalogue,
        classes=found.classes,
        ceilings=found.request.limits.ceilings,
    )
    groups = state.groups.pending
    group = next((one for one in groups if any(each.key == pod.key for each in one.pods)), None)
    if group is None:
        return NO_TYPES
    kinds: dict[str, str] = {}
    prices: dict[str, float] = {}
    openers: dict[str, frozenset[str]] = {}
    for pool_offers in state.offered_pools:
        for one in _list_closed(group, pool_offers):
            name, price = one.model.name, one.offering.price_per_hour
            if name not in kinds:
                named = COMMON.union(*(named_kinds(one.labels, each) for each in (pool.requirements, *group.where)))
                kinds[name] = " and ".join(sorted(exotic_kinds(name, one.labels) - named))
            prices[name] = min(price, prices.get(name, price))
            openers[name] = openers.get(name, frozenset()) | _list_openers(groups, pool_offers, one)
    return UnrequestedTypes(kinds, prices, openers)


def _list_closed(group: PodGroup, pool_offers: PoolOffers) -> list[NodeOffer]:
    """Return the offers that accept the group and could hold it, and of which it may not open a node."""
    opened = reduce(or_, (variant.openings.opened[group.index] for variant in pool_offers.variants), 0)
    found: dict[int, NodeOffer] = {}
    for variant in pool_offers.variants:
        offers = map(variant.launchable.__getitem__, bit_positions(variant.openings.accepted[group.index] & ~opened))
        found |= {one.index: one for one in offers if fits(group, one.free)}
    return [found[position] for position in sorted(found)]


def _list_openers(groups: Sequence[PodGroup], pool_offers: PoolOffers, one: NodeOffer) -> frozenset[str]:
    return frozenset(
        pod.key
        for group in groups
        if any(variant.may_open([group.index], one) for variant in pool_offers.variants)
        for pod in group.pods
    )
