"""When the pods of a plan exist, and which of them the rules of the others count.

While a drain is blocked, nobody knows when its pods leave. Until then, the rules of other pods hold for where they run.
Nodes take longer to start than an eviction does, so the pods that will replace them get their capacity beforehand.
"""

from enum import StrEnum
from typing import Final


class PodStage(StrEnum):
    """When the pods of a group exist. It decides which pods the rules of others count.

    A pod of a blocked drain is in two groups: it is LEAVING where it runs, and EVICTED where the pod that replaces it
    will run.
    """

    CURRENT = ""
    LEAVING = "leaving"
    EVICTED = "evicted"
    BUFFER = "buffer"

    def counts(self, other: "PodStage") -> bool:
        """Return whether rules of pods in this stage count pods in the other stage.

        Pods of capacity buffers and replacements of pods that still run do not exist, so no pod that exists counts
        them. A replacement exists after the pod that it replaces.
        """
        return other in COUNTED[self]


COUNTED: Final = {
    PodStage.CURRENT: frozenset({PodStage.CURRENT, PodStage.LEAVING}),
    PodStage.LEAVING: frozenset({PodStage.CURRENT, PodStage.LEAVING}),
    PodStage.EVICTED: frozenset({PodStage.CURRENT, PodStage.EVICTED}),
    PodStage.BUFFER: frozenset({PodStage.CURRENT, PodStage.LEAVING, PodStage.BUFFER}),
}
