"""A plan warns as the cluster does about spot nodes of few types and about minValues that are not met."""

from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import PlanPolicies, PlanTolerances, Snapshot
from joiner.planning.inputs.claim_pools import with_claim_pools
from joiner.planning.planner import plan
from tests.unit.planning.drawn_clusters import CLASSES, Json, instance_type, node_pool, pods

SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
TYPE = "node.kubernetes.io/instance-type"
CHOICES = (
    "can hold {} on a spot node, at a price not above on-demand and within the limits ({}): with fewer than 5, "
    "capacity is scarcer and interruptions are more frequent. Allow more instance types, sizes or zones in the "
    "requirements"
)
MANY = {f"t{at}.large": instance_type(f"t{at}.large", 2, 8, 0.1) for at in range(6)}


def warnings(*pools: Json, catalogue: Json = MANY, **fields: Any) -> list[str]:
    """Return what a plan for pods of these pools, each with a node selector, says of their choices."""
    waiting = [one for each in pools for one in _of_pool(each["metadata"]["name"])]
    snapshot = with_claim_pools(Snapshot.from_lists({"pods": waiting, "nodepools": pools, **fields}))
    policies = PlanPolicies(best_effort=True)
    made = plan(
        snapshot, Catalogue.from_json(catalogue), classes=CLASSES, tolerances=PlanTolerances(), policies=policies
    )
    assert made.pending == ()
    return [one for one in made.warnings if one.startswith(("NodePool/", "NodeClaim/"))]


def _of_pool(name: str) -> list[dict[str, Any]]:
    return pods(1, name, nodeSelector={"karpenter.sh/nodepool": name})


def test_spot_nodes_with_fewer_than_five_types_are_reported_by_pool() -> None:
    types = {"key": TYPE, "operator": "In", "values": ["t0.large", "t1.large"]}

    assert warnings(node_pool("few", requirements=[SPOT, types]), node_pool("many", requirements=[SPOT])) == [
        f"NodePool/few: 2 instance types {CHOICES.format('these pods', 't0.large, t1.large')} of NodePool/few and of "
        "its pods, or raise a limit that excludes larger ones"
    ]


def test_a_standalone_claim_for_a_spot_node_is_reported() -> None:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"nodeClassRef": ref, "requirements": [SPOT, {"key": TYPE, "operator": "In", "values": ["t0.large"]}]}
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "own"}, "spec": spec}

    choices = CHOICES.format("what the claim requests", "t0.large")
    assert warnings(nodeclaims=[claim]) == [f"NodeClaim/own: 1 instance type {choices} of NodeClaim/own"]


def test_types_that_cost_more_than_an_on_demand_node_are_no_choices_and_the_reason_says_so() -> None:
    """The pool allows every type: its requirements are not the reason."""
    cheap = {"t0.large": instance_type("t0.large", 2, 8, 0.01)}
    expensive = {f"u{at}.large": instance_type(f"u{at}.large", 2, 8, 9.0) for at in range(6)}
    either = {**SPOT, "values": ["spot", "on-demand"]}

    (said,) = warnings(node_pool("any", requirements=[either]), catalogue={**cheap, **expensive})

    assert said.startswith("NodePool/any: 1 instance type can hold these pods on a spot node, at a price not above ")


def test_on_demand_nodes_of_few_types_are_not_reported() -> None:
    requirements = [{**SPOT, "values": ["on-demand"]}, {"key": TYPE, "operator": "In", "values": ["t0.large"]}]

    assert warnings(node_pool("few", requirements=requirements)) == []


def test_nodes_with_fewer_choices_than_min_values_are_reported() -> None:
    requirements = [{"key": TYPE, "operator": "Exists", "minValues": 9}]

    assert warnings(node_pool("web", requirements=requirements)) == [
        f"NodePool/web: 1 new node has fewer choices than minValues require (9 of {TYPE}), as minValuesPolicy "
        "BestEffort allows: allow more values, or lower minValues"
    ]
