"""The ways on which something goes wrong: from an empty cluster to three nodes, or back; undisturbed, or after
something else has failed.

Each way is recorded once, and every call that its state machine and the functions of that machine make on it joins the
table. A call that an earlier way of the list makes, too, belongs to that way.
"""

from dataclasses import dataclass
from typing import Final

UP: Final = "scale-up"
DOWN: Final = "retire"
DOWN_EMPTY: Final = "retire-empty"
SWEEP: Final = "sweep"


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """One way, and what has happened before it.

    `machine` is the state machine whose calls and states are struck. `goes_up` says whether three nodes are wanted at
    the end, or none. `dies_in` names the state in which an execution of SCALE UP or RETIRE was stopped before the sweep
    begins. With `short` EC2 has no capacity for one of the pods until the fault is over.
    """

    name: str
    machine: str
    goes_up: bool
    dies_in: str = ""
    short: bool = False

    @property
    def swept(self) -> bool:
        """Does a sweep begin this way, and not a pod or a deletion?"""
        return self.machine in (SWEEP, DOWN_EMPTY)

    def __str__(self) -> str:
        return self.name


SCALE_UP: Final = Way("scale-up", UP, goes_up=True)
RETIRE: Final = Way("retire", DOWN, goes_up=False)
WAYS: Final = (
    SCALE_UP,
    RETIRE,
    Way("scale-up that falls short", UP, goes_up=True, short=True),
    Way("retirement of empty nodes", DOWN_EMPTY, goes_up=False),
    Way("sweep after a launch without a record", SWEEP, goes_up=True, dies_in="Record launches"),
    Way("sweep after a retirement without an end", SWEEP, goes_up=False, dies_in="Evict pods"),
    Way("sweep after a watch without an end", SWEEP, goes_up=True, dies_in="Check registration"),
    Way("sweep after claims without a launch", SWEEP, goes_up=True, dies_in="Launch instances"),
)
"""In the order in which they are recorded. Between two that go up is a plain way down."""
