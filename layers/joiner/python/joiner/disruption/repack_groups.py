"""Groups of a few nodes whose pods may be packed anew together.

In a small cluster, the nodes that go well together are rarely neighbours in the order of their unused price. There the
search also tries all groups of up to four nodes, those with the most unused price per eviction first. Nodes of the same
type, price and pods are alike, so only one choice among them is tried.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final

from joiner.disruption.disruption_candidates import Candidate

MOST_NODES: Final = 50
"""The largest number of nodes for which such groups are tried."""
MOST_KINDS: Final = 16
"""The largest number of different nodes: they have 4,800 groups."""
MOST_TOGETHER: Final = 4
DIGITS: Final = 9
"""Ratios are rounded, so that the order of groups does not depend on the order in which pods are listed."""


@dataclass(frozen=True, slots=True)
class RepackableNode:
    """A node that may be repacked. ``kind`` is equal for nodes that are alike; ``worth`` is what the pods on it are
    worth, in $/h."""

    candidate: Candidate
    kind: Hashable
    worth: float


def groups_of_few_nodes(nodes: Sequence[RepackableNode], least_share: float) -> Iterator[tuple[Candidate, ...]]:
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
            price = sum(alike[kind][0].candidate.price for kind in chosen)
            unused = price - sum(alike[kind][0].worth for kind in chosen)
            if unused >= least_share * price and all(n <= len(alike[kind]) for kind, n in Counter(chosen).items()):
                cost = sum(alike[kind][0].candidate.eviction_cost for kind in chosen)
                found.append((round(-unused / cost, DIGITS), chosen))
    for _, chosen in sorted(found):
        yield tuple(one.candidate for kind, n in Counter(chosen).items() for one in alike[kind][:n])
