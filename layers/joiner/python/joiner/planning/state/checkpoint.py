"""Score a plan, compare it with others, and restore it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from joiner.planning.model.node_offers import OfferChoice, PoolOffers
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState

Layout = tuple[tuple[NodeState, Mapping[PodGroup, int]], ...]
"""Nodes, and the pods that the plan puts on each: enough to make the plan again."""


@dataclass(frozen=True, slots=True)
class ScoredPlan:
    """A plan and its score; a smaller ``score`` is better."""

    score: tuple[float, ...]
    missing: int
    layout: Layout

    @property
    def price(self) -> float:
        """The price of the plan in $/h, rounded as for the comparison."""
        return self.score[-2]

    @property
    def nodes(self) -> int:
        """The number of new nodes."""
        return int(self.score[-1])

    def places_more_than(self, other: "ScoredPlan") -> bool:
        """Return whether the plan keeps rules that the other one breaks, or places more pods or more important ones."""
        return self.score[:-2] < other.score[:-2]


def count_missing(state: PlanState) -> tuple[float, ...]:
    """Return the number of pods left, by priority, highest first; those that still run come last."""
    by_level: dict[int, float] = {}
    for one, number in state.left.items():
        by_level[one.rank] = by_level.get(one.rank, 0.0) + number
    return tuple(by_level[level] for level in sorted(by_level))


def score_plan(state: PlanState, price: float | None = None) -> ScoredPlan:
    """Score the plan: pods left by priority, highest first; then price; then number of nodes. The price is that of the
    state, if none is given."""
    layout = layout_of(node for node in (*state.existing, *state.new) if node.planned)
    # A plan made strictly pod after pod can still end with a skew that its first pods would not have accepted. Any plan
    # that keeps all rules is better.
    ordered_only = 0.0 if keeps_all_rules(state) else 1.0
    paid = state.price if price is None else price
    return ScoredPlan(
        (ordered_only, *count_missing(state), round(paid, 9), float(len(state.new))), state.pods_left, layout
    )


def keep_better(state: PlanState, before: ScoredPlan) -> ScoredPlan:
    """Compare the plan in this state with an earlier one; leave the better one in the state and return it."""
    made = score_plan(state)
    if made.score < before.score:
        return made
    clear_plan(state)
    restore_layout(state, before.layout)
    return before


def copy_plan(source: PlanState, target: PlanState) -> None:
    """Make the plan of one state in another, empty state of the same snapshot. Offers may have other prices there."""
    for node, other in zip(source.existing, target.existing, strict=True):
        for group, number in node.planned.items():
            target.take(target.groups.all[group.index], other, -number)
    pools = {one.pool.key: one for one in target.offered_pools}
    known: dict[OfferChoice, OfferChoice] = {}
    for node in source.new:
        if node.choice is None:
            continue
        choice = known.get(node.choice)
        if choice is None:
            choice = known[node.choice] = _same_choice(node.choice, pools[node.choice.pool_offers.pool.key])
        copy = target.open(choice)
        for group, number in node.planned.items():
            target.take(target.groups.all[group.index], copy, -number)


def _same_choice(choice: OfferChoice, pool_offers: PoolOffers) -> OfferChoice:
    """Return the choice of the same variant and offering among the offers of this pool."""
    variant = pool_offers.variants[choice.pool_offers.variants.index(choice.variant)]
    one = next(one for one in variant.launchable if one.supply_key == choice.one.supply_key)
    return OfferChoice(pool_offers, variant, one, choice.groups)


def layout_of(nodes: Iterable[NodeState]) -> Layout:
    """Return these nodes, each with the number of pods of each group that the plan places on it."""
    return tuple((node, dict(node.planned)) for node in nodes)


def clear_plan(state: PlanState) -> None:
    """Remove every planned pod and every new node."""
    for node in reversed(list(state.new)):
        state.close(node)
    for node in state.existing:
        for one, number in list(node.planned.items()):
            state.take(one, node, number)


def restore_layout(state: PlanState, layout: Layout) -> None:
    """Make an earlier plan, or a part of one, again. Its rules were checked when it was made and are not checked
    again."""
    for node, planned in layout:
        if node.choice:
            state.reopen(node)
        for one, number in planned.items():
            state.take(one, node, -number)


@contextmanager
def emptied(state: PlanState) -> Iterator[None]:
    """Remove every planned pod and every new node, and restore all of them at the end."""
    layout = layout_of(node for node in (*state.existing, *state.new) if node.planned)
    clear_plan(state)
    try:
        yield
    finally:
        clear_plan(state)
        restore_layout(state, layout)
