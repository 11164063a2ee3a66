"""PodDisruptionBudgets of pods that tolerate the taint of a drain: the drain leaves them on the node, so their budgets
keep no node, and they use none of what their budgets allow. Their own annotation against disruption counts.
"""

from collections.abc import Sequence

import pytest

from joiner.cluster import Pod, PodDisruptionBudget, Toleration
from joiner.cluster.pod_constraints import PodConstraints
from joiner.disruption.budgets_of_pods import DrainedNode
from joiner.disruption.evictions_left import EvictionsLeft
from joiner.disruption.proposal import Proposal
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import ON_DEMAND, cluster, proposed, reasons
from tests.unit.disruption.test_pod_disruption_budgets import budget, drifting
from tests.unit.planning.drawn_clusters import Json

OUTLASTS: Sequence[Json] = [{"operator": "Exists"}]
NEVER = budget("web", 0, 0, lenient=False)


def lists_of(tolerations: Sequence[Json], *budgets: Json, **metadata: Json) -> dict[str, Sequence[Json]]:
    """Return a node with one pod, which fits on the other node, with these budgets."""
    pod = replica("web-0", "node-a", cpu="200m", tolerations=tolerations)
    pod["metadata"] |= metadata
    full = replica("full", "node-b", app="full", cpu="3", nodeSelector=ON_DEMAND)
    nodes = claim_and_node("a"), claim_and_node("b", kind="m.xlarge")
    return cluster(*nodes, pods=[pod, full], poddisruptionbudgets=budgets)


def claims(proposal: Proposal) -> list[str]:
    return [name for action in proposal.actions for name in action.claims]


@pytest.mark.parametrize(
    "tolerations",
    [
        OUTLASTS,
        [{"key": "karpenter.sh/disrupted", "operator": "Exists"}],
        [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}],
    ],
)
@pytest.mark.parametrize("budgets", [[NEVER], [NEVER, budget("web", 1, 1, lenient=False)]])
def test_budgets_of_a_pod_that_the_drain_leaves_keep_no_node(tolerations: Sequence[Json], budgets: list[Json]) -> None:
    lists = lists_of(tolerations, *budgets)

    assert claims(proposed(lists)) == ["a"]
    assert "a" in claims(drifting(lists))


@pytest.mark.parametrize(
    "tolerations", [[], [{"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute"}]]
)
def test_the_budget_of_a_pod_that_the_drain_evicts_keeps_its_node(tolerations: Sequence[Json]) -> None:
    lists = lists_of(tolerations, NEVER)

    kept = "PodDisruptionBudget default/web-0 allows no eviction of pod default/web-0"
    assert reasons(proposed(lists))["node-a"] == f"DisruptionBlocked: {kept}"
    assert "a" not in claims(drifting(lists))


def test_the_annotation_of_a_pod_that_the_drain_leaves_keeps_its_node() -> None:
    lists = lists_of(OUTLASTS, annotations={"karpenter.sh/do-not-disrupt": "true"})

    kept = "pod default/web-0 has the annotation karpenter.sh/do-not-disrupt"
    assert reasons(proposed(lists))["node-a"] == f"DisruptionBlocked: {kept}"
    assert "a" not in claims(drifting(lists))


def test_a_pod_that_the_drain_leaves_uses_no_eviction_of_its_budget() -> None:
    evicted = Pod("default", "web-0", labels={"app": "web"})
    tolerant = PodConstraints(tolerations=(Toleration(operator="Exists"),))
    left = Pod("default", "web-1", labels={"app": "web"}, constraints=tolerant)

    def of(*nodes: DrainedNode) -> str:
        budgets = [PodDisruptionBudget.from_kube(budget("web", 0, 1, lenient=False))]
        return EvictionsLeft(budgets).refusal(nodes)

    assert of(DrainedNode([evicted]), DrainedNode([left])) == ""
    assert of(DrainedNode([evicted, left], deadline=1)) == ""
    assert of(DrainedNode([evicted]), DrainedNode([evicted])) != ""
