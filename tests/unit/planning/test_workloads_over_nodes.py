"""The pods of a workload are spread over the nodes and zones of a plan, at no cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import Plan, PlanTolerances, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import CLASSES, HOST, ZONE, ZONES, instance_type, node_pool, pods

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SIXTEEN = {"m.4xlarge": instance_type("m.4xlarge", 16, 64, 0.8, pods=60)}
SMALL = {"s.large": instance_type("s.large", 2, 4, 0.08)}


def workload(count: int, name: str, **fields: Any) -> list[dict[str, Any]]:
    """Return pods of one ReplicaSet."""
    owner = {"kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    made = pods(count, name, **fields)
    return [{**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}} for pod in made]


def planned(
    waiting: Sequence[Any], types: Mapping[str, Any] = SIXTEEN, tolerances: PlanTolerances | None = None
) -> Plan:
    lists = {"pods": waiting, "nodepools": [node_pool(requirements=[ON_DEMAND])]}
    made = plan(
        Snapshot.from_lists(lists),
        Catalogue.from_json(types),
        classes=CLASSES,
        tolerances=tolerances,
        effort=Effort(),
    )
    assert made.pending == ()
    assert check_plan(lists, types, made.to_json()) == []
    return made


def on_each_node(made: Plan, name: str) -> list[int]:
    """Return the numbers of pods of a workload on the nodes, most first."""
    found = [sum(pod.startswith(f"default/{name}-") for pod in node.pods) for node in made.nodes]
    return sorted(found, reverse=True)


def in_each_zone(made: Plan, name: str) -> Counter[str]:
    return Counter(node.zone for node in made.nodes for pod in node.pods if pod.startswith(f"default/{name}-"))


def test_equal_pods_of_several_workloads_are_mixed_on_every_node() -> None:
    made = planned([*workload(15, "a", cpu="1"), *workload(15, "b", cpu="1"), *workload(15, "c", cpu="1")])

    assert len(made.nodes) == 3
    assert {name: on_each_node(made, name) for name in "abc"} == {"a": [5, 5, 5], "b": [5, 5, 5], "c": [5, 5, 5]}


def test_a_small_workload_is_not_all_on_the_first_node() -> None:
    made = planned([*workload(42, "a", cpu="1"), *workload(3, "b", cpu="1")])

    assert on_each_node(made, "b") == [1, 1, 1]


def test_pods_of_different_sizes_are_exchanged_at_no_cost() -> None:
    waiting = [*workload(15, "small", cpu="1"), *workload(8, "large", cpu="2"), *workload(20, "tiny", cpu="500m")]

    before, made = planned(waiting), planned(waiting, tolerances=PlanTolerances())

    assert made.price_per_hour == before.price_per_hour
    assert made.simplified.moved_pods > 0
    assert Plan.from_json(made.to_json()).simplified == made.simplified
    assert len(made.nodes) == 3
    assert max(on_each_node(made, "small")) <= 6
    assert max(on_each_node(made, "large")) <= 4
    assert max(on_each_node(made, "tiny")) <= 9
    assert set(in_each_zone(made, "small")) == set(in_each_zone(made, "large")) == set(ZONES)


def test_pods_that_select_a_zone_are_not_exchanged_for_others() -> None:
    waiting = [
        *workload(12, "there", cpu="3", nodeSelector={ZONE: ZONES[0]}),
        *workload(12, "free", cpu="3"),
    ]

    made = planned(waiting, tolerances=PlanTolerances())

    assert set(in_each_zone(made, "there")) == {ZONES[0]}


def test_many_pods_that_stay_apart_are_spread_over_zones_and_never_merged() -> None:
    apart = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    larger = {
        f"type-{size}": instance_type(f"type-{size}", 2 + size % 7, 8 + size, 0.3 + size / 100) for size in range(60)
    }

    made = planned(workload(90, "web", affinity=rule), {**SMALL, **larger}, PlanTolerances())

    assert len(made.nodes) == 90
    assert sorted(in_each_zone(made, "web").values()) == [30, 30, 30]
