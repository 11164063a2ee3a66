"""Pod rules in plans: each rule of the scheduler in a small complete cluster; the independent checker verifies every
plan.
"""

from typing import Any

import pytest

from tests.unit.planning.checked import checked, drawn, why, world
from tests.unit.planning.worlds import (
    CLASSES,
    HOST,
    TAINT,
    ZONE,
    ZONES,
    Json,
    affinity,
    daemon_set,
    near,
    node,
    node_pool,
    planned,
    pod,
    pods,
    running,
    spread,
)

ARCH = "kubernetes.io/arch"
CPU = "karpenter.k8s.aws/instance-cpu"


def required(*terms: Json) -> dict[str, Any]:
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        }
    }


def expressions(*fields: tuple[str, str, list[str]]) -> Json:
    return {
        "matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in fields]
    }


@pytest.mark.parametrize(
    ("terms", "where"),
    [
        ([expressions((CPU, "Gt", ["2"]), (ZONE, "In", [ZONES[1]]))], "m.xlarge b"),
        ([expressions((CPU, "Lt", ["4"]), (ARCH, "NotIn", ["arm64"]))], "s.large a"),
        ([expressions(("karpenter.k8s.aws/instance-gpu-name", "DoesNotExist", []))], "g.large a"),
        ([expressions((ARCH, "In", ["s390x"])), expressions((CPU, "In", ["8"]))], "m.2xlarge a"),
        ([expressions((CPU, "In", ["4"])), expressions((CPU, "In", ["2"]))], "g.large a"),
    ],
    ids=["Gt", "Lt", "DoesNotExist", "second-term", "cheapest-term"],
)
def test_any_term_of_required_affinity_will_do(terms: list[Json], where: str) -> None:
    assert drawn(checked(world([pod("web-0", **required(*terms))]))) == [f"{where} spot: web-0"]


def test_a_pod_may_exclude_a_node_by_name_but_not_ask_for_one_to_come() -> None:
    def named(operator: str) -> Json:
        return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["there"]}]}

    nodes = [node("there")]
    assert [one.node for one in checked(world([pod("in", **required(named("In")))], nodes=nodes)).existing] == ["there"]
    assert drawn(checked(world([pod("out", **required(named("NotIn")))], nodes=nodes))) == ["g.large a spot: out"]
    assert why(checked(world([pod("in", **required(named("In")))]))) == [
        "default: it asks for a node by name, and a new node has none yet"
    ]


def test_a_term_that_says_nothing_matches_no_node_and_the_reason_says_so() -> None:
    plan = checked(world([pod("web-0", **required({}))], nodes=[node("there")]))

    assert why(plan) == [
        "default: its required node affinity has nothing but empty terms, and an empty term matches no node"
    ]
    assert drawn(checked(world([pod("web-0", **required({}, expressions((ARCH, "In", ["amd64"]))))]))) == [
        "s.large a spot: web-0"
    ]


def test_daemons_that_leave_no_room_anywhere_are_the_reason() -> None:
    lists = world([pod("web-0")], daemonsets=[daemon_set("agent", cpu="10")])

    assert why(checked(lists)) == [
        (
            "default: daemon sets leave no room on any instance type that would suit it: on m.2xlarge they are "
            "short of 2.08 cpu"
        )
    ]

    small = pod("web-0", nodeSelector={CPU: "2"})
    assert why(checked(world([small], daemonsets=[daemon_set("agent", cpu="3")]))) == [
        (
            "default: daemon sets leave no room on any instance type that would suit it: on g.large they are short "
            "of 1.08 cpu"
        )
    ]


def test_a_host_port_that_daemons_have_everywhere_is_the_reason() -> None:
    agent = daemon_set("agent")
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    container["ports"] = [{"containerPort": 8080, "hostPort": 8080}]

    assert why(checked(world([pod("web-0", ports=[8080])], daemonsets=[agent]))) == [
        "default: its host ports are taken by daemon sets on every new node"
    ]


def test_a_label_that_several_terms_of_an_affinity_name_is_told_once() -> None:
    lists = world([pod("web-0", **affinity(podAffinity=[near(ZONE, "db"), near(ZONE, "api"), near(HOST, "db")]))])

    assert why(checked(lists)) == [
        "default: unsatisfiable topology constraint: its affinity on topology.kubernetes.io/zone, "
        "kubernetes.io/hostname "
        "keeps it out of every new node"
    ]


