"""Six hundred small pods get a few dozen nodes at most, in several zones, at a price that is proven to be low."""

from collections.abc import Sequence
from typing import Any

import pytest

from joiner.planning import PlanTolerances, Snapshot
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet
from joiner.pools.additional_node_costs import NodeCosts
from joiner_cli.catalogue_files import load_catalogue
from tests.unit.planning.drawn_clusters import node_pool, pods

CATEGORY, FAMILY = "karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-family"
COSTS = NodeCosts(volumes=0.002192, running=0.01)


@pytest.mark.parametrize(("cpu", "memory"), [("100m", "128Mi"), ("10m", "300Mi"), ("250m", "256Mi")])
@pytest.mark.parametrize(("key", "values"), [("", []), (CATEGORY, ["c", "m", "r"]), (FAMILY, ["m5"])])
def test_six_hundred_small_pods_cost_at_most_a_percent_above_the_bound(
    key: str, values: Sequence[str], cpu: str, memory: str
) -> None:
    found = load_catalogue(None, None)
    subnets = tuple(Subnet(f"subnet-{zone}", zone) for zone in sorted(found.zones))
    resolved = ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets, costs=COSTS)
    named = [{"key": key, "operator": "In", "values": values}] if key else []
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    lists: dict[str, list[Any]] = {
        "pods": pods(600, cpu=cpu, memory=memory),
        "nodepools": [node_pool(requirements=[on_demand, *named])],
    }

    made = plan(
        Snapshot.from_lists(lists), found.catalogue, classes={resolved.key: resolved}, tolerances=PlanTolerances()
    )

    assert made.pending == ()
    assert made.gap <= 0.01
    assert len(made.nodes) <= 36
    assert len({node.zone for node in made.nodes}) >= 2
