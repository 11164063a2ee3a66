"""Realize a packing: open its nodes, and place each pod by the scheduler's rules, or not at all.

Arrays cannot express every rule: of pods that are equal to the search, one may conflict with a neighbor where another
does not. So members of an item are tried in turn. Pods that find no place are left to sequential placement.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from joiner import names
from joiner.planning.arrays import Whole
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.packing.node_filling import Packing
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.state.domain_assignment import DomainAssignment
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts

TRIED: Final = 40
"""The maximum number of members of an item that are tried for one node; with so many equal pods, more trials rarely
find one that fits."""
SWAPS: Final = 200
"""The maximum number of nodes tried for one pod."""
SMALLER: Final = 2000
"""The maximum number of smaller pods considered for a swap with one pod."""

Queue = deque[list[Any]]
"""Groups, each with the number of its pods that are not placed yet."""
Alike = dict[tuple[str, tuple[int, ...]], list[tuple[NodeState, PodGroup]]]
"""Nodes and groups, by domain and size."""


class PackingRealizer:
    """Places the pods of one packing problem into the state, item by item. ``order`` is the order of the members of an
    item."""

    def __init__(self, state: PlanState, problem: PackingProblem, assignment: DomainAssignment, order: int = 0) -> None:
        self._state = state
        self._problem = problem
        self._queues: list[Queue] = [deque([group, number] for group, number in members) for members in problem.members]
        for queue in self._queues if order else ():
            queue.rotate(order * len(queue) // 3)
        self._keys = assignment.keys
        self._limits: dict[NodeState, dict[DomainCounts, int]] = {}
        self._refused: list[tuple[int, NodeState]] = []
        self._near: dict[
            str, list[NodeState]
        ] = {}  # Keyed by domain: a pod that moves to another domain can violate a spread that counts it.
        self._watched: dict[PodGroup, list[tuple[DomainCounts, int]]] = {}
        self._counted: dict[PodGroup, list[DomainCounts]] = {}
        owned: dict[DomainCounts, int] = {}
        for members in problem.members:
            for group, _ in members:
                own = state.rules[group.index]
                self._watched[group] = [
                    (rule.counts, rule.spread.max_skew) for rule in own.spreads if rule.universe is None
                ]
                for counts, skew in self._watched[group]:
                    owned[counts] = min(skew, owned.get(counts, skew))
        for group in self._watched:
            self._counted[group] = [counts for counts in state.rules[group.index].feeds if counts in owned]
        self._freedom = [self._freedom_of(members) for members in problem.members]
        for group, (key, given) in assignment.shares_of.items():
            rule = state.rules[group.index].assigned_spread
            if rule is not None and rule.spread.topology_key == key:
                state.quotas[group.index] = dict(given)
        self._easy = {group for group in self._watched if state.easy(group)}

    def realize(self, packing: Packing) -> None:
        """Open the nodes and place the pods.

        On each node, pods whose rules are quick to check are placed first, together; then pods with rules about
        other pods. Nodes without pods are closed.
        """
        for pattern in packing.patterns:
            choice = self._problem.choices[pattern.offer]
            contents = sorted(
                zip(pattern.items.tolist(), pattern.counts.tolist(), strict=True), key=lambda one: self._freedom[one[0]]
            )
            for _ in range(pattern.times):
                if self._state.over_limit(choice):
                    break
                node = self._state.open(choice)
                limits: dict[DomainCounts, int] = {}
                self._limits[node] = limits
                for item, number in self._place_together(contents, node, choice, limits):
                    missing = number - self._put(item, node, number, limits)
                    if missing and self._queues[item]:
                        self._refused.append((item, node))
                if not node.planned:
                    self._state.close(node)
        self._resolve_conflicts()

    def _place_together(
        self, contents: Sequence[tuple[int, int]], node: NodeState, choice: OfferChoice, limits: dict[DomainCounts, int]
    ) -> list[tuple[int, int]]:
        """Place the pods with simple rules at once if their rules are kept; return the rest, which is placed item by
        item."""
        together: dict[PodGroup, int] = {}
        queues, rest, easy = [], [], self._easy
        for content in contents:
            item, number = content
            queue = self._queues[item]
            group, there = queue[0] if queue else (None, 0)
            if there >= number and group in easy and group not in together:
                together[group] = number
                queues.append(queue)
            else:
                rest.append(content)
        if not self._state.place_together(together, node, choice):
            return list(contents)
        for queue, (group, number) in zip(queues, together.items(), strict=True):
            self._mark_placed(queue, number)
            if self._watched[group]:
                self._bind(group, limits)
        return rest

    def left(self) -> Whole:
        """Return how many pods of each item are not placed yet."""
        return np.array([sum(number for _, number in queue) for queue in self._queues], dtype=np.int64)

    def finish(self) -> None:
        """Restore the true skew; later pods are placed one after the other."""
        self._state.quotas.clear()

    def _resolve_conflicts(self) -> None:
        """Resolve conflicts: a pod that conflicts with another pod on its node swaps places with a pod of its size
        elsewhere, or the other pod does."""
        refused, self._refused = self._refused, []
        if not refused:
            return
        alike: Alike = {}
        for other in self._state.new:
            place = self._place(other)
            for group in other.planned:
                if group in self._watched:
                    alike.setdefault((place, group.vector), []).append((other, group))
        self._near = {}
        for node in self._limits:
            self._near.setdefault(self._place(node), []).append(node)
        for item, node in refused:
            queue = self._queues[item]
            if node.planned and queue:
                known = (self._place(node), queue[0][0].vector)
                if not self._change_places(queue, node, alike.get(known, ())[:SWAPS]):
                    self._move_neighbor(queue, node, alike)
        for item, node in refused:  # The remaining free capacity of this node belongs to no item.
            queue = self._queues[item]
            if node.planned and queue and not self._elsewhere(queue, node):
                self._change_places(queue, node, self._smaller(queue[0][0], node))

    def _change_places(self, queue: Queue, node: NodeState, candidates: Iterable[tuple[NodeState, PodGroup]]) -> bool:
        """Move the first pod of the queue to the place of one of these candidates, and the candidate to this node;
        return whether that succeeded."""
        return any(other is not node and self._swap(queue, node, other, group) for other, group in candidates)

    def _move_neighbor(self, queue: Queue, node: NodeState, alike: Alike) -> None:
        """Place the first pod of the queue on its node, if a conflicting pod there can swap places with a pod of its
        own size elsewhere."""
        place, newcomer, limits = self._place(node), queue[0][0], self._limits[node]
        for neighbour in [group for group in node.planned if group in self._watched]:
            self._state.take(neighbour, node, 1)
            if self._admit(newcomer, node):
                moving: Queue = deque([[neighbour, 1]])
                if self._change_places(moving, node, alike.get((place, neighbour.vector), ())[:SWAPS]):
                    self._mark_placed(queue)
                    return
                self._state.take(newcomer, node, 1)
                self._limits[node] = limits
            self._state.take(neighbour, node, -1)

    def _elsewhere(self, queue: Queue, node: NodeState) -> bool:
        """Place the first pod of the queue on free capacity that another pod left; return whether that succeeded."""
        group = queue[0][0]
        if any(
            other.planned and fits(group, other.free) and self._admit(group, other)
            for other in self._near[self._place(node)]
        ):
            self._mark_placed(queue)
            return True
        return False

    def _smaller(self, newcomer: PodGroup, node: NodeState) -> Iterator[tuple[NodeState, PodGroup]]:
        """Yield a few pods that fit on the node of the newcomer and whose own node then has enough free capacity for
        the newcomer."""
        tried = 0
        for other in self._near[self._place(node)]:
            for group in list(other.planned):
                if group in self._watched and group.vector != newcomer.vector and fits(group, node.free):
                    if all(
                        there + own >= need
                        for there, own, need in zip(other.free, group.vector, newcomer.vector, strict=True)
                    ):
                        yield other, group
                    tried += 1
            if tried > SMALLER:
                return

    def _place(self, node: NodeState) -> str:
        return "/".join(node.labels.get(key, "") for key in self._keys)

    def _swap(self, queue: Queue, node: NodeState, other: NodeState, group: PodGroup) -> bool:
        """Move a pod of the group from the other node to this one, and the first pod of the queue to the other node;
        return whether that succeeded."""
        if not other.planned.get(group):
            return False
        state, newcomer, limits = self._state, queue[0][0], self._limits[other]
        state.take(group, other, 1)
        if self._admit(newcomer, other):
            if self._admit(group, node):
                self._mark_placed(queue)
                return True
            state.take(newcomer, other, 1)
            self._limits[other] = limits
        state.take(group, other, -1)
        return False

    @staticmethod
    def _mark_placed(queue: Queue, number: int = 1) -> None:
        """Remove this number of pods from the first entry of the queue, because they are placed."""
        queue[0][1] -= number
        if not queue[0][1]:
            queue.popleft()

    def _admit(self, group: PodGroup, node: NodeState) -> bool:
        limits = self._limits[node]
        if self._allowed_by_neighbors(group, node, limits) <= 0 or not self._state.put(group, node, 1):
            return False
        self._limits[node] = {**limits}  # A failed trial restores the previous limits.
        self._bind(group, self._limits[node])
        return True

    def _bind(self, group: PodGroup, limits: dict[DomainCounts, int]) -> None:
        """Add the spreads of a pod of the group, which is now on the node: they limit later pods."""
        for counts, skew in self._watched[group]:
            limits[counts] = min(skew, limits.get(counts, skew))

    def _freedom_of(self, members: Sequence[tuple[PodGroup, int]]) -> int:
        """Return the sort key of an item: items whose pods have rules about other pods of their node come first."""
        group = members[0][0]
        return 2 if self._state.rules[group.index].free else 0 if self._watched[group] else 1

    def _put(self, item: int, node: NodeState, number: int, limits: dict[DomainCounts, int]) -> int:
        """Place as many pods of the item on the node as rules allow; return how many."""
        queue, tried, wished = self._queues[item], 0, number
        while number > 0 and queue and tried < min(TRIED, len(queue)):
            group, there = queue[0]
            wanted = min(number, there, self._allowed_by_neighbors(group, node, limits))
            placed = self._state.put(group, node, wanted) if wanted > 0 else 0
            if not placed:
                queue.rotate(-1)
                tried += 1
                continue
            self._bind(group, limits)
            number -= placed
            self._mark_placed(queue, placed)
        return wished - number

    def _allowed_by_neighbors(self, group: PodGroup, node: NodeState, limits: dict[DomainCounts, int]) -> int:
        """Return how many pods of the group the spreads of pods on this node still allow. The scheduler does not check
        these spreads."""
        most = 1 << 30
        host = node.labels[names.HOSTNAME]
        for counts in self._counted[group]:
            if counts in limits:
                most = min(most, limits[counts] - counts.by_domain.get(host, 0))
        return most


def expressible_groups(state: PlanState, groups: Sequence[PodGroup], assignment: DomainAssignment) -> list[PodGroup]:
    """Return the groups whose rules the arrays can express approximately; all others are placed one after the other."""
    return [group for group in groups if _plain_enough(state, group, assignment)]


def _plain_enough(state: PlanState, group: PodGroup, assignment: DomainAssignment) -> bool:
    own = state.rules[group.index]
    if own.together or own.alone or own.offer_set or (own.affinity and group not in assignment.shares_of):
        return False
    return all(counts.key == names.HOSTNAME for counts in (*own.away, *own.unwanted))
