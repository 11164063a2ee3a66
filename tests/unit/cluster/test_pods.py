"""Pods: their class, whether a node could help them, and where their rules allow them to run."""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner.cluster import DaemonSet, HostPort, InvalidField, LabelSelector, Node, Pod, Taint

UNSCHEDULABLE = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]
}


def manifest(
    name: str = "web-0",
    *,
    status: Mapping[str, Any] = UNSCHEDULABLE,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "labels": labels or {"app": "web"}, "uid": name}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}], **spec},
        "status": status,
    }


def test_a_pod_that_fits_on_no_node_is_provisionable() -> None:
    assert Pod.from_kube(manifest()).provisionable


@pytest.mark.parametrize(
    "other",
    [
        manifest(status={}),
        manifest(nodeName="node-1"),
        manifest(schedulingGates=[{"name": "later"}]),
        manifest(status={**UNSCHEDULABLE, "nominatedNodeName": "node-1"}),
        manifest(status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
        {
            **manifest(),
            "metadata": {
                "name": "agent",
                "ownerReferences": [{"kind": "DaemonSet", "name": "agent", "controller": True}],
            },
        },
        {
            **manifest(),
            "metadata": {"name": "static", "ownerReferences": [{"kind": "Node", "name": "node-1", "controller": True}]},
        },
        {**manifest(), "metadata": {"name": "going", "deletionTimestamp": "2026-11-21T05:17:28Z"}},
    ],
    ids=[
        "not tried yet",
        "bound",
        "gated",
        "will preempt",
        "gated by its condition",
        "a daemon",
        "static",
        "being deleted",
    ],
)
def test_a_pod_that_no_new_node_would_help_is_not_provisionable(other: dict[str, Any]) -> None:
    assert not Pod.from_kube(other).provisionable


def test_replicas_are_of_one_class_and_the_next_revision_of_them_too() -> None:
    first = Pod.from_kube(manifest("web-0", labels={"app": "web", "pod-template-hash": "1"}))
    second = Pod.from_kube(manifest("web-1", labels={"app": "web", "pod-template-hash": "2"}))

    assert first.class_key == second.class_key


def test_a_pod_stays_of_its_class_when_it_is_bound_and_runs() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    from_the_node = {"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1a"}
    in_a_zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a", "us-east-1b"]}
    terms = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [in_a_zone]}]}
    }
    running = {"phase": "Running", "containerStatuses": [{**main, "allocatedResources": {"cpu": "1"}}]}
    resized = {"phase": "Running", "containerStatuses": [{**main, "allocatedResources": {"cpu": "2"}}]}

    def made(**fields: Any) -> Pod:
        return Pod.from_kube(
            manifest(containers=[main], topologySpreadConstraints=[spread], affinity={"nodeAffinity": terms}, **fields)
        )

    bound = made(labels={"app": "web", **from_the_node}, nodeName="node-1", status=running)
    assert bound.class_key == made().class_key
    assert made(status=resized).class_key != made().class_key


def test_the_allocated_resources_of_a_pod_as_a_whole_make_a_class_while_they_differ_from_its_requests() -> None:
    whole = {"requests": {"cpu": "1"}}

    def made(**status: Any) -> Pod:
        return Pod.from_kube(manifest(resources=whole, status=status))

    as_asked = made(resources={**whole, "limits": {"cpu": "2"}}, allocatedResources={"cpu": "1"})
    given, allocated = made(resources={"requests": {"cpu": "2"}}), made(allocatedResources={"cpu": "2"})
    assert as_asked.class_key == made().class_key
    assert made().class_key not in {given.class_key, allocated.class_key}
    assert given.requests == allocated.requests
    assert given.requests["cpu"] == 2 * made().requests["cpu"]


def test_revisions_that_spread_apart_from_each_other_are_two_classes() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    one, two = (
        Pod.from_kube(
            manifest(labels={"app": "web", "pod-template-hash": revision}, topologySpreadConstraints=[spread])
        )
        for revision in "12"
    )

    assert one.class_key != two.class_key
    assert one.constraints.spreads[0].selector.selects(one.labels)
    assert not one.constraints.spreads[0].selector.selects(two.labels)


