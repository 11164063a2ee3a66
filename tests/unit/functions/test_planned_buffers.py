"""CapacityBuffers in a cluster: nodes are launched for their virtual pods and stay, and pods displace them."""

from datetime import timedelta

import pytest

from joiner.adapters import kube_kinds as kinds
from tests.unit.functions.buffered_cluster import (
    BUFFER,
    conditions,
    due,
    notes,
    put_buffer,
    put_template,
    settle,
    status,
    swept,
)
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import WHEN_EMPTY, claims, end_pods, looked, node_of, retired


@pytest.fixture
def buffered(cluster: SimulatedCluster) -> SimulatedCluster:
    """A buffer of two pods with its two nodes, in a pool whose empty nodes are retired after 30 s."""
    cluster.prepare()
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": WHEN_EMPTY}})
    put_template(cluster)
    put_buffer(cluster, replicas=2)
    cluster.scale_up("up-1")
    settle(cluster)
    return cluster


def test_nodes_are_launched_for_a_buffer_without_a_pending_pod(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster, generation=3)
    put_buffer(cluster, replicas=2)

    assert cluster.survey("s1")[0]["reasons"] == [
        "the last plan does not have the CapacityBuffers as they are now",
        "the last plan for CapacityBuffers was made for other nodes and pods",
    ]
    cluster.scale_up("up-1")

    assert [(claim.instance_type, claim.initialized) for claim in claims(cluster)] == [("m5.large", True)] * 2
    assert {name: value for name, value in status(cluster).items() if name != "conditions"} == {
        "replicas": 2,
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "podTemplateRef": {"name": "chunk"},
        "podTemplateGeneration": 3,
    }
    assert conditions(cluster) == {
        "ReadyForProvisioning": "True Resolved: ",
        "Provisioning": "False RequiresNewCapacity: 0 of 2 pods fit on running nodes; nodes are launched for 2",
    }
    assert notes(cluster) == [
        (
            "TriggeredScaleUp",
            "2 pods of it need new nodes: m5.large in us-east-1a, on-demand; m5.large in us-east-1a, on-demand",
        )
    ]


def test_the_nodes_of_a_buffer_are_initialized_stay_and_are_reported_as_capacity(buffered: SimulatedCluster) -> None:
    assert conditions(buffered)["Provisioning"] == "True FitsExistingCapacity: 2 pods fit on running nodes"
    assert [retired(looked(buffered, number)[0]) for number in range(10, 14)] == [[]] * 4
    assert [claim.initialized for claim in claims(buffered)] == [True, True]
    assert len(buffered.ec2.fleet_requests) == 1


def test_a_buffer_at_rest_is_planned_again_only_after_its_back_off(buffered: SimulatedCluster) -> None:
    started = [any(due(swept(buffered, number))) for number in range(20, 40)]

    assert sum(started) <= 5


def test_pods_take_the_capacity_of_a_buffer_and_new_nodes_are_launched_for_it(buffered: SimulatedCluster) -> None:
    first = claims(buffered)[0]
    pod = pending("web-1")
    pod["spec"]["nodeName"], pod["status"] = first.node_name, {"phase": "Running"}
    buffered.kube.put(pod)

    found = swept(buffered, 20)
    assert (found["pendingPods"], *due(found)) == (0, 0, 1), "a disruption does not wait for this plan"
    settle(buffered, 21)

    assert len(claims(buffered)) == 3
    assert conditions(buffered)["Provisioning"] == "True FitsExistingCapacity: 2 pods fit on running nodes"


