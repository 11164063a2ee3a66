"""Draining a node: which pods have to go, in which order, who may not be asked yet, and when nobody is asked any more.

Source: Karpenter, core `pkg/controllers/node/termination/terminator`, `pkg/utils/pod/scheduling.go`; Kubernetes,
"API-initiated Eviction". Pods that belong to the node stay: those of daemon sets and static ones; so do those that
tolerate the taint of a disrupted node, and those that have ended. All others are asked to leave through the eviction
API, the critical ones last. A pod may ask not to be disrupted, for ever or for a time. A deadline ends all that:
whoever would outlive it is deleted early enough to end by itself, and what is left then is left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final

from joiner import names
from joiner.cluster import InvalidField, Taint, Toleration
from joiner.cluster.list_pages import MIRROR
from joiner.pools.durations import parse_duration
from joiner.pools.timestamps import parse_timestamp

DISRUPTED: Final = Taint(names.DISRUPTED, "NoSchedule")
CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
GRACE: Final = 30
"""Seconds that a pod has to end if it does not say."""

STUCK: Final = timedelta(minutes=1)
"""A pod that is still there so long after it should have ended waits for something that the drain does not bring."""

AT_LEAST: Final = timedelta(seconds=5)
"""From the taint to the end of the drain: what the scheduler had decided before it saw the taint has arrived by then.
"""

FOREVER: Final = datetime.max.replace(tzinfo=UTC)

SOON: Final = 2
SELDOM: Final = 60


@dataclass(frozen=True, slots=True)
class DrainingPod:
    """One pod of a node that is being drained. `ends` is when its grace is over, if it was asked to end; `grace` is in
    seconds.

    `protected` is what it says against being disrupted: ``true``, a duration, or nothing; `claims` are its volume
    claims.
    """

    namespace: str
    name: str
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
    protected: str = ""
    claims: tuple[str, ...] = ()

    @classmethod
    def from_kube(cls, manifest: Mapping[str, Any]) -> "DrainingPod":
        """Read leniently: a pod with a strange field has to leave like all others."""
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
            protected=_protection(annotations),
            claims=_volume_claims(metadata.get("name") or "", spec.get("volumes") or ()),
        )

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def stays(self) -> bool:
        """Does the drain leave it where it is?"""
        return (
            self.owner_kind in ("DaemonSet", "Node")
            or self.mirror
            or self.tolerates
            or self.phase in ("Succeeded", "Failed")
        )

    def protected_until(self) -> datetime | None:
        """Until when it may not be asked to leave: FOREVER,, None for not at all.

        A duration counts from the pod's start. What is neither ``true`` nor a duration protects nothing.
        """
        if self.protected == "true":
            return FOREVER
        try:
            seconds = parse_duration(self.protected) if self.protected else None
        except ValueError:
            seconds = None
        return self.started + timedelta(seconds=seconds) if seconds and self.started else None

    def is_protected(self, now: datetime) -> bool:
        """Does it still say so at `now`?"""
        until = self.protected_until()
        return until is not None and until > now


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod that is not asked any more: it gets `grace` seconds."""

    pod: DrainingPod
    grace: int


@dataclass(frozen=True, slots=True)
class Drain:
    """What to do for one node now. `waiting` are all pods that keep it from being drained, `blockers` says what keeps
    them.
    """

    evict: tuple[DrainingPod, ...] = ()
    delete: tuple[Deletion, ...] = ()
    waiting: tuple[DrainingPod, ...] = ()
    blockers: tuple[str, ...] = ()
    next_at: datetime | None = None
    """The next moment at which time alone changes something."""

    @property
    def done(self) -> bool:
        """Is the node drained?"""
        return not self.waiting


def drain(pods: Iterable[DrainingPod], *, now: datetime, deadline: datetime | None) -> Drain:
    """One look at a node's pods; all decisions of the drain are made here."""
    over = deadline is not None and now >= deadline
    waiting = [pod for pod in pods if not pod.stays and not _is_stuck(pod, now, timedelta(0) if over else STUCK)]
    overdue = [pod for pod in waiting if deadline is not None and now >= deadline - timedelta(seconds=pod.grace)]
    asked = [pod for pod in waiting if pod not in overdue]
    only_critical = all(pod.critical for pod in asked)
    tier = [pod for pod in asked if pod.critical == only_critical]
    free = [pod for pod in tier if pod.ends is None and not pod.is_protected(now)]
    return Drain(
        evict=tuple(sorted(free, key=lambda pod: (pod.priority, pod.key))),
        delete=tuple(found for pod in overdue if deadline is not None and (found := _deletion(pod, now, deadline))),
        waiting=tuple(waiting),
        blockers=tuple(
            f"pod {pod.key} asks not to be disrupted" for pod in tier if pod.ends is None and pod.is_protected(now)
        ),
        next_at=_next(asked, now, deadline),
    )


def pause(before: int, *, progress: bool, now: datetime, next_at: datetime | None, quiet: bool = False) -> int:
    """Seconds until the next look: short after progress, else as long as before, and never past `next_at`.

    Where it is `quiet`, nothing is waited for but that moment: a look before it would be in vain.

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


def must_move(pods: Iterable[DrainingPod], *, now: datetime, deadline: datetime | None) -> int:
    """How many pods of a node will soon want another place: those that leave, and that somebody makes anew."""
    return sum(
        bool(pod.owner_kind) and pod.ends is None and not (pod.stays or (deadline is None and pod.is_protected(now)))
        for pod in pods
    )


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
        until = pod.protected_until()
        moments += [until] if until is not None and until != FOREVER else []
    return min((moment for moment in moments if moment > now), default=None)


def _tolerates(tolerations: Iterable[Mapping[str, Any]]) -> bool:
    for said in tolerations:
        try:
            if Toleration.from_kube(said).tolerates(DISRUPTED):
                return True
        except InvalidField:
            continue
    return False


def _protection(annotations: Mapping[str, str]) -> str:
    if annotations.get(names.DO_NOT_EVICT) == "true":
        return "true"
    return annotations.get(names.DO_NOT_DISRUPT) or ""


def _volume_claims(pod: str, volumes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Names of the pod's volume claims; that of a generic ephemeral volume is made of the pod's name and the
    volume's.
    """
    found = [(one.get("persistentVolumeClaim") or {}).get("claimName") or "" for one in volumes]
    found += [f"{pod}-{one.get('name')}" for one in volumes if one.get("ephemeral")]
    return tuple(name for name in found if name)