def test_old_names_of_labels_mean_the_new_ones() -> None:
    old = {"beta.kubernetes.io/arch": "amd64", "failure-domain.beta.kubernetes.io/zone": ZONES[2]}
    assert drawn(checked(world([pod("web-0", nodeSelector=old)]))) == ["s.large c spot: web-0"]

    zones = [spread("failure-domain.beta.kubernetes.io/zone")]
    assert sorted(one.zone for one in checked(world(pods(3, topologySpreadConstraints=zones))).nodes) == sorted(ZONES)


def test_a_node_with_labels_of_old_only_is_found_by_them() -> None:
    old = node("old", labels={"failure-domain.beta.kubernetes.io/zone": ZONES[1]})
    del old["metadata"]["labels"][ZONE]

    asking = pod("web-0", nodeSelector={"failure-domain.beta.kubernetes.io/zone": ZONES[1]})

    assert [one.node for one in checked(world([asking], nodes=[old])).existing] == ["old"]


@pytest.mark.parametrize(
    ("toleration", "welcome"),
    [
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "other"}, False),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
    ],
)
def test_a_toleration_means_what_it_says(toleration: Json, welcome: bool) -> None:
    plan = checked(world([pod("web-0", tolerations=[toleration])], node_pool("batch", taints=[TAINT])))

    assert bool(plan.nodes) == welcome


def test_a_toleration_compares_numbers() -> None:
    slow = {"key": "latency", "value": "20", "effect": "NoSchedule"}
    patient = [{"key": "latency", "operator": "Lt", "value": "50"}]

    assert checked(world([pod("web-0", tolerations=patient)], node_pool(taints=[slow]))).pending == ()
    assert checked(world([pod("web-0", tolerations=patient)], node_pool(taints=[{**slow, "value": "90"}]))).nodes == ()


def test_a_taint_that_is_a_wish_keeps_nobody_away() -> None:
    assert checked(world([pod("web-0")], node_pool(taints=[{**TAINT, "effect": "PreferNoSchedule"}]))).pending == ()


def test_startup_taints_keep_nobody_from_a_node_to_come() -> None:
    pool = node_pool()
    pool["spec"]["template"]["spec"]["startupTaints"] = [TAINT]

    assert checked(world([pod("web-0")], pool)).pending == ()


def test_a_runtime_class_adds_overhead_and_chooses_nodes() -> None:
    kata = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "500m", "memory": "128Mi"}},
        "scheduling": {"nodeSelector": {ARCH: "amd64"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    }
    lists = world(
        [pod("web-0", cpu="1500m", runtimeClassName="kata")], node_pool(taints=[TAINT]), runtimeclasses=[kata]
    )

    assert drawn(checked(lists)) == ["m.xlarge a spot: web-0"]


def test_what_init_containers_and_sidecars_need_must_fit() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "600m"}}}
    heavy = {"name": "prepare", "resources": {"requests": {"cpu": "1500m"}}}
    waiting = pod("web-0", cpu="1", initContainers=[sidecar, heavy])

    assert drawn(checked(world([waiting]))) == ["m.xlarge a spot: web-0"]


def test_requests_of_the_pod_as_a_whole_take_the_place_of_its_containers() -> None:
    waiting = pod("web-0", cpu="100m", resources={"requests": {"cpu": "3"}})

    assert drawn(checked(world([waiting]))) == ["m.xlarge a spot: web-0"]


def test_a_pod_that_grows_in_place_holds_what_it_has_been_given() -> None:
    growing = running("old", "there", cpu="1")
    growing["status"]["containerStatuses"] = [
        {"name": "main", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}
    ]

    assert checked(world([pod("web-0", cpu="1500m"), growing], nodes=[node("there")])).existing == ()


