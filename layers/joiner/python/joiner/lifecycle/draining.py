"""Draining a node: which pods must leave, in which order, which pods may not be evicted yet, and when pods are deleted.

Source: Karpenter, core `pkg/controllers/node/termination/terminator`, `pkg/utils/pod/scheduling.go`; Kubernetes,
"API-initiated Eviction". Static pods stay, and so do pods that tolerate the taint of a disrupted node, and pods that
have ended. All others are evicted through the eviction API, in four tiers: pods, pods of daemon sets, critical pods,
critical pods of daemon sets. A tier begins when the one before it has ended. In a tier, pods of lower priority are
evicted first, and of these the larger ones: their replacements then reach the scheduler first, as in first-fit
decreasing of bin packing, and small pods do not take the room that was planned for large ones. A pod may have an
annotation against disruption, forever or for a time. A deadline overrides all of these: a pod that would still run at
the deadline is deleted early enough to end by itself, and pods that remain after it are left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from math import ceil, inf
from typing import Any, Final

from joiner import names
from joiner.cluster import InvalidField, Toleration
from joiner.cluster.list_pages import MIRROR
from joiner.cluster.pod_constraints import list_volume_claims
from joiner.cluster.pod_requests import sum_pod_requests
from joiner.cluster.pods import read_protection
from joiner.cluster.resources import CPU, MEMORY, MILLICORES
from joiner.cluster.taints import DISRUPTED_TAINT
from joiner.lifecycle.drain_blockers import PROTECTED
from joiner.pools.disruption_protection import FOREVER, is_meaningless, protected_until
from joiner.pools.timestamps import parse_timestamp

CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
GRACE: Final = 30
"""Grace period in seconds of a pod that does not set one."""

STUCK: Final = timedelta(minutes=1)
"""A pod that still exists this long after it should have ended waits for something that the drain does not provide."""

AT_LEAST: Final = timedelta(seconds=5)
"""From the taint to the end of the drain: pods that the scheduler bound before it saw the taint are on the node by
then.
"""

MEMORY_OF_A_CPU: Final = 4 * 2**30
"""Bytes of memory that weigh as much as one CPU in the size of a pod: the ratio of general purpose instance types."""

LAST_TIER: Final = 3

SOON: Final = 2
SELDOM: Final = 60


@dataclass(frozen=True, slots=True)
class DrainingPod:
    """One pod of a node that is being drained.

    `ends` is the end of its grace period, if it is terminating; `grace` is in seconds. `protection` is its annotation
    against disruption: ``true``, a duration, or empty; `volume_claims` are the names of its PersistentVolumeClaims.
    `drained_by` is its annotation that asks for a rollout instead of an eviction. `size` is the larger of its CPUs and
    of its memory in `MEMORY_OF_A_CPU`.
    """

    namespace: str
    name: str
    _: KW_ONLY
    uid: str = ""
    owner_kind: str = ""
    phase: str = "Running"
    ends: datetime | None = None
    started: datetime | None = None
    grace: int = GRACE
    priority: int = 0
    critical: bool = False
    mirror: bool = False
    tolerates: bool = False
    protection: str = ""
    volume_claims: tuple[str, ...] = ()
    owner_name: str = ""
    created: datetime | None = None
    drained_by: str = ""
    size: float = 0.0

    @classmethod
    def from_kube(cls, manifest: Mapping[str, Any]) -> "DrainingPod":
        """Read the pod; ignore invalid fields, because a pod with an invalid field must be drained, too."""
        metadata, spec, status = (manifest.get(part) or {} for part in ("metadata", "spec", "status"))
        owner: Mapping[str, Any] = next(
            (one for one in metadata.get("ownerReferences") or () if one.get("controller")), {}
        )
        annotations = metadata.get("annotations") or {}
        grace = spec.get("terminationGracePeriodSeconds")
        return cls(
            namespace=metadata.get("namespace") or "default",
            name=metadata.get("name") or "",
            uid=metadata.get("uid") or "",
            owner_kind=owner.get("kind") or "",
            phase=status.get("phase") or "Pending",
            ends=parse_timestamp(metadata.get("deletionTimestamp")),
            started=parse_timestamp(status.get("startTime")),
            grace=GRACE if grace is None else int(grace),
            priority=int(spec.get("priority") or 0),
            critical=spec.get("priorityClassName") in CRITICAL,
            mirror=MIRROR in annotations,
            tolerates=_tolerates(spec.get("tolerations") or ()),
            protection=read_protection(annotations),
            volume_claims=tuple(filter(None, list_volume_claims(manifest))),
            owner_name=owner.get("name") or "",
            created=parse_timestamp(metadata.get("creationTimestamp")),
            drained_by=annotations.get(names.DRAIN) or "",
            size=_size(spec, status),
        )

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def stays(self) -> bool:
        """Return whether the drain leaves it on the node."""
        return self.owner_kind == "Node" or self.mirror or self.tolerates or self.phase in ("Succeeded", "Failed")

    @property
    def of_daemon(self) -> bool:
        """Return whether a daemon set controls it."""
        return self.owner_kind == "DaemonSet"

    @property
    def tier(self) -> int:
        """Return its place in the order of evictions, 0 to `LAST_TIER`: agents and critical pods serve the others."""
        return 2 * self.critical + self.of_daemon

    @property
    def eviction_order(self) -> tuple[int, float, str]:
        """Return by what the pods of a tier are ordered."""
        return self.priority, -self.size, self.key

    def protected_until(self, now: datetime) -> datetime | None:
        """Return until when it may not be evicted: FOREVER, or None if it may be evicted at `now`."""
        return None if self.of_daemon else protected_until(self.protection, self.started, now)

    @property
    def invalid_protection(self) -> str:
        """Return the value of its annotation against disruption if the value has no meaning; else empty."""
        return self.protection if is_meaningless(self.protection) else ""

    def is_protected(self, now: datetime) -> bool:
        """Return whether its annotation still forbids disruption at `now`."""
        return self.protected_until(now) is not None


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod to delete without eviction, with `grace` seconds."""

    pod: DrainingPod
    grace: int


