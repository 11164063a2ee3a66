"""Spread the pods of each group over the nodes of a finished plan, as the scheduler's own default constraints prefer.

The search fills one node after the other, so that the pods of a workload may all be on one node, or in one zone. This
step moves single pods to nodes with free resources, and exchanges pods of two groups between two nodes. The nodes, and
so the price, stay the same. Pods with rules about other pods, or that such rules count, stay where they are, and so do
pods with host ports or volumes. No preference is less satisfied afterwards. Of pools with several weights, only nodes
of those with the highest one are changed: a node of another pool exists for certain pods.
"""

from collections.abc import Iterator
from typing import Final

from joiner import names
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.preference_effects import PreferenceEffects
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState

MOST_WORK: Final = 20_000
"""The number of nodes, and pairs of nodes, that are looked at: about a quarter of a second. Plans of hundreds of nodes
are spread in part."""
MOST_EXCHANGES: Final = 20_000
"""The number of exchanges that are tried: about half a second."""
MOST_GIVERS: Final = 4
MOST_TAKERS: Final = 8
"""The nodes with most pods of a group, and those with fewest, between which its next pod is moved."""
MOST_EXCHANGED: Final = 8
"""The number of small pods that are exchanged for a large one."""


def spread_workloads(state: PlanState) -> int:
    """Move and exchange pods between the new nodes; return how many pods were moved."""
    return WorkloadSpreading(state).run()


