"""Nodes that are being drained or deleted: their pods will need other nodes. And nodes that are marked for disruption:
their pods stay until all replacements of the disruption are initialized.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from joiner import names
from joiner.cluster import Node
from joiner.pools.node_claim import NodeClaim
from joiner.pools.timestamps import parse_timestamp


def find_retiring_nodes(nodes: Collection[Node], claims: Collection[NodeClaim]) -> frozenset[str]:
    """Return the names of the nodes that are being drained or deleted, or whose claims are. Nodes that are only marked
    for disruption are none of them (`find_marked_nodes`).
    """
    closed = frozenset(node.name for node in nodes if node.retiring) | _nodes_of(nodes, claims, deleting=True)
    return closed - find_marked_nodes(nodes, claims)


def find_marked_nodes(nodes: Collection[Node], claims: Collection[NodeClaim]) -> frozenset[str]:
    """Return the names of the nodes that DISRUPT has marked and whose retirement has not begun: they have the taint,
    and nothing deletes their claim.

    The replacements of the disruption are launched for their pods, and nobody else launches a node for them. If a
    replacement fails, the mark is removed, and the pods are still there.
    """
    tainted = frozenset(node.name for node in nodes if node.has_taint(names.DISRUPTED) and not node.deletion)
    return tainted & _nodes_of(nodes, claims, deleting=False) if tainted else tainted


def _nodes_of(nodes: Iterable[Node], claims: Iterable[NodeClaim], *, deleting: bool) -> frozenset[str]:
    """Return the names of the nodes of the claims that are being deleted, or of the others."""
    return _list_nodes(nodes, [claim for claim in claims if claim.deleting is deleting])


def _list_nodes(nodes: Iterable[Node], claims: Collection[NodeClaim]) -> frozenset[str]:
    """Return the names of the nodes of these claims."""
    instances = {claim.provider_id for claim in claims if claim.provider_id}
    named = {claim.node_name for claim in claims if claim.node_name and not claim.provider_id}
    return frozenset(node.name for node in nodes if node.provider_id in instances or node.name in named)


DRAINED: Final = "Drained"
"""The condition of a claim whose node is drained. It is Unknown while the drain waits; its message then names the pods
that may not be evicted, and is empty if there are none. `joiner.lifecycle.retirement` writes it."""


ENDS_SOON: Final = "DrainingUntilDeadline"
"""The reason of that condition while the drain ends within SOON, whatever blocks it: its pods are then deleted."""

SOON: Final = timedelta(minutes=10)
"""Pods that leave in this time leave about when nodes that are launched now have joined. Warnings of interruptions give
two minutes, those of capacity blocks ten."""


def find_drain_limit(claim: NodeClaim) -> datetime | None:
    """Return until when the claim allows its node to drain, by its ``terminationGracePeriod`` and its annotation; None
    without a limit.
    """
    limits = [_read_moment(claim.annotations.get(names.TERMINATION_TIMESTAMP))]
    if claim.deletion is not None and claim.termination_grace_period is not None:
        limits.append(claim.deletion + timedelta(seconds=claim.termination_grace_period))
    return min((limit for limit in limits if limit is not None), default=None)


def _read_moment(raw: str | None) -> datetime | None:
    moment = parse_timestamp(raw)
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def find_blocked_drains(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> frozenset[str]:
    """Return the names of the nodes with pods that their drain may not evict, because of a PodDisruptionBudget or an
    annotation, and that it does not delete soon.
    """
    return _list_nodes(nodes, [claim for claim in claims if _is_blocked(claim)])


def list_ending_drains(nodes: Iterable[Node], claims: Iterable[NodeClaim], now: datetime) -> frozenset[str]:
    """Return the names of the nodes whose drain ends within SOON, whatever blocks it."""
    return _list_nodes(nodes, [claim for claim in claims if _ends_soon(claim, now)])


def _ends_soon(claim: NodeClaim, now: datetime) -> bool:
    limit = find_drain_limit(claim)
    return claim.conditions[DRAINED].reason == ENDS_SOON or (limit is not None and limit - now <= SOON)


def _is_blocked(claim: NodeClaim) -> bool:
    drained, limit = claim.conditions[DRAINED], find_drain_limit(claim)
    brief = limit is not None and claim.deletion is not None and limit - claim.deletion <= SOON
    return drained.status == "Unknown" and bool(drained.message) and drained.reason != ENDS_SOON and not brief
