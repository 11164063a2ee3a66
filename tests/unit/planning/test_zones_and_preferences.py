"""Nodes are spread over zones whatever their pods prefer about hosts and types; preferences about zones hold them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Plan, PlanTolerances, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    ZONE,
    ZONES,
    clusters,
    instance_type,
    near,
    node_pool,
    pods,
    running,
    spread,
)
from tests.unit.planning.drawn_clusters import node as running_node

REGION = "topology.kubernetes.io/region"
VCPUS = "karpenter.k8s.aws/instance-cpu"
ARCH = "kubernetes.io/arch"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
FREE = PlanTolerances(fewer_nodes=0.0, zones=0.0)
EQUAL = {"m.4xlarge": instance_type("m.4xlarge", 16, 64, 0.8, pods=60)}
DIVISIBLE = {
    "large": instance_type("large", 32, 128, 1.0, pods=60),
    "half": instance_type("half", 16, 64, 0.502, pods=30),
}
ANYWAY: dict[str, Any] = {"topologySpreadConstraints": [spread(ZONE, whenUnsatisfiable="ScheduleAnyway")]}


def prefers_pods(kind: str, key: str, app: str = "web") -> dict[str, Any]:
    """Return a preferred affinity or anti-affinity to pods of an app."""
    term = {"weight": 100, "podAffinityTerm": near(key, app)}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def prefers_nodes(key: str, *values: str) -> dict[str, Any]:
    """Return a preferred node affinity."""
    term = {"weight": 10, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


FREE_TO_MOVE = [
    prefers_pods("podAntiAffinity", HOST),
    prefers_pods("podAffinity", HOST),
    prefers_pods("podAffinity", REGION),
    prefers_nodes(ARCH, "amd64"),
    prefers_nodes(ARCH, "arm64"),
    prefers_pods("podAntiAffinity", ZONE),
    ANYWAY,
]
HELD = [prefers_pods("podAffinity", ZONE), prefers_nodes(ZONE, ZONES[0])]


def planned(
    waiting: Sequence[Any],
    types: Mapping[str, Any],
    tolerances: PlanTolerances | None = None,
    nodes: Sequence[Any] = (),
) -> Plan:
    pool = node_pool(requirements=[ON_DEMAND])
    lists = {"pods": waiting, "nodepools": [pool], "nodes": list(nodes)}
    made = plan(
        Snapshot.from_lists(lists),
        Catalogue.from_json(types),
        classes=CLASSES,
        tolerances=tolerances or PlanTolerances(),
    )
    assert made.pending == ()
    assert check_plan(lists, types, made.to_json()) == []
    return made


def pods_by_zone(made: Plan) -> Counter[str]:
    return Counter(node.zone for node in made.nodes for _ in node.pods)


def sizes(made: Plan) -> list[int]:
    return sorted(len(node.pods) for node in made.nodes)


@pytest.mark.parametrize("wish", FREE_TO_MOVE)
def test_preferences_about_hosts_types_and_regions_do_not_hold_nodes_in_a_zone(wish: dict[str, Any]) -> None:
    made = planned(pods(45, cpu="1", **wish), EQUAL)

    assert pods_by_zone(made) == dict.fromkeys(ZONES, 15)
    assert made.price_per_hour == planned(pods(45, cpu="1"), EQUAL).price_per_hour


@pytest.mark.parametrize("wish", HELD)
def test_preferences_about_zones_hold_nodes(wish: dict[str, Any]) -> None:
    assert len(pods_by_zone(planned(pods(45, cpu="1", **wish), EQUAL))) == 1


def test_pods_near_which_others_prefer_to_be_in_a_zone_stay_there() -> None:
    liked = pods(30, "api", cpu="1")
    beside = pods(15, cpu="1", **prefers_pods("podAffinity", ZONE, "api"))

    assert len(pods_by_zone(planned([*liked, *beside], EQUAL))) == 1


@pytest.mark.parametrize("wish", [ANYWAY, prefers_pods("podAntiAffinity", ZONE)])
def test_pods_that_prefer_several_zones_get_them_within_the_tolerance(wish: dict[str, Any]) -> None:
    costly = {"only": {**instance_type("only", 4, 32, 0.25), "offerings": []}}
    costly["only"]["offerings"] = [
        {"zone": zone, "capacityType": "on-demand", "pricePerHour": price}
        for zone, price in zip(ZONES, (0.25, 0.254, 0.4), strict=True)
    ]
    waiting = pods(6, cpu="3", **wish)

    assert pods_by_zone(planned(waiting, costly, FREE)) == {ZONES[0]: 6}
    assert pods_by_zone(planned(waiting, costly)) == {ZONES[0]: 3, ZONES[1]: 3}


@pytest.mark.parametrize("wish", [{}, prefers_pods("podAntiAffinity", HOST), prefers_nodes(ARCH, "amd64"), ANYWAY])
def test_a_node_of_many_pods_is_divided_whatever_they_prefer_about_hosts(wish: dict[str, Any]) -> None:
    waiting = pods(30, cpu="1", **wish)

    assert planned(waiting, DIVISIBLE, FREE).price_per_hour == 1.0
    assert pods_by_zone(planned(waiting, DIVISIBLE)) == {ZONES[0]: 15, ZONES[1]: 15}


@pytest.mark.parametrize(
    "wish", [prefers_pods("podAffinity", HOST), prefers_nodes(VCPUS, "32"), prefers_nodes(ZONE, ZONES[0])]
)
def test_a_node_is_not_divided_if_that_satisfies_fewer_preferences(wish: dict[str, Any]) -> None:
    assert sizes(planned(pods(30, cpu="1", **wish), DIVISIBLE)) == [30]


@pytest.mark.parametrize("wish", [ANYWAY, prefers_pods("podAntiAffinity", ZONE)])
def test_few_pods_are_divided_only_if_they_ask_for_several_zones(wish: dict[str, Any]) -> None:
    """The issue wants one node for eight pods if nothing else is asked for."""
    assert sizes(planned(pods(8, cpu="3500m", memory="14Gi"), DIVISIBLE)) == [8]

    made = planned(pods(8, cpu="3500m", memory="14Gi", **wish), DIVISIBLE)

    assert pods_by_zone(made) == {ZONES[0]: 4, ZONES[1]: 4}
    assert made.price_per_hour == pytest.approx(1.004)


def test_a_spread_of_few_pods_is_not_paid_for_beyond_the_tolerance() -> None:
    dear = {**DIVISIBLE, "half": instance_type("half", 16, 64, 0.51, pods=30)}

    assert sizes(planned(pods(8, cpu="3500m", memory="14Gi", **ANYWAY), dear)) == [8]


@pytest.mark.parametrize("large", ["1Gi", "20Gi"])
def test_a_division_leaves_no_node_of_a_pool_whose_pods_could_have_one_of_higher_weight(large: str) -> None:
    """Only the large pod opens a node of the pool with less weight; the others join it. Without it they may not."""
    types = {**DIVISIBLE, "small": instance_type("small", 4, 16, 0.14, pods=12)}
    names = {"high": ["small"], "low": ["large", "half"]}
    pools = [
        node_pool(
            name, requirements=[ON_DEMAND, {"key": INSTANCE_TYPE, "operator": "In", "values": values}], weight=weight
        )
        for (name, values), weight in zip(names.items(), (10, 1), strict=True)
    ]
    waiting = [*pods(1, "large", cpu="1", memory=large), *pods(29, "web", cpu="1", memory="1Gi")]
    lists: dict[str, Any] = {"pods": waiting, "nodepools": pools}

    made = plan(
        Snapshot.from_lists(lists), Catalogue.from_json(types), classes=CLASSES, tolerances=PlanTolerances(0.0, 0.2)
    )

    assert made.pending == () and check_plan(lists, types, made.to_json()) == []
    of_low = [node.pods for node in made.nodes if node.pool == "NodePool/low"]
    assert [any("large" in pod for pod in inside) for inside in of_low] == [True] * (large == "20Gi")


def test_a_node_is_divided_in_as_many_parts_as_the_instance_types_allow() -> None:
    thirds = {"large": DIVISIBLE["large"], "third": instance_type("third", 11, 43, 0.335, pods=30)}

    made = planned(pods(30, cpu="1"), thirds)

    assert pods_by_zone(made) == dict.fromkeys(ZONES, 10)
    assert made.price_per_hour == pytest.approx(1.005)


def test_a_node_with_more_than_half_of_many_pods_is_divided() -> None:
    """The first node has 30 of the 45 pods, in another zone than the second one."""
    made = planned(pods(45, cpu="1"), DIVISIBLE)

    assert sizes(made) == [15, 15, 15]
    assert pods_by_zone(made) == dict.fromkeys(ZONES, 15)


ODD = {
    "large": instance_type("large", 32, 128, 1.0, pods=26),
    "nearly half": instance_type("nearly half", 16, 64, 0.5, pods=12),
    "small": instance_type("small", 8, 32, 0.3, pods=6),
    "middle": instance_type("middle", 20, 80, 0.652, pods=16),
}


def test_nodes_of_a_group_are_packed_again_where_the_largest_one_cannot_be_divided() -> None:
    """A node of 26 pods and one of 6 cost 1.30; two of 16 cost 1.304."""
    made = planned(pods(32, cpu="1"), ODD)

    assert planned(pods(32, cpu="1"), ODD, FREE).price_per_hour == pytest.approx(1.3)
    assert pods_by_zone(made) == {ZONES[0]: 16, ZONES[1]: 16}
    assert made.price_per_hour == pytest.approx(1.304)


@pytest.mark.parametrize("wish", [prefers_pods("podAffinity", HOST), prefers_nodes(VCPUS, "32")])
def test_nodes_are_not_packed_again_if_that_satisfies_fewer_preferences(wish: dict[str, Any]) -> None:
    assert 26 in sizes(planned(pods(32, cpu="1", **wish), ODD))


def test_pods_that_run_in_other_zones_count() -> None:
    """With the 30 new pods, a zone has 70 of 150."""
    nodes = [running_node(f"old-{zone}", zone=zone, cpu=40, gib=160) for zone in ZONES]
    for one in nodes:
        one["status"]["allocatable"]["pods"] = "40"
    old = [running(f"old-{at}", f"old-{ZONES[at % 3]}", cpu="1") for at in range(120)]

    assert sizes(planned([*old, *pods(30, cpu="1")], DIVISIBLE, nodes=nodes)) == [30]


def test_many_pods_are_not_merged_into_one_node_that_no_division_within_the_tolerance_follows() -> None:
    """The large node holds all pods for 0.4 % more, but no type holds half of them for half of its price."""
    types = {
        "small": instance_type("small", 8, 32, 0.25, pods=7),
        "large": instance_type("large", 32, 128, 1.004, pods=60),
    }

    made = planned(pods(28, cpu="1"), types)

    assert (sizes(made), made.price_per_hour) == ([7, 7, 7, 7], 1.0)
    assert len(pods_by_zone(made)) == 3


def test_a_node_that_saves_more_than_the_tolerance_has_all_pods() -> None:
    types = {
        "small": instance_type("small", 8, 32, 0.25, pods=7),
        "large": instance_type("large", 32, 128, 0.95, pods=60),
    }

    assert sizes(planned(pods(28, cpu="1"), types)) == [28]


def test_few_nodes_of_a_type_of_one_zone_get_another_type_for_one_of_them() -> None:
    types = {
        "here": instance_type("here", 4, 16, 0.2, zones=ZONES[:1]),
        "there": instance_type("there", 4, 16, 0.201, zones=ZONES[1:2]),
    }
    waiting = [*pods(2, cpu="3"), *pods(1, "large", cpu="3500m")]

    assert pods_by_zone(planned(waiting, types, FREE)) == {ZONES[0]: 3}
    assert pods_by_zone(planned(waiting, types)) == {ZONES[0]: 2, ZONES[1]: 1}


def test_pods_that_prefer_other_hosts_are_moved_to_nodes_with_fewer_of_them() -> None:
    apart = pods(3, "web", cpu="1", **prefers_pods("podAntiAffinity", HOST))

    made = planned([*pods(42, "api", cpu="1"), *apart], EQUAL)

    assert [sum(pod.startswith("default/web-") for pod in node.pods) for node in made.nodes] == [1, 1, 1]


@pytest.mark.parametrize(("wish", "on_amd"), [({}, 4), (prefers_nodes(ARCH, "amd64"), 6)])
def test_pods_that_prefer_a_type_are_not_moved_to_nodes_of_another_one(wish: dict[str, Any], on_amd: int) -> None:
    """The search puts six of them on the node of amd64."""
    types = {
        "amd": instance_type("amd", 16, 64, 0.8, pods=60),
        "arm": instance_type("arm", 16, 64, 0.8, pods=60, arch="arm64"),
    }
    waiting = [
        *pods(8, "api", cpu="1", nodeSelector={ARCH: "amd64"}),
        *pods(7, "web", cpu="1", **wish),
        *pods(8, "db", cpu="1", nodeSelector={ARCH: "arm64"}),
    ]

    assert web_pods_on(planned(waiting, types), "amd") == on_amd


def web_pods_on(made: Plan, name: str) -> int:
    return sum(pod.startswith("default/web-") for node in made.nodes if node.instance_type == name for pod in node.pods)


WISHES = st.sampled_from(
    [{}, *FREE_TO_MOVE, *HELD, prefers_nodes(VCPUS, "4"), prefers_pods("podAffinity", HOST, "api")]
)


@examples(60, repeated=20)
@given(clusters(), st.lists(WISHES, min_size=3, max_size=3))
def test_with_preferences_every_rule_is_kept_and_the_price_stays_within_the_tolerances(
    lists: Mapping[str, Sequence[Any]], wishes: Sequence[dict[str, Any]]
) -> None:
    waiting = [with_wish(pod, wishes[at % 3]) for at, pod in enumerate(lists["pods"])]
    lists = {**lists, "pods": waiting}

    def within(tolerances: PlanTolerances | None) -> Plan:
        return plan(
            Snapshot.from_lists(lists),
            Catalogue.from_json(CATALOGUE),
            classes=CLASSES,
            effort=Effort(steps=20),
            tolerances=tolerances,
        )

    found, made = within(None), within(PlanTolerances())

    assert check_plan(lists, CATALOGUE, made.to_json()) == []
    assert {one.pod for one in made.pending} == {one.pod for one in found.pending}
    assert made.price_per_hour <= found.price_per_hour * (1.005 * 1.01 + 1e-6) + 1e-9


def with_wish(pod: Mapping[str, Any], wish: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod with a preference beside the rules that it has."""
    spec = dict(pod["spec"])
    if "affinity" in wish:
        spec["affinity"] = {**wish["affinity"], **spec.get("affinity", {})}
    if "topologySpreadConstraints" in wish and "topologySpreadConstraints" not in spec:
        spec["topologySpreadConstraints"] = wish["topologySpreadConstraints"]
    return {**pod, "spec": spec}
