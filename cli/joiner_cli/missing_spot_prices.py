"""Spot Instances in plans from a catalogue without spot prices, as the packaged one is.

A cluster has spot prices and launches these instances. A plan without them must not say that a pod cannot run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.cluster import Pod, Requirements
from joiner.planning import PendingPod, Plan, Reason, Snapshot
from joiner.pools import InvalidManifest, NodePool

NO_PRICES: Final = "the catalogue has no spot prices (--catalogue)"
"""The consequences and the remedy are described once, by ``ABOUT_CATALOGUE``."""
ABOUT_CATALOGUE: Final = (
    "without spot prices, which a cluster has: this plan has on-demand nodes only; give a catalogue with spot prices "
    "with --catalogue"
)
SPOT_POOL: Final = f"it allows Spot Instances only, and {NO_PRICES}"
SPOT_OR_RESERVED_POOL: Final = (
    f"it allows Spot Instances and reserved capacity only, {NO_PRICES}, and its class has no free instance in a "
    "capacity reservation of the catalogue that the pool allows"
)
SPOT_POOLS: Final = frozenset({SPOT_POOL, SPOT_OR_RESERVED_POOL})
"""The reasons of pools that lack spot prices."""
SPOT_POD: Final = f"the pod requires a Spot Instance, and {NO_PRICES}"


def close_spot_pools(snapshot: Snapshot, has_reserved: Callable[[NodePool], bool]) -> Snapshot:
    """Return the snapshot without nodes of the pools that need spot prices. ``has_reserved`` tells whether a pool has a
    free instance in a capacity reservation, which it may allow beside Spot Instances.
    """
    spot = {}
    for pool in snapshot.pools:
        if _only_spot(pool.requirements):
            beside = names.RESERVED in pool.requirements.on(names.CAPACITY_TYPE)
            if not (beside and has_reserved(pool)):
                spot[pool.key] = SPOT_OR_RESERVED_POOL if beside else SPOT_POOL
    return replace(snapshot, closed_pools={**spot, **snapshot.closed_pools})


def report_missing_prices(made: Plan, snapshot: Snapshot) -> Plan:
    """Return the plan with the missing prices as the reason, where nothing else is known to exclude a pod."""
    pods = {pod.key: pod for pod in snapshot.pods}
    open_to_spot = {
        pool.name
        for pool in snapshot.pools
        if names.SPOT in pool.requirements.on(names.CAPACITY_TYPE) and pool.key not in snapshot.closed_pools
    }
    pending = tuple(
        PendingPod(one.pod, tuple(_without_price(one.reasons, open_to_spot)))
        if one.pod in pods and requires_spot(pods[one.pod])
        else one
        for one in made.pending
    )
    spot_only = {key for key, reason in snapshot.closed_pools.items() if reason in SPOT_POOLS}
    return replace(made, pending=pending, problems=tuple(_problems(made.problems, spot_only)))


def _without_price(reasons: Sequence[Reason], open_to_spot: set[str]) -> Iterator[Reason]:
    """Yield the reasons; a requirement that no offering meets is the missing price."""
    for one in reasons:
        yield Reason(one.pool, SPOT_POD) if one.pool in open_to_spot and names.CAPACITY_TYPE in one.reason else one


def _problems(problems: Sequence[InvalidManifest], spot_only: set[str]) -> Iterator[InvalidManifest]:
    for one in problems:
        of_capacity_type = one.field.endswith(f"[{names.CAPACITY_TYPE}]") and names.SPOT in one.value
        yield replace(one, remedy=NO_PRICES) if one.object in spot_only and of_capacity_type else one


def requires_spot(pod: Pod) -> bool:
    """Return whether the pod runs on Spot Instances only."""
    alternatives = pod.constraints.on_new_nodes()
    return bool(alternatives) and all(_only_spot(one) for one in alternatives)


def _only_spot(requirements: Requirements) -> bool:
    allowed = requirements.on(names.CAPACITY_TYPE)
    return names.SPOT in allowed and names.ON_DEMAND not in allowed
