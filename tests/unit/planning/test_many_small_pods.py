"""Six hundred small pods get a few dozen nodes at most, in several zones, at a price that is proven to be low."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from joiner.planning import Plan, PlanTolerances, Snapshot
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet
from joiner.pools.additional_node_costs import NodeCosts
from joiner_cli.catalogue_files import load_catalogue
from tests.unit.planning.drawn_clusters import node_pool, pods

CATEGORY, FAMILY = "karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-family"
ANY = "preferredDuringSchedulingIgnoredDuringExecution"
COSTS = NodeCosts(volumes=0.002192, running=0.01)


SIX_FAMILIES = ["m5", "c5", "r5", "m6i", "c6i", "r6i"]
NEAR_WEB = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
INTEL = {"key": "karpenter.k8s.aws/instance-cpu-manufacturer", "operator": "In", "values": ["intel"]}
PREFERENCES: dict[str, dict[str, Any]] = {
    "none": {},
    "other hosts": {"podAntiAffinity": {ANY: [{"weight": 100, "podAffinityTerm": NEAR_WEB}]}},
    "a manufacturer": {"nodeAffinity": {ANY: [{"weight": 10, "preference": {"matchExpressions": [INTEL]}}]}},
}


@pytest.mark.parametrize(("cpu", "memory"), [("100m", "128Mi"), ("10m", "300Mi"), ("250m", "256Mi")])
@pytest.mark.parametrize(("key", "values"), [("", []), (CATEGORY, ["c", "m", "r"]), (FAMILY, ["m5"])])
def test_six_hundred_small_pods_cost_at_most_a_percent_above_the_bound(
    key: str, values: Sequence[str], cpu: str, memory: str
) -> None:
    named = [{"key": key, "operator": "In", "values": values}] if key else []

    made = planned(pods(600, cpu=cpu, memory=memory), named)

    assert made.gap <= 0.01
    assert len(made.nodes) <= 36
    assert len({node.zone for node in made.nodes}) >= 2


@pytest.mark.parametrize("wish", PREFERENCES)
@pytest.mark.parametrize("families", [[], SIX_FAMILIES])
def test_six_hundred_small_pods_are_in_several_zones_whatever_they_prefer_about_hosts_or_types(
    wish: str, families: Sequence[str]
) -> None:
    named = [{"key": FAMILY, "operator": "In", "values": families}] if families else []

    made = planned(pods(600, cpu="100m", memory="128Mi", affinity=PREFERENCES[wish]), named)

    assert made.gap <= 0.01
    assert max(in_each_zone(made).values()) <= 300
    assert [one for one in made.warnings if "zone" in one] == []


@pytest.mark.parametrize("wish", PREFERENCES)
def test_no_zone_has_more_than_half_of_two_hundred_larger_pods(wish: str) -> None:
    """The cheapest nodes hold 114, 55 and 31. Halves of 114 fit no two nodes; other nodes for all pods cost 0.3 %."""
    named = [{"key": FAMILY, "operator": "In", "values": SIX_FAMILIES}]

    made = planned(pods(200, cpu="1", memory="2Gi", affinity=PREFERENCES[wish]), named)

    assert max(in_each_zone(made).values()) <= 100
    assert len(made.nodes) == 3
    assert made.gap <= 0.0035


def in_each_zone(made: Plan) -> Counter[str]:
    return Counter(node.zone for node in made.nodes for _ in node.pods)


def planned(waiting: Sequence[Any], requirements: Sequence[Any]) -> Plan:
    """Return the plan of these pods on on-demand nodes, with the shipped catalogue."""
    found = load_catalogue(None, None)
    subnets = tuple(Subnet(f"subnet-{zone}", zone) for zone in sorted(found.zones))
    resolved = ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets, costs=COSTS)
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    lists = {"pods": waiting, "nodepools": [node_pool(requirements=[on_demand, *requirements])]}
    made = plan(
        Snapshot.from_lists(lists), found.catalogue, classes={resolved.key: resolved}, tolerances=PlanTolerances()
    )
    assert made.pending == ()
    return made
