"""Nodes that are being drained or deleted. Their pods will need other nodes."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from joiner import names
from joiner.cluster import Node
from joiner.pools.node_claim import NodeClaim
from joiner.pools.timestamps import parse_timestamp


def find_retiring_nodes(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> frozenset[str]:
    """Return the names of the nodes that are being drained or deleted, or whose claims are."""
    deleting = [claim for claim in claims if claim.deleting]
    instances = {claim.provider_id for claim in deleting if claim.provider_id}
    named = {claim.node_name for claim in deleting if claim.node_name and not claim.provider_id}
    return frozenset(
        node.name for node in nodes if node.retiring or node.provider_id in instances or node.name in named
    )


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
    blocked = [claim for claim in claims if _is_blocked(claim)]
    instances = {claim.provider_id for claim in blocked if claim.provider_id}
    named = {claim.node_name for claim in blocked if claim.node_name and not claim.provider_id}
    return frozenset(node.name for node in nodes if node.provider_id in instances or node.name in named)


def _is_blocked(claim: NodeClaim) -> bool:
    drained, limit = claim.conditions[DRAINED], find_drain_limit(claim)
    brief = limit is not None and claim.deletion is not None and limit - claim.deletion <= SOON
    return drained.status == "Unknown" and bool(drained.message) and drained.reason != ENDS_SOON and not brief
