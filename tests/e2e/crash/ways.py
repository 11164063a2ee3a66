"""The ways on which something goes wrong: from an empty cluster to three nodes, or back; undisturbed, or after
something else has failed; and ways with a small cluster of their own, from its nodes to fewer or to other ones.

Each way is recorded once, and every call that its state machine and the functions of that machine make on it joins the
table. A call that an earlier way of the list makes, too, belongs to that way. DISRUPT shares functions with SCALE UP,
and their failures have other consequences there: its calls belong to it, whichever way made them before.
"""

from dataclasses import dataclass
from typing import Final

UP: Final = "scale-up"
DOWN: Final = "retire"
DOWN_EMPTY: Final = "retire-empty"
SWEEP: Final = "sweep"
DISRUPT: Final = "disrupt"

HEALTH_EVENT: Final = "a Health event"
FAILING_NODES: Final = "failing nodes"
REFRESH: Final = "a refresh"


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """One way, and what has happened before it.

    `machine` is the state machine whose calls and states are struck. `goes_up` says whether three nodes are wanted at
    the end, or none. `dies_in` names the state in which an execution of SCALE UP or RETIRE was stopped before the sweep
    begins. With `short` EC2 has no capacity for one of the pods until the fault is over. `trouble` is what begins the
    way instead of a pod or a deletion. `stage` is the small cluster in which the way begins (`stages`), if it has one
    of its own. `callers` are functions outside of state machines whose calls are struck, too.
    """

    name: str
    machine: str
    goes_up: bool
    dies_in: str = ""
    short: bool = False
    trouble: str = ""
    stage: str = ""
    callers: tuple[str, ...] = ()

    @property
    def swept(self) -> bool:
        """Does a sweep begin this way, and not a pod or a deletion?"""
        return self.machine in (SWEEP, DOWN_EMPTY)

    @property
    def sweeps(self) -> int:
        """After how many of them must everything be well? A retirement that DISRUPT has requested has two minutes to
        begin, and the sweep after them requests it again.
        """
        return 4 if self.stage and not self.goes_up else 2

    def __str__(self) -> str:
        return self.name


SCALE_UP: Final = Way("scale-up", UP, goes_up=True, callers=("ring_doorbell",))
RETIRE: Final = Way("retire", DOWN, goes_up=False)
CONSOLIDATION: Final = Way("consolidation", DISRUPT, goes_up=False, stage="half-used nodes")
WAYS: Final = (
    SCALE_UP,
    RETIRE,
    Way("scale-up that falls short", UP, goes_up=True, short=True),
    Way("retirement of empty nodes", DOWN_EMPTY, goes_up=False),
    Way("sweep after a launch without a record", SWEEP, goes_up=True, dies_in="Record launches so far"),
    Way("sweep after a retirement without an end", SWEEP, goes_up=False, dies_in="Evict pods"),
    Way("sweep after a watch without an end", SWEEP, goes_up=True, dies_in="Check registration"),
    Way("sweep after claims without a launch", SWEEP, goes_up=True, dies_in="Launch instances"),
    Way("retirement after a Health event", DOWN, goes_up=False, trouble=HEALTH_EVENT, callers=("handle_interruption",)),
    Way("sweep that finds failing nodes", SWEEP, goes_up=False, trouble=FAILING_NODES),
    Way("scale-up after a refresh", UP, goes_up=True, trouble=REFRESH, callers=("refresh_catalogue",)),
    Way("scale-up of a Deployment", UP, goes_up=True, stage="nothing"),
    CONSOLIDATION,
    Way("consolidation with a replacement", DISRUPT, goes_up=False, stage="an oversized node"),
    Way("replacement of a drifted node", DISRUPT, goes_up=False, stage="a drifted node"),
    Way("consolidation that falls short", DISRUPT, goes_up=False, stage="an oversized node", short=True),
    Way("sweep that finds drift", SWEEP, goes_up=False, stage="an outdated node"),
)
"""In the order in which they are recorded. Between two that go up is a plain way down. Those with a stage come last."""
