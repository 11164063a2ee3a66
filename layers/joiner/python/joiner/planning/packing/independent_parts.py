"""Packings that fall into independent parts: no offer is open to pods of two parts.

Teams or tenants that have nodes of their own give such packings. Each part is searched by itself: the effort grows with
the sum of the parts and not with the product of all pods and all offers, and the sum of their bounds is a bound.
"""

from dataclasses import dataclass, replace

import numpy as np

from joiner.planning.arrays import Whole, distinct_rows
from joiner.planning.packing.node_filling import NodePattern, Packing
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.tuning import MOST_JOINT_PARTS


@dataclass(frozen=True, slots=True, eq=False)
class IndependentPart:
    """Some items and the offers that are open to them, by their numbers in the whole problem; ``problem`` has no
    others, and numbers them from zero."""

    items: Whole
    offers: Whole
    problem: PackingProblem

    @classmethod
    def of(cls, whole: PackingProblem, items: Whole) -> "IndependentPart":
        """Return the part with these items."""
        mine = whole.with_items(items)
        offers = np.flatnonzero(mine.open.any(axis=1))
        part = replace(
            mine,
            free=mine.free[offers],
            price=mine.price[offers],
            domain=mine.domain[offers],
            open=mine.open[offers],
        )
        return cls(items, offers, part)

    def key(self, demand: Whole) -> bytes:
        """Return what distinguishes this demand of the whole problem, as far as it concerns the part, from others."""
        return self.items.tobytes() + demand[self.items].tobytes()

    def in_terms_of_whole(self, packing: Packing) -> list[NodePattern]:
        """Return the patterns of a packing of the part with the numbers of the whole problem."""
        return [
            replace(one, offer=int(self.offers[one.offer]), items=self.items[one.items]) for one in packing.patterns
        ]


def find_independent_parts(problem: PackingProblem, demand: Whole) -> list[IndependentPart]:
    """Return the parts of a problem that is packed part by part: no offer is open to items of two parts. Empty for a
    problem of few parts, which is packed as a whole."""
    parts = group_items(problem, demand)
    return [IndependentPart.of(problem, items) for items in parts] if len(parts) > MOST_JOINT_PARTS else []


def group_items(problem: PackingProblem, demand: Whole) -> list[Whole]:
    """Return the items with pods, in groups such that no offer is open to items of two groups."""
    patterns, _ = distinct_rows(problem.open)
    left, found = demand > 0, list[Whole]()
    while left.any():
        group = np.zeros(problem.items, bool)
        group[left.argmax()] = True
        while True:
            more = patterns[patterns[:, group].any(axis=1)].any(axis=0) & left | group
            if (more == group).all():
                break
            group = more
        found.append(np.flatnonzero(group))
        left &= ~group
    return found
