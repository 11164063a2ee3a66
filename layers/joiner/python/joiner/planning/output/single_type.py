"""The warning that all new nodes of a plan depend on the capacity of one instance type.

If EC2 has no capacity for the type of a node, Joiner plans its pods again without that type. So what counts is every
type that can hold the pods, in all of their pools, and not only the alternatives of the node: those have its capacity
type, its tenancy, its labels and about its price, and use no more of the pool's limits. Nor does it matter which types
a pool or a pod prefers: those beyond the blast radius, bare metal and accelerators are planned where others have no
capacity.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from joiner.planning.model.blast_radius import as_running
from joiner.planning.model.node_offers import NodeOffer, OfferSet, PoolOffers, PoolVariant
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.model.pool_variants import compile_variants
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState

LEAST_NODES: Final = 4
"""The least number of nodes that are reported."""


def find_single_type(state: PlanState) -> Iterator[str]:
    """Yield a sentence if the plan has several new nodes, all of one type, and each has pods that no other type can
    hold."""
    nodes = [*state.new, *(node for node in state.existing if node.made)]
    types = {choice.one.model.name for node in nodes if (choice := node.choice or node.made)}
    if len(types) != 1 or len(nodes) < LEAST_NODES:
        return
    (only,) = types
    usable = _UsableOffers(state)

    @cache
    def depends(group: PodGroup) -> bool:
        return all(one.model.name == only for one in usable.of(group))

    def is_bound(node: NodeState) -> bool:
        if node.made:
            return all(one.model.name == only for one in _offers_of_pool(node.made.pool_offers))
        return any(map(depends, node.planned))

    if all(map(is_bound, nodes)):
        bound = [group for node in nodes for group in node.planned if depends(group)]
        yield _describe(only, nodes, excluded=any(_excludes_others(state, group, only) for group in bound))


class _UsableOffers:
    """The offers of every pool that can hold a pod of a group, whatever the planner prefers."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self._variants = cache(self._compile_variants)

    def of(self, group: PodGroup) -> Iterator[NodeOffer]:
        """Yield the offers of which its pods could get a node, if no other had capacity."""
        for pool_offers in _pools_of(self._state, group):
            bits: dict[OfferSet, int] = {}
            for variant in self._variants(pool_offers):
                own = variant.openings.accepted[group.index]
                bits[variant.offer_set] = bits.get(variant.offer_set, 0) | own
            for offer_set, accepted in bits.items():
                yield from _holding(group, (one for one in offer_set.launchable if accepted >> one.index & 1))

    def _compile_variants(self, pool_offers: PoolOffers) -> Sequence[PoolVariant]:
        pool = pool_offers.pool
        if pool.planning.blast_radius.vcpus is None:
            return pool_offers.variants
        values = [variant.labels for variant in pool_offers.variants]
        return compile_variants(as_running(pool), pool_offers.offer_set, self._state.groups, values)


def _offers_of_pool(pool_offers: PoolOffers) -> Iterator[NodeOffer]:
    """Yield the offers of the nodes that a static pool or a claim has without pods."""
    variant = pool_offers.podless
    return (one for one in variant.launchable if variant.openings.of_pool >> one.index & 1)


def _pools_of(state: PlanState, group: PodGroup) -> Iterator[PoolOffers]:
    return (each for each in state.offered_pools if group.constraints.untolerated(each.pool.taints) is None)


def _holding(group: PodGroup, offers: Iterable[NodeOffer]) -> Iterator[NodeOffer]:
    return (one for one in offers if fits(group, one.free))


def _excludes_others(state: PlanState, group: PodGroup, only: str) -> bool:
    """Return whether a pool of the group has another type that is large enough: the rules of its pods exclude it."""
    offers = (one for each in _pools_of(state, group) for own in each.offer_sets for one in own.launchable)
    return any(one.model.name != only for one in _holding(group, offers))


def _describe(only: str, nodes: Sequence[NodeState], *, excluded: bool) -> str:
    lost = "their pods stay pending" if any(node.planned for node in nodes) else "none of them is launched"
    remedy = "the pods exclude other types: allow more there" if excluded else "allow more types in the pool"
    return f"all {len(nodes)} new nodes can only be of the type {only}: if EC2 has no capacity for it, {lost}; {remedy}"
