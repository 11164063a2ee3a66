"""Objects that Joiner does not act upon say so in an event, and a pool that nothing can meet is not ready."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Conditions
from tests.unit.functions.scale_up import CLUSTER, NODEPOOL, SimulatedCluster, pending


def notes_on(world: SimulatedCluster, kind: str) -> list[str]:
    return [each["note"] for each in world.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == kind]


def test_a_claim_that_a_person_wrote_reports_that_nothing_is_launched(world: SimulatedCluster) -> None:
    world.prepare()
    spec = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}
    metadata = {"name": "mine", "labels": {"karpenter.sh/nodepool": "default"}}
    world.kube.put({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec})

    world.survey("s1")

    assert notes_on(world, "NodeClaim") == [
        "it is written by hand: Joiner launches no instance for it: delete it, and create pods (a Deployment with a "
        "low priority keeps a node that others may use)"
    ]


def test_an_invalid_node_overlay_reports_what_is_wrong(world: SimulatedCluster) -> None:
    world.prepare()
    spec = {"requirements": [{"key": "a.example/b", "operator": "Exists"}], "price": "cheap"}
    world.kube.put(
        {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "low"}, "spec": spec}
    )

    world.survey("s1")

    assert notes_on(world, "NodeOverlay") == ['spec.price is cheap: give $/h as a text, such as "0.25"']


def test_a_pool_that_no_instance_type_meets_is_not_ready(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"))
    node = NODEPOOL["spec"]["template"]["spec"]
    wanted = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.lrge"]}]
    pool: dict[str, Any] = {**NODEPOOL, "spec": {"template": {"spec": {**node, "requirements": wanted}}}}
    world.kube.put(pool)

    world.scale_up("up-1")

    (found,) = world.kube.all(kinds.NODEPOOLS)
    ready = Conditions.from_kube(found["status"]["conditions"])["Ready"]
    assert (ready.status, ready.reason) == ("False", "ValidationFailed")
    assert "m5.lrge: the catalogue has no such instance type" in ready.message


def test_a_pause_is_shown_on_every_pool_once_in_ten_minutes(world: SimulatedCluster) -> None:
    world.prepare()
    world.pause.paused = True

    for number in range(3):
        world.survey(f"s{number}")

    assert notes_on(world, "NodePool") == [
        f"Joiner is paused: nothing is launched and no node is removed. `joiner resume {CLUSTER.name}` ends the pause"
    ]


def test_an_empty_node_of_a_consolidating_pool_stays_with_the_annotation_do_not_consolidate(
    world: SimulatedCluster,
) -> None:
    world.prepare(pending("web-1"))
    world.scale_up("up-1")
    for pod in world.kube.all(kinds.PODS):
        world.kube.delete(kinds.PODS, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    (node,) = world.kube.all(kinds.NODES)
    world.now += timedelta(minutes=2)

    def due(policy: str, annotation: str) -> list[str]:
        disruption = {"consolidationPolicy": policy, "consolidateAfter": "0s"}
        world.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "disruption": disruption}})
        changes = {"metadata": {"annotations": {"karpenter.sh/do-not-consolidate": annotation}}}
        world.kube.patch(kinds.NODES, node["metadata"]["name"], changes)
        world.now += timedelta(minutes=2)
        world.survey(f"first-{policy}-{annotation}")
        world.now += timedelta(minutes=2)
        return [each["reason"] for each in world.survey(f"{policy}-{annotation}")[0]["retire"]]

    assert due("WhenEmptyOrUnderutilized", "true") == []
    assert due("WhenEmptyOrUnderutilized", "false") == ["empty"]
    assert due("WhenEmpty", "true") == ["empty"]
