"""Random clusters whose subnets have few free addresses: plans keep all rules, and no pod waits without need."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning import test_laws_of_unplaceable_pods as unplaceable
from tests.unit.planning.brute_force import App, TinyCluster, better_division, placed_by_priority
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    TOLERATION,
    ZONES,
    Json,
    clusters,
    node_pool,
    pods,
    spread,
)

Free = tuple[int | None, ...]
"""The free addresses of the subnet in each zone; None where EC2 does not say."""

FEW: st.SearchStrategy[Free] = st.tuples(*[st.sampled_from([0, 1, 2, None])] * len(ZONES))
SPREAD = {
    "pods": pods(5, cpu="100m", memory="3Gi", tolerations=[TOLERATION], topologySpreadConstraints=[spread()]),
    "nodepools": [node_pool(limits={"cpu": "12"})],
}
"""Pods that spread over zones of which one can have no node: it does not count as a domain."""

CROWDED = TinyCluster(
    apps=(App("web", 2, 100, 3072, apart=((names.ZONE, "api"),)), App("api", 1, 100, 64)),
    types=("m.2xlarge", "s.large"),
    zones=ZONES,
    limits=(("cpu", 6),),
)
"""Only one zone has addresses for both nodes of the pods that are apart from the third one."""


def of_subnets(free: Free) -> dict[str, ResolvedNodeClass]:
    subnets = tuple(Subnet(f"subnet-{zone}", zone, free_ips=left) for zone, left in zip(ZONES, free, strict=True))
    return {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}


def launchable(catalogue: Json, free: Free) -> Json:
    """Return the catalogue as the checker is to see it: nothing is available where no address is free."""
    full = {zone for zone, left in zip(ZONES, free, strict=True) if left == 0}
    return {
        name: {**known, "offerings": [{**one, "available": one["zone"] not in full} for one in known["offerings"]]}
        for name, known in catalogue.items()
    }


def checked(lists: Mapping[str, Any], catalogue: Json, free: Free) -> Plan:
    """Return the plan, which breaks no rule and launches no more nodes in a zone than its subnet has addresses."""
    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(catalogue), classes=of_subnets(free))
    assert check_plan(lists, launchable(catalogue, free), made.to_json()) == []
    nodes = Counter(node.zone for node in made.nodes)
    assert all(left is None or nodes[zone] <= left for zone, left in zip(ZONES, free, strict=True)), nodes
    assert made.lower_bound_per_hour <= made.price_per_hour + 1e-9
    return made


@examples(60, repeated=30)
@given(clusters(), FEW)
@example(SPREAD, (1, 1, 0))
@example(SPREAD, (None, 0, 0))
def test_a_plan_with_few_addresses_breaks_no_rule(cluster: dict[str, list[Json]], free: Free) -> None:
    checked(cluster, CATALOGUE, free)


@examples(60, repeated=30)
@given(unplaceable.clusters(), FEW)
@example(CROWDED, (0, 1, 2))
def test_a_pod_waits_for_an_address_only_if_no_plan_places_more_pods(cluster: TinyCluster, free: Free) -> None:
    known = tuple((zone, left) for zone, left in zip(ZONES, free, strict=True) if left is not None)
    limited = replace(cluster, addresses=known)

    made = checked(limited.lists, limited.catalogue, free)

    pending = Counter(one.pod.rpartition("/")[2].rpartition("-")[0] for one in made.pending)
    placed = Counter({app.name: app.pods - pending[app.name] for app in limited.apps})
    better = better_division(limited, placed)
    assert better is None, f"{placed_by_priority(limited, placed)} pods by priority"
