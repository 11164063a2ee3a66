"""Disruption budgets: how many nodes of a pool may be disrupted at one time, for one reason.

Source: Karpenter, core `pkg/apis/v1/nodepool.go` (GetAllowedDisruptionsByReason). Of all active budgets for the reason,
the strictest counts. A percentage is rounded up. A budget becomes active by its schedule and stays active for its
duration. Nodes that are not ready or that leave, for whatever reason, count against the result.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal

from joiner.cluster import Node
from joiner.pools.cron_schedules import CronSchedule
from joiner.pools.disruption_settings import count_share
from joiner.pools.node_claim import NodeClaim
from joiner.pools.node_pool import DisruptionBudget, NodePool

Reason = Literal["Empty", "Underutilized", "Drifted", "Expired", "Rebalance"]

COUNTS_AS: Final[Mapping[str, str]] = {"Expired": "Drifted"}
"""Reasons that budgets cannot name -> the reason whose budgets hold for them. Expiration replaces a node by a newer one
of the same kind, as drift does. For other reasons only the budgets without reasons hold."""

LONGEST: Final = timedelta(days=366)


def count_allowed_disruptions(
    budgets: Iterable[DisruptionBudget], reason: Reason, *, nodes: int, now: datetime, zone: tzinfo | None = UTC
) -> int:
    """Return how many of a pool's `nodes` may be in disruption at `now` for `reason`.

    Nodes that are already in disruption count against the result. `zone` is the time zone of the schedules; None means
    that it is not known: then every budget with a schedule is active.

    >>> noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> share, three = DisruptionBudget("10%"), DisruptionBudget("3", reasons=("Empty",))
    >>> count_allowed_disruptions([share, three], "Empty", nodes=11, now=noon)
    2
    >>> saturday = DisruptionBudget("0", schedule="0 9 * * sat", duration=8 * 3600)
    >>> count_allowed_disruptions([saturday], "Empty", nodes=11, now=noon)
    0
    """
    named = COUNTS_AS.get(reason, reason)
    mine = [each for each in budgets if not each.reasons or named in each.reasons]
    try:
        active = [each for each in mine if is_active(each, now, zone)]
        return min((count_share(each.nodes, nodes) for each in active), default=nodes)
    except ValueError:  # an invalid schedule allows nothing
        return 0


def is_active(budget: DisruptionBudget, now: datetime, zone: tzinfo | None = UTC) -> bool:
    """Return whether the budget is active at `now`. ValueError if its schedule is not valid."""
    if budget.schedule is None or budget.duration is None:
        return True
    schedule = CronSchedule.parse(budget.schedule)
    since = now - min(timedelta(seconds=budget.duration), LONGEST)
    return zone is None or schedule.started_within(since, now, zone)


def count_remaining_disruptions(
    pool: NodePool,
    reason: Reason,
    claims: Iterable[NodeClaim],
    nodes: Mapping[str, Node],
    *,
    leaving: Collection[str] = (),
    now: datetime,
) -> int:
    """Return how many more nodes of a pool may be disrupted now for `reason`.

    Args:
        pool: the pool.
        reason: the reason of the disruption.
        claims: the claims of any pool. Initialized ones count, until their instance is being terminated.
        nodes: the nodes by the key of their claim.
        leaving: names of claims that were chosen for a disruption, and whose nodes may not show it yet.
        now: the time.
    """
    mine = _counted(pool, claims, nodes)
    allowed = _count_allowed(pool, reason, mine, now)
    return max(0, allowed - sum(_is_disrupted(claim, nodes[claim.key], leaving) for claim in mine))


def is_closed_by_budgets(
    pool: NodePool, reason: Reason, claims: Iterable[NodeClaim], nodes: Mapping[str, Node], *, now: datetime
) -> bool:
    """Return whether a pool has nodes and its budgets allow none of them now for `reason`, even if no other node were
    in disruption. The arguments are those of `count_remaining_disruptions`."""
    mine = _counted(pool, claims, nodes)
    return bool(mine) and not _count_allowed(pool, reason, mine, now)


def _count_allowed(pool: NodePool, reason: Reason, mine: Sequence[NodeClaim], now: datetime) -> int:
    zone = pool.disruption.settings.time_zone
    return count_allowed_disruptions(pool.disruption.budgets, reason, nodes=len(mine), now=now, zone=zone)


def find_over_budget(
    chosen: Sequence[str],
    pools: Iterable[NodePool],
    claims: Iterable[NodeClaim],
    nodes: Mapping[str, Node],
    *,
    now: datetime,
) -> Mapping[str, str]:
    """Return which of the `chosen` empty nodes (names of claims, in order) the budgets do not allow now: the reason by
    claim.

    The nodes were chosen within the budgets some seconds ago. Other nodes of their pools may leave since then.
    """
    every = list(claims)
    found: dict[str, str] = {}
    for pool in pools:
        mine = {claim.name for claim in every if claim.pool_key == pool.key} & set(chosen)
        if not mine:
            continue
        initialized = _counted(pool, every, nodes)
        allowed = _count_allowed(pool, "Empty", initialized, now)
        others = sum(_is_disrupted(claim, nodes[claim.key], ()) for claim in initialized if claim.name not in mine)
        for name in [each for each in chosen if each in mine][max(0, allowed - others) :]:
            found[name] = f"the budgets of {pool.key} allow {allowed} nodes, and {others} others leave or are not ready"
    return found


def _counted(pool: NodePool, claims: Iterable[NodeClaim], nodes: Mapping[str, Node]) -> list[NodeClaim]:
    """Return the claims of a pool of which its budgets are a share."""
    return [
        claim
        for claim in claims
        if claim.pool_key == pool.key
        and claim.initialized
        and claim.key in nodes
        and not claim.conditions.true("InstanceTerminating")
    ]


def _is_disrupted(claim: NodeClaim, node: Node, leaving: Collection[str]) -> bool:
    return claim.deleting or node.retiring or not node.ready or claim.name in leaving
