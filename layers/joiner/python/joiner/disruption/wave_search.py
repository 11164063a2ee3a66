"""Search for the actions of one wave: the nodes to remove and to replace, by dollars saved per eviction cost.

Three kinds of action are ranked together:

* *delete*: the pods of a node fit into the free resources of other nodes;
* *replace*: what does not fit there needs one new node that is cheaper;
* *repack*: the pods of several nodes, or of one, are packed anew by the planner. In small clusters, groups of a few
  nodes are tried at the end (`repack_groups`).

Each node is tried in the order of the best ratio that it could have. An action that is possible is kept at once, and
later actions see its effect. The search ends near the lower bound of the price, or when what is left to save has better
actions in the next wave.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

import numpy as np

from joiner import names
from joiner.disruption.cluster_simulation import ClusterSimulation, Contents
from joiner.disruption.consolidation_worth import PoolTotals, balanced_score, worthless
from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.repack_groups import DIGITS, RepackableNode, groups_of_few_nodes
from joiner.disruption.replacement_rules import (
    capacity_type_of,
    cheapest_types,
    forbids_replacement,
    instance_type_of,
    repeated_types,
    repeats_a_type,
    too_few_spot_types,
)
from joiner.planning.arrays import Floats
from joiner.planning.effort import Effort
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import group_mask
from joiner.planning.plan import Offer
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.node_state import NodeState

TRIED_OFFERS: Final = 4
"""The number of offers tried for one replacement; an offer with enough resources rarely fails."""
REPACKED: Final = 16
"""The number of nodes that are repacked together: enough for a good packing, few enough to be replaced at once."""
FAILED_REPACKS: Final = 2
"""After so many repacks in a row that save too little, no other group is tried at this least ratio."""
LEAST_DIFFERENCE: Final = 1e-9
LEAST_RATIO: Final = 1e-4
"""$/h per eviction cost. The search ends below it."""
HALF: Final = 0.5
"""After this share of the saving that is wanted, a large wave adds no action of a lower ratio. The next wave, planned
from the cluster that this one leaves, has better ones: nodes that received pods can be replaced then, and new nodes
have free resources."""
LARGE_WAVE: Final = 10
"""The number of actions from which a wave may end at half of the saving."""
REPACK_ATTEMPTS: Final = 4
REPACK_EFFORT: Final = Effort(steps=40)
TRIED_GROUPS: Final = 100
"""The number of groups of a few nodes that are tried before each action in a small cluster."""
LEAST_PRECISION: Final = 1 - 1e-9
LEAST_REPACK_SHARE: Final = 0.05
"""A repack must save this share of the price of its nodes, because it moves all of their pods. With 3 %, a pool a few
percent above its bound would be replaced as a whole."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundAction:
    """Nodes to remove, and the new nodes (of the simulation) that replace them.

    ``flexible`` are the offers for the fleet, by new node, if spot nodes replace a single spot node; else the usual
    alternatives are used.
    """

    removed: tuple[Candidate, ...]
    opened: tuple[NodeState, ...]
    saving: float
    score: float | None
    flexible: Mapping[NodeState, tuple[Offer, ...]] = field(default_factory=dict)

    @property
    def eviction_cost(self) -> float:
        """Return the cost of evicting the pods of all removed nodes."""
        return sum(one.eviction_cost for one in self.removed)


