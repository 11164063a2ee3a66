"""Plans use the freedom that rules leave to lower the price: slack of spreads, cheap zones, the smallest of the types
that minValues requires. Capacity that few pods can use is left to those pods.
"""

import pytest

from joiner.planning import Plan
from tests.unit.planning.checked_plans import checked, cluster, drawn
from tests.unit.planning.drawn_clusters import (
    HOST,
    ZONE,
    ZONES,
    Json,
    affinity,
    instance_type,
    near,
    node,
    node_pool,
    pod,
    pods,
    spread,
)

TYPES = {name: instance_type(name, cpu, 4 * cpu, 0.1 * cpu) for name, cpu in (("x.1", 1), ("x.2", 2), ("x.4", 4))}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SHUNNED = {"key": "old", "effect": "PreferNoSchedule"}
TAINTED = [{"key": "for", "value": "api", "effect": "NoSchedule"}]


def dearer_by_zone(known: Json, *factors: float) -> Json:
    """Return the same type with its price multiplied in each zone."""
    by_zone = dict(zip(ZONES, factors, strict=True))
    return {
        **known,
        "offerings": [
            {**one, "pricePerHour": round(one["pricePerHour"] * by_zone[one["zone"]], 5)} for one in known["offerings"]
        ],
    }


def zones(plan: Plan) -> dict[str, int]:
    """Return the number of pods by zone."""
    found: dict[str, int] = {}
    for one in plan.nodes:
        found[one.zone] = found.get(one.zone, 0) + len(one.pods)
    return found


@pytest.mark.parametrize("number", [2, 4, 20])
def test_min_values_are_no_reason_for_a_larger_node(number: int) -> None:
    pool = node_pool(
        requirements=[ON_DEMAND, {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 3}]
    )

    plan = checked(cluster(pods(number, cpu="700m", memory="1Gi"), pool), catalogue=TYPES)

    assert {one.instance_type for one in plan.nodes} == {"x.1"}
    assert len(plan.nodes) == number


@pytest.mark.parametrize(("number", "skew"), [(3, 5), (3, 3), (2, 2)])
def test_a_loose_spread_needs_no_more_nodes_than_its_pods_do(number: int, skew: int) -> None:
    waiting = pods(number, cpu="100m", memory="128Mi", topologySpreadConstraints=[spread(skew=skew)])

    assert len(checked(cluster(waiting), catalogue=TYPES).nodes) == 1


def test_a_spread_that_selects_no_pod_spreads_no_pod() -> None:
    waiting = pods(3, cpu="100m", memory="128Mi", topologySpreadConstraints=[spread(app="nothing")])

    assert len(checked(cluster(waiting), catalogue=TYPES).nodes) == 1


def test_who_is_left_over_of_a_spread_goes_where_it_is_cheap() -> None:
    known = {name: dearer_by_zone(one, 3.0, 1.0, 2.0) for name, one in TYPES.items()}
    waiting = pods(5, cpu="900m", memory="1Gi", topologySpreadConstraints=[spread()])

    assert zones(checked(cluster(waiting), catalogue=known)) == {ZONES[0]: 1, ZONES[1]: 2, ZONES[2]: 2}


def test_a_first_fit_that_breaks_a_rule_has_no_price() -> None:
    beside = pod("guest", cpu="3", **affinity(podAffinity=[near(HOST, "host")]))

    plan = checked(
        cluster([pod("host", app="host", cpu="100m"), beside], node_pool(requirements=[ON_DEMAND])), catalogue=TYPES
    )

    assert drawn(plan) == ["x.4 a on-demand: host guest"]
    assert plan.greedy_price_per_hour is None
    assert "greedyPricePerHour" not in plan.to_json()


def test_free_capacity_is_left_to_pods_that_fit_nowhere_else() -> None:
    waiting = [pod("anywhere", cpu="3"), pod("there", cpu="3", nodeSelector={"rack": "7"})]

    plan = checked(cluster(waiting, nodes=[node("old", labels={"rack": "7"})]), catalogue=TYPES)

    assert [(one.node, one.pods) for one in plan.existing] == [("old", ("default/there",))]
    assert not plan.pending


def test_what_a_limit_lets_in_is_left_to_who_can_use_no_other_pool() -> None:
    waiting = [pod("anywhere", cpu="900m"), pod("there", cpu="900m", nodeSelector={"karpenter.sh/nodepool": "small"})]

    plan = checked(cluster(waiting, node_pool("small", limits={"cpu": "1"}), node_pool("other")), catalogue=TYPES)

    assert not plan.pending


def test_of_pools_at_one_price_and_of_nodes_that_stand_those_are_taken_that_no_taint_speaks_against() -> None:
    pools = (node_pool("a", taints=[SHUNNED]), node_pool("b"))
    assert [one.pool for one in checked(cluster([pod("web")], *pools), catalogue=TYPES).nodes] == ["NodePool/b"]

    standing = [node("a", taints=[SHUNNED]), node("b")]
    assert [one.node for one in checked(cluster([pod("web")], *pools, nodes=standing), catalogue=TYPES).existing] == [
        "b"
    ]


