"""One wave of disruption: replacements of outdated nodes, or else consolidation.

Source: Karpenter, core `pkg/controllers/disruption/controller.go`: drift comes before consolidation, and one method
acts at a time. Both would count the same nodes against the same budgets. In Karpenter, nothing is consolidated while
any pool has drifted nodes that may go. Here the other pools are consolidated between two waves of replacements, unless
instances are at risk: a pool may drift for hours, or for ever if its new nodes drift, too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from joiner.catalogue import Catalogue
from joiner.disruption.consolidation import propose
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.outdated_nodes import ORDER, find_offerings_at_risk
from joiner.disruption.proposal import DisruptionAction, Proposal
from joiner.disruption.replacements import propose_replacements
from joiner.planning import Ceilings, PlanPolicies, Snapshot
from joiner.pools import ResolvedNodeClass


@dataclass(frozen=True, slots=True)
class WaveInputs:
    """What a proposal is made from, besides the snapshot; the fields are those of `joiner.planning.plan`."""

    catalogue: Catalogue
    unavailable: Collection[tuple[str, str, str]]
    classes: Mapping[str, ResolvedNodeClass]
    ceilings: Ceilings
    history: DisruptionHistory
    policies: PlanPolicies = field(default_factory=PlanPolicies)


def propose_wave(snapshot: Snapshot, inputs: WaveInputs, now: datetime, before: Proposal | None = None) -> Proposal:
    """Return the actions of the next wave, without empty nodes, which the sweep retires.

    With the proposal of some seconds ``before``: only those actions that it contains, too, and that keep every rule
    without the others.
    """
    snapshot = _without_failing_pools(snapshot, inputs.history, now)
    outdated = _replace(snapshot, inputs, now)
    if not outdated.actions:
        return _followed_by(outdated, _consolidate(snapshot, inputs, inputs.history, now, before))
    if _is_turn_of_others(inputs.history, before) and all(one.reason != "Rebalance" for one in outdated.actions):
        going = _claims_of(outdated)
        pools = frozenset(claim.pool_key for claim in snapshot.claims if claim.name in going)
        others = _consolidate(snapshot, inputs, replace(inputs.history, replaced_first=pools), now, before)
        if others.actions:
            mine = {claim.name for claim in snapshot.claims if claim.pool_key in pools}
            kept = tuple(one for one in others.kept if one.claim not in mine)
            return _followed_by(outdated, replace(others, kept=kept, remaining=others.remaining + len(going)))
    return outdated if before is None else _confirm_replacements(outdated, before, snapshot, inputs, now)


def _is_turn_of_others(history: DisruptionHistory, before: Proposal | None) -> bool:
    """Return whether the wave consolidates pools without outdated nodes: after one that replaces outdated nodes, and
    where the proposal ``before`` does."""
    if before is not None:
        return all(action.reason not in ORDER for action in before.actions)
    return history.last_reason in ORDER


def _replace(snapshot: Snapshot, inputs: WaveInputs, now: datetime, only: Collection[str] | None = None) -> Proposal:
    return propose_replacements(
        snapshot,
        inputs.catalogue,
        inputs.unavailable,
        classes=inputs.classes,
        now=now,
        ceilings=inputs.ceilings,
        history=inputs.history,
        policies=inputs.policies,
        only=only,
    )


def _confirm_replacements(
    outdated: Proposal, before: Proposal, snapshot: Snapshot, inputs: WaveInputs, now: datetime
) -> Proposal:
    """Return the replacements that the proposal before contains. If it lacks some, the others are planned anew without
    them, until the plan of all that are left is the same as before."""
    made, kept = outdated, confirm(before, outdated)
    while kept.actions and len(kept.actions) < len(made.actions):
        made = _replace(snapshot, inputs, now, only=_claims_of(kept))
        kept = confirm(before, made)
    return replace(outdated, actions=kept.actions)


def _claims_of(proposal: Proposal) -> frozenset[str]:
    return frozenset(name for action in proposal.actions for name in action.claims)


def _without_failing_pools(snapshot: Snapshot, history: DisruptionHistory, now: datetime) -> Snapshot:
    """Return the snapshot in which no pool launches a node while it waits after a failed replacement, or for an overdue
    one, whatever the pools of the nodes that it would replace."""
    waiting = {pool: why for pool in {*history.back_off, *history.awaited} if (why := history.waits(pool, now))}
    return replace(snapshot, closed_pools={**snapshot.closed_pools, **waiting})


def _consolidate(
    snapshot: Snapshot, inputs: WaveInputs, history: DisruptionHistory, now: datetime, before: Proposal | None
) -> Proposal:
    known = {_identity(action) for action in before.actions} if before is not None else set()
    made = propose(
        snapshot,
        inputs.catalogue,
        {*inputs.unavailable, *find_offerings_at_risk(snapshot, history.recommended)},
        classes=inputs.classes,
        now=now,
        ceilings=inputs.ceilings,
        history=history,
        policies=inputs.policies,
        is_wanted=lambda action: before is None or _identity(action) in known,
    )
    return replace(made, actions=tuple(one for one in made.actions if one.reason != "Empty"))


def _followed_by(outdated: Proposal, made: Proposal) -> Proposal:
    """Return the consolidation, with what is known of outdated nodes that are not replaced in this wave."""
    return replace(made, kept=(*outdated.kept, *made.kept), remaining=made.remaining + outdated.remaining)


def confirm(proposed: Proposal, fresh: Proposal) -> Proposal:
    """Return the fresh proposal with only those actions that the earlier one contains, too.

    Nodes and replacements (pool, type, zone and capacity type) must be the same. The moves are the fresh ones.
    """
    before = {_identity(action) for action in proposed.actions}
    return replace(fresh, actions=tuple(action for action in fresh.actions if _identity(action) in before))


def _identity(action: DisruptionAction) -> tuple[object, ...]:
    launched = sorted((one.pool, one.offer.instance_type, one.zone, one.capacity_type) for one in action.replacements)
    return action.reason, action.claims, tuple(launched)
