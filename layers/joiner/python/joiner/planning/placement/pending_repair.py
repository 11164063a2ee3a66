"""Place pods that are pending although some node could hold them.

Nodes are sized, and pods chosen, while it is not yet known which pods can be placed in the end. A node may then be too
small for a pod that must be beside others, or have the pods that leave out more pods than others would. Of a few pods,
every better subset is tried, the best first, and then every cheaper one of as many pods. Of more pods, nodes are made
larger, pods that belong together move to a node for all of them, and nodes with few pods are emptied and filled again
together with the pending pods. Then placed pods leave their nodes for pending ones (``pod_exchange``).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, product

from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup, fits, sum_needs
from joiner.planning.placement.exhaustive_partition import place_cheaper
from joiner.planning.placement.exhaustive_placement import ExhaustivePlacement, RepairEffort
from joiner.planning.placement.local_search import improve_plan
from joiner.planning.placement.pod_exchange import PodExchange
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import ScoredPlan, clear_plan, emptied, keep_better, layout_of, restore_layout
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import (
    EXCHANGE_STEPS,
    GROUP_REPAIR_STEPS,
    MOST_EMPTIED_NODES,
    MOST_EXCHANGED_PODS,
    MOST_REPAIRED_NODES,
    MOST_SUBSET_PODS,
    REPAIR_STEPS,
)


def place_pending(
    state: PlanState, frontier: OfferFrontier, shares: Mapping[int, float], made: ScoredPlan, meter: Meter, *, seed: int
) -> ScoredPlan:
    """Place more of the pods that this plan leaves pending, if possible; leave the better plan in the state and return
    it."""
    batch = [group for group in state.left if _placeable(state, frontier, group)]
    if not any(state.left[group] for group in batch):
        return made
    effort = RepairEffort(meter, REPAIR_STEPS)
    with emptied(state):
        most = {group: state.rules[group.index].most(len(group.pods)) for group in batch}
    if sum(most.values()) <= MOST_SUBSET_PODS:
        more = _place_best_subset(state, frontier, most, effort)
        if not more:
            made = keep_better(state, made)
            _place_cheapest_subset(state, frontier, most, effort)
    else:
        more = _place_remaining(state, frontier, batch, effort)
        few = sum(most.values()) <= MOST_EXCHANGED_PODS
        if few and any(len(group.pods) - state.left[group] < number for group, number in most.items()):
            exchange = PodExchange(state, frontier, batch, RepairEffort(meter, EXCHANGE_STEPS), seed)
            more = exchange.improve() or more
    if more:
        improve_plan(state, frontier, shares, meter)
    return keep_better(state, made)


def _placeable(state: PlanState, frontier: OfferFrontier, group: PodGroup) -> bool:
    """Return whether some node could hold a pod of the group without the other pods of the plan."""
    if group.refused:
        return False
    return any(fits(group, one.one.free) for one in frontier.of(group)) or any(
        state.suits(group, node) and fits(group, _free_without_plan(node)) for node in state.existing
    )


def _free_without_plan(node: NodeState) -> list[int]:
    needs = sum_needs(node.planned.items(), len(node.free))
    return [free + need for free, need in zip(node.free, needs, strict=True)]


def _place_best_subset(
    state: PlanState, frontier: OfferFrontier, most: Mapping[PodGroup, int], effort: RepairEffort
) -> bool:
    """Replace the plan by one for the best subset of the pods that can be placed, at most so many of each group; return
    whether a better one was found. If not, the plan is empty."""
    placed = {group: len(group.pods) - state.left[group] for group in most}
    clear_plan(state)
    nodes = _related(state, state.existing, [*most])
    for wanted in _better_subsets(most, placed):
        pods = [group for group, number in wanted.items() for _ in range(number)]
        if ExhaustivePlacement(state, frontier, nodes, effort).place(pods):
            return True
        if effort.spent():
            break
    return False


def _place_cheapest_subset(
    state: PlanState, frontier: OfferFrontier, most: Mapping[PodGroup, int], effort: RepairEffort
) -> None:
    """Replace the new nodes by cheaper ones, for the same pods or for as many others; pods on existing nodes stay."""
    placed = {group: len(group.pods) - state.left[group] for group in most}
    kept = Counter(one for node in state.existing for one, number in node.planned.items() for _ in range(number))
    price, best = state.price, layout_of(state.new)
    _close_all(state)
    for wanted in _equal_subsets(most, placed):
        pods = [group for group in most for _ in range(wanted[group] - kept[group])]
        if all(wanted[group] >= kept[group] for group in most) and place_cheaper(state, frontier, pods, price, effort):
            price, best = state.price, layout_of(state.new)
            _close_all(state)
        if effort.spent():
            break
    restore_layout(state, best)


def _close_all(state: PlanState) -> None:
    for node in reversed(list(state.new)):
        state.close(node)


def _better_subsets(most: Mapping[PodGroup, int], placed: Mapping[PodGroup, int]) -> Iterator[Mapping[PodGroup, int]]:
    """Yield every subset of the pods that is better than the placed ones, the best first."""
    worth, own = _worth_by_rank(most), _worth_by_rank(most)(placed)
    better = [(worth(one), one) for one in _subsets(most) if worth(one) > own]
    yield from (one for _, one in sorted(better, key=lambda each: each[0], reverse=True))


def _equal_subsets(most: Mapping[PodGroup, int], placed: Mapping[PodGroup, int]) -> list[Mapping[PodGroup, int]]:
    """Return the placed pods, and every other subset that has as many pods of each priority."""
    worth = _worth_by_rank(most)
    return [placed, *(one for one in _subsets(most) if one != placed and worth(one) == worth(placed))]


def _subsets(most: Mapping[PodGroup, int]) -> list[Mapping[PodGroup, int]]:
    ways = product(*(range(number + 1) for number in most.values()))
    return [dict(zip(most, way, strict=True)) for way in ways]


def _worth_by_rank(groups: Collection[PodGroup]) -> Callable[[Mapping[PodGroup, int]], tuple[int, ...]]:
    """Return the function that counts the pods of a subset by priority, highest first."""
    by_rank = [[one for one in groups if one.rank == level] for level in sorted({group.rank for group in groups})]
    return lambda wanted: tuple(sum(wanted[one] for one in level) for level in by_rank)


def _related(state: PlanState, nodes: Sequence[NodeState], groups: Sequence[PodGroup]) -> list[NodeState]:
    """Return the nodes that matter most to these groups: those with pods that their rules count, then those that could
    hold them."""

    def relation(node: NodeState) -> tuple[int, int]:
        beside, holding = 0, 0
        for group in groups:
            own = state.rules[group.index]
            related = {*own.affinity, *own.away, *own.unwanted}
            beside += any(counts in related for other in node.planned for counts in state.rules[other.index].feeds)
            holding += state.suits(group, node) and fits(group, node.free)
        return beside, holding

    known = [(relation(node), node) for node in nodes]
    # A new node without free capacity can become larger.
    able = [(beside, holding, node) for (beside, holding), node in known if beside or holding or node.choice]
    able.sort(key=lambda one: one[:2], reverse=True)
    return [node for *_, node in able[:MOST_REPAIRED_NODES]]


def _place_remaining(
    state: PlanState, frontier: OfferFrontier, batch: Sequence[PodGroup], effort: RepairEffort
) -> bool:
    """Place pending pods group by group, the highest priority first; return whether any was placed.

    Each group has a share of the effort, so that groups without a place leave some of it to the others.
    """
    found = False
    ordered = sorted(batch, key=lambda one: (one.rank, one.index))
    for attempt in (_place_some, _move_some, _refill_some):
        for group in ordered:
            while state.rules[group.index].most(state.left[group]) and not effort.spent():
                if not attempt(state, frontier, group, effort.share(GROUP_REPAIR_STEPS)):
                    break
                found = True
    return found


def _place_some(state: PlanState, frontier: OfferFrontier, group: PodGroup, effort: RepairEffort) -> bool:
    """Place pending pods of the group, and with them a pending pod that they follow; return whether that succeeded."""
    selected_groups = [
        one for one in state.rules[group.index].selected_groups if state.left.get(one) and not one.refused
    ]
    related = _related(state, [*state.existing, *state.new], [group])
    for number in dict.fromkeys(min(most, state.left[group]) for most in (MOST_SUBSET_PODS, 3, 1)):
        for others in ([], *([selected] for selected in selected_groups)):
            pods = [*others, *[group] * min(number, MOST_SUBSET_PODS - len(others))]
            if ExhaustivePlacement(state, frontier, related, effort).place(pods):
                return True
    return False


def _move_some(state: PlanState, frontier: OfferFrontier, group: PodGroup, effort: RepairEffort) -> bool:
    related = _related(state, [*state.existing, *state.new], [group])
    return any(_move_together(state, frontier, group, node, effort) for node in related)


def _refill_some(state: PlanState, frontier: OfferFrontier, group: PodGroup, effort: RepairEffort) -> bool:
    related = _related(state, [*state.existing, *state.new], [group])
    return any(
        _refill(state, frontier, group, emptied, effort)
        for size in range(1, MOST_EMPTIED_NODES + 1)
        for emptied in combinations(related, size)
        if not effort.spent()
    )


def _refill(
    state: PlanState, frontier: OfferFrontier, group: PodGroup, emptied: Sequence[NodeState], effort: RepairEffort
) -> bool:
    """Empty these nodes, and place their pods again together with a pending pod; return whether that succeeded."""
    pods = [one for node in emptied for one, number in node.planned.items() for _ in range(number)]
    if not 0 < len(pods) < MOST_SUBSET_PODS or not all(node.planned for node in emptied):
        return False
    before = layout_of(emptied)
    for node in emptied:
        if node.choice:
            state.close(node)
        else:
            for one, number in list(node.planned.items()):
                state.take(one, node, number)
    related = _related(state, [*state.existing, *state.new], [group, *dict.fromkeys(pods)])
    if ExhaustivePlacement(state, frontier, related, effort).place([*pods, group]):
        return True
    restore_layout(state, before)
    return False


def _move_together(
    state: PlanState, frontier: OfferFrontier, group: PodGroup, node: NodeState, effort: RepairEffort
) -> bool:
    """Move the pods of this node that affinity ties to the group to one node, together with pending pods of the group;
    return whether that succeeded."""
    tied = _tied(state, group)
    inside = {one: number for one, number in node.planned.items() if one in tied}
    if not inside or effort.spent():
        return False
    block = [one for one, number in inside.items() for _ in range(number)]
    for one, number in inside.items():
        state.take(one, node, number)
    related = _related(state, [*state.existing, *state.new], [group])
    left = state.left[group] - inside.get(group, 0)
    for number in dict.fromkeys((left, left // 2, 1)):
        if number and ExhaustivePlacement(state, frontier, related, effort).place_on_one_node(
            [*block, *[group] * number]
        ):
            if node.choice and not node.planned and node in state.new:
                state.close(node)
            return True
    for one, number in inside.items():
        state.take(one, node, -number)
    return False


def _tied(state: PlanState, group: PodGroup) -> set[PodGroup]:
    """Return the groups that affinity ties to this one, directly or by others."""
    tied, more = {group}, {group}
    while more:
        more = {
            other
            for other in state.groups.pending
            if other not in tied
            and any(
                other in state.rules[one.index].selected_groups or one in state.rules[other.index].selected_groups
                for one in more
            )
        }
        tied |= more
    return tied
