"""Finds annotations of a pool whose values are valid and have no effect beside what else the pool declares.

A value that is the default asks for nothing, so it is never reported. An annotation that only needs another one is not
reported while the other one has a problem of its own, because the remedy of that problem may be enough.

>>> notes, default = ManifestProblems("NodePool/web"), NodeClassRef("EC2NodeClass", "default")
>>> given = {names.MOST_EVICTIONS: "10"}
>>> note_idle_annotations(NodePool("web", default, replicas=1, own_annotations=given), notes)
>>> print(notes.problems[0].remedy)
it has no effect: a pool with spec.replicas is not consolidated
"""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Final

from joiner import names
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.consolidation_limits import LEAST_AGE_OF_REPLACEMENTS
from joiner.pools.node_pool import NodeClassRef, NodePool

NOT_CONSOLIDATED: Final = "it has no effect: a pool with spec.replicas is not consolidated"
OF_CONSOLIDATION: Final = (
    names.LEAST_SAVING,
    names.LEAST_SAVING_PERCENT,
    names.LEAST_NODE_AGE,
    names.MOST_EVICTIONS,
    names.WORKLOAD_COOL_DOWN,
    names.SPOT_TO_SPOT,
    names.SPOT_TO_SPOT_TYPES,
)
OF_SPOT: Final = (names.CAPACITY_MIX, names.REBALANCE, names.SPOT_TO_SPOT, names.SPOT_TO_SPOT_TYPES)


def _has_canary(pool: NodePool) -> bool:
    return pool.disruption.settings.drift.canary.rstrip("%").strip("0") != ""


PLAIN: Final = NodePool("", NodeClassRef("EC2NodeClass", ""))
"""A pool with the default of every annotation."""
SETTINGS: Final[Mapping[str, Callable[[NodePool], object]]] = {
    names.BUDGET_TIME_ZONE: lambda pool: str(pool.disruption.settings.time_zone),
    names.DRIFT_CANARY: _has_canary,
    names.DRIFT_CANARY_TIME: lambda pool: pool.disruption.settings.drift.canary_seconds,
    names.EXPIRATION: lambda pool: pool.disruption.settings.expiration.graceful,
    names.EXPIRATION_SPREAD: lambda pool: pool.disruption.settings.expiration.spread,
    names.LEAST_NODE_AGE: lambda pool: (
        pool.disruption.limits.least_node_age
        not in (
            None,
            0,
            LEAST_AGE_OF_REPLACEMENTS,
        )
    ),
    names.LEAST_SAVING: lambda pool: pool.disruption.limits.least_saving_per_hour,
    names.LEAST_SAVING_PERCENT: lambda pool: pool.disruption.limits.least_saving_percent,
    names.NODE_REPAIR_TOLERANCES: lambda pool: pool.disruption.settings.repair.tolerances,
    names.REBALANCE: lambda pool: pool.disruption.settings.rebalance,
    names.SPOT_TO_SPOT: lambda pool: pool.disruption.limits.spot_to_spot,
    names.SPOT_TO_SPOT_TYPES: lambda pool: pool.disruption.limits.spot_to_spot_least_types,
    names.WORKLOAD_COOL_DOWN: lambda pool: pool.disruption.limits.workload_cool_down,
}
"""Annotation with a default -> what it sets. The default age of a node depends on what launched it."""
NO_SPOT: Final = "it has no effect: the pool allows no spot nodes"


def note_idle_annotations(pool: NodePool, notes: ManifestProblems) -> None:
    """Note each annotation without effect, once, with the reason; not those whose value has a problem already."""
    given = pool.own_annotations if isinstance(pool.own_annotations, Mapping) else {}
    invalid = {key for key in given if any(one.field == _field(key) for one in notes.problems)}
    asking = {key for key in given if key not in SETTINGS or SETTINGS[key](pool) != SETTINGS[key](PLAIN)}
    reasons = dict[str, str]()
    for key, reason in (*_find(pool), *_find_dependent(pool, invalid)):
        if key in asking and key not in invalid:
            reasons.setdefault(key, reason)
    for key, reason in reasons.items():
        notes.note(_field(key), given[key], reason, "warning")


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _find_dependent(pool: NodePool, invalid: Set[str]) -> Iterator[tuple[str, str]]:
    """Yield each annotation that has no effect without another one, unless the other one is invalid."""
    for key, needed, value, met in (
        (names.DRIFT_CANARY_TIME, names.DRIFT_CANARY, "", _has_canary(pool)),
        (names.EXPIRATION_SPREAD, names.EXPIRATION, ": graceful", pool.disruption.settings.expiration.graceful),
        (names.SPOT_TO_SPOT_TYPES, names.SPOT_TO_SPOT, ': "true"', pool.disruption.limits.spot_to_spot),
    ):
        if not met and needed not in invalid:
            yield key, f"it has no effect without {needed}{value}"


def _find(pool: NodePool) -> Iterator[tuple[str, str]]:
    """Yield each annotation that would have no effect on the pool, and why."""
    if names.SPOT not in pool.requirements.on(names.CAPACITY_TYPE):
        yield from ((key, NO_SPOT) for key in OF_SPOT)
    yield from _of_consolidation(pool)
    settings = pool.disruption.settings
    if not settings.drift.replace:
        why = f"it has no effect: {names.DRIFT} is detect, so that no drifted node is replaced"
        yield from ((key, why) for key in (names.DRIFT_CANARY, names.DRIFT_CANARY_TIME))
    if pool.expire_after is None:
        field = "ttlSecondsUntilExpired" if pool.legacy else "expireAfter"
        why = f"it has no effect: the nodes of the pool do not expire ({pool.node_path}.{field})"
        yield from ((key, why) for key in (names.EXPIRATION, names.EXPIRATION_SPREAD))
    if not settings.repair.enabled:
        yield names.NODE_REPAIR_TOLERANCES, f"it has no effect: {names.NODE_REPAIR} is disabled"
    if not any(budget.schedule for budget in pool.disruption.budgets):
        yield names.BUDGET_TIME_ZONE, "it has no effect: no budget of the pool has a schedule"


def _of_consolidation(pool: NodePool) -> Iterator[tuple[str, str]]:
    if pool.replicas is not None:
        why = NOT_CONSOLIDATED
    elif pool.disruption.consolidate_after is None:
        why = "it has no effect: the pool does not consolidate its nodes"
    elif pool.disruption.policy == "WhenEmpty":
        why = "it has no effect: the pool removes only empty nodes, which no limit keeps"
    else:
        why = ""
    if why:
        yield from ((key, why) for key in OF_CONSOLIDATION)
