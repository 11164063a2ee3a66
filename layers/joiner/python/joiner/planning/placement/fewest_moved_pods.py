"""A plan in which as few pods as possible get nodes of exotic types for which no pod asks.

The *usual* plan has none of these nodes, and leaves pods. Another plan places more pods, but may have moved all of them
to such nodes, because they are cheaper. Between both are plans that keep most nodes of the usual one: the search plans
only the pods that are left and those of a few nodes. The smallest number of nodes is found by the secant method and
bisection. Last, each node of an exotic type that this opens is closed again if its pods find a place on
offers that they may open.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from joiner.planning.model.node_offers import OfferChoice, PoolOffers, PoolVariant
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.checkpoint import ScoredPlan, clear_plan, restore_layout, score_plan
from joiner.planning.state.excluded_types import only_opened
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import MOST_REPAIRED_PODS

Search = Callable[[PlanState], object]
COARSE: Final = 8
"""The number of moved nodes is found exactly if it is smaller; else to this part of it, to save time."""
MOST_TIMES: Final = 3
"""A trial moves at most this many times as many nodes more than the one before."""
MOST_REFUSALS: Final = 12
"""The maximum number of different nodes of exotic types whose pods are planned again without finding other places."""


def usual_variant(choice: OfferChoice) -> PoolVariant:
    """Return the variant of the pool with the same labels that does not open every offer."""
    return next(one for one in choice.pool_offers.variants if one.labels == choice.variant.labels)


def is_requested(node: NodeState, planned: Iterable[PodGroup]) -> bool:
    """Return whether a pod of the groups that are planned on the node may open it without the last resort."""
    choice = node.choice
    return choice is None or usual_variant(choice).may_open((group.index for group in planned), choice.one)


def move_fewest_pods(
    state: PlanState,
    search: Search,
    usual: ScoredPlan,
    other: ScoredPlan,
    *,
    widely: Search | None = None,
    first: Collection[PoolOffers] = (),
) -> None:
    """Leave a plan in the state that places as many pods as ``other`` and moves few nodes of ``usual``.

    ``search`` places the pods that are left, and ``widely`` on further offers as well; without it, ``search`` knows all
    of them. Nodes of the pools in ``first`` are moved first: a place there may be one for the pods that are left.
    """
    trials = _Trials(state, widely or search, usual, other, _order_nodes(usual, first))
    fails, moved = trials.find_first()
    while moved - fails > 1 + moved // COARSE:
        middle = (fails + moved) // 2
        if trials.count_lacking(middle):
            fails = middle
        else:
            moved = middle
    clear_plan(state)
    restore_layout(state, trials.best.layout)
    if trials.is_small:
        _return_pods(state, search)


class _Trials:
    """Plans that move so many nodes of the usual plan, and the best of those that place as many pods as the other."""

    def __init__(
        self, state: PlanState, search: Search, usual: ScoredPlan, other: ScoredPlan, nodes: Sequence[NodeState]
    ) -> None:
        self._state = state
        self._search = search
        self._usual = usual
        self._other = other
        self._nodes = nodes
        pods = sum(sum(planned.values()) for _, planned in other.layout)
        self.is_small = pods <= MOST_REPAIRED_PODS
        """Whether there are few enough pods to plan parts of them many times."""
        self.best = other

    def find_first(self) -> tuple[int, int]:
        """Return a number of moved nodes that is too small, and one that is enough: all, if no other is found.

        How many pods the last trials left tells how many nodes the next one moves (the secant method). Of many pods,
        no more than half of the nodes are moved on trial: such a plan is hardly better than one that moves all.
        """
        every = len(self._nodes)
        fails, lacking, number = 0, self.count_lacking(0), 1
        if not lacking:
            return -1, 0
        while number < every if self.is_small else 2 * number < every:
            left = self.count_lacking(number)
            if not left:
                return fails, number
            gained = lacking - left
            step = -(-left * (number - fails) // gained) if gained > 0 else number
            fails, lacking, number = number, left, number + min(max(step, 1), MOST_TIMES * number)
        return fails if self.is_small else every - 1, every

    def count_lacking(self, number: int) -> int:
        """Return how many pods fewer than in the other plan have a place if so many nodes are moved; 0 if the plan is
        no worse."""
        _plan_again(self._state, self._search, self._usual, self._nodes[:number])
        made = score_plan(self._state)
        if self._other.places_more_than(made):
            return max(made.missing - self._other.missing, 1)
        self.best = min(self.best, made, key=_rank)
        return 0


def _rank(plan: ScoredPlan) -> tuple[int, tuple[float, ...]]:
    """Return how many nodes of a plan no pod asks for, and its score."""
    return sum(not is_requested(node, planned) for node, planned in plan.layout), plan.score


def _order_nodes(usual: ScoredPlan, first: Collection[PoolOffers]) -> list[NodeState]:
    """Return the new nodes of the plan: those of the pools in ``first`` first; of them, those with few pods, and of
    these the most expensive ones, which use most of a limit."""
    pods = {node: sum(planned.values()) for node, planned in usual.layout}
    return sorted(
        (node for node in pods if node.choice),
        key=lambda one: (bool(one.choice and one.choice.pool_offers not in first), pods[one], -one.price),
    )


def _plan_again(state: PlanState, search: Search, usual: ScoredPlan, nodes: Sequence[NodeState]) -> None:
    """Make the usual plan without these nodes, and search for places of their pods and of those that are left."""
    clear_plan(state)
    restore_layout(state, usual.layout)
    for node in nodes:
        state.close(node)
    kept = state.keep_new_nodes()
    search(state)
    state.release_kept_nodes(kept)


def _return_pods(state: PlanState, search: Search) -> None:
    """Close each node that no pod asks for if its pods find a place on offers that they may open."""
    refused: set[object] = set()
    for node in [one for one in state.new if not is_requested(one, one.planned)]:
        alike = (node.choice and node.choice.one, frozenset(node.planned.items()))
        if alike in refused or len(refused) == MOST_REFUSALS:
            continue
        before = score_plan(state)
        with only_opened(state):
            _plan_again(state, search, before, [node])
        if before.places_more_than(score_plan(state)):
            refused.add(alike)
            clear_plan(state)
            restore_layout(state, before.layout)
