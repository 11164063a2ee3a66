"""The planner from the user's side: which node it plans for which pods, in small complete clusters."""

from typing import Any

import pytest

from joiner.cluster import ValueSet
from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    HOST,
    TAINT,
    TOLERATION,
    ZONE,
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

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def test_a_pod_goes_to_the_cheapest_node_that_fits() -> None:
    assert drawn(checked(cluster([pod("web-0", cpu="1")]))) == ["g.large a spot: web-0"]


def test_nothing_pending_is_nothing_to_do() -> None:
    plan = checked(cluster([]))

    assert (plan.nodes, plan.existing, plan.pending, plan.price_per_hour, plan.lower_bound_per_hour) == (
        (),
        (),
        (),
        0.0,
        0.0,
    )


def test_the_cheapest_zone_wins_unless_the_pod_names_another() -> None:
    offerings = [
        {"zone": zone, "capacityType": "on-demand", "pricePerHour": price}
        for zone, price in zip(ZONES, (0.10, 0.09, 0.11), strict=True)
    ]
    catalogue = {"m.xlarge": {**CATALOGUE["m.xlarge"], "offerings": offerings}}

    assert drawn(checked(cluster([pod("free", cpu="3")]), catalogue=catalogue)) == ["m.xlarge b on-demand: free"]
    assert drawn(checked(cluster([pod("bound", cpu="3", nodeSelector={ZONE: ZONES[2]})]), catalogue=catalogue)) == [
        "m.xlarge c on-demand: bound"
    ]


def test_many_pods_share_a_node_where_that_is_cheaper() -> None:
    plan = checked(cluster(pods(6, cpu="900m", memory="1Gi"), node_pool(requirements=[ON_DEMAND])))

    assert drawn(plan) == [
        "g.large a on-demand: web-0 web-1",
        "g.large a on-demand: web-2 web-3",
        "g.large a on-demand: web-4 web-5",
    ]


def test_free_capacity_is_used_before_a_node_is_added() -> None:
    plan = checked(cluster(pods(2, cpu="1"), nodes=[node("there")]))

    assert plan.nodes == ()
    assert [(one.node, one.pods) for one in plan.existing] == [("there", ("default/web-0", "default/web-1"))]


def test_the_few_nodes_with_free_capacity_are_found_among_many_full_ones() -> None:
    full = [node(f"full-{number}", cpu=1) for number in range(60)]
    busy = [running(f"busy-{number}", f"full-{number}", cpu="900m") for number in range(60)]
    free = [node("free-0", cpu=1), node("free-1", cpu=1)]

    plan = checked({**cluster([*pods(3, cpu="600m"), *busy]), "nodes": [*full[:30], free[0], *full[30:], free[1]]})

    assert [one.node for one in plan.existing] == ["free-0", "free-1"]
    assert [len(made.pods) for made in plan.nodes] == [1]


def test_free_capacity_is_what_pods_and_missing_daemons_leave() -> None:
    lists = cluster([pod("web-0", cpu="1800m"), running("old", "there", cpu="2")], nodes=[node("there", cpu=4)])
    assert [one.node for one in checked(lists).existing] == ["there"]

    lists["daemonsets"] = [daemon_set("agent", cpu="300m")]
    assert checked(lists).existing == ()


def test_a_node_that_is_going_takes_no_pods_and_its_own_need_a_place() -> None:
    old, alone = running("old", "going", cpu="1"), running("alone", "going", cpu="1")
    old["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "old", "controller": True}]
    lists = cluster(
        [old, alone], nodes=[node("going", taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])]
    )

    assert drawn(planned(lists)) == ["g.large a spot: old"]  # no controller creates the other one again


def test_daemons_take_their_part_of_every_new_node_they_run_on() -> None:
    lists = cluster([pod("web-0", cpu="1900m", memory="64Mi", nodeSelector={"kubernetes.io/arch": "amd64"})])
    assert [one.instance_type for one in checked(lists).nodes] == ["s.large"]

    lists["daemonsets"] = [daemon_set("agent", cpu="100m")]
    assert [one.instance_type for one in checked(lists).nodes] == ["m.xlarge"]

    lists["daemonsets"] = [daemon_set("agent", cpu="100m", nodeSelector={"kubernetes.io/arch": "arm64"})]
    assert [one.instance_type for one in checked(lists).nodes] == ["s.large"]


