"""Pool settings in plans: minValues, replicas, overlays, reservations, mixes of capacity types, zone ids."""

from collections import Counter

from joiner.planning import Plan, PlanPolicies
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    HOST,
    TAINT,
    ZONES,
    Json,
    affinity,
    daemon_set,
    instance_type,
    near,
    node,
    node_pool,
    planned,
    pod,
    pods,
    running,
    spread,
)

FAMILY = "karpenter.k8s.aws/instance-family"
CAPACITY_TYPE = "karpenter.sh/capacity-type"


def of_family(family: str, known: Json) -> Json:
    return {**known, "labels": {**known["labels"], FAMILY: family}}


FAMILIES = {name: of_family(name.partition(".")[0], known) for name, known in CATALOGUE.items()}


def at_least(number: int, key: str = FAMILY) -> Json:
    return {"key": key, "operator": "Exists", "minValues": number}


def reserved(known: Json, count: int, zone: str = ZONES[0], price: float = 0.0001) -> Json:
    offering = {"zone": zone, "capacityType": "reserved", "pricePerHour": price, "count": count, "reservation": "cr-1"}
    return {**known, "offerings": [*known["offerings"], offering]}


def overlay(name: str, *, requirements: tuple[Json, ...] = (), **spec: object) -> Json:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": list(requirements), **spec},
    }


def families(plan: Plan) -> list[set[str]]:
    return [{one.instance_type.partition(".")[0] for one in node.alternatives} for node in plan.nodes]


def test_a_label_that_no_type_carries_is_the_pools_to_choose_whatever_its_domain() -> None:
    pool = node_pool(requirements=[{"key": "kubernetes.io/team", "operator": "In", "values": ["shop"]}])

    plan = checked(cluster([pod("web-0")], pool))

    assert [node.labels["kubernetes.io/team"] for node in plan.nodes] == ["shop"]


def test_the_fleet_can_choose_among_as_many_values_as_the_pool_asks_for() -> None:
    plan = checked(cluster([pod("web-0")], node_pool(requirements=[at_least(3)])), catalogue=FAMILIES)

    assert families(plan) == [{"g", "s", "m"}]
    assert not any(node.min_values_relaxed for node in plan.nodes)


def test_a_node_holds_no_more_than_enough_types_can_hold() -> None:
    plan = checked(cluster(pods(4, cpu="1500m"), node_pool(requirements=[at_least(2)])), catalogue=FAMILIES)

    assert plan.pending == () and all(len(found) >= 2 for found in families(plan))


def test_the_smaller_of_two_required_types_limits_the_pods_of_a_node_although_the_larger_costs_less_a_pod() -> None:
    types = {"s.large": instance_type("s.large", 2, 4, 0.08), "b.2xlarge": instance_type("b.2xlarge", 8, 32, 0.09)}
    two = {name: of_family(name.partition(".")[0], known) for name, known in types.items()}
    waiting = pods(4, cpu="900m")

    free = checked(cluster(waiting), catalogue=two)
    bound = checked(cluster(waiting, node_pool(requirements=[at_least(2)])), catalogue=two)

    assert [len(one.pods) for one in free.nodes] == [4]
    assert [len(one.pods) for one in bound.nodes] == [2, 2]
    assert families(bound) == [{"s", "b"}, {"s", "b"}]


def test_a_launch_names_no_more_types_than_it_may_and_those_that_min_values_requires_are_among_them() -> None:
    alike = {f"s{at}.large": of_family("s", instance_type(f"s{at}.large", 2, 4, 0.08)) for at in range(70)}
    dearer = {f"{at}.large": of_family(at, instance_type(f"{at}.large", 2, 4, 0.3)) for at in "bc"}

    one_zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONES[0]]}

    pool = node_pool(requirements=[at_least(3), one_zone])
    (node,) = checked(cluster([pod("web-0")], pool), catalogue={**alike, **dearer}).nodes

    types = list(dict.fromkeys(one.instance_type for one in node.alternatives))
    assert len(types) == 60 and types[0] == node.instance_type
    assert {"b.large", "c.large"} <= set(types)