@pytest.mark.parametrize(
    "changed",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"priority": 7},
        {"containers": [{"resources": {"requests": {"cpu": "2"}}}]},
        {"containers": [{"resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    ],
)
def test_each_field_that_decides_where_a_pod_may_run_changes_its_class(changed: dict[str, Any]) -> None:
    assert Pod.from_kube(manifest()).class_key != Pod.from_kube(manifest(**changed)).class_key


@pytest.mark.parametrize(
    "changed",
    [
        {"containers": [{"resources": {"requests": {"cpu": "1"}}, "image": "web:2", "env": [{"name": "A"}]}]},
        {"dnsPolicy": "None"},
    ],
)
def test_no_other_field_changes_the_class_of_a_pod(changed: dict[str, Any]) -> None:
    assert Pod.from_kube(manifest()).class_key == Pod.from_kube(manifest(**changed)).class_key


def node_affinity(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        }
    }


def test_any_one_of_several_affinity_terms_is_enough() -> None:
    either = Pod.from_kube(
        manifest(
            **node_affinity(
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-7"]}]},
            )
        )
    ).constraints

    assert either.suits({"disk": "ssd"}, "node-1")
    assert either.suits({}, "node-7")
    assert not either.suits({}, "node-1")
    assert len(either.on_new_nodes()) == 1, "no new node is called node-7"


def test_an_empty_term_matches_no_node() -> None:
    assert not Pod.from_kube(manifest(**node_affinity({}))).constraints.suits({"disk": "ssd"}, "node-1")


def test_host_ports_conflict_on_the_same_address_and_on_all_addresses() -> None:
    everywhere, here, there = HostPort(80), HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2")

    assert everywhere.conflicts(here) and here.conflicts(everywhere) and here.conflicts(here)
    assert not here.conflicts(there)


def test_a_pod_on_the_network_of_the_host_uses_its_container_ports_as_host_ports() -> None:
    container = {"ports": [{"containerPort": 9100}]}

    assert Pod.from_kube(manifest(containers=[container], hostNetwork=True)).constraints.host_ports == (HostPort(9100),)
    assert Pod.from_kube(manifest(containers=[container])).constraints.host_ports == ()


def test_an_affinity_term_means_pods_of_its_own_namespace_unless_it_names_others() -> None:
    def term(**more: Any) -> Any:
        raw = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}, **more}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [raw]}}
        return Pod.from_kube(manifest(affinity=affinity)).constraints.affinity[0]

    labels = {"app": "db"}
    namespaces = {"data": {"team": "storage"}}
    assert term().selects("shop", labels, namespaces) and not term().selects("data", labels, namespaces)
    assert term(namespaces=["data"]).selects("data", labels, namespaces) and not term(namespaces=["data"]).selects(
        "shop", labels, namespaces
    )
    assert term(namespaceSelector={}).selects("anywhere", labels, namespaces)
    assert term(namespaceSelector={"matchLabels": {"team": "storage"}}).selects("data", labels, namespaces)
    assert not term(namespaceSelector={"matchLabels": {"team": "storage"}}).selects("shop", labels, namespaces)


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not LabelSelector.from_kube(None).selects({"app": "web"})
    assert LabelSelector.from_kube({}).selects({"app": "web"})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "much"}}}]}, "spec.resources.requests.cpu"),
        ({"tolerations": [{"key": "a", "operator": "Sometimes"}]}, "spec.operator"),
        ({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone"}]}, "spec.maxSkew"),
    ],
)
def test_a_pod_that_cannot_be_read_names_the_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Pod.from_kube(manifest(**spec))

    assert refused.value.field == field


def test_a_daemon_set_runs_where_its_template_lets_it_and_tolerates_what_its_controller_adds() -> None:
    agent = DaemonSet.from_kube(
        {
            "metadata": {"name": "agent"},
            "spec": {"template": {"spec": {"containers": [], "nodeSelector": {"kubernetes.io/os": "linux"}}}},
        }
    )

    assert agent.runs_on({"kubernetes.io/os": "linux"}, (Taint("node.kubernetes.io/unschedulable", "NoSchedule"),))
    assert not agent.runs_on({"kubernetes.io/os": "windows"}, ())
    assert not agent.runs_on({"kubernetes.io/os": "linux"}, (Taint("dedicated", "NoSchedule"),))


def test_a_node_is_read_with_all_fields_that_plans_use() -> None:
    node = Node.from_kube(
        {
            "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "a"}},
            "spec": {
                "providerID": "aws:///a/i-1",
                "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": {"cpu": "4"},
                "allocatable": {"cpu": "3900m"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )

    assert (node.instance_id, node.zone, node.ready, node.retiring, node.allocatable["cpu"]) == (
        "i-1",
        "a",
        True,
        True,
        3900,
    )