def test_a_tainted_pool_is_for_pods_that_tolerate_it() -> None:
    pool = node_pool("batch", taints=[TAINT])

    assert why(planned(cluster([pod("web-0")], pool))) == ["batch: did not tolerate taint dedicated=batch:NoSchedule"]
    assert drawn(checked(cluster([pod("web-0", tolerations=[TOLERATION])], pool))) == ["g.large a spot: web-0"]


def test_the_heavier_pool_is_taken_though_it_costs_more() -> None:
    spot = node_pool("spot")
    steady = node_pool("steady", requirements=[ON_DEMAND], weight=50)

    assert [one.pool for one in checked(cluster([pod("web-0")], spot, steady)).nodes] == ["NodePool/steady"]


def test_an_offering_that_is_short_is_not_planned_for() -> None:
    short = {("spot", name, zone) for name in CATALOGUE for zone in ZONES}

    assert drawn(checked(cluster([pod("web-0")]), unavailable=short)) == ["g.large a on-demand: web-0"]
    spot_only = cluster([pod("web-0", nodeSelector={"karpenter.sh/capacity-type": "spot"})])
    assert "short of capacity" in why(planned(spot_only, unavailable=short))[0]


def test_a_shortage_of_everything_of_a_kind_in_a_zone_leaves_the_other_zone() -> None:
    everything = {("on-demand", "*", ZONES[0]), ("spot", "*", "*")}
    assert drawn(checked(cluster([pod("web-0")]), unavailable=everything)) == ["g.large b on-demand: web-0"]


def test_pods_spread_over_zones_evenly() -> None:
    plan = checked(cluster(pods(7, topologySpreadConstraints=[spread()])))

    by_zone = {zone: sum(len(one.pods) for one in plan.nodes if one.zone == zone) for zone in ZONES}
    assert sorted(by_zone.values()) == [2, 2, 3]
    assert len(plan.nodes) == 3, "one node a zone is enough"


def test_a_spread_counts_the_pods_that_are_there() -> None:
    there = [node("there", zone=ZONES[0])]
    lists = cluster([running("web-9", "there"), *pods(2, topologySpreadConstraints=[spread()])], nodes=there)

    assert sorted(one.zone for one in checked(lists).nodes) == [ZONES[1], ZONES[2]]


def test_pods_that_stay_apart_get_a_node_each() -> None:
    assert len(checked(cluster(pods(4, cpu="100m", **affinity(podAntiAffinity=[near(HOST, "web")])))).nodes) == 4


def test_pods_that_belong_together_are_on_one_node_or_in_one_zone() -> None:
    together = checked(cluster(pods(4, cpu="900m", **affinity(podAffinity=[near(HOST, "web")]))))
    assert len(together.nodes) == 1

    zonal = checked(cluster(pods(20, cpu="900m", **affinity(podAffinity=[near(ZONE, "web")]))))
    assert len({one.zone for one in zonal.nodes}) == 1 and zonal.pending == ()


def test_a_pod_follows_another_onto_a_node_that_both_may_use() -> None:
    web = pod(
        "web-0",
        cpu="100m",
        nodeSelector={"karpenter.k8s.aws/instance-cpu": "4"},
        **affinity(podAffinity=[near(HOST, "db")]),
    )
    plan = checked(cluster([web, pod("db-0", app="db", cpu="100m")]))

    assert [(one.instance_type, sorted(one.pods)) for one in plan.nodes] == [
        ("m.xlarge", ["default/db-0", "default/web-0"])
    ]


def test_a_pod_whose_affinity_selects_no_pod_stays_pending_with_that_reason() -> None:
    plan = planned(cluster([pod("web-0", **affinity(podAffinity=[near(ZONE, "db")]))]))

    assert why(plan) == [
        (
            "default: unsatisfiable topology constraint: its affinity on topology.kubernetes.io/zone keeps it out "
            "of every new node"
        )
    ]


