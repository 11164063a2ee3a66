"""Which of many rooms have room for a pod at all: most nodes of a cluster are full, and only the others are worth asking anything else."""

from collections.abc import Sequence

import numpy as np

from joiner.planning.arrays import Floats, Marks
from joiner.planning.groups import Group
from joiner.planning.rooms import Room


class Vacancies:
    """What rooms have free, resource by resource, at this moment. As long as pods only come, who finds no room now finds none later."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        self._rooms = rooms
        self._free: list[Floats] = [np.array(amounts, float) for amounts in zip(*(room.free for room in rooms), strict=True)]

    def marks(self, group: Group) -> Marks:
        """For each room, whether one pod of the group fits."""
        fitting = np.ones(len(self._rooms), bool)
        for position, amount in group.needs if self._rooms else ():
            fitting &= self._free[position] >= amount
        return fitting

    def holding(self, group: Group) -> list[Room]:
        """The rooms in which one pod of the group fits, in their order."""
        return [self._rooms[position] for position in np.flatnonzero(self.marks(group)).tolist()]
