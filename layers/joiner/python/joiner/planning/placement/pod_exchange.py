"""Place more pods by exchange: a few pods of the plan leave their nodes, and pods are placed again in
another order.

Two pending pods may have a place if one placed pod leaves its node, and a group that keeps others out may have a place
in another domain. Each trial takes some pods off their nodes (a group, the pods of some nodes, or those of a domain),
with the pods that may not stay without them, and places pending pods one by one. A trial that leaves more pods, higher
priorities first, is reversed; any other becomes the plan from which the next trial starts. New nodes are opened at
their largest size, and become as small as their pods allow at the end.

The trials are drawn at random from a fixed seed, so the same state always gives the same plan.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import numpy as np

from joiner import names
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, fits, group_mask, sum_needs
from joiner.planning.placement.exhaustive_placement import Domain, RepairEffort, is_bounded
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import Layout, clear_plan, count_missing, layout_of, restore_layout
from joiner.planning.state.constraint_check import find_misplaced, keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import EXCHANGE_PATIENCE

A_NODE: Final = 0.001
"""The effort of one node in a random order of nodes, in steps."""
A_PROBE: Final = 0.003
"""The effort of checking the limits for one offer, in steps."""
PROBES: Final = 4
"""Where limits bind, so many smaller sizes of a new node are tried."""
AN_ATTEMPT: Final = 0.005
"""The effort of one attempt to place a pod on a node, in steps."""
A_CHECK: Final = 0.01
"""The effort of checking the rules of the pods of one node, in steps."""
MOST_EJECTED: Final = 3
"""The maximum number of nodes, or of single pods, that a trial takes."""
RESTART_SHARE: Final = 0.4
"""The share of trials that take all pods, among those that take single pods."""
MISSING_SHARE: Final = 0.5
"""The share of trials that begin with the pods of a group that has pending pods."""
RANKED_SHARE: Final = 0.7
"""The share of trials in which pods of higher priority are placed first."""
MANY_SHARE: Final = 0.5
"""The share of turns in which all pods of a group are placed, not one."""
LARGEST_SHARE: Final = 0.75
"""The share of new nodes of the largest size; the others have a random size, because limits can bind."""


DRAWN: Final = 1024
"""How many random numbers are drawn at a time: numpy takes as long for one as for many."""

Item = TypeVar("Item")


class Dice:
    """Random numbers from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._drawn: list[float] = []

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        if not self._drawn:
            self._drawn = self._generator.random(DRAWN).tolist()
        return self._drawn.pop()

    def below(self, most: int) -> int:
        """Return a whole number from 0 to below ``most``."""
        return int(self.random() * most)

    def choice(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Iterable[Item]) -> list[Item]:
        """Return the items in a random order."""
        return sorted(items, key=lambda _: self.random())