def test_two_pods_on_one_host_port_need_two_nodes() -> None:
    assert len(checked(cluster(pods(2, ports=[8080]))).nodes) == 2


def test_a_pool_may_leave_a_label_open_for_pods_to_choose() -> None:
    pool = node_pool(requirements=[{"key": "example.com/team", "operator": "In", "values": ["red", "blue"]}])
    lists = cluster(
        [pod("a", nodeSelector={"example.com/team": "red"}), pod("b", nodeSelector={"example.com/team": "blue"})], pool
    )
    plan = checked(lists)

    assert sorted(one.labels["example.com/team"] for one in plan.nodes) == ["blue", "red"]
    assert why(planned(cluster([pod("c", nodeSelector={"example.com/team": "green"})], pool))) == [
        (
            "default: incompatible requirements: the pod wants example.com/team In [green], and no node of this "
            "pool has that"
        )
    ]


def test_a_preference_decides_between_equals_and_costs_nothing() -> None:
    preference = {
        "weight": 50,
        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [ZONES[2]]}]},
    }
    liking: Any = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}}

    assert drawn(checked(cluster([pod("web-0", **liking)]))) == ["g.large c spot: web-0"]


def test_alternatives_of_an_on_demand_node_hold_the_same_pods_for_about_the_same_price() -> None:
    twin = {**CATALOGUE, "t.large": instance_type("t.large", 2, 8, 0.072, arch="arm64")}
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    one = checked(cluster([pod("web-0")], node_pool(requirements=[on_demand])), catalogue=twin).nodes[0]

    assert [(other.instance_type, other.zone[-1]) for other in one.alternatives] == [
        ("g.large", "a"),
        ("g.large", "b"),
        ("g.large", "c"),
        ("t.large", "a"),
        ("t.large", "b"),
        ("t.large", "c"),
    ]
    assert one.requirements.on("node.kubernetes.io/instance-type") == ValueSet.of("g.large", "t.large")


def test_where_a_zone_matters_alternatives_stay_in_it() -> None:
    one = checked(cluster([pod("web-0", topologySpreadConstraints=[spread()])])).nodes[0]

    assert {other.zone for other in one.alternatives} == {one.zone}


