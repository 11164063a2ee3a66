"""Pools that launch no node now for the pods of a class, because their last nodes never became ready for such pods.

A device that an overlay or an instance type promises may never be registered, and an image may never join: each new
node would stay useless for 15 minutes. Other pools stay open to these pods, and the pool to other pods
(`joiner.pools.pool_holds`).
"""

from collections.abc import Iterable
from dataclasses import replace

from joiner.cluster import Pod
from joiner.planning.inputs.snapshot import Snapshot
from joiner.pools import NodePool
from joiner.pools.pool_holds import OF_REPLICAS, PoolHold, describe_edition
from joiner.pools.registration_health import format_generations


def with_held_pools(snapshot: Snapshot, holds: Iterable[PoolHold], at: int) -> Snapshot:
    """Return the snapshot in which held pools are closed to the pods that wait, and held static pools to their
    replicas.

    Holds that ended before ``at`` (epoch s) or are of another edition than the pools have now count for nothing.
    """
    standing = find_standing_holds(snapshot, holds, at)
    if not standing:
        return snapshot
    held: dict[str, dict[str, str]] = {}
    closed: dict[str, str] = {}
    for one in sorted(standing, key=lambda each: each.until):  # of several holds, the reason is the last to end
        if one.class_key == OF_REPLICAS:
            closed[one.pool] = one.reason
        else:
            held.setdefault(one.class_key, {})[one.pool] = one.reason
    return replace(snapshot, held_pools=held, closed_pools={**snapshot.closed_pools, **closed})


def find_standing_holds(snapshot: Snapshot, holds: Iterable[PoolHold], at: int) -> list[PoolHold]:
    """Return the holds that close a pool at ``at`` (epoch s) to pods of the snapshot, or a static pool to its
    replicas."""
    pools = {pool.key: pool for pool in snapshot.pools}
    standing = [
        one
        for one in holds
        if one.holds(at) and one.pool in pools and one.edition == find_edition(snapshot, pools[one.pool])
    ]
    samples = {pod.class_key: pod for pod in snapshot.pods} if standing else {}
    return [one for one in standing if _concerns(one, pools[one.pool], samples.get(one.class_key))]


def _concerns(hold: PoolHold, pool: NodePool, pod: Pod | None) -> bool:
    if hold.class_key == OF_REPLICAS:
        return pool.replicas is not None
    return pod is not None and (not hold.device or pod.requests.get(hold.device, 0) > 0)


def find_edition(snapshot: Snapshot, pool: NodePool) -> str:
    """Return the edition of the nodes that a plan for the snapshot launches for a pool."""
    return describe_edition(pool.uid, find_generations(snapshot, pool), snapshot.daemon_sets, snapshot.overlays)


def find_generations(snapshot: Snapshot, pool: NodePool) -> str:
    """Return the generations of a pool and its class, as the annotation of a claim made from them has them."""
    node_class = snapshot.node_class(pool)
    return format_generations(pool.generation, node_class.generation if node_class else 0)
