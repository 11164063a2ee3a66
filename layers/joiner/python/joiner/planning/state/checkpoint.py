"""Score a plan, compare it with others, and restore it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.plan_state import NodeState, PlanState

Layout = tuple[tuple[NodeState, Mapping[PodGroup, int]], ...]
"""Rooms with what the plan puts in them: enough to make it again."""


@dataclass(frozen=True, slots=True)
class ScoredPlan:
    """How one way ended: by ``score``, the smaller the better."""

    score: tuple[float, ...]
    missing: int
    layout: Layout


def count_missing(state: PlanState) -> tuple[float, ...]:
    """How many pods have no place, by priority, the highest first."""
    by_level: dict[int, float] = {}
    for one, number in state.left.items():
        by_level[one.constraints.priority] = by_level.get(one.constraints.priority, 0.0) + number
    return tuple(by_level[level] for level in sorted(by_level, reverse=True))


def score_plan(state: PlanState) -> ScoredPlan:
    """By priority, the highest first: pods left; then price and nodes."""
    layout = layout_of(room for room in (*state.existing, *state.new) if room.planned)
    # A plan made strictly pod after pod may still end in a skew that its first pods would not have accepted: any other
    # is better
    ordered_only = 0.0 if keeps_all_rules(state) else 1.0
    return ScoredPlan(
        (ordered_only, *count_missing(state), round(state.price, 9), float(len(state.new))), state.pods_left, layout
    )


def keep_better(state: PlanState, before: ScoredPlan) -> ScoredPlan:
    """The better of the plan in this state and an earlier one, with which the state is left."""
    made = score_plan(state)
    if made.score < before.score:
        return made
    clear_plan(state)
    restore_layout(state, before.layout)
    return before


def layout_of(rooms: Iterable[NodeState]) -> Layout:
    return tuple((room, dict(room.planned)) for room in rooms)


def clear_plan(state: PlanState) -> None:
    """Takes every planned pod out and every new room away."""
    for room in reversed(list(state.new)):
        state.close(room)
    for room in state.existing:
        for one, number in list(room.planned.items()):
            state.take(one, room, number)


def restore_layout(state: PlanState, layout: Layout) -> None:
    """Makes an earlier plan, or a part of one, again; its rules were asked then."""
    for room, planned in layout:
        if room.choice:
            state.reopen(room)
        for one, number in planned.items():
            state.take(one, room, -number)


@contextmanager
def emptied(state: PlanState) -> Iterator[None]:
    """Take every planned pod and every new node away, and restore all of them at the end."""
    layout = layout_of(room for room in (*state.existing, *state.new) if room.planned)
    clear_plan(state)
    try:
        yield
    finally:
        clear_plan(state)
        restore_layout(state, layout)