def test_a_volume_holds_its_pod_in_its_zone() -> None:
    claim = {"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "pv-1"}}
    terms = [{"matchExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [ZONES[1]]}]}]
    volume = {"metadata": {"name": "pv-1"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    mounting = pod("web-0", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    lists = cluster([mounting], persistentvolumeclaims=[claim], persistentvolumes=[volume])

    assert drawn(checked(lists)) == ["g.large b spot: web-0"]
    assert why(planned(cluster([mounting]))) == ["PersistentVolumeClaim data does not exist"]


def test_a_pod_with_rules_that_are_not_planned_for_stays_pending_with_the_reason() -> None:
    claiming = pod("web-0", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])

    assert why(planned(cluster([claiming]))) == ["it uses resource claims, which are not planned for yet"]


def test_too_large_a_pod_hears_which_type_comes_nearest() -> None:
    reason = planned(cluster([pod("huge", cpu="12")])).pending[0].reasons[0]

    assert reason.reason == "no instance type has enough resources"
    assert reason.nearest is not None and reason.nearest.instance_type == "m.2xlarge"
    assert reason.lacks.to_kube() == {"cpu": "4080m"}


def test_a_pod_that_asks_for_efa_hears_which_type_lacks_it() -> None:
    asking = pod("mpi")
    asking["spec"]["containers"][0]["resources"]["requests"]["vpc.amazonaws.com/efa"] = "1"

    reason = planned(cluster([asking])).pending[0].reasons[0]

    assert reason.reason == "no instance type has enough resources"
    assert reason.lacks.to_kube() == {"vpc.amazonaws.com/efa": "1"}


def test_an_invalid_pool_and_an_invalid_pod_are_problems_and_stop_no_other() -> None:
    broken = node_pool("broken", requirements=[{"key": "a", "operator": "Is", "values": ["b"]}])
    unreadable = pod("bad", cpu="a lot")
    plan = planned(cluster([pod("web-0"), unreadable], node_pool(), broken))

    assert drawn(plan) == ["g.large a spot: web-0"]
    assert {"NodePool/broken", "Pod/default/bad"} <= {problem.object for problem in plan.problems}


def test_a_pool_without_its_class_offers_nothing() -> None:
    other = node_pool("lost")
    other["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "lost"

    reason = "its class EC2NodeClass/lost does not exist"
    remedy = "create it, or name another in spec.template.spec.nodeClassRef of NodePool/lost"
    assert why(planned(cluster([pod("web-0")], other))) == [f"lost: {reason}: {remedy}"]


@pytest.mark.parametrize(
    ("node", "metadata", "words"),
    [
        ({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}, {}, "did not tolerate taint gpu=yes"),
        ({}, {"labels": {"tier": "data"}}, "incompatible requirements: the pod wants tier In [web], and no node"),
        (
            {"requirements": [{"key": "tier", "operator": "In", "values": ["data", "gpu"]}]},
            {},
            "incompatible requirements: the pod wants tier In [web], and no node of this pool has that",
        ),
        ({}, {}, "incompatible requirements: the pod wants tier In [web], and no node of this pool has that"),
        ({}, {"labels": {"tier": "web"}}, "its class EC2NodeClass/lost does not exist"),
        ({"requirements": [{"key": "tier", "operator": "Exists"}]}, {}, "its class EC2NodeClass/lost does not exist"),
    ],
    ids=["taint", "label", "requirement", "no label", "suitable label", "suitable requirement"],
)
def test_a_pool_that_could_never_hold_the_pod_is_not_reported_as_broken(node: Json, metadata: Json, words: str) -> None:
    lost = node_pool("lost")
    template = lost["spec"]["template"]
    template["spec"]["nodeClassRef"]["name"] = "lost"
    template["spec"] = {**template["spec"], **node}
    template["metadata"] = metadata
    asking = pod("web-0")
    asking["spec"]["nodeSelector"] = {"tier": "web"}

    [reason] = planned(cluster([asking], lost)).pending[0].reasons

    assert reason.reason.startswith(words)
    assert reason.chosen_by_pod == ("class" not in words)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "its class EC2NodeClass/own has not been resolved in EC2: look at the conditions in its status"),
        (
            {
                "status": {
                    "conditions": [
                        {"type": "Ready", "status": "False", "message": "SubnetsReady: no subnet has tag a = b"}
                    ]
                }
            },
            "its class EC2NodeClass/own has not been resolved in EC2: SubnetsReady: no subnet has tag a = b: "
            "look at the conditions in its "
            "status",
        ),
        ({"spec": {"role": 5}}, "its class EC2NodeClass/own cannot be used: spec.amiSelectorTerms: it is missing"),
        (
            {"metadata": {"name": "own", "deletionTimestamp": "2026-11-21T05:17:28Z"}},
            "its class EC2NodeClass/own is being deleted: create it again after that, or name another",
        ),
    ],
    ids=["new", "refused", "broken", "deleted"],
)
def test_a_pool_whose_class_is_not_resolved_reports_what_is_missing(change: Json, message: str) -> None:
    own = node_pool("own")
    own["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "own"
    tags = [{"tags": {"a": "b"}}]
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "r",
        "subnetSelectorTerms": tags,
        "securityGroupSelectorTerms": tags,
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "own"},
        "spec": spec,
        **change,
    }

    assert why(planned(cluster([pod("web-0")], own, ec2nodeclasses=[node_class])))[0].startswith(f"own: {message}")


def test_a_thousand_pods_in_twenty_deployments_are_planned_together() -> None:
    waiting = [
        one for number in range(20) for one in pods(50, f"app{number}", cpu=f"{100 + 50 * number}m", memory="256Mi")
    ]
    plan = planned(cluster(waiting, node_pool(requirements=[ON_DEMAND])))

    assert plan.pending == () and plan.gap < 0.1
    assert sum(len(one.pods) for one in plan.nodes) == 1000
