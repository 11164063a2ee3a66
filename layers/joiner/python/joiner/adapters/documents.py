"""The decisions of one round as they lie in the bucket: what each document holds, and how it is read back into values.

One function writes each and later ones read it; the shape is said here once, so that they cannot drift apart.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from joiner.adapters.payload import Task
from joiner.adapters.store import Store
from joiner.planning import Plan, Snapshot
from joiner.pools import ResolvedNodeClass

SNAPSHOTS: Final = "snapshots"
NODE_CLASSES: Final = "node-classes"
PLANS: Final = "plans"
LAUNCHES: Final = "launches"


def put_snapshot(
    store: Store,
    task: Task,
    lists: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    assignments: Mapping[str, Mapping[str, int]],
    in_flight: Collection[str],
) -> str:
    """Keep what the API server told, without what nobody plans by; returns the key."""
    key = task.key(SNAPSHOTS)
    store.put(key, {"lists": Snapshot.trim(lists), "assignments": assignments, "inFlight": sorted(in_flight)})
    return key


def get_snapshot(store: Store, key: str) -> Snapshot:
    """A kept snapshot as values."""
    said = store.get(key)
    return Snapshot.from_lists(said["lists"], assignments=said["assignments"], in_flight=said["inFlight"])


def put_node_classes(store: Store, task: Task, classes: Iterable[ResolvedNodeClass]) -> str:
    """Keep the resolved node classes of a round; returns the key."""
    key = task.key(NODE_CLASSES)
    store.put(key, {"classes": [each.to_json() for each in classes]})
    return key


def get_node_classes(store: Store, key: str) -> dict[str, ResolvedNodeClass]:
    """Kept node classes, by their key (``EC2NodeClass/default``)."""
    classes = (ResolvedNodeClass.from_json(each) for each in store.get(key)["classes"])
    return {each.key: each for each in classes}


def put_plan(store: Store, task: Task, plan: Plan) -> str:
    """Keep the plan of a round; returns the key."""
    key = task.key(PLANS)
    store.put(key, plan.to_json())
    return key


def get_plan(store: Store, key: str) -> Plan:
    """A kept plan as a value."""
    return Plan.from_json(store.get(key))
