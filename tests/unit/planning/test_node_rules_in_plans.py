"""Rules about nodes in plans: selectors, node affinity, labels and taints.

The independent checker verifies every plan.
"""

from typing import Any

import pytest

from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import (
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
    pod,
    pods,
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
    assert drawn(checked(cluster([pod("web-0", **required(*terms))]))) == [f"{where} spot: web-0"]


def test_a_pod_may_exclude_a_node_by_name_but_not_ask_for_one_to_come() -> None:
    def named(operator: str) -> Json:
        return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["there"]}]}

    nodes = [node("there")]
    assert [one.node for one in checked(cluster([pod("in", **required(named("In")))], nodes=nodes)).existing] == [
        "there"
    ]
    assert drawn(checked(cluster([pod("out", **required(named("NotIn")))], nodes=nodes))) == ["g.large a spot: out"]
    assert why(checked(cluster([pod("in", **required(named("In")))]))) == [
        "default: it selects a node by name, and the name of a new node is not known yet"
    ]


def test_a_term_without_expressions_matches_no_node_and_the_reason_names_it() -> None:
    plan = checked(cluster([pod("web-0", **required({}))], nodes=[node("there")]))

    assert why(plan) == [
        "default: its required node affinity has nothing but empty terms, and an empty term matches no node"
    ]
    assert drawn(checked(cluster([pod("web-0", **required({}, expressions((ARCH, "In", ["amd64"]))))]))) == [
        "s.large a spot: web-0"
    ]


def test_daemons_that_use_all_capacity_are_the_reason() -> None:
    lists = cluster([pod("web-0")], daemonsets=[daemon_set("agent", cpu="10")])

    assert why(checked(lists)) == [
        (
            "default: the pod and the daemon sets do not fit together on any suitable instance type: on m.2xlarge "
            "they are short of 2.08 cpu"
        )
    ]

    small = pod("web-0", nodeSelector={CPU: "2"})
    assert why(checked(cluster([small], daemonsets=[daemon_set("agent", cpu="3")]))) == [
        (
            "default: the pod and the daemon sets do not fit together on any suitable instance type: on g.large "
            "they are short of 1.08 cpu"
        )
    ]


def test_a_host_port_that_daemons_have_everywhere_is_the_reason() -> None:
    agent = daemon_set("agent")
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    container["ports"] = [{"containerPort": 8080, "hostPort": 8080}]

    assert why(checked(cluster([pod("web-0", ports=[8080])], daemonsets=[agent]))) == [
        "default: its host ports are taken by daemon sets on every new node"
    ]


def test_a_label_that_several_terms_of_an_affinity_name_is_reported_once() -> None:
    lists = cluster([pod("web-0", **affinity(podAffinity=[near(ZONE, "db"), near(ZONE, "api"), near(HOST, "db")]))])

    assert why(checked(lists)) == [
        "default: unsatisfiable topology constraint: its affinity on topology.kubernetes.io/zone, "
        "kubernetes.io/hostname "
        "keeps it out of every new node"
    ]


def test_old_names_of_labels_mean_the_new_ones() -> None:
    old = {"beta.kubernetes.io/arch": "amd64", "failure-domain.beta.kubernetes.io/zone": ZONES[2]}
    assert drawn(checked(cluster([pod("web-0", nodeSelector=old)]))) == ["s.large c spot: web-0"]

    zones = [spread("failure-domain.beta.kubernetes.io/zone")]
    assert sorted(one.zone for one in checked(cluster(pods(3, topologySpreadConstraints=zones))).nodes) == sorted(ZONES)


def test_a_node_with_labels_of_old_only_is_found_by_them() -> None:
    old = node("old", labels={"failure-domain.beta.kubernetes.io/zone": ZONES[1]})
    del old["metadata"]["labels"][ZONE]

    asking = pod("web-0", nodeSelector={"failure-domain.beta.kubernetes.io/zone": ZONES[1]})

    assert [one.node for one in checked(cluster([asking], nodes=[old])).existing] == ["old"]


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
def test_a_toleration_has_the_meaning_of_kubernetes(toleration: Json, welcome: bool) -> None:
    plan = checked(cluster([pod("web-0", tolerations=[toleration])], node_pool("batch", taints=[TAINT])))

    assert bool(plan.nodes) == welcome


def test_a_toleration_compares_numbers() -> None:
    slow = {"key": "latency", "value": "20", "effect": "NoSchedule"}
    patient = [{"key": "latency", "operator": "Lt", "value": "50"}]

    assert checked(cluster([pod("web-0", tolerations=patient)], node_pool(taints=[slow]))).pending == ()
    assert (
        checked(cluster([pod("web-0", tolerations=patient)], node_pool(taints=[{**slow, "value": "90"}]))).nodes == ()
    )


def test_a_prefer_no_schedule_taint_excludes_no_pod() -> None:
    assert checked(cluster([pod("web-0")], node_pool(taints=[{**TAINT, "effect": "PreferNoSchedule"}]))).pending == ()


def test_startup_taints_exclude_no_pod_from_a_new_node() -> None:
    pool = node_pool()
    pool["spec"]["template"]["spec"]["startupTaints"] = [TAINT]

    assert checked(cluster([pod("web-0")], pool)).pending == ()


def test_a_pod_that_excludes_pools_has_that_reason_and_may_use_other_nodes() -> None:
    clear = required(expressions(("karpenter.sh/nodepool", "DoesNotExist", [])))

    assert why(checked(cluster([pod("web-0", **clear)]))) == [
        "no node is made for it: it excludes the nodes of every pool (karpenter.sh/nodepool DoesNotExist)"
    ]
    assert [one.node for one in checked(cluster([pod("web-0", **clear)], nodes=[node("there")])).existing] == ["there"]


def test_a_zone_can_be_asked_for_by_its_id() -> None:
    from dataclasses import replace

    from joiner.catalogue import Catalogue
    from joiner.planning import Snapshot
    from joiner.planning.planner import plan
    from joiner.pools import Subnet
    from tests.unit.planning.drawn_clusters import CATALOGUE

    subnets = tuple(Subnet(f"subnet-{zone}", zone, zone_id=f"id-{zone[-1]}") for zone in ZONES)
    classes = {key: replace(one, subnets=subnets) for key, one in CLASSES.items()}
    lists = cluster([pod("web-0", nodeSelector={"topology.k8s.aws/zone-id": "id-c"})])

    assert drawn(plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=classes)) == [
        "g.large c spot: web-0"
    ]
