"""When a workload reached each stage between `kubectl apply` and its last running pod: first and last, in seconds.

Stages of Joiner are those of its executions. Stages of nodes and pods are from the API server, in whole seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

Object = Mapping[str, Any]
Stages = Mapping[str, tuple[float, float, int]]
"""By state: its first entry, its last exit, and the number of its entries."""

LAUNCHES: Final = ("Launch one group", "Launch some groups")


@dataclass(frozen=True, slots=True)
class Milestone:
    """A stage, and when its first and its last object, or execution, reached it."""

    name: str
    first: float
    last: float


def milestones(stages: Stages, nodes: Sequence[Object], pods: Sequence[Object], began: float) -> list[Milestone]:
    """Return the stages that were reached, in their order; `began` is the time of the apply (epoch).

    >>> stages = {"Read the pause": (0.25, 0.5, 1), "Find pending pods": (0.5, 2.0, 2), "Plan capacity": (2.0, 2.5, 1)}
    >>> node = {"metadata": {"creationTimestamp": "1970-01-01T00:01:48Z"}, "status": {}}
    >>> for each in milestones(stages, [node], [], began=100.0):
    ...     print(each.name, each.first, each.last)
    ring 0.25 0.5
    listed 2.0 2.0
    planned 2.5 2.5
    node 8.0 8.0
    """
    found = [
        _ended("ring", stages, "Read the pause", then=("Read the pause",)),
        _ended("listed", stages, "Find pending pods", then=("Resolve node classes", "Plan capacity")),
        _ended("planned", stages, "Plan capacity", then=("Record node claims",)),
        _ended("claims", stages, "Record node claims", then=("Are there several launches?",)),
        *(_ended("CreateFleet", stages, launch, then=(launch,)) for launch in LAUNCHES if launch in stages),
        _reached("node", began, (each["metadata"]["creationTimestamp"] for each in nodes)),
        _reached("Ready", began, _transitions(nodes, "Ready")),
        _reached("bound", began, _transitions(pods, "PodScheduled")),
        _reached("Running", began, (each["status"].get("startTime") for each in pods)),
    ]
    return [each for each in found if each is not None]


def moment(text: str) -> float:
    """Return a timestamp of the API server in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def ready_moment(node: Object) -> float | None:
    """Return since when a node is Ready, in seconds since the epoch; None if it is not."""
    return next((moment(each) for each in _transitions([node], "Ready") if each), None)


def _ended(name: str, stages: Stages, state: str, *, then: Iterable[str]) -> Milestone | None:
    """Return when a state ended: first with the entry of one of the states that follow, last with its last exit."""
    if state not in stages:
        return None
    last = stages[state][1]
    return Milestone(name, min((stages[each][0] for each in then if each in stages), default=last), last)


def _reached(name: str, began: float, times: Iterable[str | None]) -> Milestone | None:
    found = [moment(each) - began for each in times if each]
    return Milestone(name, min(found), max(found)) if found else None


def _transitions(objects: Iterable[Object], condition: str) -> Iterable[str | None]:
    """Yield since when the condition of each object is true."""
    for each in objects:
        for one in each["status"].get("conditions", ()):
            if one["type"] == condition and one["status"] == "True":
                yield one["lastTransitionTime"]