@pytest.mark.parametrize(
    ("change", "why_not"),
    [
        ({"spec": {"schedulingGates": [{"name": "wait"}]}}, "gated"),
        ({"status": {"nominatedNodeName": "there"}}, "will preempt"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "is ending"),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "x", "controller": True}]}}, "is a daemon's"),
        ({"status": {"conditions": []}}, "its scheduler has not tried it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_node_is_made_for_a_pod_that_one_would_not_help(change: dict[str, dict[str, Any]], why_not: str) -> None:
    waiting = pod("web-0")
    for part, more in change.items():
        waiting[part] = {**waiting[part], **more}
    plan = checked(world([waiting]))

    assert (plan.nodes, plan.pending) == ((), ()), why_not


def test_another_schedulers_pod_is_planned_for_once_that_has_found_no_node() -> None:
    assert len(checked(world([pod("web-0", schedulerName="volcano")])).nodes) == 1


def test_a_pod_that_preempts_others_holds_its_room() -> None:
    preempting = pod("high", cpu="3", priority=100)
    preempting["status"] = {**preempting["status"], "nominatedNodeName": "there"}

    assert drawn(checked(world([pod("web-0", cpu="1500m"), preempting], nodes=[node("there")]))) == [
        "g.large a spot: web-0"
    ]


def test_a_pod_that_stays_clear_of_pools_is_told_so_and_may_use_other_nodes() -> None:
    clear = required(expressions(("karpenter.sh/nodepool", "DoesNotExist", [])))

    assert why(checked(world([pod("web-0", **clear)]))) == [
        "no node is made for it: it keeps away from every pool's (karpenter.sh/nodepool DoesNotExist)"
    ]
    assert [one.node for one in checked(world([pod("web-0", **clear)], nodes=[node("there")])).existing] == ["there"]


def test_a_zone_can_be_asked_for_by_its_id() -> None:
    from dataclasses import replace

    from joiner.catalogue import Catalogue
    from joiner.planning import Snapshot, plan
    from joiner.pools import Subnet
    from tests.unit.planning.worlds import CATALOGUE

    subnets = tuple(Subnet(f"subnet-{zone}", zone, zone_id=f"id-{zone[-1]}") for zone in ZONES)
    classes = {key: replace(one, subnets=subnets) for key, one in CLASSES.items()}
    lists = world([pod("web-0", nodeSelector={"topology.k8s.aws/zone-id": "id-c"})])

    assert drawn(plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=classes)) == [
        "g.large c spot: web-0"
    ]


# -- spread --------------------------------------------------------------------------------------------------------


def by_zone(lists: Any, **more: Any) -> dict[str, int]:
    plan = checked(lists, **more)
    return {zone[-1]: sum(len(one.pods) for one in plan.nodes if one.zone == zone) for zone in ZONES}


def test_a_spread_over_too_few_domains_counts_from_zero() -> None:
    few = spread(minDomains=4)

    assert by_zone(world(pods(6, topologySpreadConstraints=[few]))) == {"a": 1, "b": 1, "c": 1}


def test_a_spread_with_more_skew_may_be_uneven() -> None:
    two = [{**running(f"web-{number}", "there")} for number in (8, 9)]
    lists = world(
        [*two, *pods(3, topologySpreadConstraints=[spread(skew=2)])], nodes=[node("there", zone=ZONES[0], cpu=1)]
    )

    assert sum(by_zone(lists).values()) == 3


def test_each_revision_spreads_for_itself() -> None:
    fields = spread(matchLabelKeys=["pod-template-hash"])
    old = [running(f"old-{number}", "there", cpu="300m") for number in range(3)]
    new = pods(3, topologySpreadConstraints=[fields])
    for one, revision in [(one, "1") for one in old] + [(one, "2") for one in new]:
        one["metadata"]["labels"]["pod-template-hash"] = revision
    lists = world([*old, *new], nodes=[node("there", cpu=1)])

    assert by_zone(lists) == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize(("policy", "placed"), [("Ignore", 1), ("Honor", 3)])
def test_a_node_that_pods_do_not_tolerate_counts_only_if_its_taints_are_ignored(policy: str, placed: int) -> None:
    far = node("far", zone="us-test-1x", taints=[TAINT])
    lists = world(
        pods(
            3,
            nodeSelector={ZONE: ZONES[0]},
            topologySpreadConstraints=[spread(nodeTaintsPolicy=policy, nodeAffinityPolicy="Ignore")],
        ),
        node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [ZONES[0]]}]),
        nodes=[far],
    )

    assert by_zone(lists)["a"] == placed


def test_two_spreads_hold_at_once() -> None:
    plan = checked(world(pods(6, topologySpreadConstraints=[spread(), spread(HOST, skew=1)])))

    assert len(plan.nodes) == 6
    assert {zone: sum(1 for one in plan.nodes if one.zone == zone) for zone in ZONES} == dict.fromkeys(ZONES, 2)