def test_types_with_several_of_the_required_values_come_first_so_that_all_values_fit_one_launch() -> None:
    key, size = "node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-size"
    sizes = [("large", 0.08)] * 58 + [(f"{at}xlarge", 0.3) for at in range(2, 16)]
    types = {
        f"s{at}.{kind}": {**known, "labels": {**known["labels"], size: kind}}
        for at, (kind, price) in enumerate(sizes)
        for known in [instance_type(f"s{at}.{kind}", 2, 4, price)]
    }
    one_zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONES[0]]}

    pool = node_pool(requirements=[at_least(50, key), at_least(15, size), one_zone])
    (node,) = checked(cluster([pod("web-0")], pool), catalogue=types).nodes

    assert not node.min_values_relaxed
    chosen = {one.instance_type for one in node.alternatives}
    assert len(chosen) == 60 and len({each.partition(".")[2] for each in chosen}) == 15


def test_a_pod_that_leaves_too_little_choice_stays_pending_unless_effort_is_enough() -> None:
    lists = cluster([pod("huge", cpu="7")], node_pool(requirements=[at_least(2)]))

    assert why(checked(lists, catalogue=FAMILIES)) == [
        (
            "default: minValues requirement is not met for label(s) karpenter.k8s.aws/instance-family: too few "
            "instance types could hold it"
        )
    ]
    relaxed = planned(lists, FAMILIES, policies=PlanPolicies(best_effort=True))
    assert drawn(relaxed) == ["m.2xlarge a spot: huge"]
    assert [node.to_json()["minValuesRelaxed"] for node in relaxed.nodes] == [True]


def test_a_static_pool_gets_the_nodes_that_it_lacks_and_they_take_pods() -> None:
    there = node("there", labels={"karpenter.sh/nodepool": "fixed"}, taints=[TAINT])
    fixed = node_pool("fixed", replicas=3)
    plan = checked(cluster([pod("web-0")], fixed, nodes=[there]))

    assert sorted(drawn(plan)) == ["g.large a spot: ", "g.large a spot: web-0"]
    assert plan.lower_bound_per_hour <= plan.price_per_hour


def test_a_static_pool_has_no_more_nodes_than_its_limit_or_than_its_replicas() -> None:
    assert len(checked(cluster([], node_pool("fixed", replicas=3, limits={"nodes": "2"}))).nodes) == 2
    there = [node(f"there-{number}", labels={"karpenter.sh/nodepool": "fixed"}) for number in range(2)]
    assert checked(cluster([], node_pool("fixed", replicas=1), nodes=there)).nodes == ()


def test_a_plan_adds_a_thousand_nodes_of_static_pools_whatever_their_replicas_say() -> None:
    pools = [node_pool("a", replicas=1_000_000), node_pool("b", replicas=1_000_000), node_pool("c", replicas=2)]

    plan = planned(cluster([], *pools))

    assert Counter(node.pool_name for node in plan.nodes) == {"a": 333, "b": 333, "c": 2}
    assert [(each.owner, each.nodes) for each in plan.unlaunched] == [("NodePool/a", 999_667), ("NodePool/b", 999_667)]
    assert {each.reason for each in plan.unlaunched} == {
        "a plan adds at most 1,000 nodes of static pools, and the next one adds others"
    }


def test_a_static_pool_makes_no_node_for_pods_beyond_its_replicas() -> None:
    plan = checked(cluster(pods(2, cpu="1500m"), node_pool("fixed", replicas=1)))

    assert len(plan.nodes) == 1 and len(plan.pending) == 1
    assert why(plan) == ["fixed: the pool is static: no node beyond its replicas is launched for pods"]


