"""Static pools with the replicas that their schedules set now."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from joiner.pools.node_pool import NodePool


def apply_schedules(pools: Iterable[NodePool], now: datetime) -> tuple[NodePool, ...]:
    """Return the pools with the replicas that their schedules set at `now`."""
    return tuple(_at(pool, now) for pool in pools)


def _at(pool: NodePool, now: datetime) -> NodePool:
    if pool.replicas is None or pool.planning.schedule is None:
        return pool
    scheduled = pool.planning.schedule.replicas_at(now)
    return pool if scheduled is None else replace(pool, replicas=scheduled)