@dataclass(frozen=True, slots=True)
class Drain:
    """The next actions for one node. `waiting` are all pods that the drain waits for, `blockers` gives the reasons."""

    evict: tuple[DrainingPod, ...] = ()
    delete: tuple[Deletion, ...] = ()
    waiting: tuple[DrainingPod, ...] = ()
    blockers: tuple[str, ...] = ()
    next_at: datetime | None = None
    """The next time at which something changes without any other event."""

    @property
    def done(self) -> bool:
        """Return whether the node is drained."""
        return not self.waiting


def drain(pods: Iterable[DrainingPod], *, now: datetime, deadline: datetime | None) -> Drain:
    """Return the next actions for a node's pods; all decisions of the drain are made here."""
    over = deadline is not None and now >= deadline
    waiting = [pod for pod in pods if not pod.stays and not _is_stuck(pod, now, timedelta(0) if over else STUCK)]
    overdue = [pod for pod in waiting if deadline is not None and now >= deadline - timedelta(seconds=pod.grace)]
    asked = [pod for pod in waiting if pod not in overdue]
    first = min((pod.tier for pod in asked), default=0)
    tier = [pod for pod in asked if pod.tier == first]
    free = [pod for pod in tier if pod.ends is None and not pod.is_protected(now)]
    return Drain(
        evict=tuple(sorted(free, key=lambda pod: pod.eviction_order)),
        delete=tuple(found for pod in overdue if deadline is not None and (found := _deletion(pod, now, deadline))),
        waiting=tuple(waiting),
        blockers=tuple(f"pod {pod.key} {PROTECTED}" for pod in tier if pod.ends is None and pod.is_protected(now)),
        next_at=_next(asked, now, deadline),
    )


def pause(before: int, *, progress: bool, now: datetime, next_at: datetime | None, quiet: bool = False) -> int:
    """Return the seconds until the next pass: short after progress, else the same as before, and never past `next_at`.

    If `quiet`, the drain waits only for `next_at`: an earlier pass would change nothing.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> pause(32, progress=True, now=noon, next_at=None)
    2
    >>> pause(32, progress=False, now=noon, next_at=noon + timedelta(seconds=7))
    7
    >>> pause(1, progress=False, now=noon, next_at=noon + timedelta(seconds=4), quiet=True)
    4
    """
    wanted = SOON if progress else max(SOON, min(before, SELDOM))
    if next_at is None:
        return wanted
    until = max(1, ceil((next_at - now).total_seconds()))
    return min(SELDOM if quiet else wanted, until)


def drain_order(pods: Iterable[DrainingPod], deadline: int = 0) -> tuple[float, int, int, float]:
    """Return by what the nodes of a wave are ordered: by the recorded deadline (epoch seconds, 0 for none), then as
    `eviction_order` orders the pods that are still to be evicted.

    Evictions of one pass are limited, so nodes whose instances end soon come first.
    """
    left = [pod for pod in pods if not pod.stays and pod.ends is None]
    first = min(((pod.tier, pod.priority, -pod.size) for pod in left), default=(LAST_TIER, 0, 0.0))
    return (deadline or inf, *first)


def must_move(pods: Iterable[DrainingPod], *, now: datetime, deadline: datetime | None) -> int:
    """Return how many pods of a node will soon need another node: those that leave and that a controller replaces.

    A daemon set replaces its pod on its own nodes only.
    """
    return sum(
        bool(pod.owner_kind)
        and pod.ends is None
        and not (pod.stays or pod.of_daemon or (deadline is None and pod.is_protected(now)))
        for pod in pods
    )


def _size(spec: Mapping[str, Any], status: Mapping[str, Any]) -> float:
    try:
        requests = sum_pod_requests(spec, status)
    except InvalidField:
        return 0.0
    return max(requests.get(CPU, 0) / MILLICORES, requests.get(MEMORY, 0) / MEMORY_OF_A_CPU)


def _is_stuck(pod: DrainingPod, now: datetime, after: timedelta) -> bool:
    return pod.ends is not None and now >= pod.ends + after


def _deletion(pod: DrainingPod, now: datetime, deadline: datetime) -> Deletion | None:
    grace = max(1, int((deadline - now).total_seconds()))
    ends_in_time = pod.ends is not None and pod.ends <= now + timedelta(seconds=grace)
    return None if ends_in_time else Deletion(pod, grace)


def _next(asked: Iterable[DrainingPod], now: datetime, deadline: datetime | None) -> datetime | None:
    moments = [deadline] if deadline else []
    for pod in asked:
        moments += [deadline - timedelta(seconds=pod.grace)] if deadline else []
        until = pod.protected_until(now)
        moments += [until] if until is not None and until != FOREVER else []
    return min((moment for moment in moments if moment > now), default=None)


def _tolerates(tolerations: Iterable[Mapping[str, Any]]) -> bool:
    for toleration in tolerations:
        try:
            if Toleration.from_kube(toleration).tolerates(DISRUPTED_TAINT):
                return True
        except InvalidField:
            continue
    return False
