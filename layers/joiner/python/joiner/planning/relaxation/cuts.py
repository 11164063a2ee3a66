"""What fractions of pods hide: inequalities that hold for every node, because the pods on it are whole.

Of pods that need more than half of a node there is one on it, of those that need more than a third two, and so on: if k
+ 1 of a size are too many, each counts as a k-th of the node. Sizes that divide evenly count as what they are. Counted
so, the pods of a node are still no more than one node (these are the dual feasible functions of Fekete and Schepers),
but fractions of pods may be. Where a relaxation breaks such an inequality, adding it makes the bound higher.
"""

from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Whole

FINEST: Final = 32
"""Pods of which more than so many fit onto a node lose next to nothing by being cut up."""
EXACT: Final = 2.0**50
"""Amounts below it are multiplied without loss."""


def dual_feasible_shares(need: Floats, room: float) -> Floats:
    """What one pod of each class counts (0 to 1) of a node that has this much room of a resource, for each k up to
    FINEST (a row each).

    >>> dual_feasible_shares(np.array([60.0, 50.0, 35.0, 10.0]), 100.0)[:2].tolist()
    [[1.0, 0.5, 0.0, 0.0], [0.5, 0.5, 0.5, 0.0]]
    """
    k = np.arange(1, FINEST + 1, dtype=np.int64)[:, None]
    each, left = np.divmod((k + 1) * np.minimum(need, room).astype(np.int64), np.int64(max(room, 1.0)))
    shares: Floats = np.where(left == 0, each / (k + 1), each / k)
    return shares


def countable_resources(need: Floats, room: Floats) -> Whole:
    """Those whose amounts can be counted in whole numbers."""
    return np.flatnonzero(need.any(axis=0) & (need <= EXACT).all(axis=0) & (room.max(axis=0, initial=0.0) <= EXACT))
