"""Packings that fall into independent parts: no offer is open to pods of two parts.

Teams or tenants that have nodes of their own give such packings. Each part is searched by itself: the effort grows with
the sum of the parts and not with the product of all pods and all offers, and the sum of their bounds is a bound.
"""

from dataclasses import replace

import numpy as np

from joiner.planning.arrays import Marks, Whole
from joiner.planning.packing.node_filling import NodePattern, Packing
from joiner.planning.relaxation.packing_problem import PackingProblem


def find_independent_parts(problem: PackingProblem, demand: Whole) -> list[Whole]:
    """Return the items with pods, in parts such that no offer is open to items of two parts."""
    packed = np.packbits(problem.open, axis=1)
    patterns: Marks = problem.open[np.unique(packed, axis=0, return_index=True)[1]]
    left, parts = demand > 0, list[Whole]()
    while left.any():
        part = np.zeros(problem.items, bool)
        part[left.argmax()] = True
        while True:
            more = patterns[patterns[:, part].any(axis=1)].any(axis=0) & left | part
            if (more == part).all():
                break
            part = more
        parts.append(np.flatnonzero(part))
        left &= ~part
    return parts


def restrict_problem(problem: PackingProblem, items: Whole, offers: Whole) -> PackingProblem:
    """Return the problem with these items and offers only."""
    return replace(
        problem,
        need=problem.need[items],
        demand=problem.demand[items],
        free=problem.free[offers],
        price=problem.price[offers],
        domain=problem.domain[offers],
        open=problem.open[np.ix_(offers, items)],
        asks=problem.asks[:, items],
        counts=problem.counts[:, items],
        members=(),
        merged=None,
    )


def in_terms_of_whole(packing: Packing, items: Whole, offers: Whole) -> list[NodePattern]:
    """Return the patterns of a packing of the restricted problem with the items and offers of the whole one."""
    return [replace(one, offer=int(offers[one.offer]), items=items[one.items]) for one in packing.patterns]
