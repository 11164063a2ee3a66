"""The solution of the linear program, and what it may be given besides the problem."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole

NO_OFFERS: Final[Whole] = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The solution. ``value`` is in $/h. ``worth`` is the dual price of one pod of each item. ``offers`` are the
    offers in the program, ``nodes`` the number of each. ``flow`` pods flow from ``item`` to the offer at position
    ``at`` in ``offers``. ``rates`` are resource prices by offer, ``places`` what a place under each of ``caps``
    costs there. ``firm``: only caps that hold in every plan were used, so no plan is cheaper than ``value``."""

    value: float
    worth: Floats
    offers: Whole
    _: KW_ONLY
    nodes: Floats
    item: Whole
    at: Whole
    flow: Floats
    rates: Floats
    firm: bool = True
    caps: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    places: Floats = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True, slots=True, eq=False)
class SpareCapacity:
    """Existing capacity without cost: the free capacity of nodes, summed over nodes that take the same items."""

    free: Floats
    open: Marks


@dataclass(frozen=True, slots=True, eq=False)
class LimitRows:
    """Limits on the total of all nodes: what a node of ``each`` offer uses (limits x offers), and how much is
    ``left``."""

    each: Floats
    left: Floats

    @property
    def unit(self) -> Floats:
        """Return the unit of each limit, so that all numbers have the same order of magnitude."""
        most: Floats = np.maximum(np.maximum(self.each.max(axis=1, initial=0.0), self.left), 1.0)
        return most