class PodExchange:
    """Trials in one state. ``batch`` are the groups of pending pods that some node could hold alone."""

    def __init__(
        self, state: PlanState, frontier: OfferFrontier, batch: Sequence[PodGroup], effort: RepairEffort, seed: int
    ) -> None:
        self._state = state
        self._batch = batch
        self._effort = effort
        self._dice = Dice(seed)
        self._undo: list[Callable[[], object]] = []
        keys = tuple(sorted({key for group in state.groups.pending for key in state.keys_of(group)}))
        self._domains: dict[Domain, list[OfferChoice]] = {}
        for _, choices in frontier.tiers:
            for choice in choices:
                self._domains.setdefault(tuple(map(choice.label, keys)), []).append(choice)
        self._keys = keys
        self._able_of: dict[PodGroup, list[list[OfferChoice]]] = {}
        self._bounded = is_bounded(state)

    def improve(self) -> bool:
        """Try exchanges until the effort or the patience is used up; return whether more pods have a node."""
        first = best = current = count_missing(self._state)
        layout, idle = self._layout(), 0
        while any(self._state.left[group] for group in self._batch) and idle < EXCHANGE_PATIENCE:
            if self._effort.spent():
                break
            made = self._try()
            if made is None or made > current:
                self._reverse()
                idle += 1
                continue
            current, idle = made, 0 if made < best else idle + 1
            if made < best:
                best, layout = made, self._layout()
        if best < first:
            clear_plan(self._state)
            restore_layout(self._state, layout)
            self._shrink()
        return best < first

    def _try(self) -> tuple[float, ...] | None:
        """Make one trial; return how many pods it leaves, by priority, or None if it breaks a rule."""
        self._undo.clear()
        missing = self._dice.choice([group for group in self._batch if self._state.left[group]])
        self._eject()
        if self._dice.random() < MISSING_SHARE:
            self._place_all(missing)
        self._place()
        if self._bounded:  # Smaller nodes leave more of the limits.
            self._shrink()
            self._place()
        return count_missing(self._state) if self._is_sound() else None

    def _layout(self) -> Layout:
        return layout_of(node for node in (*self._state.existing, *self._state.new) if node.planned)

    def _eject(self) -> None:
        """Take some pods off their nodes, with the pods that may not stay without them."""
        nodes = [node for node in (*self._state.existing, *self._state.new) if node.planned]
        if not nodes:
            return
        self._dice.choice((self._eject_group, self._eject_nodes, self._eject_domain, self._eject_pods))(nodes)
        self._eject_misplaced()
        for node in [one for one in self._state.new if not one.planned]:
            self._close(node)

    def _eject_group(self, nodes: Sequence[NodeState]) -> None:
        group = self._dice.choice(list(self._dice.choice(nodes).planned))
        for node in nodes:
            self._take(group, node, node.planned.get(group, 0))

    def _eject_nodes(self, nodes: Sequence[NodeState]) -> None:
        for node in self._dice.shuffled(nodes)[: 1 + self._dice.below(MOST_EJECTED)]:
            self._empty(node)

    def _eject_domain(self, nodes: Sequence[NodeState]) -> None:
        key, chosen = self._dice.choice((*self._keys, names.HOSTNAME)), self._dice.choice(nodes)
        for node in nodes:
            if node.labels.get(key) == chosen.labels.get(key):
                self._empty(node)

    def _eject_pods(self, nodes: Sequence[NodeState]) -> None:
        """Take a few single pods, or all pods."""
        if self._dice.random() < RESTART_SHARE:
            for node in nodes:
                self._empty(node)
            return
        for _ in range(1 + self._dice.below(MOST_EJECTED)):
            node = self._dice.choice(nodes)
            if node.planned:
                self._take(self._dice.choice(list(node.planned)), node, 1)

    def _eject_misplaced(self) -> None:
        """Take off the pods that may not stay where they are, until all others may."""
        while misplaced := find_misplaced(self._state):
            self._effort.spend(A_CHECK * (len(self._state.new) + len(self._state.existing)))
            for node, group in misplaced:
                self._take(group, node, node.planned.get(group, 0))

    def _place(self) -> None:
        """Place pending pods, in a random order that prefers high priorities, until no more can be placed."""
        bold, moved = self._dice.random(), True
        ranked = self._dice.random() < RANKED_SHARE
        while moved:
            moved = False
            order = self._dice.shuffled(group for group in self._batch if self._state.left[group])
            if ranked:
                order.sort(key=lambda group: group.rank)
            for group in order:
                many = self._dice.random() < MANY_SHARE
                while self._state.left[group] and self._place_one(group, bold):
                    moved = True
                    if not many:
                        break

    def _place_all(self, group: PodGroup) -> None:
        bold = self._dice.random()
        while self._state.left[group] and self._place_one(group, bold):
            pass

    def _place_one(self, group: PodGroup, bold: float) -> bool:
        """Place one pod of the group; return whether that succeeded. ``bold`` is the share of pods for which a new node
        is opened although others have free capacity."""
        opens = self._dice.random() < bold
        if opens and self._open_for(group):
            return True
        nodes = self._dice.shuffled([*self._state.existing, *self._state.new])
        self._effort.spend(A_NODE * len(nodes))
        return any(self._put(group, node, 1) for node in nodes) or (not opens and self._open_for(group))

    def _open_for(self, group: PodGroup) -> bool:
        """Open a new node for one pod of the group, usually at its largest size; return whether that succeeded."""
        for choices in self._dice.shuffled(self._able(group)):
            choice = self._choose(choices)
            if choice is None:
                continue
            node = self._open(choice)
            if self._put(group, node, 1):
                return True
            self._close(node)
        return False

    def _able(self, group: PodGroup) -> list[list[OfferChoice]]:
        """Return for each domain the offers that hold a pod of the group: the highest weight first, then the highest
        price."""
        if group not in self._able_of:
            every = (
                [one for one in choices if one.groups >> group.index & 1 and fits(group, one.one.free)]
                for choices in self._domains.values()
            )
            self._able_of[group] = [
                sorted(able, key=lambda one: (-one.pool_offers.pool.weight, -one.one.offer.price_per_hour))
                for able in every
                if able
            ]
        return self._able_of[group]

    def _choose(self, choices: Sequence[OfferChoice]) -> OfferChoice | None:
        """Return the first of some of these offers that limits allow, or any of the same weight; None if limits allow
        none."""
        if self._dice.random() >= LARGEST_SHARE:
            weight = choices[0].pool_offers.pool.weight
            choice = self._dice.choice([one for one in choices if one.pool_offers.pool.weight == weight])
            if not self._state.over_limit(choice):
                return choice
        last = len(choices) - 1
        for position in dict.fromkeys(last * part // PROBES for part in range(PROBES + 1)):
            self._effort.spend(A_PROBE)
            if not self._state.over_limit(choices[position]):
                return choices[position]
        return None

    def _shrink(self) -> None:
        """Replace each new node by the cheapest offer of its domain that holds its pods."""
        for node in list(self._state.new):
            now, mask = node.choice, group_mask(node.planned)
            need = sum_needs(node.planned.items(), len(node.free))
            for choice in self._domains.get(tuple(map(node.labels.get, self._keys)), ()):
                if now is None or choice.one.offer.price_per_hour >= now.one.offer.price_per_hour:
                    continue
                if choice.pool_offers.pool.weight < now.pool_offers.pool.weight or choice.groups & mask != mask:
                    continue
                if all(map(int.__le__, need, choice.one.free)) and self._replace(node, choice):
                    break

    def _replace(self, node: NodeState, choice: OfferChoice) -> bool:
        """Move the pods of a new node to one of this choice; return whether that succeeded."""
        position, planned = len(self._undo), dict(node.planned)
        self._empty(node)
        self._close(node)
        if not self._state.over_limit(choice):
            other = self._open(choice)
            if all(self._put(group, other, number) for group, number in planned.items()):
                return True
        self._reverse(position)
        return False

    def _is_sound(self) -> bool:
        self._effort.spend(A_CHECK * (len(self._state.new) + len(self._state.existing)))
        return keeps_all_rules(self._state)

    def _put(self, group: PodGroup, node: NodeState, number: int) -> bool:
        """Place this number of pods on the node; return whether that succeeded."""
        self._effort.spend(AN_ATTEMPT)
        if not fits(group, node.free):
            return False
        placed = self._state.put(group, node, number)
        if placed:
            self._undo.append(lambda: self._state.take(group, node, placed))
        return placed == number

    def _take(self, group: PodGroup, node: NodeState, number: int) -> None:
        if number:
            self._state.take(group, node, number)
            self._undo.append(lambda: self._state.take(group, node, -number))

    def _empty(self, node: NodeState) -> None:
        for group, number in list(node.planned.items()):
            self._take(group, node, number)

    def _open(self, choice: OfferChoice) -> NodeState:
        node = self._state.open(choice)
        self._undo.append(lambda: self._state.close(node))
        return node

    def _close(self, node: NodeState) -> None:
        self._state.close(node)
        self._undo.append(lambda: self._state.reopen(node))

    def _reverse(self, position: int = 0) -> None:
        """Reverse all changes after this position."""
        while len(self._undo) > position:
            self._undo.pop()()