class WorkloadSpreading:
    """The pods of each group that may move, by zone, while they are spread."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self._effects = PreferenceEffects(state)
        self._work = 0
        self._tried = 0
        highest = max((one.pool.weight for one in state.offered_pools), default=0)
        self._nodes = [
            node
            for node in state.new
            if node.choice
            and node.choice.pool_offers.pool.weight == highest
            and all(_may_open(group, node) for group in node.planned)
        ]
        self._zones: dict[int, dict[str, int]] = {}
        self._able: dict[int, bool] = {}
        for node in (*state.existing, *state.new):
            inside = {**{group: each for group, each in node.held.items() if not node.choice}, **node.planned}
            for group, number in inside.items():
                self._count(group, node, number)

    def run(self) -> int:
        """Spread one group after the other, those with most pods first."""
        moved = 0
        present = {group for node in self._nodes for group in node.planned if self._may_move(group)}
        for group in sorted(present, key=lambda one: (-len(one.pods), one.index)):
            while self._work < MOST_WORK and (number := self._improve(group)):
                moved += number
        return moved

    def _may_move(self, group: PodGroup) -> bool:
        if group.index not in self._able:
            self._able[group.index] = (
                not self._effects.of(group).settled and not group.constraints.host_ports and not group.attaches
            )
        return self._able[group.index]

    def _improve(self, group: PodGroup) -> int:
        """Move one pod of the group to a better node; return how many pods were moved for that, 0 if none."""
        self._work += len(self._nodes)
        for giver, taker in self._pairs(group):
            self._work += 1
            if self._gain(group, giver, taker) <= 0 or not self._likes(group, giver, taker, 1):
                continue
            if self._put(group, taker, 1):
                self._take(group, giver, 1)
                return 1
            if number := self._exchange(group, giver, taker):
                return number
        return 0

    def _pairs(self, group: PodGroup) -> Iterator[tuple[NodeState, NodeState]]:
        """Yield nodes with many pods of the group, each with nodes that have few."""
        nodes = [node for node in self._nodes if self._state.suits(group, node) and _may_open(group, node)]
        fullness = {id(node): (self._here(group, node), node.planned.get(group, 0)) for node in nodes}
        by_fullness = sorted(nodes, key=lambda node: (fullness[id(node)], node.name))
        givers = [node for node in reversed(by_fullness) if node.planned.get(group, 0)]
        givers += sorted(givers, key=lambda node: -node.planned[group])
        for giver in list(dict.fromkeys(givers))[:MOST_GIVERS]:
            for taker in by_fullness[:MOST_TAKERS]:
                if taker is not giver:
                    yield giver, taker

    def _gain(self, group: PodGroup, giver: NodeState, taker: NodeState, number: int = 1) -> int:
        """Return by how much the squares of the numbers of pods, by node and by zone, become smaller."""
        gain = giver.planned.get(group, 0) - taker.planned.get(group, 0) - number
        if _zone(giver) != _zone(taker):
            gain += self._here(group, giver) - self._here(group, taker) - number
        return gain * number

    def _likes(self, group: PodGroup, giver: NodeState, taker: NodeState, number: int) -> bool:
        """Return whether such a move satisfies all preferences as well as before."""
        effects, old, new = self._effects, giver.labels.get, taker.labels.get
        return (
            all(old(key) == new(key) for key in effects.of(group).keys)
            and effects.likes_as_well(group, giver, taker)
            and effects.keep_apart({group: number}, old, new)
        )

    def _here(self, group: PodGroup, node: NodeState) -> int:
        return self._zones.get(group.index, {}).get(_zone(node), 0)

    def _exchange(self, group: PodGroup, giver: NodeState, taker: NodeState) -> int:
        """Exchange pods of the group for pods of another one that are about as large; return how many were moved."""
        for other in sorted(taker.planned, key=lambda one: one.index):
            if other is group or not self._may_move(other) or not _may_open(other, giver):
                continue
            for number, others in _ratios(group, other) if self._tried < MOST_EXCHANGES else ():
                self._tried += 1
                gain = self._gain(group, giver, taker, number) + self._gain(other, taker, giver, others)
                able = giver.planned[group] >= number and taker.planned[other] >= others
                able = able and self._likes(group, giver, taker, number) and self._likes(other, taker, giver, others)
                if gain > 0 and able and self._swap((group, giver, number), (other, taker, others)):
                    return number + others
        return 0

    def _swap(self, one: tuple[PodGroup, NodeState, int], two: tuple[PodGroup, NodeState, int]) -> bool:
        """Put the pods of each node on the other one; otherwise nothing changes."""
        for group, node, number in (one, two):
            self._take(group, node, number)
        if self._put(one[0], two[1], one[2]):
            if self._put(two[0], one[1], two[2]):
                return True
            self._take(one[0], two[1], one[2])
        for group, node, number in (one, two):
            self._put(group, node, number)
        return False

    def _put(self, group: PodGroup, node: NodeState, number: int) -> bool:
        placed = self._state.put(group, node, number)
        if placed < number:
            if placed:
                self._state.take(group, node, placed)
            return False
        self._count(group, node, number)
        return True

    def _take(self, group: PodGroup, node: NodeState, number: int) -> None:
        self._state.take(group, node, number)
        self._count(group, node, -number)

    def _count(self, group: PodGroup, node: NodeState, number: int) -> None:
        zones = self._zones.setdefault(group.index, {})
        zones[_zone(node)] = zones.get(_zone(node), 0) + number


def _may_open(group: PodGroup, node: NodeState) -> bool:
    """Return whether the group may open such a node: a node that only its other pods may open must keep them."""
    return node.choice is not None and node.choice.variant.may_open((group.index,), node.choice.one)


def _zone(node: NodeState) -> str:
    return node.labels.get(names.ZONE, "")


def _ratios(group: PodGroup, other: PodGroup) -> Iterator[tuple[int, int]]:
    """Yield numbers of pods of both groups that need about the same: one for one, and one for several."""
    shares = [amount / other.vector[at] for at, amount in group.needs if other.vector[at]]
    larger = max(shares, default=1.0)
    yield 1, 1
    if larger > 1 and (number := min(int(larger + 0.999), MOST_EXCHANGED)) > 1:
        yield 1, number
    smaller = min(shares, default=1.0)
    if smaller < 1 and (number := min(int(1 / max(smaller, 1e-9) + 0.999), MOST_EXCHANGED)) > 1:
        yield number, 1
