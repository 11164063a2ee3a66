"""Consolidation: remove nodes that are not worth their price, and replace nodes by cheaper ones.

``propose`` returns the actions of one wave. Nothing is changed here; the functions of the state machine DISRUPT propose
again some seconds later, and execute the actions that are in both proposals.

Source: Karpenter, core `pkg/controllers/disruption` (emptiness, consolidation, validation). Karpenter searches for one
command at a time. Here one wave contains every action that is worth its evictions, within all budgets.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from joiner.catalogue import Catalogue
from joiner.catalogue.total_node_prices import NodePrices
from joiner.disruption.cluster_simulation import ClusterSimulation, PlannerArguments
from joiner.disruption.consolidation_worth import PoolTotals, PriceGoal, fixed_by_policy, may_replace
from joiner.disruption.dependent_actions import NEEDS_OTHERS, PodMove, join_dependent_actions
from joiner.disruption.disruption_candidates import Candidate, CandidateSearch, find_candidates, total_by_pool
from joiner.disruption.disruption_history import NO_HISTORY, DisruptionHistory
from joiner.disruption.found_actions import FoundAction
from joiner.disruption.independent_actions import find_allowed_action
from joiner.disruption.least_node_age import why_too_young
from joiner.disruption.proposal import DisruptionAction, KeptNode, Proposal
from joiner.disruption.wave_budgets import WaveBudgets
from joiner.disruption.wave_plan import WaveWriter
from joiner.disruption.wave_search import MOST_CHANGED, WaveSearch
from joiner.planning import Ceilings, PlanPolicies, Snapshot
from joiner.planning.limited_offer_search import has_supply
from joiner.planning.model.blast_radius import as_running
from joiner.planning.model.pending_pods import with_known_slots
from joiner.planning.plan_policies import DEFAULT_POLICIES, NO_CEILINGS
from joiner.planning.planner import uncollected
from joiner.planning.relaxation.lower_bound import compute_lower_bound
from joiner.pools import ResolvedNodeClass

GAP: Final = 0.03
"""Nodes with pods are consolidated only while the price is above the lower bound by more than this share."""


@uncollected()
def propose(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Collection[tuple[str, str, str]] = (),
    *,
    classes: Mapping[str, ResolvedNodeClass],
    now: datetime,
    ceilings: Ceilings = NO_CEILINGS,
    history: DisruptionHistory = NO_HISTORY,
    policies: PlanPolicies = DEFAULT_POLICIES,
    gap: float = GAP,
    is_wanted: Callable[[DisruptionAction], bool] = lambda _: True,
) -> Proposal:
    """Return the actions of one wave, best first: empty nodes, then nodes whose pods can run cheaper elsewhere.

    ``unavailable``, ``classes``, ``ceilings`` and ``policies`` are those of ``joiner.planning.plan``. The budgets of
    pools and the PodDisruptionBudgets of the snapshot limit the wave; ``remaining`` counts the nodes that they
    postpone. The actions together keep every rule, and each of them keeps required affinity and anti-affinity without
    the others. Only actions that ``is_wanted`` accepts are returned, and they keep every rule without the rest.
    """
    world = PlannerArguments(catalogue, frozenset(unavailable), classes, ceilings, policies)
    return _Consolidation(with_known_slots(snapshot), world, now, history, is_wanted).proposal(gap)


@dataclass(slots=True)
class _Consolidation:
    snapshot: Snapshot
    world: PlannerArguments
    now: datetime
    history: DisruptionHistory
    is_wanted: Callable[[DisruptionAction], bool]

    def proposal(self, gap: float) -> Proposal:
        prices = self.world.prices(self.snapshot)
        found = find_candidates(self.snapshot, prices, now=self.now, history=self.history)
        budgets = WaveBudgets(self.snapshot, found, now=self.now, history=self.history)
        price, totals = self._totals(prices)
        empty, kept, remaining, bound = [], list(found.kept), 0, 0.0
        actions: list[DisruptionAction] = []
        if found.candidates:
            simulation = ClusterSimulation(self.snapshot, found, self.world)
            waited_for = simulation.nominated | simulation.promised | simulation.buffered
            empty = [one for one in found.candidates if one.is_empty and one.node.name not in waited_for]
            removed, remaining = self._remove_empty(empty, simulation, budgets)
            movable, fixed = self._movable(found, simulation, empty)
            bound, worth = self._lower_bound(movable, price - sum(one.price for one in empty))
            kept += [*fixed, *_keep_young(movable)]
            movable = [one for one in movable if one.old_enough]
            goal = PriceGoal(price - sum(one.price for one in empty), bound, gap)
            if goal.saving_wanted > 0:
                wave = WaveSearch(
                    simulation,
                    movable,
                    totals,
                    may_replace=lambda nodes: may_replace(nodes, now=self.now, history=self.history),
                    refusal=lambda nodes: budgets.refusal(nodes, "Underutilized"),
                    take=lambda nodes: budgets.take(nodes, "Underutilized"),
                    worth=lambda pod: worth.get(pod, 0.0),
                    goal=goal,
                ).run()
                actions, dropped = self._write(wave.actions, simulation, totals)
                kept += _refused(movable, wave.refused | dropped, actions)
                remaining += len(wave.postponed)
            actions = [*removed, *actions]
        return Proposal(
            actions=tuple(actions),
            kept=tuple(sorted(kept, key=lambda one: (one.node, one.condition))),
            price_per_hour=round(price, 10),
            lower_bound_per_hour=round(bound, 10),
            remaining=remaining,
            problems=found.problems,
        )

    def _write(
        self, found: Sequence[FoundAction], simulation: ClusterSimulation, totals: PoolTotals
    ) -> tuple[list[DisruptionAction], dict[str, str]]:
        """Return the wanted actions, which keep every rule, and why the nodes of the others stay, by name."""
        places = simulation.place_of()

        def find_moves(action: FoundAction) -> list[PodMove]:
            homes = ((pod, simulation.node_of(one.node.name)) for one in action.removed for pod in one.pods)
            rules = simulation.state.rules
            return [PodMove(rules[simulation.group_of(pod.key).index], home, places[pod.key]) for pod, home in homes]

        def join(one: FoundAction, other: FoundAction) -> FoundAction | None:
            removed, opened = (*one.removed, *other.removed), (*one.opened, *other.opened)
            if len(removed) + len(opened) > MOST_CHANGED:
                return None
            return find_allowed_action(simulation, totals, removed, opened)

        joined = join_dependent_actions(found, find_moves, join)
        actions, dropped = WaveWriter(self.snapshot, self.world, places).write(joined.actions, self.is_wanted)
        return actions, dropped | {one.node.name: NEEDS_OTHERS for each in joined.postponed for one in each.removed}

    def _totals(self, prices: NodePrices) -> tuple[float, PoolTotals]:
        """Return the price of all managed nodes, and price and eviction cost of each pool."""
        price, cost = total_by_pool(self.snapshot, prices)
        return sum(price.values()), PoolTotals(price, cost)

    def _remove_empty(
        self, empty: Sequence[Candidate], simulation: ClusterSimulation, budgets: WaveBudgets
    ) -> tuple[list[DisruptionAction], int]:
        """Return one action for each empty node that the budgets allow, the most expensive first, and how many are
        left."""
        actions, remaining = [], 0
        for one in sorted(empty, key=lambda each: (-each.price, each.node.name)):
            simulation.evict([one.node.name])
            simulation.commit()
            if budgets.refusal((one,), "Empty"):
                remaining += 1
                continue
            budgets.take((one,), "Empty")
            actions.append(
                DisruptionAction("Empty", (one.claim.name,), saving_per_hour=one.price, eviction_cost=one.eviction_cost)
            )
        return actions, remaining

    def _movable(
        self, found: CandidateSearch, simulation: ClusterSimulation, empty: Iterable[Candidate]
    ) -> tuple[list[Candidate], list[KeptNode]]:
        """Return the candidates with pods that may be consolidated, some of them at a greater age, and why the others
        stay."""
        gone = {one.node.name for one in empty}
        movable, kept = [], []
        for one in found.candidates:
            if one.node.name in gone:
                continue
            if one.node.name in simulation.nominated:
                kept.append(KeptNode(one.claim.name, one.node.name, "DisruptionBlocked", "pending pods fit on it"))
            elif one.node.name in simulation.promised:
                message = "pods of nodes that are being disrupted move to it"
                kept.append(KeptNode(one.claim.name, one.node.name, "DisruptionBlocked", message))
            elif why := fixed_by_policy(one, now=self.now, history=self.history):
                kept.append(KeptNode(one.claim.name, one.node.name, "Unconsolidatable", why))
            else:
                movable.append(one)
        return movable, kept

    def _lower_bound(self, movable: Sequence[Candidate], price: float) -> tuple[float, dict[str, float]]:
        """Return the lowest possible price of the cluster if these nodes are removed and their pods placed anew, and
        what each pod is worth. Rules that only new nodes keep do not count, and neither does what keeps the pools of
        these nodes from a launch for some time: without a place on new nodes, pods would count as nothing."""
        pools = {one.pool.key for one in movable}
        gone, claims = {one.node.name for one in movable}, {one.claim.key for one in movable}
        moving = {pod.key for one in movable for pod in one.pods}
        after = replace(
            self.world.unbound(self.snapshot, moving),
            nodes=tuple(node for node in self.snapshot.nodes if node.name not in gone),
            claims=tuple(claim for claim in self.snapshot.claims if claim.key not in claims),
            pools=tuple(as_running(pool) for pool in self.snapshot.pools),
            closed_pools={key: why for key, why in self.snapshot.closed_pools.items() if key not in pools},
            held_pools={},
        )
        state = self.world.state(after)
        for group in state.groups.pending:
            state.left[group] = sum(pod.key in moving for pod in group.pods)
        lowest = compute_lower_bound(state, joined=True)  # limits may be below what the pools have now
        # Beside a supply that suffices for all pods, none of them would be worth anything
        shares = (compute_lower_bound(state, joined=True, supplied=False) if has_supply(state) else lowest).shares
        worth = {pod.key: shares[group.index] for group in state.groups.pending for pod in group.pods}
        known: dict[str, float] = defaultdict(float, {key: each for key, each in worth.items() if each < float("inf")})
        return price - sum(one.price for one in movable) + lowest.price_per_hour, known


def _keep_young(movable: Sequence[Candidate]) -> list[KeptNode]:
    """Return why the candidates that are too young stay."""
    return [
        KeptNode(one.claim.name, one.node.name, "Unconsolidatable", why_too_young(one.pool))
        for one in movable
        if not one.old_enough
    ]


def _refused(
    movable: Iterable[Candidate], refused: Mapping[str, str], actions: Iterable[DisruptionAction]
) -> list[KeptNode]:
    going = {claim for action in actions for claim in action.claims}
    return [
        KeptNode(one.claim.name, one.node.name, "Unconsolidatable", refused[one.node.name])
        for one in movable
        if one.node.name in refused and one.claim.name not in going
    ]