@dataclass(slots=True)
class FoundWave:
    """The actions found. ``refused`` are the reasons of nodes that were tried and stay; ``postponed`` counts actions
    that a budget does not allow now."""

    actions: list[FoundAction] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    postponed: int = 0


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
        saving_wanted: float,
    ) -> None:
        self._simulation = simulation
        self._candidates = list(candidates)
        self._totals = totals
        self._may_replace = may_replace
        self._refusal = refusal
        self._take = take
        self._worth = worth
        self._wanted = saving_wanted
        self._offers = ReplacementOffers(simulation)
        self._wave = FoundWave()
        self._gone: set[str] = set()
        self._queue: list[tuple[float, str, Candidate]] = []
        self._failed: dict[tuple[str, ...], float] = {}
        """Groups that were not repacked since the last action: $/h per eviction cost that it would save at best."""

    def run(self) -> FoundWave:
        """Return the actions, in the order in which they were found.

        The least ratio is halved again and again. All kinds of action are tried at one least ratio before the next.
        """
        for one in self._candidates:
            heappush(self._queue, (-one.price / one.eviction_cost, one.node.name, one))
        least = -self._queue[0][0] if self._queue else 0.0
        while least > LEAST_RATIO and not self._enough and not self._half_done:
            least /= 2
            self._remove_and_replace(least)
            self._repack(least)
        while not self._enough and not self._half_done and self._repack_few():
            pass
        return self._wave

    @property
    def _half_done(self) -> bool:
        return len(self._wave.actions) >= LARGE_WAVE and self._saved >= HALF * self._wanted

    @property
    def _saved(self) -> float:
        return sum(action.saving for action in self._wave.actions)

    @property
    def _enough(self) -> bool:
        return self._saved >= self._wanted

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
                self._wave.postponed += 1
                continue
            ratio = max(-queue[0][0] if queue else 0.0, least)
            saving = self._try_one(one, at_least=ratio * one.eviction_cost)
            if saving > 0:
                heappush(queue, (-saving / one.eviction_cost, name, one))

    def _try_one(self, one: Candidate, *, at_least: float) -> float:
        """Delete or replace a node if that saves at least so much; otherwise return what it would save, or 0."""
        simulation = self._simulation
        able = self._is_replaceable(one)
        left = simulation.place_on_existing(simulation.evict([one.node.name]))
        if not left:
            self._keep((one,), one.price)
            return 0.0
        why, saving = "its pods do not fit on other nodes, and no cheaper node holds them", 0.0
        holding = self._offers.holding(left, below=one.price) if able else []
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
            self._keep((one,), saving, {node: cheapest_types(one, cheaper)})
            return 0.0
        simulation.roll_back()
        self._wave.refused[one.node.name] = why
        return saving

    def _is_replaceable(self, one: Candidate) -> bool:
        """Return whether new nodes may replace the node. A node that receives pods of other nodes is not replaced in
        the same wave: the actions would depend on one another."""
        own = {pod.key for pod in one.pods}
        received = any(not is_buffer_pod(key) for key in self._simulation.pods_on(one.node.name) if key not in own)
        return not received and self._may_replace((one,)) and not forbids_replacement((one,))

    def _keep(
        self,
        removed: tuple[Candidate, ...],
        saving: float,
        flexible: Mapping[NodeState, tuple[Offer, ...]] | None = None,
    ) -> bool:
        """Keep what the simulation has done if it is worth its evictions; else undo it."""
        simulation = self._simulation
        if why := worthless(removed, saving, self._totals):
            simulation.roll_back()
            for one in removed:
                self._wave.refused[one.node.name] = why
            return False
        opened = tuple(simulation.commit())
        self._failed.clear()
        for one in removed:
            self._wave.refused.pop(one.node.name, None)
            self._gone.add(one.node.name)
        self._take(removed)
        score = balanced_score(removed, saving, self._totals)
        self._wave.actions.append(FoundAction(removed, opened, saving, score, flexible or {}))
        return True

    def _repack(self, least: float) -> None:
        """Pack the pods of groups of nodes anew, those with the most unused price per eviction first.

        The unused price of each node and the saving of a group are at least ``least`` per eviction cost."""
        failed = 0
        for group in self._groups(least):
            if self._enough or failed >= FAILED_REPACKS:
                return
            if self._failed.get(_names(group), least) >= least:
                failed = 0 if self._repack_together(group, least) else failed + 1

    def _groups(self, least: float) -> Iterator[tuple[Candidate, ...]]:
        unused = {one: (one.price - self._worth_of(one)) / one.eviction_cost for one in self._left()}
        order = sorted((one for one in unused if unused[one] > least), key=lambda one: (-unused[one], one.node.name))
        while order:
            group: list[Candidate] = []
            rest: list[Candidate] = []
            for one in order:
                if len(group) < REPACKED and not self._refusal((*group, one)):
                    group.append(one)
                else:
                    rest.append(one)
            if not group:
                self._wave.postponed += bool(rest)
                return
            yield tuple(group)
            order = [one for one in rest if self._is_replaceable(one)]  # the group's pods may have moved to some

    def _repack_together(self, group: tuple[Candidate, ...], least: float) -> bool:
        """Repack a group if that saves enough; return whether that is done.

        If new nodes would repeat a type of the group, the group is also tried without the nodes of this type, and with
        other types."""
        self._failed[_names(group)] = 0.0
        attempts: list[tuple[tuple[Candidate, ...], frozenset[str]]] = [(group, frozenset())]
        for number in range(REPACK_ATTEMPTS):
            if number >= len(attempts):
                break
            some, excluded = attempts[number]
            saving, repeated = self._pack_anew(some, excluded)
            cost = sum(one.eviction_cost for one in some)
            if repeated:
                others = tuple(one for one in some if instance_type_of(one) not in repeated)
                attempts += [(others, excluded)] if 0 < len(others) < len(some) else []
            if saving >= LEAST_REPACK_SHARE * sum(one.price for one in some):
                if repeated:
                    attempts.append((some, excluded | repeated))
                elif (flexible := self._choices(some, saving)) is not None:
                    if saving >= least * cost:
                        return self._keep(some, saving, flexible)
                    self._failed[_names(group)] = max(saving / cost, self._failed[_names(group)])
            self._simulation.roll_back()
        return False

    def _repack_few(self) -> bool:
        """In a small cluster, repack the group of a few nodes that saves the most per eviction cost; return whether
        there is one."""
        groups: dict[tuple[str, ...], tuple[Candidate, ...]] = {}
        for group in groups_of_few_nodes(self._repackable(), LEAST_REPACK_SHARE):
            if len(groups) == TRIED_GROUPS:
                break
            if not self._refusal(group):
                groups[_names(group)] = group
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
        for one in self._left():
            labels = (instance_type_of(one), capacity_type_of(one), one.node.labels.get(names.ZONE))
            kind = (one.pool.key, one.price, one.eviction_cost, labels, simulation.contents_of(one.node.name))
            found.append(RepackableNode(one, kind, self._worth_of(one)))
        return found

    def _left(self) -> Iterator[Candidate]:
        """Yield the candidates that are not in the wave and may be replaced."""
        return (one for one in self._candidates if one.node.name not in self._gone and self._is_replaceable(one))

    def _worth_of(self, one: Candidate) -> float:
        """Return what the pods on a node are worth, in $/h."""
        return sum(map(self._worth, self._simulation.pods_on(one.node.name)))

    def _pack_anew(self, group: Sequence[Candidate], excluded: frozenset[str]) -> tuple[float, frozenset[str]]:
        """Pack the pods of these nodes anew; return what that saves (0 if it is not possible), and the types that
        would only be repeated."""
        simulation = self._simulation
        left = simulation.place_on_existing(simulation.evict([one.node.name for one in group]))
        if left and not simulation.pack_on_new(left, REPACK_EFFORT, without=excluded):
            return 0.0, frozenset()
        opened = [node.choice.one.offer for node in simulation.state.new if node.choice]
        saving = sum(one.price for one in group) - sum(offer.price_per_hour for offer in opened)
        return saving, repeated_types(group, opened)

    def _choices(self, group: Sequence[Candidate], saving: float) -> Mapping[NodeState, tuple[Offer, ...]] | None:
        """Return the offers of the fleet for each spot node in place of a single spot node; None if for one of them
        the fleet could choose among too few types. Several nodes are replaced by the usual alternatives."""
        opened = self._simulation.state.new
        if len(group) > 1:
            return {}
        found = {}
        for node in opened:
            if node.choice is not None:
                most = node.choice.one.offer.price_per_hour + saving / len(opened)
                cheaper = self._simulation.cheaper_offers(node, node.choice, most)
                if too_few_spot_types(group[0], cheaper):
                    return None
                found[node] = cheapest_types(group[0], cheaper)
        return found


