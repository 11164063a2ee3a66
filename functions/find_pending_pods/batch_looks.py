"""Looks at a batch of pending pods: the pods without a node are listed until no more of them are coming.

Each look belongs to the lease as it was renewed before the list, with the number of rings that the list covers.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aws_lambda_powertools import Logger

from joiner.adapters.cluster_view import ClusterView
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.ledger_items import Lease
from joiner.adapters.listed_pods_role import ListedPodsRole
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each
from joiner.cluster import Pod
from joiner.lifecycle.pod_gathering import SHORT_PAUSE, Batch, BatchTimes, Gathering, missing_pods, must_wait
from joiner.planning import Snapshot

logger = Logger()

CONTROLLERS_READ: Final = 32
"""Controllers of one batch that are read. A batch with more of them waits while new pods keep coming."""


@dataclass(frozen=True, slots=True)
class SearchTime:
    """How a search pauses, in seconds, and measures time, and the time that it has left; tests replace them."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    left: TimeLeft = UNBOUNDED


@dataclass(frozen=True, slots=True)
class Look:
    """One listing of a batch: the lease that was renewed before it, what the listings before it found, the batch,
    whether more of its pods may come, and when it began, in seconds of the search's clock."""

    lease: Lease
    so_far: Gathering
    batch: Batch
    growing: bool
    began: float


class BatchLooks:
    """The looks of one search at its batch; its dependencies are arguments, which tests replace.

    The time between two looks is measured: on a busy API server, a list takes longer than the pause after it.
    """

    def __init__(self, view: ClusterView, listed_pods: ListedPodsRole, times: BatchTimes, timing: SearchTime) -> None:
        self._view = view
        self._listed_pods = listed_pods
        self._times = times
        self._sleep = timing.sleep
        self._clock = timing.clock
        self._time_left = timing.left

    def look(self, lease: Lease, so_far: Gathering, began: float | None = None) -> Look:
        """List the pods without a node; `began` is now, if it is known."""
        began = self._clock() if began is None else began
        return self._assess(lease, so_far, Snapshot.from_lists({"pods": self._view.pods_without_node()}).pods, began)

    def gather(self, look: Look, renew: Callable[[], Lease]) -> Look:
        """Return the last look at a batch that grows: half a second after the one before, and after the lease is
        renewed. A batch that grows when the time is over is left to the next search.
        """
        for _ in range(self._times.looks_again):
            if not look.growing or not look.batch.pending:  # an event may be a second before the condition of its pod
                break
            if self._time_left.over:
                break
            pending = look.batch.pending
            so_far = replace(look.so_far, unrecordable=not self.record_listed(pending, look.so_far))
            self._sleep(SHORT_PAUSE)
            lease, now = renew(), self._clock()
            look = self.look(lease, so_far.after_another(now - look.began, len(pending)), now)
        return look

    def leave(self, look: Look, pause: float) -> Gathering:
        """Return what a search has found that ends with this look, for the search that begins `pause` seconds later."""
        pending = look.batch.pending
        recorded = self.record_listed(pending, look.so_far)
        after = look.so_far.after_another(self._clock() - look.began + pause, len(pending))
        return replace(after, unrecordable=not recorded)

    def compare(self, look: Look, pods: Iterable[Pod]) -> Look:
        """Return the look at these pods of the snapshot, which were listed after a batch that was complete at once.

        The first pods of a burst may be the only ones at the first look. If no others have come, this costs no request
        and no time, whatever pods of other controllers the scheduler is about to try. A batch that has waited before is
        complete.
        """
        if not look.so_far.first_look or not Batch.of(pods := tuple(pods)).has_grown_since(look.batch):
            return look
        return self._assess(look.lease, look.so_far, pods, look.began)

    def record_listed(self, pending: Sequence[Pod], so_far: Gathering) -> bool:
        """Record the listed pods, so that their events do not ring; return False if that failed in this batch."""
        if so_far.unrecordable:
            return False
        try:
            if recorded := self._listed_pods.record(pending):
                logger.info("the events of the listed pods do not ring the doorbell any more", pods=recorded)
        except KubeError as error:  # they ring, and this execution lists again
            logger.warning("the listed pods could not be recorded: their events ring the doorbell", reason=str(error))
            return False
        return True

    def _assess(self, lease: Lease, so_far: Gathering, pods: Iterable[Pod], began: float) -> Look:
        batch = Batch.of(pods)
        growing = must_wait(so_far, batch, lambda: self._missing_pods(batch), self._times)
        return Look(lease, so_far, batch, growing, began)

    def _missing_pods(self, batch: Batch) -> list[int | None]:
        """Return, for each controller of a pending pod, how many pods it has not created yet; None if unknown."""
        owners = list(batch.owners().values())
        if len(owners) > CONTROLLERS_READ:
            return [None]
        return [
            missing_pods(found, batch.pods_of(pod.owner_uid)) if isinstance(found, Mapping) else None
            for pod, found in call_each(
                owners, lambda pod: self._view.controller(pod.owner_kind, pod.namespace, pod.owner_name), KubeError
            )
        ]
