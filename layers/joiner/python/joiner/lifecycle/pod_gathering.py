"""Determine whether more pods of a batch are still coming, so that one Deployment gets one plan.

The controllers of the pending pods say how many pods they want. A batch is complete when all controllers of its pods
have created them and the scheduler has tried each one, or others that stand for it
(`joiner.planning.inputs.untried_pods`); then nothing waits. For other pods the batch waits while new ones keep coming.

Source of the default times: Karpenter, Settings (BATCH_IDLE_DURATION 1 s, BATCH_MAX_DURATION 10 s).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.cluster import Pod

Manifest = Mapping[str, Any]

CREATING: Final = 2
"""Multiple of the idle time that a batch waits for a controller that is known to create more pods: creating and trying
a pod may take longer than a second on a busy cluster."""

SHORT_PAUSE: Final = 0.5
"""Seconds until a function that finds an incomplete batch lists it again; a wait of the state machine lasts whole
seconds."""


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Whole seconds: how long no new pod comes before a batch ends, and how long a batch gathers at most; and how often
    one invocation lists the pods of a growing batch again.

    A second of this function costs as much as a wait of the state machine and another invocation, which would begin
    later.
    """

    idle: int = 1
    longest: int = 10
    looks_again: int = 12


@dataclass(frozen=True, slots=True)
class Gathering:
    """What the previous listings of this batch found: the seconds waited, the pending pods of the last listing, and the
    seconds without a new one.

    `unrecordable`: the listed pods could not be recorded, which is not tried again in this batch. `pause` are the
    seconds since the last listing.
    """

    waited: float = 0
    pods: int = 0
    idle: float = 0
    unrecordable: bool = False
    pause: float = 1

    @property
    def first_look(self) -> bool:
        """Return whether the execution has not waited yet."""
        return self.waited == 0

    def to_json(self) -> dict[str, float | bool]:
        """Return the JSON form of the value for the next invocation.

        >>> Gathering(4.25, 7, 0, pause=1).to_json()
        {'waited': 4.25, 'pods': 7, 'idle': 0}
        """
        failed = {"unrecordable": True} if self.unrecordable else {}
        longer = {} if self.pause == 1 else {"pause": self.pause}
        return {"waited": self.waited, "pods": self.pods, "idle": self.idle, **failed, **longer}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Gathering":
        """Read the JSON form of the value, as `to_json` returns it."""
        failed, pause = document.get("unrecordable", False), document.get("pause", 1)
        return cls(document["waited"], document["pods"], document["idle"], failed, pause)

    def idle_until(self, pods: int) -> float:
        """Return the seconds without a new pod, if there are so many pending pods now."""
        return self.idle + self.pause if self.waited and pods <= self.pods else 0

    def after_another(self, seconds: float, pods: int) -> "Gathering":
        """Return the state at the next listing, so many seconds later, if there are so many pending pods now."""
        waited = round(self.waited + seconds, 2)
        return Gathering(waited, pods, self.idle_until(pods), self.unrecordable, round(seconds, 2))

    @staticmethod
    def of_next_batch(pods: int) -> "Gathering":
        """Return the state at the first listing of the next round, which begins with a second's wait."""
        return Gathering(1, pods)


@dataclass(frozen=True, slots=True)
class Batch:
    """The unbound pods of one listing: those that are pending, and those that no scheduler has tried yet."""

    pending: tuple[Pod, ...]
    untried: tuple[Pod, ...]

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> "Batch":
        """Return the batch among these pods, which may include bound pods."""
        unbound = [one for one in pods if not (one.node_name or one.terminal or one.deletion or one.stays_with_node)]
        return cls(
            pending=tuple(one for one in unbound if one.provisionable),
            untried=tuple(
                one for one in unbound if one.unschedulable is None and not one.gates and not one.nominated_node
            ),
        )

    @property
    def keys(self) -> set[str]:
        """Return the keys of all its pods."""
        return {one.key for one in (*self.pending, *self.untried)}

    def has_grown_since(self, earlier: "Batch") -> bool:
        """Return whether it has new pending pods, or new untried pods without a controller, perhaps those of a burst.

        The untried pods of controllers do not count: most are about to be bound, such as that of a CronJob, and ring
        when they are not.
        """
        joined = (*self.pending, *(one for one in self.untried if not one.owner_kind))
        return not {one.key for one in joined} <= earlier.keys

    def owners(self) -> dict[str, Pod]:
        """Return one pending pod for each controller, by the controller's uid; pods without one have the key ``""``."""
        return {one.owner_uid: one for one in self.pending}

    @property
    def is_single_pod(self) -> bool:
        """Return whether it is one pending pod that no controller has created."""
        return len(self.pending) == 1 and not self.untried and not self.pending[0].owner_kind

    def pods_of(self, owner_uid: str) -> int:
        """Return how many of its pods a controller has created."""
        return len({one.key for one in (*self.pending, *self.untried) if one.owner_uid == owner_uid})


def missing_pods(owner: Manifest, listed: int = 0) -> int | None:
    """Return how many pods a controller has not created yet; None if that cannot be known.

    `listed` of its pods are in the batch. Its status counts bound pods, too, but is written after they are created.

    >>> missing_pods({"kind": "ReplicaSet", "spec": {"replicas": 5}, "status": {"replicas": 3}})
    2
    >>> missing_pods({"kind": "ReplicaSet", "spec": {"replicas": 5}, "status": {"replicas": 3}}, listed=5)
    0
    >>> missing_pods({"kind": "StatefulSet", "spec": {"replicas": 5}, "status": {"replicas": 1}})
    0
    >>> job = {"parallelism": 4, "completions": 6}
    >>> missing_pods({"kind": "Job", "spec": job, "status": {"active": 1, "succeeded": 4}})
    1
    """
    spec, status = owner.get("spec") or {}, owner.get("status") or {}
    created = max(int(status.get("replicas") or 0), listed)
    match owner.get("kind"):
        case "ReplicaSet" | "ReplicationController":
            return max(0, _count(spec, "replicas", 1) - created)
        case "StatefulSet":
            # The pods of an ordered stateful set come one at a time, each after the one before is ready
            ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
            return 0 if ordered else max(0, _count(spec, "replicas", 1) - created)
        case "Job":
            wanted = _count(spec, "parallelism", 1)
            if spec.get("completions") is not None:
                wanted = min(wanted, int(spec["completions"]) - int(status.get("succeeded") or 0))
            return max(0, wanted - max(int(status.get("active") or 0), listed))
        case _:
            return None


def must_wait(
    so_far: Gathering, batch: Batch, missing_of_owners: Callable[[], Sequence[int | None]], times: BatchTimes
) -> bool:
    """Return whether to list again soon, because the batch may grow.

    `missing_of_owners` returns, for each controller of a pending pod, how many pods it has not created yet (None if
    that is unknown). It is called only if the answer depends on it.
    """
    if so_far.waited >= times.longest:
        return False
    if not batch.pending:
        # The event of a pod that is unschedulable may arrive before the pod's condition is stored
        return so_far.first_look
    if batch.is_single_pod:
        return False
    idle = so_far.idle_until(len(batch.pending))
    if idle >= times.idle * CREATING:
        return False
    missing = missing_of_owners()
    if any(missing):
        return True
    return (bool(batch.untried) or None in missing) and idle < times.idle


def _count(spec: Manifest, field: str, default: int) -> int:
    value = spec.get(field)
    return default if value is None else int(value)
