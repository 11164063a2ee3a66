"""The documents of one round in the bucket: their content, and how they are decoded into values.

One function writes each document and later functions read it. Writer and reader share this definition.
"""

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from joiner.adapters.class_validations import ClassToValidate
from joiner.adapters.item_reading import BROKEN
from joiner.adapters.ledger_items import LaunchRecord
from joiner.adapters.payload import Task
from joiner.adapters.store import DocumentSchema, NoSuchDocument, Store
from joiner.catalogue import Catalogue
from joiner.cluster import Pod
from joiner.cluster.list_pages import PODS, Packed
from joiner.disruption.drift import ObservedInstance
from joiner.launching import Launch
from joiner.lifecycle.checks.instance_survey import SeenClaim
from joiner.lifecycle.planning_back_off import PendingPodClass
from joiner.pools import ResolvedNodeClass
from joiner.pools.node_class import IpFamily
from joiner.reporting.event_limits import limit_events
from joiner.reporting.events import Event

if TYPE_CHECKING:  # Most functions read neither plans nor proposals, and start without these modules.
    from joiner.disruption.proposal import Proposal
    from joiner.planning import Plan, Snapshot

log = logging.getLogger(__name__)

SNAPSHOTS: Final = "snapshots"
NODE_CLASSES: Final = "node-classes"
PLANS: Final = "plans"
LAUNCHES: Final = "launches"
VALIDATIONS: Final = "validations"
SURVEYS: Final = "surveys"
EVENTS: Final = "events"
CONSOLES: Final = "consoles"
DECISIONS: Final = "decisions"
INSTANCES: Final = "instances"


def put_snapshot(
    store: Store,
    task: Task,
    lists: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    assignments: Mapping[str, Mapping[str, int]],
    assigned: Mapping[str, Mapping[str, int]],
    in_flight: Collection[str],
    unwritten: Collection[str] = (),
    pending_classes: Mapping[str, PendingPodClass] | None = None,
    default_spreads: Sequence[Mapping[str, Any]] = (),
    rollouts: Collection[str] = (),
) -> str:
    """Store the snapshot of the cluster without the fields that planning does not use; return its key.

    `assigned` is the assignments as the ledger contains them, `assignments` the part of them that no pod has used yet.
    `in_flight` and `unwritten` are the fields `entering` and `unwritten` of the snapshot.
    `pending_classes` describes the pending pods of each class, for their back-off. `default_spreads` are the default
    topology spread constraints of the cluster's scheduler; the lists contain the objects that they need. `rollouts` are
    the pods (by key) that a rollout replaces before they leave their node.
    """
    from joiner.planning import Snapshot

    key = task.key(SNAPSHOTS)
    kept: dict[str, Any] = {
        "lists": Snapshot.trim(lists),
        "assignments": assignments,
        "assigned": assigned,
        "inFlight": sorted(in_flight),
        "unwritten": sorted(unwritten),
        "ipFamily": task.cluster.ip_family,
        "defaultSpreads": list(default_spreads),
        "rollouts": sorted(rollouts),
    }
    kept["pendingClasses"] = {
        name: [found.pods, found.newest, found.digest] for name, found in (pending_classes or {}).items()
    }
    store.put(key, kept)
    return key


class _KeptParts(TypedDict, total=False):
    """A stored snapshot whose lists are not decoded yet."""

    lists: dict[str, msgspec.Raw]
    assignments: Any
    assigned: Any
    inFlight: Any
    unwritten: Any
    ipFamily: IpFamily
    defaultSpreads: Any
    rollouts: Any


class _PendingClasses(TypedDict, total=False):
    pendingClasses: dict[str, tuple[int, str, str]]


class _PlannedParts(_KeptParts, _PendingClasses, total=False):
    """A stored snapshot with the pending pods of each class."""


def get_snapshot(store: Store, key: str) -> "Snapshot":
    """Return a stored snapshot as values."""
    return _snapshot(store.get_as(key, _KeptParts))


def get_snapshot_to_plan(store: Store, key: str) -> tuple["Snapshot", dict[str, PendingPodClass]]:
    """Return a stored snapshot as values, and its pending pods by class; both are read at once."""
    stored = store.get_as(key, _PlannedParts)
    return _snapshot(stored), _pending_classes(stored)


def _snapshot(stored: _KeptParts) -> "Snapshot":
    lists = {
        plural: Packed.of_array(raw) if plural == PODS else msgspec.json.decode(raw)
        for plural, raw in stored.pop("lists").items()
    }
    return _parse(stored, lists)


