"""Clusters of initialized nodes, and the consolidation that is proposed for them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import Proposal
from joiner.planning import Snapshot
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    Json,
    node_pool,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALL = {"budgets": [{"nodes": "100%"}]}


def pool(annotations: Mapping[str, str] | None = None, *, name: str = "default", **disruption: Any) -> Json:
    made = node_pool(
        name,
        requirements=[
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        ],
        disruption={**ALL, **disruption},
    )
    return {**made, "metadata": {**made["metadata"], "annotations": dict(annotations or {})}}


ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}


def cluster(*nodes: tuple[Json, Json], pods: Sequence[Json] = (), **more: Any) -> dict[str, Sequence[Json]]:
    return {
        "nodepools": [pool()],
        "nodeclaims": [claim for claim, _ in nodes],
        "nodes": [node for _, node in nodes],
        "pods": pods,
        **more,
    }


def proposed(
    lists: Mapping[str, Sequence[Json]], history: DisruptionHistory | None = None, rollouts: Sequence[str] = ()
) -> Proposal:
    return consolidation.propose(
        Snapshot.from_lists(lists, rollouts=rollouts),
        Catalogue.from_json(CATALOGUE),
        classes=CLASSES,
        now=NOW,
        history=history or DisruptionHistory(),
    )


def drawn(proposal: Proposal) -> list[str]:
    """Return each action as one line: claims, what is launched, where each pod goes."""
    return [
        " ".join(
            (
                "+".join(action.claims),
                "->",
                *(f"{one.instance_type}/{one.capacity_type}" for one in action.replacements),
                *(f"{pod[8:]}:{place}" for pod, place in sorted(action.moves.items())),
            )
        )
        for action in proposal.actions
    ]


def reasons(proposal: Proposal) -> dict[str, str]:
    return {one.node: f"{one.condition}: {one.message}" for one in proposal.kept}
