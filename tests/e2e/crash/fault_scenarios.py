"""The scenarios in which a call fails or an execution stops.

A scenario goes from an empty cluster to three nodes, or back: undisturbed, or after something else has failed. Other
scenarios begin with a small cluster of their own, and end with fewer or with other nodes.

Each scenario is recorded once, and every call that its state machine and the functions of that machine make becomes a
row of the table. A call that an earlier scenario of the list makes, too, belongs to the earlier one, but for what a
later round of `rounds` makes once more. DISRUPT shares functions with SCALE UP, and their
failures have other consequences there: its calls belong to it in any case. So do those of `own`.
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
LATE_NODES: Final = "nodes that join late"


@dataclass(frozen=True, slots=True, order=True)
class FaultScenario:
    """One scenario, and what has happened before it.

    `machine` is the state machine whose calls and states are struck. `goes_up` says whether three nodes are wanted at
    the end, or none. `dies_in` names the state in which an execution of SCALE UP or RETIRE was stopped before the sweep
    begins. With `short` EC2 has no capacity for one of the pods until the fault is over. `trouble` is what begins the
    scenario instead of a pod or a deletion. `stage` is the small cluster in which the scenario begins
    (`starting_clusters`), if it has one of its own. `callers` are functions outside of state machines whose calls are
    struck, too. `own` are callers whose calls are rows of this scenario, although an earlier one makes them, too.
    With `rounds` the execution plans or launches again, and the further calls of a kind are rows, too.
    """

    name: str
    machine: str
    goes_up: bool
    dies_in: str = ""
    short: bool = False
    trouble: str = ""
    stage: str = ""
    callers: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    rounds: bool = False

    @property
    def swept(self) -> bool:
        """Does a sweep begin this scenario, and not a pod or a deletion?"""
        return self.machine in (SWEEP, DOWN_EMPTY)

    @property
    def sweeps(self) -> int:
        """After how many of them must everything be well? A retirement that DISRUPT has requested has two minutes to
        begin, and the sweep after them requests it again.
        """
        return 4 if self.stage and not self.goes_up else 2

    def __str__(self) -> str:
        return self.name


SCALE_UP: Final = FaultScenario("scale-up", UP, goes_up=True, callers=("ring_doorbell",))
RETIRE: Final = FaultScenario("retire", DOWN, goes_up=False)
CONSOLIDATION: Final = FaultScenario("consolidation", DISRUPT, goes_up=False, stage="half-used nodes")
FAULT_SCENARIOS: Final = (
    SCALE_UP,
    RETIRE,
    FaultScenario("scale-up that falls short", UP, goes_up=True, short=True, rounds=True),
    FaultScenario("retirement of empty nodes", DOWN_EMPTY, goes_up=False),
    FaultScenario("sweep after a launch without a record", SWEEP, goes_up=True, dies_in="Record launches so far"),
    FaultScenario("sweep after a retirement without an end", SWEEP, goes_up=False, dies_in="Evict pods"),
    FaultScenario("sweep after a watch without an end", SWEEP, goes_up=True, dies_in="Check registration"),
    FaultScenario("sweep after claims without a launch", SWEEP, goes_up=True, dies_in="Launch instances"),
    FaultScenario(
        "retirement after a Health event", DOWN, goes_up=False, trouble=HEALTH_EVENT, callers=("handle_interruption",)
    ),
    FaultScenario("sweep that finds failing nodes", SWEEP, goes_up=False, trouble=FAILING_NODES),
    FaultScenario("scale-up after a refresh", UP, goes_up=True, trouble=REFRESH, callers=("refresh_catalogue",)),
    FaultScenario("scale-up whose nodes join late", UP, goes_up=True, trouble=LATE_NODES, callers=("ring_doorbell",)),
    FaultScenario("scale-up of a Deployment", UP, goes_up=True, stage="nothing"),
    FaultScenario("scale-up with a launch template of a user", UP, goes_up=True, stage="a launch template"),
    FaultScenario(
        "scale-up of several rounds", UP, goes_up=True, stage="spot, or else on-demand", short=True, rounds=True
    ),
    FaultScenario("retirement that a budget blocks", DOWN, goes_up=False, stage="a guarded node", own=("evict_pods",)),
    FaultScenario("sweep that gives up a node", SWEEP, goes_up=False, stage="a node that never registers"),
    CONSOLIDATION,
    FaultScenario("consolidation with a replacement", DISRUPT, goes_up=False, stage="an oversized node"),
    FaultScenario("replacement of a drifted node", DISRUPT, goes_up=False, stage="a drifted node"),
    FaultScenario("consolidation that falls short", DISRUPT, goes_up=False, stage="an oversized node", short=True),
    FaultScenario("sweep that finds drift", SWEEP, goes_up=False, stage="an outdated node"),
)
"""In the order in which they are recorded. Between two that scale up, all nodes are removed without a fault. Those with
a starting cluster come last."""
