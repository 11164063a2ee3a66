"""CapacityBuffers in plans: pods of the lowest priority that do not exist.

The independent checker verifies every plan.
"""

from typing import Any

from joiner.planning.inputs.capacity_buffers import resolve_buffers
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import (
    Json,
    node,
    node_pool,
    planned,
    pod,
)


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


def test_a_buffer_is_planned_as_pods_that_do_not_exist() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("900m")}
    lists = cluster(
        [pod("web-0", cpu="900m")],
        capacitybuffers=[buffer(podTemplateRef={"name": "chunk"}, replicas=2)],
        podtemplates=[chunk],
    )
    plan = checked(lists)

    assert sorted(name for one in plan.nodes for name in one.pods) == [
        "default/capacity-buffer:spare-0",
        "default/capacity-buffer:spare-1",
        "default/web-0",
    ]
    assert sum(sum(one.classes.values()) for one in plan.nodes) == 1, "nothing will come for the slots of head-room"


def test_a_buffer_that_fits_free_capacity_needs_no_node() -> None:
    deployment = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 10, "template": template("500m")},
    }
    share = buffer(scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, percentage=25)
    plan = checked(cluster([], capacitybuffers=[share], deployments=[deployment], nodes=[node("there")]))

    assert plan.nodes == () and [len(one.pods) for one in plan.existing] == [3]


def test_a_workload_of_another_api_group_is_not_taken_for_one_of_the_same_kind() -> None:
    deployment = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 10, "template": template("500m")},
    }

    def resolved(**group: str) -> tuple[int, str, str]:
        share = buffer(scalableRef={**group, "kind": "Deployment", "name": "web"}, percentage=50)
        (found,) = resolve_buffers({"capacitybuffers": [share], "deployments": [deployment]})
        return len(found.pods), found.reason, found.problem.message if found.problem else ""

    assert resolved() == resolved(apiGroup="apps") == (5, "Resolved", "")
    assert resolved(apiGroup="example.com") == (
        0,
        "ScalableRefNotFound",
        "spec.scalableRef.apiGroup is example.com: use one of Deployment, StatefulSet, ReplicaSet of the group apps, "
        "or name a PodTemplate",
    )


def test_a_buffer_is_as_large_as_its_limits_allow() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("900m")}
    limited = buffer(podTemplateRef={"name": "chunk"}, limits={"cpu": "2699.9m"})

    assert checked(cluster([], capacitybuffers=[limited], podtemplates=[chunk])).pods_placed == 2


def test_pods_come_before_buffers_where_a_limit_binds() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("1500m")}
    lists = cluster(
        [pod("web-0", cpu="1500m")],
        node_pool(limits={"cpu": "2"}),
        capacitybuffers=[buffer(podTemplateRef={"name": "chunk"}, replicas=1)],
        podtemplates=[chunk],
    )

    assert [one.pods for one in checked(lists).nodes] == [("default/web-0",)]


def test_a_buffer_that_lacks_a_field_is_a_problem() -> None:
    plan = planned(cluster([], capacitybuffers=[buffer(replicas=2)]))

    assert [(one.object, one.field, one.severity) for one in plan.problems if one.object.startswith("Capacity")] == [
        ("CapacityBuffer/default/spare", "spec", "error"),
    ]


def test_fields_of_a_buffer_that_change_nothing_are_reported() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("1")}
    spare = buffer(
        podTemplateRef={"name": "chunk"}, replicas=2, percentage=500, limits={"cpu": "10", "nvidia.com/gpu": "1"}
    )
    (resolved,) = resolve_buffers({"capacitybuffers": [spare], "podtemplates": [chunk]})

    assert len(resolved.pods) == 2
    assert [(note.field, note.severity) for note in resolved.notes] == [
        ("spec.limits.nvidia.com/gpu", "warning"),
        ("spec.percentage", "warning"),
    ]
    assert "the pods of the buffer do not request this resource" in str(resolved.notes[0])


def test_a_limit_of_a_buffer_that_is_no_whole_amount_is_reported_with_what_it_counts_as() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("1")}
    spare = buffer(podTemplateRef={"name": "chunk"}, limits={"cpu": "2.0005", "memory": "10Gi"})
    (resolved,) = resolve_buffers({"capacitybuffers": [spare], "podtemplates": [chunk]})

    assert len(resolved.pods) == 2
    assert [(one.field, one.value, one.remedy) for one in resolved.notes if one.field.endswith("cpu")] == [
        ("spec.limits.cpu", "2.0005", "it counts as 2, because it is rounded down to a whole amount; write 2 or 2001m")
    ]


def test_a_percentage_alone_keeps_no_capacity_of_a_template() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("1")}
    spare = buffer(podTemplateRef={"name": "chunk"}, percentage=50, limits={"memory": "10Gi"})
    (resolved,) = resolve_buffers({"capacitybuffers": [spare], "podtemplates": [chunk]})

    assert resolved.pods == ()
    assert [note.field for note in resolved.notes] == ["spec.limits.memory", "spec.percentage"]


def test_a_buffer_uses_a_node_with_pods_before_an_empty_node_of_an_earlier_name() -> None:
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": template("500m")}
    lists = cluster(
        [pod("web-0", cpu="500m", nodeName="b-busy")],
        capacitybuffers=[buffer(podTemplateRef={"name": "chunk"}, replicas=1)],
        podtemplates=[chunk],
        nodes=[node("a-empty"), node("b-busy")],
    )

    plan = checked(lists)

    assert [(one.node, one.pods) for one in plan.existing] == [("b-busy", ("default/capacity-buffer:spare-0",))]


KATA = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "500m"}}}


def test_the_runtime_class_of_a_template_adds_its_overhead_to_each_virtual_pod() -> None:
    isolated = {**template("900m")["spec"], "runtimeClassName": "kata"}
    chunk = {"metadata": {"name": "chunk", "namespace": "default"}, "template": {"spec": isolated}}
    by_number = buffer(podTemplateRef={"name": "chunk"}, replicas=1)
    by_limit = buffer(podTemplateRef={"name": "chunk"}, limits={"cpu": "3"})

    [one] = resolve_buffers({"capacitybuffers": [by_number], "podtemplates": [chunk], "runtimeclasses": [KATA]})
    assert one.pods[0]["spec"]["overhead"] == {"cpu": "500m"}

    lists = cluster([], capacitybuffers=[by_limit], podtemplates=[chunk], runtimeclasses=[KATA])
    assert checked(lists).pods_placed == 2, "3 cores hold two pods of 900m + 500m, and three without the overhead"
