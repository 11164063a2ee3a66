"""Find the nodes with free capacity for a pod: most nodes of a cluster are full, and only the others need further
checks."""

from collections.abc import Sequence

import numpy as np

from joiner.planning.arrays import Floats, Marks
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.node_state import NodeState


class FreeCapacity:
    """The free capacity of nodes at this moment, by resource. As long as pods are only added, a pod that does not fit
    now does not fit later."""

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        self._nodes = nodes
        self._free: list[Floats] = [
            np.array(amounts, float) for amounts in zip(*(node.free for node in nodes), strict=True)
        ]

    def marks(self, group: PodGroup) -> Marks:
        """Return for each node whether one pod of the group fits."""
        fitting = np.ones(len(self._nodes), bool)
        for position, amount in group.needs if self._nodes else ():
            fitting &= self._free[position] >= amount
        return fitting

    def holding(self, group: PodGroup) -> list[NodeState]:
        """Return the nodes on which one pod of the group fits, in their order."""
        return [self._nodes[position] for position in np.flatnonzero(self.marks(group)).tolist()]