def _names(group: Sequence[Candidate]) -> tuple[str, ...]:
    return tuple(sorted(one.node.name for one in group))


class ReplacementOffers:
    """The undominated offers as arrays, pools of the highest weight first, then in order of price."""

    def __init__(self, simulation: ClusterSimulation) -> None:
        self._state = simulation.state
        self._tiers: list[tuple[list[OfferChoice], Floats, Floats]] = []
        for _, choices in OfferFrontier(simulation.state).tiers:
            free = np.array([one.one.free for one in choices], float)
            self._tiers.append((choices, free, np.array([one.one.offer.price_per_hour for one in choices])))

    def holding(self, contents: Contents, *, below: float) -> list[OfferChoice]:
        """Return the offers that hold all of these pods by resources and labels and cost less, the cheapest first.

        They are of the pools with the highest weight that can hold the pods.
        """
        total = np.zeros(len(self._state.groups.resources))
        for group, keys in contents.items():
            total += np.array(group.vector, float) * len(keys)
        mask = group_mask(contents)
        for choices, free, prices in self._tiers:
            fitting = np.flatnonzero((free >= total).all(axis=1)).tolist()
            able = [at for at in fitting if choices[at].groups & mask == mask]
            if able:
                return [choices[at] for at in sorted(able, key=lambda at: prices[at]) if prices[at] < below - 1e-9]
        return []