@pytest.mark.parametrize("number", [120, 240])
def test_who_only_counts_for_others_spreads_costs_no_node(number: int) -> None:
    """A few of many pods accept at most one pod of a certain team on their host. The others go twelve to a node."""
    teams = ("red", "green", "blue")
    waiting = pods(number, cpu="150m", memory="256Mi")
    for position, one in enumerate(waiting):
        one["metadata"]["labels"]["team"] = teams[position % 3]
        if position % 11 == 0:
            meant = {"matchLabels": {"team": teams[(position + position // 3) % 3]}}
            one["spec"]["topologySpreadConstraints"] = [{**spread(HOST), "labelSelector": meant}]
    plan = checked(world(waiting))

    assert plan.pending == ()
    assert len(plan.nodes) == number // 12


def test_a_spread_that_is_a_wish_keeps_nobody_pending() -> None:
    soft = {**spread(minDomains=None), "whenUnsatisfiable": "ScheduleAnyway"}
    lists = world(
        pods(3, nodeSelector={ZONE: ZONES[0]}, topologySpreadConstraints=[{k: v for k, v in soft.items() if v}])
    )

    assert by_zone(lists) == {"a": 3, "b": 0, "c": 0}


def test_the_clusters_default_constraints_are_for_pods_that_have_none() -> None:
    service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    default = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    lists = world(
        [*pods(3), *pods(3, "db", topologySpreadConstraints=[spread(app="db", skew=3)]), *pods(1, "lone")],
        services=[service],
    )
    plan = planned(lists, default_spreads=[default])

    web = [one.zone for one in plan.nodes for name in one.pods if name.startswith("default/web")]
    assert sorted(web) == sorted(ZONES)


# -- affinity ------------------------------------------------------------------------------------------------------

NAMESPACES = [
    {"metadata": {"name": "default", "labels": {"team": "red"}}},
    {"metadata": {"name": "shop", "labels": {"team": "blue"}}},
]


@pytest.mark.parametrize(
    ("reach", "meant"),
    [
        ({}, False),
        ({"namespaces": ["shop"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}, True),
    ],
)
def test_anti_affinity_reaches_the_namespaces_that_it_names(reach: Json, meant: bool) -> None:
    there = running("db-0", "there", app="db", namespace="shop", cpu="100m")
    away = pod("web-0", cpu="100m", **affinity(podAntiAffinity=[{**near(HOST, "db"), **reach}]))
    plan = checked(world([there, away], nodes=[node("there")], namespaces=NAMESPACES))

    assert bool(plan.nodes) == meant


def test_a_running_pod_keeps_others_out_of_its_domain() -> None:
    wary = running("db-0", "there", app="db", **affinity(podAntiAffinity=[near(ZONE, "web")]))

    assert by_zone(world([wary, *pods(2)], nodes=[node("there", zone=ZONES[0])])) == {"a": 0, "b": 2, "c": 0}


def test_a_pod_that_is_ending_keeps_nobody_away() -> None:
    wary = running("db-0", "there", app="db", cpu="100m", **affinity(podAntiAffinity=[near(HOST, "web")]))
    wary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert planned(world([wary, pod("web-0")], nodes=[node("there")])).nodes == ()


def test_other_tenants_are_kept_away_and_ones_own_are_not() -> None:
    """mismatchLabelKeys: each tenant has nodes of its own."""
    apart = {
        "topologyKey": HOST,
        "labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]},
        "mismatchLabelKeys": ["tenant"],
    }
    waiting = [
        pod(f"{tenant}-{number}", cpu="100m", **affinity(podAntiAffinity=[apart]))
        for tenant in ("a", "b")
        for number in range(2)
    ]
    for one in waiting:
        one["metadata"]["labels"]["tenant"] = one["metadata"]["name"][0]

    assert sorted(drawn(checked(world(waiting)))) == ["g.large a spot: a-0 a-1", "g.large a spot: b-0 b-1"]


def test_affinity_with_match_label_keys_follows_ones_own_revision() -> None:
    together = {**near(ZONE, "web"), "matchLabelKeys": ["pod-template-hash"]}
    old = running("web-old", "there", cpu="100m")
    old["metadata"]["labels"]["pod-template-hash"] = "1"
    new = pods(2, cpu="1500m", nodeSelector={ZONE: ZONES[1]}, **affinity(podAffinity=[together]))
    for one in new:
        one["metadata"]["labels"]["pod-template-hash"] = "2"

    assert by_zone(world([old, *new], nodes=[node("there", zone=ZONES[0])])) == {"a": 0, "b": 2, "c": 0}


def test_all_terms_of_affinity_must_hold_for_the_same_pods() -> None:
    both = affinity(
        podAffinity=[near(ZONE, "db"), {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "gold"}}}]
    )
    db = running("db-0", "there", app="db", cpu="100m")
    gold = running("gold-0", "there", app="other", cpu="100m")
    gold["metadata"]["labels"]["tier"] = "gold"
    lists = world([db, gold, pod("web-0", **both)], nodes=[node("there")])

    assert len(checked(lists).pending) == 1
    db["metadata"]["labels"]["tier"] = "gold"
    assert checked(lists).pending == ()


def test_ports_are_taken_for_an_address_or_for_all() -> None:
    def at(name: str, ip: str, protocol: str = "TCP") -> dict[str, Any]:
        one = pod(name, cpu="100m")
        one["spec"]["containers"][0]["ports"] = [
            {"containerPort": 53, "hostPort": 53, "hostIP": ip, "protocol": protocol}
        ]
        return one

    assert len(checked(world([at("a", "10.0.0.1"), at("b", "10.0.0.2")])).nodes) == 1
    assert len(checked(world([at("a", "10.0.0.1"), at("b", "")])).nodes) == 2
    assert len(checked(world([at("a", "", "TCP"), at("b", "", "UDP")])).nodes) == 1


# -- head-room -----------------------------------------------------------------------------------------------------


def buffer(**spec: Any) -> Json:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "metadata": {"name": "spare", "namespace": "default", "uid": "b"},
        "spec": spec,
    }


def template(cpu: str) -> Json:
    return {
        "metadata": {"labels": {"app": "spare"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
    }


def test_head_room_is_planned_for_as_pods_that_do_not_exist() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("900m")}
    lists = world(
        [pod("web-0", cpu="900m")],
        capacitybuffers=[buffer(podTemplateRef={"name": "chunk"}, replicas=2)],
        podtemplates=[chunk],
    )
    plan = checked(lists)

    assert sorted(name for one in plan.nodes for name in one.pods) == [
        "default/capacity-buffer-spare-0",
        "default/capacity-buffer-spare-1",
        "default/web-0",
    ]
    assert sum(sum(one.classes.values()) for one in plan.nodes) == 1, "nothing will come for the slots of head-room"


def test_head_room_that_is_there_needs_no_node() -> None:
    deployment = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 10, "template": template("500m")},
    }
    share = buffer(scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, percentage=25)
    plan = checked(world([], capacitybuffers=[share], deployments=[deployment], nodes=[node("there")]))

    assert plan.nodes == () and [len(one.pods) for one in plan.existing] == [3]


def test_head_room_is_as_much_as_its_limits_hold() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("900m")}
    limited = buffer(podTemplateRef={"name": "chunk"}, limits={"cpu": "2"})

    assert checked(world([], capacitybuffers=[limited], podtemplates=[chunk])).pods_placed == 2


