"""Objects that Joiner does not act upon say so in an event, and a pool that nothing can meet is not ready."""

from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Conditions
from joiner.reporting.event_limits import EVENTS_AT_ONCE
from tests.unit.functions.buffered_cluster import put_buffer, put_template
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CLUSTER, NODECLASS, NODEPOOL, pending
from tests.unit.functions.sweeping import claims


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


def test_a_pool_with_a_label_that_none_of_its_instance_types_has_is_not_ready(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    template = {**NODEPOOL["spec"]["template"], "metadata": {"labels": {"kubernetes.io/arch": "arm64"}}}
    cluster.kube.put({**NODEPOOL, "spec": {"template": template}})

    cluster.scale_up("up-1")

    (found,) = cluster.kube.all(kinds.NODEPOOLS)
    ready = Conditions.from_kube(found["status"]["conditions"])["Ready"]
    assert (ready.status, ready.reason) == ("False", "ValidationFailed")
    assert "spec.template.metadata.labels[kubernetes.io/arch] is arm64: no instance type" in ready.message
    assert cluster.ec2.instances == {}


def test_an_instance_has_the_labels_of_its_pool(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    wanted = {"topology.kubernetes.io/zone": "us-east-1b", "node.kubernetes.io/instance-type": "m5.xlarge", "team": "a"}
    template = {**NODEPOOL["spec"]["template"], "metadata": {"labels": wanted}}
    cluster.kube.put({**NODEPOOL, "spec": {"template": template}})

    cluster.scale_up("up-1")

    (claim,) = claims(cluster)
    assert len(cluster.ec2.instances) == 1
    assert (claim.zone, claim.instance_type) == ("us-east-1b", "m5.xlarge")
    assert claim.provider_id.startswith("aws:///us-east-1b/")
    node = cluster.kube.objects["nodes", "", claim.node_name]
    assert {key: node["metadata"]["labels"][key] for key in wanted} == wanted


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


def test_a_pause_is_shown_on_an_invalid_pool_too(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    cluster.kube.put({**NODEPOOL, "metadata": {"name": "broken", "uid": "u-9"}, "spec": {"weight": 300}})
    cluster.pause.paused = True

    cluster.survey("s1")

    told = [each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "JoinerPaused"]
    assert sorted((each["regarding"]["name"], each["regarding"]["uid"]) for each in told) == sorted(
        [("broken", "u-9"), (NODEPOOL["metadata"]["name"], NODEPOOL["metadata"].get("uid", ""))]
    )


@pytest.mark.parametrize(("limits", "reasons"), [({"cpu": "1000"}, ["expired"]), ({"cpu": "-5"}, [])])
def test_the_nodes_of_a_pool_expire_unless_it_is_invalid(
    cluster: SimulatedCluster, limits: dict[str, str], reasons: list[str]
) -> None:
    cluster.prepare(pending("web-1"))
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"template": {"spec": {"expireAfter": "720h"}}}})
    cluster.scale_up("up-1")
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"limits": limits}})
    cluster.now += timedelta(hours=721)

    assert [each["reason"] for each in cluster.survey("s1")[0]["retire"]] == reasons


def test_a_pause_is_shown_on_pending_pods_once_in_ten_minutes(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.scale_up("up-1")
    cluster.kube.put(pending("web-2"))
    cluster.pause.paused = True

    for number in range(3):
        cluster.survey(f"s{number}")

    told = [each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "JoinerPaused"]
    assert [(each["regarding"]["name"], each["note"]) for each in told if each["regarding"]["kind"] == "Pod"] == [
        (
            "web-2",
            f"Joiner is paused: no node is launched for it. `joiner resume {CLUSTER.name}` ends the pause",
        )
    ]


def test_a_pause_is_shown_on_the_workload_of_many_pending_pods(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{number:03d}") for number in range(EVENTS_AT_ONCE + 1)))
    cluster.pause.paused = True

    cluster.survey("s1")

    told = [each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "JoinerPaused"]
    notes = [each["note"] for each in told if each["regarding"]["kind"] == "ReplicaSet"]
    (note,) = notes
    assert note.startswith(f"{EVENTS_AT_ONCE + 1} Pods, for example web-000: Joiner is paused: no node is launched")
    assert len(told) == EVENTS_AT_ONCE + 1  # and the one on the pool


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


def test_annotations_without_effect_are_events_of_their_objects(cluster: SimulatedCluster) -> None:
    drift = {"annotations": {"joiner.dev/drift": "detect"}}
    template = {**NODEPOOL["spec"]["template"], "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "yes"}}}
    cluster.prepare(pending("web-1"))
    cluster.kube.put({**NODECLASS, "metadata": {**NODECLASS["metadata"], **drift}})
    cluster.kube.put({**NODEPOOL, "spec": {"template": template}})
    put_template(cluster)
    put_buffer(cluster, **drift, replicas=1)

    cluster.scale_up("up-1")
    cluster.survey("s1")

    misplaced = "metadata.annotations[joiner.dev/drift] is detect: it has no effect here: it is an annotation of a pool"
    assert misplaced in notes_on(cluster, "EC2NodeClass")
    assert misplaced in notes_on(cluster, "CapacityBuffer")
    meaningless = (
        'spec.template.metadata.annotations[karpenter.sh/do-not-disrupt] is yes: it has no effect; write "true"'
    )
    assert meaningless in notes_on(cluster, "NodePool")
    for kind, note in ((kinds.EC2NODECLASSES, misplaced), (kinds.NODEPOOLS, meaningless)):
        (found,) = cluster.kube.all(kind)
        valid = Conditions.from_kube(found["status"]["conditions"])["ValidationSucceeded"]
        assert (valid.status, note in valid.message) == ("True", True)