def test_of_nodes_that_stand_the_one_is_taken_that_the_pod_prefers() -> None:
    preference = {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]},
    }
    liking = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}

    plan = checked(
        cluster([pod("web", affinity=liking)], nodes=[node("a"), node("b", labels={"disk": "fast"})]), catalogue=TYPES
    )

    assert [one.node for one in plan.existing] == ["b"]


def elsewhere(*zones: str) -> Json:
    """Return a pool in these zones that only the pods of ``api`` may use."""
    where = {"key": ZONE, "operator": "In", "values": list(zones)}
    return node_pool("elsewhere", requirements=[where], taints=TAINTED)


def in_two_zones() -> Json:
    return node_pool(requirements=[{"key": ZONE, "operator": "In", "values": list(ZONES[:2])}])


def test_a_zone_without_offers_for_any_pending_pod_does_not_count_for_a_spread() -> None:
    lists = cluster(pods(6, topologySpreadConstraints=[spread()]), in_two_zones(), elsewhere(ZONES[2]))
    plan = checked(lists)

    assert not plan.pending
    assert zones(plan) == {ZONES[0]: 3, ZONES[1]: 3}


def test_a_zone_that_has_a_node_of_others_is_spread_over() -> None:
    lists = cluster(
        pods(6, topologySpreadConstraints=[spread()]),
        in_two_zones(),
        nodes=[node("theirs", zone=ZONES[2], taints=TAINTED)],
    )

    assert len(checked(lists).pending) == 4


def test_a_zone_in_which_only_one_other_pod_may_get_a_node_stays_without_one() -> None:
    """With a node in the third zone, one pod in each other zone could run, and four would stay pending."""
    theirs = pod("api", app="api", nodeSelector={ZONE: ZONES[2]}, tolerations=[{"key": "for", "operator": "Exists"}])
    lists = cluster([*pods(6, topologySpreadConstraints=[spread()]), theirs], in_two_zones(), elsewhere(ZONES[2]))

    assert [pending.pod for pending in checked(lists).pending] == ["default/api"]


def test_a_pod_whose_policy_ignores_its_selector_still_keeps_the_selector() -> None:
    fields = [spread(nodeAffinityPolicy="Ignore")]

    assert zones(checked(cluster(pods(4, topologySpreadConstraints=fields, nodeSelector={ZONE: ZONES[1]})))) == {
        ZONES[1]: 4
    }


@pytest.mark.parametrize("number", [3, 12, 120])
def test_who_spreads_over_other_pods_shares_a_node_with_its_like(number: int) -> None:
    """Each pod accepts at most one pod of ``api`` on its node, and none of them is of ``api``."""
    asking = pods(number, cpu="100m", memory="64Mi", topologySpreadConstraints=[spread(HOST, app="api")])
    alone = checked(cluster(pods(number, cpu="100m", memory="64Mi")))

    assert checked(cluster(asking)).price_per_hour == pytest.approx(alone.price_per_hour)
    assert len(checked(cluster([*asking, *pods(2, "api", cpu="100m", memory="64Mi")])).nodes) <= len(alone.nodes) + 2


@pytest.mark.parametrize("closed", [{"cpu": "1000"}, {}])
def test_a_zone_that_none_of_those_who_wait_could_get_is_not_spread_over(closed: Json) -> None:
    """The pods that could use the pool in the third zone are too large for it, or the pool's limit is reached."""
    theirs = pod(
        "api", app="api", nodeSelector={ZONE: ZONES[2]}, tolerations=[{"key": "for", "operator": "Exists"}], **closed
    )
    limited = {**elsewhere(ZONES[2])}
    limited["spec"] = {**limited["spec"], **({} if closed else {"limits": {"cpu": "0"}})}
    plan = checked(cluster([*pods(6, topologySpreadConstraints=[spread()]), theirs], in_two_zones(), limited))

    assert [one.pod for one in plan.pending] == ["default/api"]


def test_a_pod_of_a_zone_without_offers_waits_whatever_its_spread_ignores() -> None:
    one_zone = node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [ZONES[0]]}])
    waiting = pods(1, topologySpreadConstraints=[spread(nodeAffinityPolicy="Ignore")], nodeSelector={ZONE: ZONES[1]})

    assert len(checked(cluster(waiting, one_zone, nodes=[node("there")])).pending) == 1


@pytest.mark.parametrize(("leaders", "followers", "cpu"), [(1, 2, "900m"), (10, 20, "900m"), (10, 40, "300m")])
def test_nodes_are_large_enough_for_who_must_be_beside_a_pod_on_them(leaders: int, followers: int, cpu: str) -> None:
    """A node that holds only its leader and other pods that fit leaves its followers without any possible node."""
    leading = pods(leaders, "web", cpu="900m", **affinity(podAntiAffinity=[near(HOST, "web")]))
    following = pods(followers, "cache", cpu=cpu, **affinity(podAffinity=[near(HOST, "web")]))

    assert not checked(cluster([*leading, *following])).pending
