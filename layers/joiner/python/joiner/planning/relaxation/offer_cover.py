"""Choose a few offers that include an offer of about the lowest cost for every class of items."""

from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.relaxation.packing_problem import PackingProblem

ABOUT: Final = 1.03
"""An offer covers a class at a cost of up to this many times the lowest one."""


def cover_classes(problem: PackingProblem, need: Floats, open_to: Marks, *, usable: Whole, active: Whole) -> Whole:
    """Return offers, of the ``usable`` ones, that cover each ``active`` class. ``need`` is that of one pod of each
    class, ``open_to`` marks offers x classes."""
    cost = np.where(open_to[np.ix_(usable, active)], _cost(problem, need[active], usable), np.inf)
    near = cost <= cost.min(axis=0) * ABOUT
    uncovered, counts, picked = np.ones(len(active), bool), near.sum(axis=1), []
    while uncovered.any():
        best = int(counts.argmax())
        picked.append(best)
        covered = near[best] & uncovered
        counts -= near[:, covered].sum(axis=1)
        uncovered &= ~covered
    return np.unique(usable[picked])


def _cost(problem: PackingProblem, need: Floats, offers: Whole) -> Floats:
    """Return the cost of a pod of each class on each offer, by its largest share of the offer's resources."""
    share = np.full((len(offers), len(need)), 1e-9)
    for resource in np.flatnonzero(need.any(axis=0)).tolist():
        np.maximum(
            share, need[:, resource][None, :] / np.maximum(problem.free[offers, resource], 1e-9)[:, None], out=share
        )
    cost: Floats = share * problem.price[offers][:, None]
    return cost
