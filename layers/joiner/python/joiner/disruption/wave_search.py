"""Search for the actions of one wave: the nodes to remove and to replace, by dollars saved per eviction cost.

Three kinds of action are ranked together:

* *delete*: the pods of a node fit into the free resources of other nodes;
* *replace*: what does not fit there needs one new node that is cheaper;
* *repack*: the pods of several nodes, or of one, are packed anew by the planner, together with those of new nodes that
  the wave would launch: these move in any case, and no node is launched that is removed again. In small clusters,
  groups of a few nodes are tried at the end (`repack_groups`).

Each node is tried in the order of the best ratio that it could have. An action that is possible is kept at once, and
later actions see its effect. The search ends near the lower bound of the price, or when what is left to save has better
actions in the next wave. At the end, each action is divided into independent ones (`independent_actions`).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from joiner import names
from joiner.cluster.eviction_costs import NODE_COST
from joiner.disruption.cluster_simulation import ClusterSimulation
from joiner.disruption.consolidation_worth import PoolTotals, PriceGoal, balanced_score, worthless
from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.found_actions import FoundAction, FoundWave, RepackedGroup
from joiner.disruption.independent_actions import ActionDivision
from joiner.disruption.repack_groups import DIGITS, RepackableNode, group_of, groups_of_few_nodes
from joiner.disruption.replacement_offers import ReplacementOffers, fleet_choices
from joiner.disruption.replacement_rules import (
    capacity_type_of,
    cheapest_types,
    forbids_replacement,
    instance_type_of,
    repeated_types,
    repeats_a_type,
    too_few_spot_types,
)
from joiner.planning.effort import Effort
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.plan import Offer
from joiner.planning.state.node_state import NodeState

TRIED_OFFERS: Final = 4
"""The number of offers tried for one replacement; an offer with enough resources rarely fails."""
REPACKED: Final = 12
"""The number of nodes that are repacked together: enough for a good packing, few enough to be replaced at once."""
MOST_CHANGED: Final = 24
"""The number of nodes that a merged action removes and launches: as many as a repack of twelve nodes by as many. An
action waits for all of its new nodes and fails with any of them, so it must not grow with each merge."""
FAILED_REPACKS: Final = 2
"""After so many repacks in a row that save too little, no other group is tried at this least ratio."""
NO_ROOM: Final = "its pods do not fit on other nodes"
NO_CHEAPER: Final = "no cheaper node holds them"
LEAST_DIFFERENCE: Final = 1e-9
LEAST_RATIO: Final = 1e-4
"""$/h per eviction cost. The search ends below it."""
HALF: Final = 0.5
"""After this share of the saving that is wanted from nodes that budgets do not keep, a large wave adds no action of a
lower ratio. The next wave, planned from the cluster that this one leaves, has better ones: nodes that received pods can
be replaced then, and new nodes have free resources."""
LARGE_WAVE: Final = 20
"""The number of removed nodes from which a wave may end early: at half of the saving, or before actions that save less
per eviction cost than the replacement of all nodes that budgets do not keep would."""
REPACK_ATTEMPTS: Final = 4
REPACK_EFFORT: Final = Effort(steps=40)
TRIED_GROUPS: Final = 100
"""The number of groups of a few nodes that are tried before each action in a small cluster."""
LEAST_PRECISION: Final = 1 - 1e-9
LEAST_REPACK_SHARE: Final = 0.05
"""A repack must save this share of the price of its nodes, because it moves all of their pods. With 3 %, a pool a few
percent above its bound would be replaced as a whole."""


class WaveSearch:
    """One search. ``admit`` uses the budgets for nodes and returns a refusal, or an empty text."""

    def __init__(
        self,
        simulation: ClusterSimulation,
        candidates: Sequence[Candidate],
        totals: PoolTotals,
        *,
        may_replace: Callable[[Sequence[Candidate]], bool],
        refusal: Callable[[Sequence[Candidate]], str],
        take: Callable[[Sequence[Candidate]], None],
        worth: Callable[[str], float],
        goal: PriceGoal,
    ) -> None:
        self._simulation = simulation
        self._candidates = list(candidates)
        self._totals = totals
        self._may_replace = may_replace
        self._refusal = refusal
        self._take = take
        self._worth = worth
        self._goal = goal
        self._offers = ReplacementOffers(simulation)
        self._homes = {one.node.name: simulation.pods_on(one.node.name) for one in self._candidates}
        self._wave = FoundWave()
        self._gone: set[str] = set()
        released = [one for one in self._candidates if not refusal((one,))]
        self._released = goal.saving_wanted * self._share_of_saving(released)
        self._mean_ratio = self._released / max(NODE_COST, sum(one.eviction_cost for one in released))
        self._queue: list[tuple[float, str, Candidate]] = []
        self._refused_groups: dict[str, str] = {}
        self._failed: dict[tuple[str, ...], float] = {}
        """Groups that were not repacked since the last action: $/h per eviction cost that it would save at best."""

    def _share_of_saving(self, some: Iterable[Candidate]) -> float:
        """Return the share of the unused price that these candidates have."""
        unused = {
            one.node.name: max(0.0, one.price - self._worth_of(self._simulation.pods_on(one.node.name)))
            for one in self._candidates
        }
        whole = sum(unused.values())
        return sum(unused[one.node.name] for one in some) / whole if whole > 0 else 1.0

    def run(self) -> FoundWave:
        """Return the actions, in the order in which they were found, each divided into independent ones.

        The least ratio is halved again and again. All kinds of action are tried at one least ratio before the next.
        """
        for one in self._candidates:
            heappush(self._queue, (-one.price / one.eviction_cost, one.node.name, one))
        least = -self._queue[0][0] if self._queue else 0.0
        while least > LEAST_RATIO and not self._is_done(least / 2):
            least /= 2
            self._remove_and_replace(least)
            self._repack(least)
        while not self._is_done(least / 2) and self._repack_few():
            pass
        self._name_refused_groups()
        division = ActionDivision(self._simulation, self._totals, self._homes, self._simulation.place_of())
        self._wave.actions = [part for action in self._wave.actions for part in division.divide(action)]
        return self._wave

    def _is_done(self, least: float) -> bool:
        """Return whether the wave needs no further action, or leaves those of this ratio to the next wave."""
        large = len(self._gone) >= LARGE_WAVE
        return self._enough or (large and (self._saved >= HALF * self._released or least < self._mean_ratio))

    @property
    def _saved(self) -> float:
        return sum(action.saving for action in self._wave.actions)

    @property
    def _enough(self) -> bool:
        return self._saved >= self._goal.saving_wanted

    def _remove_and_replace(self, least: float) -> None:
        """Delete and replace single nodes while the ratio is at least ``least``. The ratio of a node in the queue is
        what it could be at best; the node is put back if its ratio is lower than that of the next node."""
        queue = self._queue
        while queue and -queue[0][0] >= least and not self._enough:
            _, name, one = heappop(queue)
            if name in self._gone:
                continue
            if refusal := self._refusal((one,)):
                self._wave.refused[name] = refusal
                self._wave.postponed.add(name)
                continue
            ratio = max(-queue[0][0] if queue else 0.0, least)
            saving = self._try_one(one, at_least=ratio * one.eviction_cost)
            if saving > 0:
                heappush(queue, (-saving / one.eviction_cost, name, one))

    def _try_one(self, one: Candidate, *, at_least: float) -> float:
        """Delete or replace a node if that saves at least so much; otherwise return what it would save, or 0."""
        simulation = self._simulation
        stays = self._why_irreplaceable(one)
        left = simulation.place_on_existing(simulation.evict([one.node.name]))
        if not left:
            self._keep(RepackedGroup((one,)), one.price)
            return 0.0
        holding = self._offers.holding(left, below=one.price) if not stays else []
        full = "" if stays else self._offers.describe_full_zones(left, below=one.price)
        why, saving = f"{NO_ROOM}, and {stays or NO_CHEAPER}{full}", 0.0
        for choice in holding[:TRIED_OFFERS]:
            if repeats_a_type((one,), (choice.one.offer,)):
                continue
            saving = one.price - choice.one.offer.price_per_hour
            if saving < at_least - LEAST_DIFFERENCE:
                break
            node = simulation.open_node(choice, left)
            if node is None:
                saving = 0.0
                continue
            cheaper = simulation.cheaper_offers(node, choice, one.price)
            if few := too_few_spot_types(one, cheaper):
                why, saving = few, 0.0
                break
            self._keep(RepackedGroup((one,)), saving, {node: cheapest_types(one, cheaper)})
            return 0.0
        simulation.roll_back()
        self._wave.refused[one.node.name] = why
        return saving

    def _why_irreplaceable(self, one: Candidate) -> str:
        """Return why no new nodes may replace the node, or an empty text. A node that receives pods of other nodes is
        not replaced in the same wave: the actions would depend on one another."""
        own = {pod.key for pod in one.pods}
        if any(not is_buffer_pod(key) for key in self._simulation.pods_on(one.node.name) if key not in own):
            return "it receives pods of other nodes now"
        if not self._may_replace((one,)):
            return f"{one.pool.key} waits after replacements that failed"
        return forbids_replacement((one,))

    def _keep(
        self, group: RepackedGroup, saving: float, flexible: Mapping[NodeState, tuple[Offer, ...]] | None = None
    ) -> bool:
        """Keep what the simulation has done if it is worth its evictions; else undo it. The action replaces those of
        the group; ``saving`` is what it saves more than they do."""
        simulation, removed = self._simulation, group.removed
        whole = saving + sum(action.saving for action in group.actions)
        if why := worthless(group.nodes, saving, self._totals) or worthless(removed, whole, self._totals):
            simulation.roll_back()
            self._refuse(group, why)
            return False
        opened = tuple(simulation.commit())
        self._failed.clear()
        for one in group.nodes:
            self._wave.refused.pop(one.node.name, None)
            self._wave.postponed.discard(one.node.name)
            self._gone.add(one.node.name)
        self._take(group.nodes)
        score = balanced_score(removed, whole, self._totals)
        self._wave.actions = [action for action in self._wave.actions if action not in group.actions]
        self._wave.actions.append(FoundAction(removed, opened, whole, score, flexible or {}))
        return True

    def _repack(self, least: float) -> None:
        """Pack the pods of groups of nodes anew, those with the most unused price per eviction first.

        The unused price of each node and the saving of a group are at least ``least`` per eviction cost."""
        failed = 0
        for group in self._groups(least):
            if self._enough or failed >= FAILED_REPACKS:
                return
            if self._failed.get(group.names, least) >= least:
                failed = 0 if self._repack_together(group, least) else failed + 1

    def _groups(self, least: float) -> Iterator[RepackedGroup]:
        order = sorted(
            (one for one in self._repackable() if one.ratio > least), key=lambda one: (-one.ratio, one.names)
        )
        while order:
            group, rest = RepackedGroup(()), []
            members: list[RepackableNode] = []
            for one in order:
                larger = group_of((*members, one))
                fits = larger.size <= REPACKED and not larger.exceeds(MOST_CHANGED, larger.size)  # as many new ones
                if fits and not self._refusal(larger.nodes):
                    members.append(one)
                    group = larger
                else:
                    rest.append(one)
            if not members:
                self._wave.postponed.update(each.one.node.name for each in rest if isinstance(each.one, Candidate))
                return
            yield group
            order = [one for one in rest if self._is_left(one.one)]  # the group's pods may have moved to some

    def _repack_together(self, group: RepackedGroup, least: float) -> bool:
        """Repack a group if that saves enough; return whether that is done.

        If new nodes would repeat a type of the group, the group is also tried without the nodes of this type, and with
        other types."""
        simulation = self._simulation
        self._failed[group.names] = 0.0
        attempts: list[tuple[RepackedGroup, frozenset[str]]] = [(group, frozenset())]
        for number in range(REPACK_ATTEMPTS):
            if number >= len(attempts):
                break
            some, excluded = attempts[number]
            saving, repeated = self._pack_anew(some, excluded)
            if repeated:
                others = some.without_types(repeated)
                attempts += [(others, excluded)] if 0 < others.size < some.size else []
            if saving >= max(LEAST_DIFFERENCE, LEAST_REPACK_SHARE * sum(one.price for one in some.nodes)):
                if repeated:
                    attempts.append((some, excluded | repeated))
                elif self._moves_too_many(some, saving):
                    self._refuse_repack(some, saving)
                elif (flexible := fleet_choices(simulation, some.removed, simulation.state.new, saving)) is not None:
                    if saving >= least * some.eviction_cost:
                        return self._keep(some, saving, flexible)
                    self._failed[group.names] = max(saving / some.eviction_cost, self._failed[group.names])
            simulation.roll_back()
        return False

    def _moves_too_many(self, group: RepackedGroup, saving: float) -> bool:
        """Return whether a repack by several new nodes, which Karpenter does not make, saves too little for its
        evictions so near the lower bound."""
        several = len(self._simulation.state.new) > 1
        return several and self._goal.is_poor_repack(self._saved, saving, group.eviction_cost, self._totals)

    def _refuse(self, group: RepackedGroup, why: str) -> None:
        """Note why nodes stay."""
        others = len(group.nodes) - 1
        for one in group.nodes:
            if others:
                self._refused_groups[one.node.name] = (
                    f"packed anew with {others} other {'node' if others == 1 else 'nodes'}, {why}"
                )
            else:
                self._wave.refused[one.node.name] = why

    def _name_refused_groups(self) -> None:
        """Say what nodes would save together with others, whose pools may want more, unless one of them would save
        something alone."""
        refused = self._wave.refused
        for name, why in self._refused_groups.items():
            alone = refused.get(name, "")
            if name not in self._gone and (not alone or alone.startswith(NO_ROOM)):
                refused[name] = f"{alone}; {why}" if alone else why

    def _refuse_repack(self, group: RepackedGroup, saving: float) -> None:
        self._refuse(
            group,
            f"it would save ${saving:.2f}/h for an eviction cost of {group.eviction_cost:.0f}: too little so near the "
            "lower bound",
        )

    def _repack_few(self) -> bool:
        """In a small cluster, repack the group of a few nodes that saves the most per eviction cost; return whether
        there is one."""
        groups: dict[tuple[str, ...], RepackedGroup] = {}
        for group in groups_of_few_nodes(self._repackable(), LEAST_REPACK_SHARE):
            if len(groups) == TRIED_GROUPS:
                break
            if not self._refusal(group.nodes):
                groups[group.names] = group
        for name, group in groups.items():
            if name not in self._failed:
                self._repack_together(group, math.inf)  # which only records what it would save
        ratio = {name: self._failed[name] for name in groups}
        best = sorted(groups, key=lambda name: (-round(ratio[name], DIGITS), name))
        return any(
            ratio[name] > LEAST_RATIO and self._repack_together(groups[name], ratio[name] * LEAST_PRECISION)
            for name in best
        )

    def _repackable(self) -> list[RepackableNode]:
        simulation, found = self._simulation, []
        for one in self._candidates:
            if self._is_left(one):
                labels = (instance_type_of(one), capacity_type_of(one), one.node.labels.get(names.ZONE))
                kind = (one.pool.key, one.price, one.eviction_cost, labels, simulation.contents_of(one.node.name))
                found.append(RepackableNode(one, kind, self._worth_of(simulation.pods_on(one.node.name))))
        for action in self._wave.actions:
            if action.opened:
                pods = [pod for node in action.opened for pod in simulation.pods_of(node)]
                found.append(RepackableNode(action, action, self._worth_of(pods)))
        return found

    def _is_left(self, one: Candidate | FoundAction) -> bool:
        """Return whether a node is not in the wave and may be replaced, or an action still belongs to the wave."""
        if isinstance(one, FoundAction):
            return one in self._wave.actions
        return one.node.name not in self._gone and not self._why_irreplaceable(one)

    def _worth_of(self, pods: Iterable[str]) -> float:
        """Return what pods are worth, in $/h."""
        return sum(map(self._worth, pods))

    def _pack_anew(self, group: RepackedGroup, excluded: frozenset[str]) -> tuple[float, frozenset[str]]:
        """Pack the pods of these nodes anew; return what that saves (0 if it is not possible), and the types that
        would only be repeated."""
        simulation = self._simulation
        opened = [node for action in group.actions for node in action.opened]
        left = simulation.place_on_existing(simulation.evict([one.node.name for one in group.nodes], opened))
        if left and not simulation.pack_on_new(left, REPACK_EFFORT, without=excluded):
            return 0.0, frozenset()
        launched = [node.choice.one.offer for node in simulation.state.new if node.choice]
        if group.exceeds(MOST_CHANGED, len(launched)):
            return 0.0, frozenset()
        saving = group.price - sum(offer.price_per_hour for offer in launched)
        return saving, repeated_types(group.removed, launched)
