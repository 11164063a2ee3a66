"""Replace outdated nodes: which of them go in one wave, and the nodes that are launched first in their place.

The nodes of a wave are removed together on trial: they are tainted in a copy of the snapshot, and the planner finds a
place for their pods, so every rule of the scheduler holds. Nodes with a pod that has no place stay, and the next ones
are tried instead, so that one node never keeps the others from being replaced. Nodes that share replacements become
one action, all others an action each.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from joiner.catalogue import Catalogue
from joiner.disruption.budgets_of_pods import DrainedNode
from joiner.disruption.canaries import count_replaceable, find_failed_join
from joiner.disruption.disruption_candidates import total_by_pool
from joiner.disruption.disruption_history import NO_HISTORY, DisruptionHistory
from joiner.disruption.evictions_left import EvictionsLeft
from joiner.disruption.outdated_nodes import ORDER, OutdatedNode, find_offerings_at_risk, find_outdated_nodes
from joiner.disruption.proposal import DisruptionAction, KeptNode, Proposal
from joiner.disruption.removal_trials import remove_on_trial, reserve_places
from joiner.planning import Ceilings, Plan, PlannedNode, PlanPolicies, Snapshot
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.planning.plan_policies import DEFAULT_POLICIES, NO_CEILINGS
from joiner.planning.planner import Planner
from joiner.planning.state.static_pools import REPLICAS
from joiner.pools import NodePool, ResolvedNodeClass
from joiner.pools.disruption_budgets import count_remaining_disruptions

MOST: Final = 50
"""Nodes in one wave."""

TRIALS: Final = 6
"""Trials in which nodes that cannot go are replaced by the next ones in line."""

ROTATING: Final = 3
"""From this trial on, the line begins at another node every ROTATION_SECONDS, so that many failing nodes do not keep
others from their turn."""

ROTATION_SECONDS: Final = 300

NOTHING: Final[Mapping[str, int]] = {"all": 0, **dict.fromkeys(ORDER, 0)}


def propose_replacements(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Collection[tuple[str, str, str]] = (),
    *,
    classes: Mapping[str, ResolvedNodeClass],
    now: datetime,
    ceilings: Ceilings = NO_CEILINGS,
    history: DisruptionHistory = NO_HISTORY,
    policies: PlanPolicies = DEFAULT_POLICIES,
    only: Collection[str] | None = None,
) -> Proposal:
    """Return the actions of one wave: instances at risk first, then nodes without pods, then the oldest drift.

    No replacement is launched in an offering whose instances EC2 recommends to replace. With ``only``, no nodes of
    other claims are replaced.

    The arguments are those of ``joiner.disruption.consolidation.propose``. ``remaining`` counts the outdated nodes that
    a later wave may replace.
    """

    def plan_trial(trial: Snapshot) -> Plan:
        return planner.plan(trial, catalogue, closed, classes=classes, ceilings=ceilings, policies=policies)

    planner = Planner()
    closed = {*unavailable, *find_offerings_at_risk(snapshot, history.recommended)}
    prices = planner.prices(snapshot, catalogue, classes=classes)
    found = find_outdated_nodes(snapshot, prices, now=now, history=history)
    due = [one for one in found.due if only is None or one.claim.name in only]
    line = _Line(snapshot, due, history, now)
    reserved = reserve_places(snapshot, due, plan_trial, now) if due else snapshot
    refused: dict[str, str] = {}
    chosen, made = _choose_wave(snapshot, line, refused, lambda removed: plan_trial(remove_on_trial(reserved, removed)))
    actions = _write_actions(chosen, made) if chosen else []
    going = {claim for action in actions for claim in action.claims}
    kept = [
        KeptNode(one.claim.name, one.node.name, "DisruptionBlocked", f"{one.why}, and {why}")
        for one in found.due
        if one.claim.name not in going and (why := refused.get(one.claim.name) or line.held.get(one.pool.key, ""))
    ]
    price = round(sum(total_by_pool(snapshot, prices)[0].values()), 10)
    remaining = len(found.due) - len(going)
    return Proposal(tuple(actions), (*found.kept, *kept), price_per_hour=price, remaining=remaining)


def _choose_wave(
    snapshot: Snapshot,
    line: "_Line",
    refused: dict[str, str],
    try_removal: Callable[[Collection[OutdatedNode]], Plan],
) -> tuple[list[OutdatedNode], Plan]:
    """Return the nodes that can be replaced together, and the plan for their pods. Add to ``refused`` why others
    cannot, by claim name."""
    chosen, made, trials = line.choose(refused, 0), Plan(), 0
    while chosen:
        moving = [one for one in chosen if one.pods or one.pool.replicas is not None]
        made = try_removal(chosen) if moving else Plan()
        failed = _failures(snapshot, moving, made)
        if not failed:
            break
        refused |= failed
        trials += 1
        chosen = (
            line.choose(refused, trials)
            if trials < TRIALS
            else [one for one in chosen if one.claim.name not in refused]
        )
    return chosen, made


class _Line:
    """The outdated nodes in the order of their turn. ``held`` gives by pool key what limits the wave."""

    def __init__(
        self, snapshot: Snapshot, due: Sequence[OutdatedNode], history: DisruptionHistory, now: datetime
    ) -> None:
        self._snapshot = snapshot
        self._due = due
        self._history = history
        self._now = now
        self._nodes = nodes_of_claims(snapshot)
        self.held: dict[str, str] = {}
        self._allowed = {pool.key: self._limits(pool) for pool in {one.pool.key: one.pool for one in due}.values()}

    def choose(self, refused: Collection[str], trial: int) -> list[OutdatedNode]:
        """Return the nodes to try together, within all budgets."""
        waiting = [one for one in self._due if one.claim.name not in refused]
        if trial >= ROTATING and waiting:
            start = int(self._now.timestamp()) // ROTATION_SECONDS % len(waiting)
            waiting = waiting[start:] + waiting[:start]
        taken: Counter[str] = Counter()
        left = EvictionsLeft(self._snapshot.disruption_budgets, self._snapshot.rollouts)
        chosen: list[OutdatedNode] = []
        for one in waiting:
            allowed = self._allowed[one.pool.key]
            if len(chosen) == MOST or taken[one.pool.key] >= min(allowed["all"], allowed[one.reason]):
                continue
            drained = DrainedNode(() if one.ignores_pods else one.pods)
            if left.refusal([drained]):
                continue
            left.take([drained])
            taken[one.pool.key] += 1
            chosen.append(one)
        return chosen

    def _limits(self, pool: NodePool) -> Mapping[str, int]:
        """Return how many nodes of a pool may be replaced, by reason and altogether."""
        claims, leaving = self._snapshot.claims, self._history.disrupting
        if why := self._history.waits(pool.key, self._now):
            self.held[pool.key] = why
            return NOTHING
        if failed := find_failed_join(pool, claims, self._now):
            self.held[pool.key] = (
                f"the node of {failed} did not join, or did not become ready: {pool.key} waits until that claim is "
                "gone, or for an hour if its node joined"
            )
            return NOTHING
        at_risk, drifted, expired = (
            count_remaining_disruptions(pool, reason, claims, self._nodes, leaving=leaving, now=self._now)
            for reason in ORDER
        )
        replacing = sum(claim.pool_key == pool.key and claim.name in leaving for claim in claims)
        canaries = count_replaceable(pool, claims, self._nodes, replacing=replacing, now=self._now)
        if canaries < drifted:
            self.held[pool.key] = f"{pool.key} waits for its canaries: new nodes that stay healthy"
        elif not drifted:
            self.held[pool.key] = f"the budgets of {pool.key} allow no disruption now"
        most = max(at_risk, drifted, expired)
        return {"all": most, "Rebalance": at_risk, "Drifted": min(drifted, canaries), "Expired": expired}


def _failures(snapshot: Snapshot, chosen: Sequence[OutdatedNode], made: Plan) -> dict[str, str]:
    """Return the nodes that cannot be removed, with the reason: a pod has no place, or only one that is not ready, or
    a node of a static pool has no replacement although its limit allows one."""
    pending = {one.pod: one for one in made.pending}
    unready = _unready_destinations(snapshot, made)
    failed = {}
    for one in chosen:
        for pod in one.pods:
            if pod.key in pending:
                reasons = "; ".join(map(str, pending[pod.key].reasons[:2]))
                failed[one.claim.name] = f"pod {pod.key} fits nowhere else ({reasons})"[:512]
            elif pod.key in unready:
                failed[one.claim.name] = f"pod {pod.key} would move to {unready[pod.key]}, which is not initialized"
    return _failures_of_static_pools(snapshot, chosen, made) | failed


def _failures_of_static_pools(snapshot: Snapshot, chosen: Sequence[OutdatedNode], made: Plan) -> dict[str, str]:
    """Return the last of the chosen nodes of each static pool for which no node is planned, with the reason. A pool at
    its limit loses a node first."""
    launched, present = Counter(one.pool for one in made.nodes), Counter(claim.pool_key for claim in snapshot.claims)
    failed: dict[str, str] = {}
    for problem in made.problems:
        pool = next((one.pool for one in chosen if one.pool.key == problem.object), None)
        if pool is None or pool.replicas is None or problem.field != REPLICAS:
            continue
        if launched[pool.key] + present[pool.key] < pool.limits.get("nodes", math.inf):
            mine = [one.claim.name for one in chosen if one.pool.key == pool.key]
            failed |= dict.fromkeys(mine[launched[pool.key] :], f"its pool lacks a replacement: {problem.remedy}")
    return failed


def _unready_destinations(snapshot: Snapshot, made: Plan) -> dict[str, str]:
    """Return the pods that would move to a node that is not initialized, with its name."""
    nodes = nodes_of_claims(snapshot)
    booting = {claim.name for claim in snapshot.claims if not claim.initialized}
    booting |= {nodes[claim.key].name for claim in snapshot.claims if not claim.initialized and claim.key in nodes}
    return {
        pod: one.node or one.claim
        for one in made.existing
        if one.node in booting or (not one.node and one.claim in booting)
        for pod in one.pods
    }


@dataclass(slots=True)
class _Group:
    """Nodes that go together because they share replacements."""

    nodes: list[OutdatedNode]
    replacements: list[PlannedNode]


def _write_actions(chosen: Sequence[OutdatedNode], made: Plan) -> list[DisruptionAction]:
    moves = {pod: one.node or one.claim for one in made.existing for pod in one.pods}
    moves |= {pod: one.name for one in made.nodes for pod in one.pods}
    return [
        DisruptionAction(
            reason=group.nodes[0].reason,
            claims=tuple(sorted(one.claim.name for one in group.nodes)),
            replacements=tuple(group.replacements),
            moves={pod.key: moves[pod.key] for one in group.nodes for pod in one.pods if pod.key in moves},
            saving_per_hour=sum(one.price for one in group.nodes)
            - sum(one.price_per_hour for one in group.replacements),
            eviction_cost=sum(one.eviction_cost for one in group.nodes),
        )
        for group in _group_by_replacements(chosen, made)
    ]


def _group_by_replacements(chosen: Sequence[OutdatedNode], made: Plan) -> list[_Group]:
    """Return the groups in the order of their first node. New nodes without a pod of these nodes are for others."""
    owner = {pod.key: one.claim.name for one in chosen for pod in one.pods}
    group_of = {one.claim.name: _Group([one], []) for one in chosen}
    for planned in made.nodes:
        for members in _owners(planned, chosen, owner):
            first = group_of[members[0]]
            for name in members[1:]:
                if group_of[name] is not first:
                    first = _merge(first, group_of[name], group_of)
            first.replacements.append(planned)
    found: dict[int, _Group] = {}
    for one in chosen:
        found.setdefault(id(group_of[one.claim.name]), group_of[one.claim.name])
    return list(found.values())


def _owners(planned: PlannedNode, chosen: Iterable[OutdatedNode], owner: Mapping[str, str]) -> Iterable[Sequence[str]]:
    """Yield the claims whose pods a new node holds; for a node of a pool of fixed size, its claims."""
    members = sorted({owner[pod] for pod in planned.pods if pod in owner})
    if not planned.pods:
        members = [one.claim.name for one in chosen if one.pool.replicas is not None and one.pool.key == planned.pool]
    if members:
        yield members


def _merge(first: _Group, second: _Group, group_of: dict[str, _Group]) -> _Group:
    first.nodes += second.nodes
    first.replacements += second.replacements
    for one in second.nodes:
        group_of[one.claim.name] = first
    return first
