"""CapacityBuffers in a proposal: their capacity is kept, and their virtual pods move at no cost."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.proposal import Proposal
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import drawn
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, Json, node_pool

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}
ALIKE = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s.large", "m.xlarge"]},
]
"""No node of one type is replaced by a cheaper one."""


def lists(*nodes: tuple[Json, Json], pods: Sequence[Json] = (), spare: int, cpu: str) -> dict[str, Sequence[Json]]:
    """Return a cluster with a buffer of `spare` pods of `cpu` each."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    named = {"namespace": "default"}
    return {
        "nodepools": [node_pool(requirements=ALIKE, disruption={"budgets": [{"nodes": "100%"}]})],
        "nodeclaims": [claim for claim, _ in nodes],
        "nodes": [node for _, node in nodes],
        "pods": pods,
        "podtemplates": [{"metadata": {**named, "name": "chunk"}, "template": {"spec": {"containers": [container]}}}],
        "capacitybuffers": [
            {
                "metadata": {**named, "name": "spare", "uid": "b"},
                "spec": {"podTemplateRef": {"name": "chunk"}, "replicas": spare},
            }
        ],
    }


def proposed(given: Mapping[str, Sequence[Json]]) -> Proposal:
    return consolidation.propose(Snapshot.from_lists(given), Catalogue.from_json(CATALOGUE), classes=CLASSES, now=NOW)


def test_of_three_empty_nodes_the_one_that_a_buffer_needs_stays() -> None:
    nodes = [claim_and_node(name) for name in ("a", "b", "c")]

    proposal = proposed(lists(*nodes, spare=1, cpu="1500m"))

    assert len(proposal.actions) == 2
    assert {action.reason for action in proposal.actions} == {"Empty"}


def test_a_node_stays_if_its_pod_would_take_the_capacity_of_the_buffer() -> None:
    nodes = [claim_and_node("a"), claim_and_node("b")]
    pods = [replica("web-0", "node-a", cpu="1", nodeSelector=ON_DEMAND), replica("web-1", "node-b", cpu="100m")]

    without = proposed(lists(*nodes, pods=pods, spare=0, cpu="700m"))
    kept = proposed(lists(*nodes, pods=pods, spare=2, cpu="700m"))

    assert drawn(without) == ["a -> web-0:node-b"]
    assert drawn(kept) == []


def test_virtual_pods_move_with_no_eviction_cost_so_that_a_node_can_go() -> None:
    nodes = [claim_and_node("large", kind="m.xlarge"), claim_and_node("small")]
    pods = [replica("web-0", "node-large", cpu="2", nodeSelector=ON_DEMAND)]

    proposal = proposed(lists(*nodes, pods=pods, spare=1, cpu="1"))

    (action,) = proposal.actions
    assert action.claims == ("small",)
    assert action.eviction_cost == 1.0
    assert [pod for pod in action.moves if "capacity-buffer" not in pod] == []