def test_an_overlay_changes_the_price_that_is_planned_with() -> None:
    costly = overlay(
        "costly",
        requirements=({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},),
        priceAdjustment="+50%",
    )
    plan = checked(cluster([pod("web-0")], nodeoverlays=[costly]))

    assert drawn(plan) == ["s.large a spot: web-0"]


def test_the_heaviest_overlay_counts_and_may_name_the_pool() -> None:
    mine = overlay(
        "mine",
        requirements=({"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]},),
        price="0.01",
        weight=10,
    )
    plan = checked(cluster([pod("web-0")], nodeoverlays=[mine, overlay("light", price="5")]))

    assert [one.price_per_hour for one in plan.nodes] == [0.01]


def test_an_overlay_adds_a_resource_that_the_catalogue_does_not_know() -> None:
    asking = pod("web-0")
    asking["spec"]["containers"][0]["resources"]["requests"]["example.com/dongle"] = "1"
    gives = overlay(
        "dongles", requirements=({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m.xlarge"]},)
    )
    gives["spec"]["capacity"] = {"example.com/dongle": "2"}

    assert drawn(checked(cluster([asking], nodeoverlays=[gives]))) == ["m.xlarge a spot: web-0"]
    assert "no instance type has enough resources" in why(checked(cluster([asking])))[0]


def test_a_broken_overlay_is_a_problem_and_has_no_effect() -> None:
    plan = planned(
        cluster([pod("web-0")], nodeoverlays=[overlay("odd", price="free"), overlay("fat", capacity={"cpu": "1"})])
    )

    assert drawn(plan) == ["g.large a spot: web-0"]
    assert {(one.object, one.field) for one in plan.problems if one.object.startswith("NodeOverlay")} == {
        ("NodeOverlay/odd", "spec.price"),
        ("NodeOverlay/fat", "spec.capacity.cpu"),
    }


def test_reserved_capacity_comes_first_as_far_as_it_goes() -> None:
    catalogue = {**CATALOGUE, "m.2xlarge": reserved(CATALOGUE["m.2xlarge"], count=2)}
    plan = checked(cluster(pods(3, **affinity(podAntiAffinity=[near(HOST, "web")]))), catalogue=catalogue)

    assert sorted(one.capacity_type for one in plan.nodes) == ["reserved", "reserved", "spot"]
    assert [
        one.labels.get("karpenter.k8s.aws/capacity-reservation-id")
        for one in plan.nodes
        if one.capacity_type == "reserved"
    ] == ["cr-1"] * 2


def test_pods_spread_over_capacity_types() -> None:
    plan = checked(cluster(pods(4, cpu="900m", topologySpreadConstraints=[spread(CAPACITY_TYPE)])))

    shares = {
        kind: sum(len(one.pods) for one in plan.nodes if one.capacity_type == kind) for kind in ("on-demand", "spot")
    }
    assert shares == {"on-demand": 2, "spot": 2}


def test_a_ratio_of_capacity_types_is_a_spread_over_a_label_that_two_pools_share_out() -> None:
    """One part on-demand, three parts spot: Karpenter's documented way ("On-Demand/Spot Ratio Split")."""
    spot = node_pool(
        "spot",
        requirements=[{"key": CAPACITY_TYPE, "operator": "In", "values": ["spot"]}, capacity_spread("2", "3", "4")],
    )
    steady = node_pool(
        "steady", requirements=[{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}, capacity_spread("1")]
    )
    plan = checked(cluster(pods(8, cpu="900m", topologySpreadConstraints=[spread("capacity-spread")]), spot, steady))

    assert sum(len(one.pods) for one in plan.nodes if one.capacity_type == "on-demand") == 2
    assert sum(len(one.pods) for one in plan.nodes if one.capacity_type == "spot") == 6


def capacity_spread(*values: str) -> Json:
    return {"key": "capacity-spread", "operator": "In", "values": list(values)}


def test_daemons_count_by_pool_and_by_type() -> None:
    tainted = node_pool("batch", taints=[TAINT])
    watcher = daemon_set("watcher", cpu="900m", tolerations=[{"operator": "Exists"}])
    only_arm = daemon_set("arm", cpu="900m", nodeSelector={"kubernetes.io/arch": "arm64"})
    waiting = pod("web-0", cpu="1100m", tolerations=[{"key": "dedicated", "operator": "Exists"}])

    assert drawn(checked(cluster([waiting], tainted, daemonsets=[watcher]))) == ["m.xlarge a spot: web-0"]
    assert drawn(checked(cluster([waiting], tainted, daemonsets=[only_arm]))) == ["g.large a spot: web-0"]
    assert drawn(checked(cluster([waiting], daemonsets=[only_arm]))) == ["s.large a spot: web-0"]


def test_a_daemon_counts_as_its_newest_pod_does() -> None:
    agent = daemon_set("agent", cpu="100m")
    resized = running("agent-1", "there", app="agent", cpu="900m", namespace="kube-system")
    resized["metadata"]["ownerReferences"] = [
        {"kind": "DaemonSet", "name": "agent", "uid": "uid-agent", "controller": True}
    ]
    lists = cluster([pod("web-0", cpu="1500m"), resized], nodes=[node("there", cpu=1)], daemonsets=[agent])

    assert drawn(checked(lists)) == ["m.xlarge a spot: web-0"]


def test_limits_speak_of_what_a_node_has_and_not_of_what_it_can_allocate() -> None:
    plan = checked(cluster([pod("web-0", cpu="1")], node_pool(limits={"cpu": "1900m"})))

    assert why(plan) == [
        "default: all available instance types exceed limits for nodepool: limit cpu 1900m of NodePool/default: "
        "0 used, the pod needs 1 "
        "(the node that comes nearest has 2); raise spec.limits.cpu or free nodes"
    ]


def test_memory_and_devices_are_limited_too() -> None:
    catalogue = {**CATALOGUE, "a.large": {**instance_type("a.large", 2, 8, 0.05), **gpu(2)}}
    asking = pod("train")
    asking["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    lists = cluster([asking], node_pool(limits={"nvidia.com/gpu": "1"}))

    assert why(checked(lists, catalogue=catalogue)) == [
        "default: all available instance types exceed limits for nodepool: limit nvidia.com/gpu 1 of "
        "NodePool/default: 0 used, the pod "
        "needs 1 (the node that comes nearest has 2); raise spec.limits.nvidia.com/gpu or free nodes"
    ]


def gpu(count: int) -> Json:
    known = instance_type("a.large", 2, 8, 0.05)
    return {name: {**known[name], "nvidia.com/gpu": str(count)} for name in ("capacity", "allocatable")}


def test_the_checker_misses_neither_minimums_nor_reservations_nor_overlays() -> None:
    catalogue = {**FAMILIES, "m.2xlarge": reserved(FAMILIES["m.2xlarge"], count=1)}
    lists = cluster([pod("web-0")], node_pool(requirements=[at_least(2)]))
    plan = planned(lists, catalogue).to_json()
    assert check_plan(lists, catalogue, plan) == []

    narrow = {**plan, "nodes": [{**one, "alternatives": one["alternatives"][:1]} for one in plan["nodes"]]}
    assert any("values of" in problem for problem in check_plan(lists, catalogue, narrow))
    twice = {
        **plan,
        "nodes": [*plan["nodes"], {**plan["nodes"][0], "name": "more", "pods": []}],
        "pricePerHour": 2 * plan["pricePerHour"],
    }
    assert any("2 of 1" in problem for problem in check_plan(lists, catalogue, twice))
    assert any(
        "not offered so" in problem
        for problem in check_plan({**lists, "nodeoverlays": [overlay("costly", price="9")]}, catalogue, plan)
    )
