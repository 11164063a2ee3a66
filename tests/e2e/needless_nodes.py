"""Which retirements nothing is the reason for: of young nodes, and of nodes that were launched and not used.

A node that no pod used is explained only by its own pods. Each pod that was planned for it has ended before the node
was retired, or runs on another node that had room for it when it was bound: a pod had left that very node since shortly
before the launch, or a pod that was planned for that node has ended or runs elsewhere, for the same reasons. A node
that is lost is explained only if something hit its instance.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

PLANNED_BEFORE: Final = timedelta(seconds=10)
"""That long before its launch, on a busy machine, were the pods of a node listed."""
FIRST_MINUTE: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class RetiredNode:
    """A node whose retirement began; `planned` are the pods that plans put on it."""

    claim: str
    instance: str
    node: str
    reason: str
    launched: datetime
    begun: datetime


@dataclass(frozen=True, slots=True)
class PodPlaces:
    """Where pods were, and where they were planned. Pods are named with their namespace, nodes by their instance.

    `bound` and `ended` have the time for each pod; `left` the times at which pods left each node.
    """

    planned: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The pods that plans put on each node."""
    bound: Mapping[str, tuple[str, datetime]] = field(default_factory=dict)
    ended: Mapping[str, datetime] = field(default_factory=dict)
    left: Mapping[str, Sequence[datetime]] = field(default_factory=dict)

    def was_used(self, node: str) -> bool:
        return any(place == node for place, _ in self.bound.values())

    def all_ended(self, node: str, by: datetime) -> bool:
        """Return whether the pods that ran on a node had ended at a time."""
        return all(self.ended.get(pod, by) < by for pod, (place, _) in self.bound.items() if place == node)

    def explain_unused(self, node: str, since: datetime, begun: datetime) -> bool:
        """Return whether the pods of an unused node explain why nothing used it from its launch to its retirement."""
        planned = self.planned.get(node, ())
        return bool(planned) and all(self._is_settled(pod, node, since, begun, ()) for pod in planned)

    def _is_settled(self, pod: str, node: str, since: datetime, begun: datetime, passed: tuple[str, ...]) -> bool:
        """Return whether a pod that was planned for a node has ended, or was bound where room had become free."""
        if self.ended.get(pod, begun) < begun:
            return True
        place, at = self.bound.get(pod, (node, begun))
        if place == node or place in passed:
            return False
        if any(since - PLANNED_BEFORE <= freed <= at for freed in self.left.get(place, ())):
            return True
        return any(
            self._is_settled(other, place, since, at, (*passed, node))
            for other in self.planned.get(place, ())
            if other != pod and self.bound.get(other, ("", at))[0] != place
        )


class NodeNames:
    """The instances that had the name of a node, one after the other: addresses are used again, and names with them."""

    def __init__(self, instances: Iterable[tuple[str, str, datetime]]) -> None:
        """Each instance has its id, the name of its node, and the time of its launch."""
        self._launches: dict[str, list[tuple[datetime, str]]] = {}
        for instance, name, launched in instances:
            self._launches.setdefault(name, []).append((launched, instance))
        for launches in self._launches.values():
            launches.sort()

    def find(self, name: str, at: datetime) -> str:
        """Return the instance that had the name at a time; the name itself if none is known.

        >>> from datetime import UTC
        >>> noon, one = (datetime(2026, 11, 29, hour, tzinfo=UTC) for hour in (12, 13))
        >>> names = NodeNames([("i-b", "node", one), ("i-a", "node", noon)])
        >>> names.find("node", noon), names.find("node", one), names.find("other", one)
        ('i-a', 'i-b', 'other')
        """
        launches = self._launches.get(name, [])
        before = bisect_right(launches, at, key=lambda each: each[0])
        return launches[before - 1][1] if before else name


def needless(retired: Sequence[RetiredNode], places: PodPlaces, *, hit: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each retirement without a reason; `hit` are the instances, claims and nodes that something
    hit.
    """
    for each in retired:
        if not {each.instance, each.claim, each.node} & set(hit) and (why := _objection(each, places)):
            age = (each.begun - each.launched).total_seconds()
            yield f"{each.claim} ({each.instance}) was retired because it was {each.reason}, {age:.0f} s old, {why}"


def _objection(each: RetiredNode, places: PodPlaces) -> str:
    if each.reason == "lost":
        return "although nothing ended it"
    if not places.was_used(each.instance):
        if places.explain_unused(each.instance, each.launched, each.begun):
            return ""
        return "although no pod ran on it, and its pods neither ended nor found other room"
    if each.reason == "empty":
        return "" if places.all_ended(each.instance, each.begun) else "although pods ran on it"
    return "although it was young" if each.begun - each.launched <= FIRST_MINUTE else ""