def test_pods_come_before_head_room_where_a_limit_binds() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("1500m")}
    lists = world(
        [pod("web-0", cpu="1500m")],
        node_pool(limits={"cpu": "2"}),
        capacitybuffers=[buffer(podTemplateRef={"name": "chunk"}, replicas=1)],
        podtemplates=[chunk],
    )

    assert [one.pods for one in checked(lists).nodes] == [("default/web-0",)]


def test_a_buffer_that_says_too_little_is_a_problem() -> None:
    plan = planned(world([], capacitybuffers=[buffer(replicas=2)]))

    assert [(one.object, one.field, one.severity) for one in plan.problems if one.object.startswith("Capacity")] == [
        ("CapacityBuffer/default/spare", "", "warning"),  # no capacity is kept for it in a cluster
        ("CapacityBuffer/default/spare", "spec", "error"),
    ]


@pytest.mark.parametrize(
    ("there", "waiting", "left"),
    [
        pytest.param(
            [node("old"), running("r", "old", app="a", ports=[8000])],
            [pod("p", ports=[8000], **affinity(podAffinity=[near(HOST, "a")]))],
            1,
            id="its host, by a port",
        ),
        pytest.param(
            [node("old"), running("r", "old", app="a", **affinity(podAntiAffinity=[near(HOST, "a")]))],
            [pod("p", app="a", **affinity(podAffinity=[near(HOST, "a")]))],
            1,
            id="its host, by another's anti-affinity",
        ),
        pytest.param(
            [node("old", zone="us-test-1z"), running("r", "old", app="x", ports=[8000])],
            pods(8, "spread", app="spread", ports=[8000], topologySpreadConstraints=[spread(ZONE, app="spread")]),
            None,
            id="a zone without offers, by a port",
        ),
    ],
)
def test_whoever_is_meant_for_where_no_offer_is_and_is_kept_off_there_keeps_nobody_else_from_a_place(
    there: list[Json], waiting: list[Json], left: int | None
) -> None:
    """The node has the capacity for the pod, and another rule excludes it."""
    plan = checked(world([*there[1:], *waiting, *pods(5, "web")], nodes=there[:1]))

    placed = {name for one in plan.nodes for name in one.pods} | {name for one in plan.existing for name in one.pods}
    assert {f"default/web-{number}" for number in range(5)} <= placed
    assert left is None or len(plan.pending) == left
