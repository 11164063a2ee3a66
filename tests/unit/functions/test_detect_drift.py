"""Detection of drift over a cluster and an account: the condition, events, digests, and when the next one is due."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.detect_drift import handler as detect_drift
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.drift_detections import DriftDetections
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.kube_errors import Conflict
from joiner.adapters.payload import Execution, Task
from joiner.pools import NodeClaim, NodeClassProblem
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CATALOGUE, CLASS, CLUSTER, NODECLASS, pending


@pytest.fixture
def standing(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with two nodes with a pod each, two hours after they joined."""
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.scale_up("up-1")
    cluster.now += timedelta(hours=2)
    return cluster


def detect(cluster: SimulatedCluster, name: str) -> dict[str, Any] | None:
    """Run one sweep with its detection; None if none is due."""
    surveyed, instances = cluster.survey(name)
    if not surveyed["drift"]["due"]:
        return None
    task = Task(Execution(f"sweep-{name}", arn(f"sweep-{name}"), ""), CLUSTER, 0, 1)
    keys = {
        "classes": documents.put_node_classes(cluster.store, task, [cluster.node_class]),
        "instances": instances["described"],
        "digest": surveyed["drift"]["digest"],
    }
    detections = DriftDetections(cluster.ledger._client, cluster.ledger._table)
    return detect_drift.DriftDetection(cluster.kube, detections, cluster.store).answer(task, keys, cluster.now)


def conditions(cluster: SimulatedCluster) -> set[tuple[str, str]]:
    """Return status and reason of the condition Drifted of all claims."""
    found = (claim.conditions["Drifted"] for claim in claims(cluster))
    return {(each.status, each.reason) for each in found}


def claims(cluster: SimulatedCluster) -> list[NodeClaim]:
    return list(list_claims(cluster.kube).claims)


def change_pool(cluster: SimulatedCluster, labels: dict[str, str | None]) -> None:
    pool = cluster.kube.get(kinds.NODEPOOLS, "default")
    generation = int(pool["metadata"].get("generation") or 0) + 1
    template = {"metadata": {"labels": labels}}
    cluster.kube.patch(
        kinds.NODEPOOLS, "default", {"metadata": {"generation": generation}, "spec": {"template": template}}
    )


def test_nodes_as_they_would_be_launched_now_are_not_drifted_and_nothing_is_written(standing: SimulatedCluster) -> None:
    before = claims(standing)

    assert detect(standing, "s1") == {"drifted": 0, "changed": 0, "stamped": 0, "notCompared": 0, "reasons": []}
    assert claims(standing) == before


def test_it_is_due_every_five_minutes_and_when_a_pool_changes(standing: SimulatedCluster) -> None:
    assert detect(standing, "s1") is not None
    due = []
    for number in range(2, 8):
        standing.now += timedelta(minutes=1)
        due.append(detect(standing, f"s{number}") is not None)
    change_pool(standing, {"team": "a"})
    due.append(detect(standing, "s9") is not None)

    assert due == [False, False, False, False, True, False, True]


def test_every_class_gets_its_status_although_there_is_no_node(cluster: SimulatedCluster) -> None:
    name = cluster.node_class.name
    cluster.prepare(pending("web-1"))
    assert claims(cluster) == []

    first = detect(cluster, "s1")
    status = cluster.kube.get(kinds.EC2NODECLASSES, name)["status"]
    cluster.now += timedelta(minutes=4)
    second = detect(cluster, "s2")
    cluster.now += timedelta(minutes=1)
    third = detect(cluster, "s3")

    assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == "True"
    assert [subnet["id"] for subnet in status["subnets"]] == sorted(subnet.id for subnet in cluster.node_class.subnets)
    assert [found is not None for found in (first, second, third)] == [True, False, True]
    assert cluster.kube.get(kinds.EC2NODECLASSES, name)["status"] == status


def test_classes_that_no_pool_names_get_the_events_of_what_keeps_them_from_being_ready(
    cluster: SimulatedCluster,
) -> None:
    spare = {"apiVersion": NODECLASS["apiVersion"], "kind": NODECLASS["kind"]}
    broken = {**NODECLASS["spec"], "kubelet": {"clusterDNS": ["10.0.0.300"]}}
    cluster.kube.put({**spare, "metadata": {"name": "custom", "uid": "uid-custom"}, "spec": NODECLASS["spec"]})
    cluster.kube.put({**spare, "metadata": {"name": "typo", "uid": "uid-typo"}, "spec": broken})
    documents.put_catalogue(cluster.store, CATALOGUE, cluster.now)
    missing = [
        NodeClassProblem("AMIsReady", "AMIsNotFound", "no image has image-id ami-1"),
        NodeClassProblem("ValidationSucceeded", "WithoutEffect", "it has no effect", "warning"),
    ]
    cluster.node_class = replace(CLASS, name="custom", problems=tuple(missing))

    for minutes in (0, 6):
        cluster.now += timedelta(minutes=minutes)
        detect(cluster, f"s{minutes}")

    custom, typo = (
        [(each["reason"], each["note"]) for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["uid"] == uid]
        for uid in ("uid-custom", "uid-typo")
    )
    assert custom == [("AMIsNotFound", "no image has image-id ami-1")]
    assert [reason for reason, _ in typo] == ["ValidationFailed"]
    assert "spec.kubelet.clusterDNS" in typo[0][1]