def _parse(stored: "_KeptParts", lists: Mapping[str, Any]) -> "Snapshot":
    known = {"assignments": stored["assignments"], "in_flight": stored["inFlight"]}
    known["rollouts"] = stored.get("rollouts") or ()  # snapshots of earlier versions have none
    from joiner.planning import Snapshot

    spreads, family = stored.get("defaultSpreads") or (), stored.get("ipFamily", "ipv4")
    world = Snapshot.from_lists(lists, **known, default_spreads=spreads, ip_family=family)
    return replace(world, unwritten=frozenset(stored.get("unwritten") or ()))


def get_pending_classes(store: Store, key: str) -> dict[str, PendingPodClass]:
    """Return the pending pods of a stored snapshot, by class."""
    return _pending_classes(store.get_as(key, _PendingClasses))


def _pending_classes(stored: _PendingClasses) -> dict[str, PendingPodClass]:
    return {name: PendingPodClass(*found) for name, found in stored.get("pendingClasses", {}).items()}


class _Name(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    ownerReferences: Any


class _NamedPod(TypedDict, total=False):
    metadata: _Name


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A stored snapshot with what only writers to the cluster need: the manifests and the whole assignments.

    `world` and `lists` contain no pods, because pods are numerous; `named` reads some of them.
    """

    world: "Snapshot"
    lists: Mapping[str, Sequence[Mapping[str, Any]]]
    assigned: Mapping[str, Mapping[str, int]]
    pods: memoryview = field(default=memoryview(b"[]"), repr=False)

    @classmethod
    def read(cls, store: Store, key: str) -> "KeptSnapshot":
        """Read the snapshot that `put_snapshot` stored."""
        stored = store.get_as(key, _KeptParts)
        raw = stored.pop("lists")
        pods = memoryview(raw.pop(PODS, msgspec.Raw(b"[]")))
        lists = {plural: msgspec.json.decode(each) for plural, each in raw.items()}
        return cls(_parse(stored, lists), lists, stored["assigned"], pods)

    def named(self, keys: Collection[str]) -> dict[str, Pod]:
        """Return these pods (``namespace/name``), with their metadata only."""
        found = (one["metadata"] for one in msgspec.json.decode(self.pods, type=list[_NamedPod]))
        wanted = (one for one in found if f"{one.get('namespace') or 'default'}/{one['name']}" in keys)
        return {pod.key: pod for pod in (Pod.from_kube({"metadata": one}) for one in wanted)}


def put_node_classes(store: Store, task: Task, classes: Iterable[ResolvedNodeClass]) -> str:
    """Store the resolved node classes of a round; return the key."""
    key = task.key(NODE_CLASSES)
    store.put(key, {"classes": [each.to_json() for each in classes]})
    return key


def get_node_classes(store: Store, key: str) -> dict[str, ResolvedNodeClass]:
    """Return stored node classes, by their key (``EC2NodeClass/default``)."""
    classes = (ResolvedNodeClass.from_json(each) for each in store.get(key)["classes"])
    return {each.key: each for each in classes}


def put_launches(store: Store, task: Task, launches: Iterable[Launch]) -> str:
    """Store the launches of a round; return the key."""
    key = task.key(LAUNCHES)
    store.put(key, {"launches": [each.to_json() for each in launches]})
    return key


def get_launches(store: Store, key: str, indexes: Iterable[int]) -> dict[int, Launch]:
    """Return the stored launches at these indexes."""
    stored = store.get(key)["launches"]
    return {index: Launch.from_json(stored[index]) for index in indexes}


def put_validations(store: Store, task: Task, classes: Iterable[ClassToValidate]) -> str:
    """Store the node classes whose launches are to be tried; return the key."""
    key = task.key(VALIDATIONS)
    store.put(key, {"classes": [each.to_json() for each in classes]})
    return key


def get_validations(store: Store, key: str) -> list[ClassToValidate]:
    """Return the stored node classes whose launches are to be tried."""
    return [ClassToValidate.from_json(each) for each in store.get(key)["classes"]]


def record_of(launch: Launch, *, lease_number: int, execution: str) -> LaunchRecord:
    """Return a launch as the ledger stores it: the exact bytes of the request in one field, the rest in another."""
    return LaunchRecord(
        id=launch.id,
        request=launch.request_json(),
        token=launch.token,
        claims=launch.claims,
        lease_number=lease_number,
        execution=execution,
        details=details_of(launch),
    )


def details_of(launch: Launch) -> str:
    """Return what the ledger stores of a launch besides its request (JSON text)."""
    return json.dumps({name: value for name, value in launch.to_json().items() if name != "request"}, sort_keys=True)


def launch_of(record: LaunchRecord) -> Launch:
    """Return the launch of a record."""
    return Launch.from_json({**json.loads(record.details), "request": json.loads(record.request)})


def launches_of(records: Iterable[LaunchRecord]) -> list[Launch]:
    """Return the launches of records. A record whose content is no valid launch is logged and skipped."""
    found = []
    for record in records:
        try:
            found.append(launch_of(record))
        except BROKEN as reason:
            log.error("launch %s is not sent again, its content in the table cannot be read: %r", record.id, reason)
    return found


def put_plan(store: Store, task: Task, plan: "Plan") -> str:
    """Store the plan of a round; return the key."""
    key = task.key(PLANS)
    store.put(key, plan.to_json())
    return key


def get_plan(store: Store, key: str) -> "Plan":
    """Return a stored plan as a value."""
    from joiner.planning import Plan

    return Plan.from_json(store.get(key))


def put_proposal(store: Store, task: Task, proposal: "Proposal") -> str:
    """Store one proposal of nodes to disrupt; return the key."""
    key = task.key(DECISIONS)
    store.put(key, {name: part for name, part in proposal.to_json().items() if name != "schema"})  # the store adds it
    return key


def get_proposal(store: Store, key: str) -> "Proposal":
    """Return a stored proposal as a value."""
    from joiner.disruption.proposal import Proposal

    return Proposal.from_json(store.get(key))


@dataclass(frozen=True, slots=True)
class KeptSurvey:
    """A sweep's view of the cluster, for its comparison with EC2: its start (epoch seconds), claims, nodes' names by
    instance, and the instances of nodes that have our finalizer.
    """

    at: int
    claims: tuple[SeenClaim, ...]
    nodes: Mapping[str, str]
    ours: tuple[str, ...] = ()


def put_survey(store: Store, task: Task, survey: KeptSurvey) -> str:
    """Store a sweep's view of the cluster; return the key."""
    key = f"{SURVEYS}/{task.execution.name}.json.gz"
    store.put(key, survey)
    return key


def get_survey(store: Store, key: str) -> KeptSurvey:
    """Return a stored survey."""
    stored = store.get(key)
    return KeptSurvey(
        int(stored["at"]), tuple(SeenClaim(**each) for each in stored["claims"]), stored["nodes"], tuple(stored["ours"])
    )


def put_instances(store: Store, task: Task, instances: Mapping[str, ObservedInstance]) -> str:
    """Store what EC2 shows of the instances, by id; return the key."""
    key = f"{INSTANCES}/{task.execution.name}.json.gz"
    store.put(
        key,
        {
            name: {
                "image": one.image,
                "subnet": one.subnet,
                "securityGroups": sorted(one.security_groups),
                "reservation": one.reservation,
                "placementGroup": one.placement_group,
            }
            for name, one in instances.items()
        },
    )
    return key


def get_instances(store: Store, key: str) -> dict[str, ObservedInstance]:
    """Return the stored instances, by id. A former version, which may still run during a deployment, stored no
    reservations and no placement groups.
    """
    return {
        name: ObservedInstance(
            stored["image"],
            stored["subnet"],
            frozenset(stored["securityGroups"]),
            stored.get("reservation"),
            stored.get("placementGroup"),
        )
        for name, stored in store.get(key).items()
    }


def put_console(store: Store, claim: str, instance: str, lines: str) -> str:
    """Store the console output of a claim's instance; return the key."""
    key = f"{CONSOLES}/{claim}.json.gz"
    store.put(key, {"instance": instance, "lines": lines.splitlines()})
    return key


def put_events(store: Store, task: Task, part: str, events: Iterable[Event]) -> list[str]:
    """Store the events of one part of a round, which are published after the lease is released; return their key, or
    nothing without events.
    """
    limited = limit_events(events)
    if not limited:
        return []
    key = f"{EVENTS}/{task.execution.name}/{task.round}-{part}.json.gz"
    store.put(key, limited)
    return [key]


def get_events(store: Store, key: str) -> list[Event]:
    """Return stored events."""
    return store.get_as(key, list[Event])


CATALOGUE: Final = "catalogue/latest.json.gz"


class NoCatalogue(Exception):
    """No refresh has finished, or the catalogue has another schema. The state machine retries by this name."""


def put_catalogue(store: Store, catalogue: Catalogue, now: datetime) -> None:
    """Store the catalogue as the latest, and once a day under its date, so that a past plan can be computed again."""
    document = catalogue.to_json()
    store.put(f"catalogue/{now:%Y-%m-%d}.json.gz", document)
    store.put(CATALOGUE, document)


def get_catalogue(store: Store) -> Catalogue:
    """Return the latest catalogue, read again only when it changed; NoCatalogue before the first catalogue of this
    version's schema.
    """
    try:
        return store.get_seldom_changed(CATALOGUE, Catalogue.from_json)
    except NoSuchDocument as reason:
        raise NoCatalogue("refresh_catalogue has not written a catalogue yet") from reason
    except DocumentSchema as reason:  # written by another version; refresh_catalogue replaces it
        raise NoCatalogue(f"{reason}; refresh_catalogue writes it anew") from reason
