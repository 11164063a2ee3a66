"""Buffers that no plan serves, or not completely: their status and events name the reason, and they affect no other
pod and node.
"""

from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.planning import Plan
from joiner.planning.inputs.capacity_buffers import ResolvedBuffer
from joiner.reporting.buffer_status import place_buffer
from tests.unit.functions.buffered_cluster import conditions, notes, put_buffer, put_template, settle, status
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NODEPOOL, pending
from tests.unit.functions.sweeping import WHEN_EMPTY, claims, looked, retired


def test_a_schedule_that_cannot_be_read_is_reported(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, replicas=1, annotations={"joiner.dev/schedule": "always"})

    cluster.sweep("sweep-1")

    assert conditions(cluster)["ReadyForProvisioning"].startswith(
        "True Resolved: metadata.annotations[joiner.dev/schedule] is always: it has no effect; "
    )
    assert {reason for reason, _ in notes(cluster)} == {"WithoutEffect", "TriggeredScaleUp"}


def test_a_window_of_a_schedule_that_never_begins_is_reported_and_the_others_count(cluster: SimulatedCluster) -> None:
    """The clock of the test begins at noon UTC."""
    cluster.prepare()
    put_template(cluster)
    windows = "0 12 * * * for 1h = 2; 0 0 31 2 * for 1h = 5"
    put_buffer(cluster, replicas=1, annotations={"joiner.dev/schedule": windows})

    cluster.sweep("sweep-1")

    assert conditions(cluster)["ReadyForProvisioning"] == (
        f"True Resolved: metadata.annotations[joiner.dev/schedule] is {windows}: '0 0 31 2 * for 1h = 5' never begins, "
        "so that it has no effect: correct it"
    )
    assert status(cluster)["replicas"] == 2


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


def test_a_buffer_that_limits_of_pools_keep_small_is_limited_by_quotas(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster, cpu="1500m")
    cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "limits": {"cpu": "2"}}})
    put_buffer(cluster, replicas=2)
    cluster.sweep("sweep-1")
    limited = conditions(cluster)["LimitedByQuotas"]

    cluster.kube.put(NODEPOOL)
    settle(cluster, 2)

    assert limited.startswith("True LimitsExceeded: default: all available instance types exceed limits for nodepool")
    assert "limit cpu 2 of NodePool/default" in limited
    assert conditions(cluster)["LimitedByQuotas"] == "False WithinLimits: "


def test_a_buffer_that_no_instance_type_can_hold_is_not_limited_by_quotas(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster, cpu="500")
    put_buffer(cluster, replicas=1)

    cluster.sweep("sweep-1")

    assert "no node can be made for 1: " in conditions(cluster)["Provisioning"]
    assert "LimitedByQuotas" not in conditions(cluster)
