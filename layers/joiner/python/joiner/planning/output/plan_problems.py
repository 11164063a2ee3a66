"""What the objects of a plan name and this catalogue does not have, and what a class excludes: the plan's problems.

These are warnings and notes on pools, which their authors read; the reasons of pending pods are in ``explanation``.
"""

from collections.abc import Iterator

from joiner.catalogue import (
    Catalogue,
    find_idle_exclusions,
    find_unknown_limits,
    find_unknown_values,
    find_unsatisfiable_requirements,
)
from joiner.catalogue.class_compatibility import find_class_conflict, find_open_windows_pool, find_unused_instance_store
from joiner.catalogue.missing_reservations import find_missing_reservations
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_offers import NO_TYPE_AVAILABLE
from joiner.planning.state.plan_state import PlanState
from joiner.pools import InvalidManifest


def find_plan_problems(state: PlanState, snapshot: Snapshot, catalogue: Catalogue) -> Iterator[InvalidManifest]:
    """Yield what this catalogue does not have: values of requirements, resources of limits, and instance types for a
    pool that offers nothing, unless its values were reported. A class may also exclude every type of its pool."""
    yield from state.found_problems
    unknown = find_unknown_values(snapshot.pools, catalogue)
    yield from unknown
    yield from find_idle_exclusions(snapshot.pools, catalogue)
    yield from find_unknown_limits(snapshot.pools, catalogue, snapshot.overlays.resources)
    reported = {problem.object for problem in unknown}
    for pool_offers in state.offered_pools:
        pool = pool_offers.pool
        if missing := find_missing_reservations(pool, (pool_offers.fixed or pool_offers).closed):
            yield missing
        if pool_offers.closed == NO_TYPE_AVAILABLE and pool.key not in reported:
            problem = find_unsatisfiable_requirements(pool, catalogue) or find_class_conflict(
                pool, pool_offers.exclusions
            )
            yield from (problem,) if problem else ()
        made = pool_offers.fixed or pool_offers
        stores = (one.model.labels for one in made.launchable)
        if unused := find_unused_instance_store(pool, pool_offers.node_class, stores):
            yield unused
        if made.launchable and (taken := find_open_windows_pool(pool, pool_offers.node_class)):
            yield taken
