"""CapacityBuffers in a cluster: nodes are launched for their virtual pods and stay, and pods displace them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Manifest
from joiner.adapters.kube_errors import NotFound
from joiner.planning import Plan
from joiner.planning.inputs.capacity_buffers import ResolvedBuffer
from joiner.pools import Conditions
from joiner.reporting.buffer_status import place_buffer
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.faults import Fault, Trouble
from tests.unit.functions.scale_up import NODEPOOL, SimulatedCluster, pending
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.sweeping import WHEN_EMPTY, claims, end_pods, looked, node_of, retired

BUFFER = ("capacitybuffers", "default", "spare")


def put_template(cluster: SimulatedCluster, cpu: str = "1500m", generation: int = 1) -> None:
    """Create a PodTemplate; two of its pods do not fit onto one node of two cores."""
    pod = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    metadata = {"name": "chunk", "namespace": "default", "generation": generation}
    cluster.kube.put({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": pod})


def put_buffer(cluster: SimulatedCluster, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    cluster.kube.put(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default", "annotations": annotations or {}},
            "spec": {"podTemplateRef": {"name": "chunk"}, **spec},
        }
    )


def status(cluster: SimulatedCluster) -> Manifest:
    found: Manifest = cluster.kube.objects[BUFFER]["status"]
    return found


def conditions(cluster: SimulatedCluster) -> dict[str, str]:
    """Return status, reason and message of each condition of the buffer."""
    shown = Conditions.from_kube(status(cluster)["conditions"])
    return {one.type: f"{one.status} {one.reason}: {one.message}" for one in shown}


def notes(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    events = [each for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == "CapacityBuffer"]
    return [(each["reason"], each["note"]) for each in events]


def swept(cluster: SimulatedCluster, number: int) -> dict[str, Any]:
    """Run one sweep a minute later, with the scale-up that it starts."""
    cluster.now += timedelta(minutes=1)
    return cluster.sweep(f"sweep-{number}")


def due(found: dict[str, Any]) -> tuple[int, int]:
    """Return whether the buffers of a survey are to be planned: because they changed, and for changed nodes."""
    return found["changedBuffers"], found["buffersToPlan"]


def settle(cluster: SimulatedCluster, first: int = 1) -> int:
    """Sweep until a sweep starts nothing; return the number of the next one."""
    for number in range(first, first + 10):
        if due(swept(cluster, number)) == (0, 0):
            return number + 1
    raise AssertionError("each sweep starts a scale-up")


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
        "CapacityBuffers are not planned as they are written",
        "CapacityBuffers are not planned for the present nodes and pods",
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


def test_a_schedule_that_cannot_be_read_is_reported(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, replicas=1, annotations={"joiner.dev/schedule": "always"})

    cluster.sweep("sweep-1")

    assert conditions(cluster)["ReadyForProvisioning"].startswith(
        "True Resolved: metadata.annotations[joiner.dev/schedule] is always: it has no effect; "
    )
    assert {reason for reason, _ in notes(cluster)} == {"WithoutEffect", "TriggeredScaleUp"}


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


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"podTemplateRef": {"name": "gone"}, "replicas": 1},
            "PodTemplateNotFound",
            "spec.podTemplateRef.name is gone: there is no such PodTemplate in its namespace",
        ),
        (
            {"podTemplateRef": None, "scalableRef": {"kind": "Deployment", "name": "gone"}, "replicas": 1},
            "ScalableRefNotFound",
            "spec.scalableRef.name is gone: there is no such Deployment in its namespace",
        ),
        (
            {"podTemplateRef": None, "replicas": 1},
            "ResolutionFailed",
            "spec: give exactly one of podTemplateRef and scalableRef",
        ),
        (
            {"provisioningStrategy": "buffer.gke.io/standby-capacity", "replicas": 1},
            "ProvisioningStrategyNotSupported",
            "spec.provisioningStrategy is buffer.gke.io/standby-capacity: no capacity is kept for it: use "
            "buffer.x-k8s.io/active-capacity, or leave the buffer to its own controller",
        ),
    ],
)
def test_a_buffer_that_is_not_planned_says_why(
    cluster: SimulatedCluster, spec: dict[str, Any], reason: str, message: str
) -> None:
    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, **spec)

    cluster.sweep("sweep-1")

    assert conditions(cluster) == {
        "ReadyForProvisioning": f"False {reason}: {message}",
        "Provisioning": "False NotReadyForProvisioning: ReadyForProvisioning names the reason",
    }
    assert [note for _, note in notes(cluster)] == [message]
    assert claims(cluster) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"provisioningStrategy": "buffer.gke.io/standby-capacity", "replicas": 1},
        {"podTemplateRef": {"name": "gone"}, "replicas": 1},
        {"replicas": 0},
    ],
    ids=["strategy of others", "missing template", "no replicas"],
)
def test_a_buffer_without_a_virtual_pod_starts_no_plan_for_other_pods_and_keeps_no_empty_node(
    cluster: SimulatedCluster, spec: dict[str, Any]
) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": WHEN_EMPTY}})
    put_template(cluster)
    put_buffer(cluster, **spec)
    cluster.scale_up("up-1")
    cluster.sweep("sweep-1")

    for name in ("web-1", "web-2"):
        del cluster.kube.objects["pods", "default", name]
    found, _ = cluster.survey("sweep-2")
    assert found["buffersToPlan"] == 0

    looked(cluster, 3)
    assert [reason for _, reason in retired(looked(cluster, 4)[0])] == ["empty"] * len(claims(cluster))


def test_a_template_that_appears_later_is_planned(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_buffer(cluster, replicas=1)
    cluster.sweep("sweep-1")
    put_template(cluster)

    settle(cluster, 2)

    assert conditions(cluster)["ReadyForProvisioning"] == "True Resolved: " and len(claims(cluster)) == 1


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


def test_a_virtual_pod_that_no_plan_contains_is_missing_in_the_status() -> None:
    buffer = ResolvedBuffer("default", "spare", ({"metadata": {"name": "capacity-buffer:spare-0"}},))

    placement = place_buffer(buffer, Plan())

    assert (placement.missing, placement.reasons) == (
        1,
        ("the plan leaves out 1 pod: the template has a value that cannot be read; correct it",),
    )


def test_a_buffer_that_no_pool_can_hold_says_why(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster, cpu="1500m")
    cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "limits": {"cpu": "2"}}})
    put_buffer(cluster, replicas=2)

    cluster.sweep("sweep-1")

    assert len(claims(cluster)) == 1
    assert conditions(cluster)["Provisioning"].startswith(
        "False RequiresNewCapacity: 0 of 2 pods fit on running nodes; nodes are launched for 1; no node can be made "
        "for 1: default: "
    )
    assert {reason for reason, _ in notes(cluster)} == {"TriggeredScaleUp", "NotTriggerScaleUp"}


def test_a_cluster_without_the_definition_has_no_buffers(cluster: SimulatedCluster) -> None:
    def missing(_method: str, path: str, answer: Any) -> Manifest:
        if "autoscaling.x-k8s.io" in path:
            raise NotFound("the server could not find the requested resource", status=404)
        found: Manifest = answer()
        return found

    cluster.prepare(pending("web-1"))
    cluster.kube.fault = missing

    cluster.sweep("sweep-1")

    assert node_of(cluster, "web-1")


def test_a_cluster_that_serves_only_the_alpha_version_is_served(cluster: SimulatedCluster) -> None:
    def alpha_only(_method: str, path: str, answer: Any) -> Manifest:
        if "autoscaling.x-k8s.io/v1beta1" in path:
            raise NotFound("the server could not find the requested resource", status=404)
        found: Manifest = answer()
        return found

    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, replicas=1)
    cluster.kube.objects[BUFFER]["apiVersion"] = "autoscaling.x-k8s.io/v1alpha1"
    cluster.kube.fault = alpha_only

    settle(cluster)

    assert conditions(cluster)["Provisioning"] == "True FitsExistingCapacity: 1 pod fit on running nodes"


def test_a_launch_without_an_answer_counts_as_capacity_of_the_buffer(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, replicas=2)
    cluster.stop_after = "launch_instances"
    assert not cluster.scale_up("up-1")
    cluster.stop_after = ""
    cluster.now += timedelta(minutes=5)

    cluster.scale_up("up-2")
    settle(cluster)

    assert len(claims(cluster)) == 2 and len(cluster.ec2.instances) == 2


def test_a_real_pod_with_a_similar_name_is_no_virtual_pod(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("capacity-buffer-spare-0"))

    cluster.scale_up("up-1")

    assert node_of(cluster, "capacity-buffer-spare-0")


def with_a_pod_and_a_buffer(make_cluster: MakeCluster) -> SimulatedCluster:
    cluster = make_cluster().prepare(pending("web-1"))
    put_template(cluster)
    put_buffer(cluster, replicas=2)
    return cluster


def calls_for_buffers(calls: Sequence[str]) -> list[int]:
    """Return the positions of the calls that only a buffer causes: its lists, its template, its record of nodes (the
    last update before the first claim) and its status."""
    created = next(number for number, call in enumerate(calls) if call.startswith("POST") and "nodeclaims" in call)
    record = max(number for number, call in enumerate(calls[:created]) if call == "update_item")
    own = [number for number, call in enumerate(calls) if "autoscaling.x-k8s.io" in call or "podtemplates" in call]
    return sorted({record, *own})


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: str(fault.value))
def test_whatever_call_for_a_buffer_fails_it_gets_its_nodes_and_no_more(
    make_cluster: MakeCluster, fault: Fault
) -> None:
    with Trouble(clean := with_a_pod_and_a_buffer(make_cluster)) as recorded:
        clean.scale_up("up-1")
    numbers = calls_for_buffers(recorded.calls)
    assert {recorded.calls[number].partition(" ")[0] for number in numbers} == {"GET", "update_item", "PATCH"}
    assert len(claims(clean)) == 3

    wrong = []
    for number in numbers:
        cluster = with_a_pod_and_a_buffer(make_cluster)
        cluster.stop_after = "nothing" if fault.kills else ""
        with Trouble(cluster, fault, number) as trouble:
            cluster.scale_up("up-1")
        cluster.stop_after = ""
        settle(cluster)
        try:
            nothing_is_left(cluster)
            assert len(claims(cluster)) == len(cluster.ec2.instances) == 3
            assert conditions(cluster)["Provisioning"] == "True FitsExistingCapacity: 2 pods fit on running nodes"
        except AssertionError as reason:
            wrong.append(f"{number} {trouble.calls[number]}: {reason}")

    assert wrong == []
