"""Consolidation: remove nodes that are not worth their price, and replace nodes by cheaper ones.

``propose`` returns the actions of one wave. ``revalidate`` looks again some seconds later and keeps the actions that
are still right. Nothing is changed here; the functions of the state machine DISRUPT execute the actions.

Source: Karpenter, core `pkg/controllers/disruption` (emptiness, consolidation, validation). Karpenter searches for one
command at a time. Here one wave contains every action that is worth its evictions, within all budgets.
"""

# ruff: noqa: ARG001 - actions that need the planner follow
from collections.abc import Collection, Mapping
from datetime import datetime

from joiner.catalogue import Catalogue
from joiner.disruption.disruption_candidates import CandidateSearch, find_candidates
from joiner.disruption.disruption_history import NO_HISTORY, DisruptionHistory
from joiner.disruption.proposal import DisruptionAction, Proposal
from joiner.disruption.wave_budgets import WaveBudgets
from joiner.planning import Ceilings, Snapshot
from joiner.planning.effort import Effort
from joiner.pools import ResolvedNodeClass

NO_CEILINGS = Ceilings()
SOME_EFFORT = Effort()


def propose(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Collection[tuple[str, str, str]] = (),
    *,
    classes: Mapping[str, ResolvedNodeClass],
    now: datetime,
    ceilings: Ceilings = NO_CEILINGS,
    history: DisruptionHistory = NO_HISTORY,
    effort: Effort = SOME_EFFORT,
) -> Proposal:
    """Return the actions of one wave, best first: empty nodes, then nodes whose pods can run cheaper elsewhere.

    ``unavailable``, ``classes``, ``ceilings`` and ``effort`` are those of ``joiner.planning.plan``. The budgets of
    pools and the PodDisruptionBudgets of the snapshot limit the wave; ``remaining`` counts the actions that they
    postpone. The actions are independent: each is right whether or not the others are executed, except that
    together they use the same free resources once.
    """
    found = find_candidates(snapshot, catalogue, now=now, history=history)
    budgets = WaveBudgets(snapshot, found, now=now, history=history)
    actions, remaining = _remove_empty(found, budgets)
    return Proposal(
        actions=tuple(actions),
        kept=found.kept,
        price_per_hour=round(sum(one.price for one in found.candidates), 10),
        remaining=remaining,
        problems=found.problems,
    )


def revalidate(
    proposed: Proposal,
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Collection[tuple[str, str, str]] = (),
    *,
    classes: Mapping[str, ResolvedNodeClass],
    now: datetime,
    ceilings: Ceilings = NO_CEILINGS,
    history: DisruptionHistory = NO_HISTORY,
    effort: Effort = SOME_EFFORT,
) -> Proposal:
    """Return the proposal with only those actions that are still right in a fresh snapshot.

    Of an action, nodes and replacements stay the same or it is dropped (Karpenter, `validation.go`).
    """
    fresh = propose(
        snapshot,
        catalogue,
        unavailable,
        classes=classes,
        now=now,
        ceilings=ceilings,
        history=history,
        effort=effort,
    )
    again = {action.claims for action in fresh.actions}
    return Proposal(
        actions=tuple(action for action in proposed.actions if action.claims in again),
        kept=fresh.kept,
        price_per_hour=fresh.price_per_hour,
        lower_bound_per_hour=fresh.lower_bound_per_hour,
        remaining=fresh.remaining,
        problems=fresh.problems,
    )


def _remove_empty(found: CandidateSearch, budgets: WaveBudgets) -> tuple[list[DisruptionAction], int]:
    """Return one action for each empty node that the budgets allow, the most expensive first, and how many are left."""
    actions, remaining = [], 0
    for one in sorted(found.candidates, key=lambda each: (-each.price, each.node.name)):
        if not one.is_empty:
            continue
        if budgets.refusal((one,), "Empty"):
            remaining += 1
            continue
        budgets.take((one,), "Empty")
        actions.append(
            DisruptionAction("Empty", (one.claim.name,), saving_per_hour=one.price, eviction_cost=one.eviction_cost)
        )
    return actions, remaining
