"""Groups of a few nodes whose pods may be packed anew together.

In a small cluster, the nodes that go well together are rarely neighbours in the order of their unused price. There the
search also tries all groups of up to four nodes, those with the most unused price per eviction first. Nodes of the same
type, price and pods are alike, so only one choice among them is tried. The new nodes of an earlier action of the
wave count as one node, whose pods are moved in any case.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final

from joiner.cluster.eviction_costs import NODE_COST
from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.found_actions import FoundAction, RepackedGroup

MOST_NODES: Final = 50
"""The largest number of nodes for which such groups are tried."""
MOST_KINDS: Final = 16
"""The largest number of different nodes: they have 4,800 groups."""
MOST_TOGETHER: Final = 4
DIGITS: Final = 9
"""Ratios are rounded, so that the order of groups does not depend on the order in which pods are listed."""


@dataclass(frozen=True, slots=True)
class RepackableNode:
    """A node that may be repacked, or the new nodes of an action. ``kind`` is equal for nodes that are alike; ``worth``
    is what the pods on it are worth, in $/h."""

    one: Candidate | FoundAction
    kind: Hashable
    worth: float

    @property
    def eviction_cost(self) -> float:
        """Return the cost of evicting its pods; 0 for an action, which evicts them in any case."""
        return 0.0 if isinstance(self.one, FoundAction) else self.one.eviction_cost

    @property
    def unused(self) -> float:
        """Return the unused price in $/h."""
        return self.one.price - self.worth

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its nodes."""
        return group_of((self,)).names

    @property
    def ratio(self) -> float:
        """Return the unused price per eviction cost."""
        return self.unused / max(NODE_COST, self.eviction_cost)


def group_of(members: Iterable[RepackableNode]) -> RepackedGroup:
    """Return the group of these nodes."""
    found = [each.one for each in members]
    return RepackedGroup(
        tuple(one for one in found if not isinstance(one, FoundAction)),
        tuple(one for one in found if isinstance(one, FoundAction)),
    )


def groups_of_few_nodes(nodes: Sequence[RepackableNode], least_share: float) -> Iterator[RepackedGroup]:
    """Yield groups of up to four nodes of which at least this share of the price is unused, the most unused price per
    eviction cost first. Yields nothing for many nodes."""
    kinds: dict[Hashable, list[RepackableNode]] = {}
    for one in nodes:
        kinds.setdefault(one.kind, []).append(one)
    if len(nodes) > MOST_NODES or len(kinds) > MOST_KINDS:
        return
    alike = list(kinds.values())
    found: list[tuple[float, tuple[int, ...]]] = []
    for size in range(1, MOST_TOGETHER + 1):
        for chosen in combinations_with_replacement(range(len(alike)), size):
            price = sum(alike[kind][0].one.price for kind in chosen)
            unused = sum(alike[kind][0].unused for kind in chosen)
            if unused >= least_share * price and all(n <= len(alike[kind]) for kind, n in Counter(chosen).items()):
                cost = max(NODE_COST, sum(alike[kind][0].eviction_cost for kind in chosen))
                found.append((round(-unused / cost, DIGITS), chosen))
    for _, chosen in sorted(found):
        yield group_of(one for kind, n in Counter(chosen).items() for one in alike[kind][:n])
