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
from joiner.pools.timestamps import format_timestamp


@dataclass(frozen=True, slots=True)
class WaveInputs:
    """What a proposal is made from, besides the snapshot; the fields are those of `joiner.planning.plan`."""

    catalogue: Catalogue
    unavailable: Collection[tuple[str, str, str]]
    classes: Mapping[str, ResolvedNodeClass]
    ceilings: Ceilings
    history: DisruptionHistory
    policies: PlanPolicies = field(default_factory=PlanPolicies)


def propose_wave(snapshot: Snapshot, inputs: WaveInputs, now: datetime) -> Proposal:
    """Return the actions of the next wave, without empty nodes, which the sweep retires."""
    snapshot = _without_failing_pools(snapshot, inputs.history, now)
    outdated = propose_replacements(
        snapshot,
        inputs.catalogue,
        inputs.unavailable,
        classes=inputs.classes,
        now=now,
        ceilings=inputs.ceilings,
        history=inputs.history,
        policies=inputs.policies,
    )
    if not outdated.actions:
        return _followed_by(outdated, _consolidate(snapshot, inputs, inputs.history, now))
    if inputs.history.last_reason in ORDER and all(one.reason != "Rebalance" for one in outdated.actions):
        going = {name for one in outdated.actions for name in one.claims}
        pools = frozenset(claim.pool_key for claim in snapshot.claims if claim.name in going)
        others = _consolidate(snapshot, inputs, replace(inputs.history, replaced_first=pools), now)
        if others.actions:
            mine = {claim.name for claim in snapshot.claims if claim.pool_key in pools}
            kept = tuple(one for one in others.kept if one.claim not in mine)
            return _followed_by(outdated, replace(others, kept=kept, remaining=others.remaining + len(going)))
    return outdated


def _without_failing_pools(snapshot: Snapshot, history: DisruptionHistory, now: datetime) -> Snapshot:
    """Return the snapshot in which no pool launches a node while it waits after a failed replacement, whatever the
    pools of the nodes that it would replace."""
    waiting = {
        pool: f"replacements failed: {pool} waits until {format_timestamp(until)}"
        for pool, until in history.back_off.items()
        if until > now
    }
    return replace(snapshot, closed_pools={**snapshot.closed_pools, **waiting})


def _consolidate(snapshot: Snapshot, inputs: WaveInputs, history: DisruptionHistory, now: datetime) -> Proposal:
    made = propose(
        snapshot,
        inputs.catalogue,
        {*inputs.unavailable, *find_offerings_at_risk(snapshot, history.recommended)},
        classes=inputs.classes,
        now=now,
        ceilings=inputs.ceilings,
        history=history,
        policies=inputs.policies,
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
