"""Cuts: inequalities that hold for every node because its pods are whole, and that fractions of pods violate.

A node holds one pod that needs more than half of it, two that need more than a third, and so on: if k + 1 of a size
are too many, each counts as one k-th of the node. Sizes that divide evenly count as they are. With these counts,
the whole pods of a node still make at most one node (these are the dual feasible functions of Fekete and Schepers),
but fractions of pods can make more. If a relaxation violates such an inequality, adding it raises the bound.
"""

from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Whole

FINEST: Final = 32
"""If more pods than this fit on a node, fractions of them lose almost nothing."""
EXACT: Final = 2.0**50
"""Amounts below it are multiplied without rounding errors."""


def dual_feasible_shares(need: Floats, capacity: float) -> Floats:
    """Return what one pod of each class counts (0 to 1) of a node with ``capacity`` of a resource.

    There is one row for each k up to FINEST.

    >>> dual_feasible_shares(np.array([60.0, 50.0, 35.0, 10.0]), 100.0)[:2].tolist()
    [[1.0, 0.5, 0.0, 0.0], [0.5, 0.5, 0.5, 0.0]]
    """
    k = np.arange(1, FINEST + 1, dtype=np.int64)[:, None]
    each, left = np.divmod((k + 1) * np.minimum(need, capacity).astype(np.int64), np.int64(max(capacity, 1.0)))
    shares: Floats = np.where(left == 0, each / (k + 1), each / k)
    return shares


def countable_resources(need: Floats, capacity: Floats) -> Whole:
    """Return the resources whose amounts can be counted in whole numbers."""
    return np.flatnonzero(need.any(axis=0) & (need <= EXACT).all(axis=0) & (capacity.max(axis=0, initial=0.0) <= EXACT))
