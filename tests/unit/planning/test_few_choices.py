"""A plan warns as the cluster does about spot nodes of few types and about minValues that are not met."""

from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import PlanPolicies, PlanTolerances, Snapshot
from joiner.planning.inputs.claim_pools import with_claim_pools
from joiner.planning.planner import plan
from tests.unit.planning.drawn_clusters import CLASSES, Json, instance_type, node_pool, pods

SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
TYPE = "node.kubernetes.io/instance-type"
MANY = {f"t{at}.large": instance_type(f"t{at}.large", 2, 8, 0.1) for at in range(6)}


def warnings(*pools: Json, **fields: Any) -> list[str]:
    """Return what a plan for pods of these pools, each with a node selector, says of their choices."""
    waiting = [one for each in pools for one in _of_pool(each["metadata"]["name"])]
    snapshot = with_claim_pools(Snapshot.from_lists({"pods": waiting, "nodepools": pools, **fields}))
    policies = PlanPolicies(best_effort=True)
    made = plan(snapshot, Catalogue.from_json(MANY), classes=CLASSES, tolerances=PlanTolerances(), policies=policies)
    assert made.pending == ()
    return [one for one in made.warnings if one.startswith(("NodePool/", "NodeClaim/"))]


def _of_pool(name: str) -> list[dict[str, Any]]:
    return pods(1, name, nodeSelector={"karpenter.sh/nodepool": name})


def test_spot_nodes_with_fewer_than_five_types_are_reported_by_pool() -> None:
    types = {"key": TYPE, "operator": "In", "values": ["t0.large", "t1.large"]}

    assert warnings(node_pool("few", requirements=[SPOT, types]), node_pool("many", requirements=[SPOT])) == [
        "NodePool/few: the pods and the pool allow 2 instance types for a spot node (t0.large, t1.large): with fewer "
        "than 5, capacity is scarcer and interruptions are more frequent. Allow more instance types, sizes or zones in "
        "the requirements of NodePool/few and of its pods"
    ]


def test_a_standalone_claim_for_a_spot_node_is_reported() -> None:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"nodeClassRef": ref, "requirements": [SPOT, {"key": TYPE, "operator": "In", "values": ["t0.large"]}]}
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "own"}, "spec": spec}

    (said,) = warnings(nodeclaims=[claim])

    assert said.startswith("NodeClaim/own: the claim allows 1 instance type for a spot node (t0.large): with fewer ")


def test_on_demand_nodes_of_few_types_are_not_reported() -> None:
    requirements = [{**SPOT, "values": ["on-demand"]}, {"key": TYPE, "operator": "In", "values": ["t0.large"]}]

    assert warnings(node_pool("few", requirements=requirements)) == []


def test_nodes_with_fewer_choices_than_min_values_are_reported() -> None:
    requirements = [{"key": TYPE, "operator": "Exists", "minValues": 9}]

    assert warnings(node_pool("web", requirements=requirements)) == [
        f"NodePool/web: 1 new node has fewer choices than minValues require (9 of {TYPE}), as minValuesPolicy "
        "BestEffort allows: allow more values, or lower minValues"
    ]
