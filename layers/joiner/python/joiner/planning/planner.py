"""``plan``: one snapshot in, one plan out.

Builds the state, searches for the cheapest plan, applies preferences, and writes the plan with the reasons of pending
pods. Pure and deterministic: the same snapshot gives the same plan, whatever the order of its lists.
"""

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from joiner.catalogue import Catalogue, find_unknown_values, find_unsatisfiable_requirements
from joiner.planning.effort import Effort, Meter
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_offers import NO_TYPE_AVAILABLE
from joiner.planning.output.explanation import explain_pending
from joiner.planning.placement.preferences import apply_preferences
from joiner.planning.plan import Ceilings, Plan
from joiner.planning.state.build import build_state
from joiner.pools import ResolvedNodeClass

NO_CEILINGS = Ceilings()
SOME_EFFORT = Effort()


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles. A plan makes none, and keeps what it makes until the end; looking through all of
    that and the whole snapshot again and again takes a quarter of the time of a large one.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@uncollected()
def plan(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Collection[tuple[str, str, str]] = (),
    *,
    classes: Mapping[str, ResolvedNodeClass],
    ceilings: Ceilings = NO_CEILINGS,
    best_effort: bool = False,
    effort: Effort = SOME_EFFORT,
) -> Plan:
    """What to do for the pending pods of this snapshot.

    ``unavailable`` are offerings known to be short: (capacity type, instance type, zone), ``*`` for any. ``classes``
    are the resolved node classes by key (``EC2NodeClass/default``); a pool whose class is missing or not ready plans
    nothing, the others go on. ``best_effort`` keeps minValues of pools as far as they can be kept, instead of strictly.
    What pools require and this catalogue does not have joins the problems of the snapshot. ``effort`` says how long to
    look for a cheaper plan.
    """
    from joiner.planning.output.plan_writer import (
        write_plan,
    )  # these two need numpy and HiGHS, which only the function that plans carries
    from joiner.planning.search import search

    meter = Meter(effort)
    state = build_state(
        snapshot, catalogue, frozenset(unavailable), classes=classes, ceilings=ceilings, strict=not best_effort
    )
    found = search(state, meter, effort.seed)
    apply_preferences(state)
    made = write_plan(state, snapshot, explain_pending(state, catalogue), found.proven)
    # a greedy that seems cheaper has counted on nodes that a limit forbids, or left a rule aside: otherwise it would be
    # the plan
    comparable = round(found.greedy, 10) if not made.pending and found.greedy > made.price_per_hour - 1e-9 else 0.0
    strange = find_unknown_values(snapshot.pools, catalogue)
    told = {problem.object for problem in strange}
    empty = [
        market.pool for market in state.markets if market.closed == NO_TYPE_AVAILABLE and market.pool.key not in told
    ]
    impossible = [
        problem for pool in empty if (problem := find_unsatisfiable_requirements(pool, catalogue)) is not None
    ]
    problems = (*made.problems, *strange, *impossible)
    return replace(
        made, greedy_price_per_hour=comparable, cut_short=meter.cut_short, seconds=meter.seconds, problems=problems
    )
