"""Objects that Joiner does not act upon say so in an event, and a pool that nothing can meet is not ready."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Conditions
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CLUSTER, NODECLASS, NODEPOOL, pending


def notes_on(cluster: SimulatedCluster, kind: str) -> list[str]:
    return [each["note"] for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == kind]


def test_an_invalid_node_overlay_reports_what_is_wrong(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    spec = {"requirements": [{"key": "a.example/b", "operator": "Exists"}], "price": "cheap"}
    cluster.kube.put(
        {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "low"}, "spec": spec}
    )

    cluster.survey("s1")

    assert notes_on(cluster, "NodeOverlay") == ['spec.price is cheap: give $/h as a text, such as "0.25"']


def test_a_pool_that_no_instance_type_meets_is_not_ready(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    node = NODEPOOL["spec"]["template"]["spec"]
    wanted = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.lrge"]}]
    pool: dict[str, Any] = {**NODEPOOL, "spec": {"template": {"spec": {**node, "requirements": wanted}}}}
    cluster.kube.put(pool)

    cluster.scale_up("up-1")

    (found,) = cluster.kube.all(kinds.NODEPOOLS)
    ready = Conditions.from_kube(found["status"]["conditions"])["Ready"]
    assert (ready.status, ready.reason) == ("False", "ValidationFailed")
    assert "m5.lrge: the catalogue has no such instance type" in ready.message


def test_a_pool_whose_class_excludes_every_instance_type_is_not_ready(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    options = {"cpuOptions": {"nestedVirtualization": "enabled"}}
    cluster.kube.put({**NODECLASS, "spec": {**NODECLASS["spec"], **options}})

    cluster.scale_up("up-1")

    why = "every instance type that {}; spec.cpuOptions.nestedVirtualization: m5.large cannot run virtual machines"
    (found,) = cluster.kube.all(kinds.NODEPOOLS)
    ready = Conditions.from_kube(found["status"]["conditions"])["Ready"]
    assert (ready.status, ready.reason) == ("False", "ValidationFailed")
    assert f"this class excludes {why.format('the pool allows')}" in ready.message
    (note,) = notes_on(cluster, "Pod")
    assert f"its class EC2NodeClass/default excludes {why.format('the pod and the pool allow')}" in note


def test_a_pause_is_shown_on_every_pool_once_in_ten_minutes(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    cluster.pause.paused = True

    for number in range(3):
        cluster.survey(f"s{number}")

    assert notes_on(cluster, "NodePool") == [
        f"Joiner is paused: nothing is launched and no node is removed. `joiner resume {CLUSTER.name}` ends the pause"
    ]


def test_an_empty_node_of_a_consolidating_pool_stays_with_the_annotation_do_not_consolidate(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"))
    cluster.scale_up("up-1")
    for pod in cluster.kube.all(kinds.PODS):
        cluster.kube.delete(kinds.PODS, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    (node,) = cluster.kube.all(kinds.NODES)
    cluster.now += timedelta(minutes=2)

    def due(policy: str, annotation: str) -> list[str]:
        disruption = {"consolidationPolicy": policy, "consolidateAfter": "0s"}
        cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "disruption": disruption}})
        changes = {"metadata": {"annotations": {"karpenter.sh/do-not-consolidate": annotation}}}
        cluster.kube.patch(kinds.NODES, node["metadata"]["name"], changes)
        cluster.now += timedelta(minutes=2)
        cluster.survey(f"first-{policy}-{annotation}")
        cluster.now += timedelta(minutes=2)
        return [each["reason"] for each in cluster.survey(f"{policy}-{annotation}")[0]["retire"]]

    assert due("WhenEmptyOrUnderutilized", "true") == []
    assert due("WhenEmptyOrUnderutilized", "false") == ["empty"]
    assert due("WhenEmpty", "true") == ["empty"]
