"""Join actions of a wave that need one another by required affinity or anti-affinity.

Every action of a wave should be possible without the others: one may not be marked, or be undone when its replacement
fails. Resources allow that, because no node that is removed receives pods. Rules between pods do not: when an action
moves a pod to another zone, a pod of another action can be beside it, or where it was, only then.

All moves together keep the rules. So each rule of a moved pod is a bound for a sum over the actions, and it holds for
any of the other actions if the sum without those that help is within the bound. An action that needs others is joined
with them, the one that helps most first. If the joined action is not allowed, the action is left to the next wave.

Topology spread is left out: in a workload that is spread over zones, nearly each move that makes one zone level makes
room for others, so most actions would become one, which fails as a whole. A pod of an action that was to follow another
one may go to another zone instead, or waits for a new node.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joiner.disruption.found_actions import FoundAction
from joiner.planning.state.pod_topology import DomainCounts, GroupRules, TopologyNode

NEEDS_OTHERS: Final = "its pods have a place only after other actions of the same wave"


@dataclass(frozen=True, slots=True, eq=False)
class PodMove:
    """A pod that moves: its rules, its node before the wave, and its node after it."""

    rules: GroupRules
    home: TopologyNode
    place: TopologyNode


@dataclass(frozen=True, slots=True)
class JoinedActions:
    """``postponed`` are the actions that need others and could not be joined with them."""

    actions: Sequence[FoundAction]
    postponed: Sequence[FoundAction]


def join_dependent_actions(
    actions: Sequence[FoundAction],
    moves: Callable[[FoundAction], Sequence[PodMove]],
    join: Callable[[FoundAction, FoundAction], FoundAction | None],
) -> JoinedActions:
    """Return the actions in their order, each of which keeps these rules without any of the others.

    The counts of the rules are those after all actions. ``join`` returns the joined action, or None if a rule about
    actions forbids it.
    """
    moved = _Moves({action: tuple(moves(action)) for action in actions})
    left, postponed = list(actions), list[FoundAction]()
    unknown = list(actions)
    while unknown:
        action = unknown.pop(0)
        helper = moved.find_helper(action)
        if helper is None:
            continue
        joined = join(helper, action)
        left.remove(action)
        if joined is None:
            moved.remove(action)
            postponed.append(action)
            unknown = list(left)
        else:
            moved.replace(helper, action, joined)
            left[left.index(helper)] = joined
            unknown = [joined, *(one for one in unknown if one is not helper)]
    return JoinedActions(left, postponed)


Changes = dict[FoundAction, int]
"""What each action adds to a count."""


class _Moves:
    """The moves of the actions that are left, and how these change the counts of domains."""

    def __init__(self, moves: Mapping[FoundAction, Sequence[PodMove]]) -> None:
        self._moves: dict[FoundAction, Sequence[PodMove]] = {}
        self._changes: dict[DomainCounts, dict[str, Changes]] = defaultdict(lambda: defaultdict(dict))
        self._removed: Counter[tuple[DomainCounts, str]] = Counter()
        """What removed actions would have added."""
        for action, mine in moves.items():
            self._add(action, mine)

    def _add(self, action: FoundAction, moves: Sequence[PodMove]) -> None:
        self._moves[action] = moves
        for move in moves:
            for counts in move.rules.feeds:
                for node, number in ((move.home, -1), (move.place, 1)):
                    domain = node.labels.get(counts.key)
                    if domain is not None and (counts.only is None or counts.only(node)):
                        changes = self._changes[counts][domain]
                        changes[action] = changes.get(action, 0) + number

    def _take(self, action: FoundAction) -> Counter[tuple[DomainCounts, str]]:
        """Forget an action; return what it adds to the counts."""
        found: Counter[tuple[DomainCounts, str]] = Counter()
        for counts in {counts for move in self._moves.pop(action) for counts in move.rules.feeds}:
            for domain, changes in self._changes[counts].items():
                found[counts, domain] += changes.pop(action, 0)
        return found

    def remove(self, action: FoundAction) -> None:
        """Leave an action out."""
        self._removed.update(self._take(action))

    def replace(self, one: FoundAction, other: FoundAction, joined: FoundAction) -> None:
        """Put a joined action in the place of two."""
        moves = (*self._moves[one], *self._moves[other])
        self._take(one)
        self._take(other)
        self._add(joined, moves)

    def find_helper(self, action: FoundAction) -> FoundAction | None:
        """Return the action without which a rule of these pods may be broken, the one that helps most; None if there is
        none."""
        asked: set[tuple[DomainCounts, str | None]] = set()
        for move in self._moves[action]:
            for slack, changes in self._bounds(move, action, asked):
                helps = {other: number for other, number in changes.items() if number > 0 and other is not action}
                if slack < sum(helps.values()):
                    return max(helps, key=lambda other: helps[other])
        return None

    def _count(self, counts: DomainCounts, domain: str) -> int:
        return counts.by_domain.get(domain, 0) - self._removed[counts, domain]

    def _changes_of(self, counts: DomainCounts, domain: str) -> Changes:
        return self._changes[counts][domain] if domain in self._changes.get(counts, {}) else {}

    def _bounds(
        self, move: PodMove, action: FoundAction, asked: set[tuple[DomainCounts, str | None]]
    ) -> Iterator[tuple[int, Changes]]:
        """Yield for each rule of a pod at its new node by how much all actions together keep it, and by how much each
        of them helps. What is in ``asked`` was yielded before."""
        rules, labels = move.rules, move.place.labels
        for counts in rules.affinity:
            if domain := _new(counts, labels.get(counts.key), asked):
                yield self._beside(counts, domain, action)
        for counts, most in rules.apart:
            if domain := _new(counts, labels.get(counts.key), asked):
                yield self._apart(counts, domain, most)

    def _beside(self, counts: DomainCounts, domain: str, action: FoundAction) -> tuple[int, Changes]:
        """The pods of an affinity that are there without this action must be one or more. If it brings the first one,
        no other action may move any."""
        changes = self._changes_of(counts, domain)
        there = self._count(counts, domain) - max(0, changes.get(action, 0))
        if there > 0:
            return there - 1, changes
        movers: Counter[FoundAction] = Counter()
        for each in self._changes.get(counts, {}).values():
            movers.update({one: abs(number) for one, number in each.items()})
        return 0, movers

    def _apart(self, counts: DomainCounts, domain: str, most: int) -> tuple[int, Changes]:
        changes = self._changes_of(counts, domain)
        return max(0, most - self._count(counts, domain)), {one: -number for one, number in changes.items()}


def _new(counts: DomainCounts, domain: str | None, asked: set[tuple[DomainCounts, str | None]]) -> str | None:
    """Return the domain, or None if it was asked before."""
    if (counts, domain) in asked:
        return None
    asked.add((counts, domain))
    return domain