RESERVED = {
    "karpenter.sh/capacity-type": "reserved",
    "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
    "karpenter.k8s.aws/capacity-reservation-type": "default",
    "karpenter.k8s.aws/capacity-reservation-interruptible": "false",
}


def labelled(cluster: SimulatedCluster) -> list[dict[str, str]]:
    """Return the labels of all claims and nodes that name the capacity type or a reservation."""
    objects = [*cluster.kube.all(kinds.NODECLAIMS), *cluster.kube.all(kinds.NODES)]
    return [
        {key: each["metadata"]["labels"][key] for key in RESERVED if key in each["metadata"]["labels"]}
        for each in objects
    ]


def test_nodes_whose_reservation_has_ended_become_on_demand_nodes(standing: SimulatedCluster) -> None:
    for claim in claims(standing):
        standing.kube.patch(kinds.NODECLAIMS, claim.name, {"metadata": {"labels": RESERVED}})
        standing.kube.patch(kinds.NODES, claim.node_name, {"metadata": {"labels": RESERVED}})
        standing.ec2.instances[claim.instance_id]["CapacityReservationId"] = "cr-1"
    detect(standing, "s1")
    before = labelled(standing)

    for instance in standing.ec2.instances.values():
        del instance["CapacityReservationId"]
    standing.now += timedelta(minutes=5)
    detect(standing, "s2")

    assert before == [RESERVED] * len(before)
    assert labelled(standing) == [{"karpenter.sh/capacity-type": "on-demand"}] * len(before)
    ended = [each for each in standing.kube.all(kinds.EVENTS) if each["reason"] == "CapacityReservationEnded"]
    assert {each["regarding"]["name"] for each in ended} == {claim.name for claim in claims(standing)}


def test_a_changed_pool_drifts_its_nodes_until_it_is_changed_back(standing: SimulatedCluster) -> None:
    change_pool(standing, {"team": "a"})
    found = detect(standing, "s1")

    assert found is not None
    assert (found["drifted"], found["changed"], found["stamped"]) == (len(claims(standing)), len(claims(standing)), 0)
    assert conditions(standing) == {("True", "NodePoolDrifted")}
    events = [each for each in standing.kube.all(kinds.EVENTS) if each["reason"] == "Drifted"]
    assert {(each["regarding"]["kind"], each["note"]) for each in events} == {
        ("NodeClaim", "NodePoolDrifted: the template of NodePool/default was changed after the launch")
    }

    change_pool(standing, {"team": None})
    cleared = detect(standing, "s2")
    assert cleared is not None
    assert (cleared["drifted"], cleared["changed"]) == (0, len(claims(standing)))
    assert conditions(standing) == {("Unknown", "")}
    assert "NotDrifted" in {each["reason"] for each in standing.kube.all(kinds.EVENTS)}


def test_a_new_image_drifts_nodes_within_five_minutes_without_a_sign_in_the_cluster(standing: SimulatedCluster) -> None:
    detect(standing, "s1")
    for instance in standing.ec2.instances.values():
        instance["ImageId"] = "ami-of-yesterday"
    standing.now += timedelta(minutes=5)
    found = detect(standing, "s2")

    assert found is not None
    assert conditions(standing) == {("True", "AMIDrift")}


def test_claims_of_karpenter_get_digests_and_are_not_drifted(standing: SimulatedCluster) -> None:
    theirs = {"karpenter.sh/nodepool-hash": "123", "karpenter.sh/nodepool-hash-version": "v3"}
    for claim in claims(standing):
        standing.kube.patch(kinds.NODECLAIMS, claim.name, {"metadata": {"annotations": theirs}})
    found = detect(standing, "s1")

    assert found is not None
    assert (found["drifted"], found["stamped"]) == (0, len(claims(standing)))
    assert {claim.annotations["karpenter.sh/nodepool-hash-version"] for claim in claims(standing)} == {"joiner-v1"}
    standing.now += timedelta(minutes=5)
    assert detect(standing, "s2") == {"drifted": 0, "changed": 0, "stamped": 0, "notCompared": 0, "reasons": []}


def test_a_claim_that_changes_meanwhile_is_not_overwritten_and_the_next_sweep_detects_again(
    standing: SimulatedCluster,
) -> None:
    change_pool(standing, {"team": "a"})
    first = claims(standing)[0].name

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        if method == "PATCH" and path.endswith(f"/{first}/status"):
            raise Conflict("the object has been modified", status=409)
        return do()

    standing.kube.fault = fault
    found = detect(standing, "s1")
    standing.kube.fault = None

    assert found is not None
    assert found["reasons"][0] == f"NodeClaim/{first}: the object has been modified"
    standing.now += timedelta(minutes=1)
    again = detect(standing, "s2")
    assert again is not None
    assert (again["changed"], conditions(standing)) == (1, {("True", "NodePoolDrifted")})
