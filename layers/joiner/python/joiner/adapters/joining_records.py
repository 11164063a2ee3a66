"""What one pass of a function reads and writes in the table about claims whose nodes join, or fail: their assignments,
and the holds of their pools.

Each kind is read once, when the first claim needs it: a pass may give up a thousand nodes, or open them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Final

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.kube import Kube
from joiner.adapters.ledger import Ledger
from joiner.cluster import Node
from joiner.lifecycle.failed_nodes import count_failure
from joiner.lifecycle.immediate_terminations import back_off_id_of_class
from joiner.names import GENERATIONS
from joiner.planning import Snapshot
from joiner.planning.inputs.held_pools import find_edition, find_generations
from joiner.pools import NodeClaim, NodePool
from joiner.pools.pool_holds import OF_REPLICAS, PoolHold

OF_EDITIONS: Final = (*kinds.POOLS, *kinds.NODE_CLASSES, kinds.DAEMON_SETS, kinds.NODE_OVERLAYS)


class JoiningRecords:
    """The records of one pass, for all its threads. `now` is in epoch seconds."""

    def __init__(self, kube: Kube, ledger: Ledger, now: int) -> None:
        self._kube = kube
        self._ledger = ledger
        self._now = now
        self._lock = Lock()
        self._assigned: dict[str, Mapping[str, int]] | None = None
        self._holds: dict[str, PoolHold] | None = None
        self._good_images: set[tuple[str, str]] = set()
        self._world: Snapshot | None = None

    def assigned(self) -> Mapping[str, Mapping[str, int]]:
        """Return the pod classes of all claims, by claim, without those that this pass deleted."""
        with self._lock:
            return dict(self._read_assigned())

    def unassign(self, claim: str) -> None:
        """Delete the assignment of a claim that takes no more pods of it."""
        self._ledger.unassign(claim)
        with self._lock:
            if self._assigned is not None:
                self._assigned.pop(claim, None)

    def note_failed(self, claim: NodeClaim, device: str, cause: str) -> PoolHold | None:
        """Count that the node of a claim never became ready for the pods that it was launched for; return the hold that
        lasts longest, None if another node is launched at once.

        `device` is the extended resource that it did not register, or empty; `cause` is the text of the claim's event.
        The node of a pool or class that was corrected since does not count, nor that of a claim without a pool.
        """
        launched = claim.conditions["Launched"].since
        with self._lock:
            pool = self._find_pool(claim)
            if pool is None or launched is None:
                return None
            classes = self._read_assigned().get(claim.name) or self._list_unassigned(pool)
            mine = [hold for hold in self._read_holds().values() if hold.claim == claim.name]
            if not mine:  # else it was counted, and then its condition could not be written
                failed = PoolHold(
                    pool=claim.pool_key,
                    class_key=OF_REPLICAS,
                    device=device,
                    edition=find_edition(self._read_world(), pool),
                    launched_at=int(launched.timestamp()),
                    failed_at=self._now,
                    failures=1,
                    until=0,
                    claim=claim.name,
                    cause=cause,
                )
                mine = [self._count(replace(failed, class_key=key)) for key in classes]
        longest = max(mine, key=lambda hold: hold.until, default=None)
        return longest if longest and longest.holds(self._now) else None

    def note_ready(self, claim: NodeClaim, node: Node) -> None:
        """Delete what is counted against the claim's pool for the pods that its node was launched for: it is ready.

        What is counted for a device stays, unless the node registered it.
        """
        with self._lock:
            mine = self._read_assigned().get(claim.name) or (OF_REPLICAS,)
            over = [
                hold
                for hold in self._read_holds().values()
                if (hold.claim == claim.name or (hold.pool == claim.pool_key and hold.class_key in mine))
                and (not hold.device or node.allocatable.get(hold.device, 0) > 0)
            ]
            for hold in over:
                self._ledger.forget_pool_hold(hold)
                self._read_holds().pop(hold.id)

    def note_good_class(self, claim: NodeClaim) -> None:
        """End the count of instances of the claim's class that ended at their launch, if they are older than the launch
        of its node, which is ready, and the last one had its image; once for each class and image."""
        launched = claim.conditions["Launched"].since
        what = back_off_id_of_class(claim.class_ref.name, legacy=claim.class_ref.kind != "EC2NodeClass")
        with self._lock:
            if launched is not None and (what, claim.image_id) not in self._good_images:
                self._ledger.end_back_off(what, int(launched.timestamp()), claim.image_id)
                self._good_images.add((what, claim.image_id))

    def _find_pool(self, claim: NodeClaim) -> NodePool | None:
        """Return the pool of a claim, if nodes are launched now from the same pool and class as the claim's was."""
        world = self._read_world()
        pool = next((one for one in world.pools if one.key == claim.pool_key and one.uid == claim.pool_uid), None)
        same = pool and find_generations(world, pool) == claim.annotations.get(GENERATIONS)
        return pool if same else None

    @staticmethod
    def _list_unassigned(pool: NodePool) -> Sequence[str]:
        """Return for what a node without assigned pods was launched: if the pool is static, as one of its replicas."""
        return (OF_REPLICAS,) if pool.replicas is not None else ()

    def _count(self, failed: PoolHold) -> PoolHold:
        """Return the hold of a class after one more failure."""
        before = self._read_holds().get(failed.id)
        after = count_failure(before, failed)
        if after is None or not self._ledger.put_pool_hold(after, before):
            return before or failed  # counted before, or by another execution
        self._read_holds()[after.id] = after
        return after

    def _read_assigned(self) -> dict[str, Mapping[str, int]]:
        if self._assigned is None:
            self._assigned = {name: each.classes for name, each in self._ledger.assignments().items()}
        return self._assigned

    def _read_holds(self) -> dict[str, PoolHold]:
        if self._holds is None:
            self._holds = {hold.id: hold for hold in self._ledger.pool_holds()}
        return self._holds

    def _read_world(self) -> Snapshot:
        if self._world is None:
            self._world = Snapshot.from_lists(ListedCluster(self._kube, OF_EDITIONS).lists())
        return self._world