def test_a_pod_that_needs_a_node_gets_it_and_the_buffer_keeps_its_own(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    put_template(cluster)
    put_buffer(cluster, replicas=1)

    cluster.scale_up("up-1")

    assert len(claims(cluster)) == 2 and node_of(cluster, "web-1")


def test_nodes_of_a_buffer_that_is_deleted_or_smaller_are_empty(buffered: SimulatedCluster) -> None:
    put_buffer(buffered, replicas=1)
    number = settle(buffered, 20)
    looked(buffered, number)
    assert [reason for _, reason in retired(looked(buffered, number + 1)[0])] == ["empty"]

    del buffered.kube.objects[BUFFER]
    looked(buffered, number + 2)
    assert [reason for _, reason in retired(looked(buffered, number + 3)[0])] == ["empty", "empty"]


def test_a_node_that_its_pods_left_stays_if_the_buffer_needs_it(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": WHEN_EMPTY}})
    cluster.scale_up("up-1")
    put_template(cluster)
    put_buffer(cluster, replicas=1)
    cluster.scale_up("up-2")
    assert len(claims(cluster)) == 2
    cluster.now += timedelta(hours=1)
    number = settle(cluster)

    (first,) = (claim for claim in claims(cluster) if claim.node_name == node_of(cluster, "web-1"))
    end_pods(cluster, first)
    number = settle(cluster, number)
    looked(cluster, number)

    assert len(retired(looked(cluster, number + 1)[0])) == 1


def test_a_schedule_sets_the_size_of_a_buffer_by_time_of_day(cluster: SimulatedCluster) -> None:
    """The clock of the test begins at noon UTC."""
    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, replicas=0, annotations={"joiner.dev/schedule": "Europe/Oslo: 30 13 * * * for 1h = 2"})
    cluster.scale_up("up-1")
    assert status(cluster)["replicas"] == 0 and claims(cluster) == []
    assert conditions(cluster)["Provisioning"].startswith("False BufferEmpty: ")

    cluster.now += timedelta(minutes=31)
    settle(cluster, 1)
    assert status(cluster)["replicas"] == 2 and len(claims(cluster)) == 2

    cluster.now += timedelta(minutes=61)
    settle(cluster, 20)
    assert status(cluster)["replicas"] == 0


def test_a_share_of_a_deployment_grows_with_it(cluster: SimulatedCluster) -> None:
    def put_deployment(replicas: int) -> None:
        template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]}}
        metadata = {"name": "web", "namespace": "default"}
        spec = {"replicas": replicas, "template": template}
        cluster.kube.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})

    cluster.prepare()
    put_deployment(10)
    put_buffer(cluster, podTemplateRef=None, scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"})
    cluster.kube.objects[BUFFER]["spec"]["percentage"] = 10
    settle(cluster)
    assert status(cluster)["replicas"] == 1 and "podTemplateRef" not in status(cluster)

    before = cluster.survey("s1")[0]["disruption"]["digest"]
    put_deployment(20)
    assert cluster.survey("s2")[0]["disruption"]["digest"] not in ("", before), (
        "the disruption of nodes is surveyed again"
    )
    settle(cluster, 20)

    assert status(cluster)["replicas"] == 2 and len(claims(cluster)) == 2


def test_a_template_with_a_scheduling_gate_keeps_capacity(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster)
    template = cluster.kube.objects["podtemplates", "default", "chunk"]["template"]
    template["spec"]["schedulingGates"] = [{"name": "shop.example.com/paid"}]
    put_buffer(cluster, replicas=1)

    settle(cluster)

    assert len(claims(cluster)) == 1
    assert conditions(cluster)["Provisioning"] == "True FitsExistingCapacity: 1 pod fit on running nodes"


def test_the_runtime_class_of_a_template_makes_its_pods_larger(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    overhead = {"podFixed": {"cpu": "1"}}
    cluster.kube.put(
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "overhead": overhead}
    )
    put_template(cluster)
    cluster.kube.objects["podtemplates", "default", "chunk"]["template"]["spec"]["runtimeClassName"] = "kata"
    put_buffer(cluster, replicas=1)
    cluster.scale_up("up-1")

    assert [claim.instance_type for claim in claims(cluster)] == ["m5.xlarge"], "1500m and the overhead of 1 core"


def test_a_real_pod_with_a_similar_name_is_no_virtual_pod(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("capacity-buffer-spare-0"))

    cluster.scale_up("up-1")

    assert node_of(cluster, "capacity-buffer-spare-0")
