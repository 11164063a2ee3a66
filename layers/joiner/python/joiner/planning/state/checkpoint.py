"""Score a plan, compare it with others, and restore it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

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


def count_missing(state: PlanState) -> tuple[float, ...]:
    """Return the number of pods left, by priority, highest first."""
    by_level: dict[int, float] = {}
    for one, number in state.left.items():
        by_level[one.constraints.priority] = by_level.get(one.constraints.priority, 0.0) + number
    return tuple(by_level[level] for level in sorted(by_level, reverse=True))


def score_plan(state: PlanState) -> ScoredPlan:
    """Score the plan: pods left by priority, highest first; then price; then number of nodes."""
    layout = layout_of(node for node in (*state.existing, *state.new) if node.planned)
    # A plan made strictly pod after pod can still end with a skew that its first pods would not have accepted. Any plan
    # that keeps all rules is better.
    ordered_only = 0.0 if keeps_all_rules(state) else 1.0
    return ScoredPlan(
        (ordered_only, *count_missing(state), round(state.price, 9), float(len(state.new))), state.pods_left, layout
    )


def keep_better(state: PlanState, before: ScoredPlan) -> ScoredPlan:
    """Compare the plan in this state with an earlier one; leave the better one in the state and return it."""
    made = score_plan(state)
    if made.score < before.score:
        return made
    clear_plan(state)
    restore_layout(state, before.layout)
    return before


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
