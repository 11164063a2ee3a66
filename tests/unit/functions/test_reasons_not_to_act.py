"""Reasons for which Joiner does not act: another autoscaler, a pause, and pods whose events already show why no node
helps them.
"""

from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.lifecycle.other_autoscalers import DEFINITIONS
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NODECLASS, NODEPOOL, NOON, pending

FLEET = "CreateFleet"


def events(cluster: SimulatedCluster, kind: str) -> list[tuple[str, str]]:
    """Return reason and note of the events on objects of a kind."""
    return [
        (event["reason"], event["note"])
        for event in cluster.kube.all(kinds.EVENTS)
        if event["regarding"]["kind"] == kind
    ]


def lease(name: str, *, namespace: str = "kube-system") -> dict[str, Any]:
    spec = {"holderIdentity": f"{name}-0", "renewTime": f"{NOON:%Y-%m-%dT%H:%M:%S.%fZ}"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def definition(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {key.replace("_", "-"): value for key, value in labels.items()}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}


OURS = {"app.kubernetes.io/managed-by": "joiner"}


# Other autoscalers


@pytest.mark.parametrize("namespace", ["kube-system", "karpenter"])
def test_beside_a_running_karpenter_nothing_is_written_and_its_pools_report_why(
    cluster: SimulatedCluster, namespace: str
) -> None:
    cluster.prepare(pending("web-1"), lease("karpenter-leader-election", namespace=namespace))

    assert cluster.scale_up("up-1")

    assert cluster.answers["find_pending_pods"]["refused"] == "KarpenterRuns"
    assert set(cluster.answers) == {"find_pending_pods"}
    assert (list_claims(cluster.kube).claims, cluster.ec2.instances) == ((), {})
    ((reason, note),) = events(cluster, "NodePool")
    assert reason == "KarpenterRuns"
    assert f"{namespace}/karpenter-leader-election" in note
    assert not [call for call in cluster.kube.asked if not call.startswith("GET") and "/events" not in call]


def test_joiner_acts_as_soon_as_karpenter_has_been_gone_for_a_minute(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), lease("karpenter-leader-election"))
    cluster.scale_up("up-1")

    cluster.now += timedelta(minutes=1)
    cluster.sweep("up-2")

    assert len(cluster.ec2.instances) == 1


def test_definitions_that_somebody_else_manages_refuse_and_ours_do_not(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    for name in DEFINITIONS:
        cluster.kube.put(definition(name, **OURS))
    cluster.kube.put(definition("nodepools.karpenter.sh", **{"app.kubernetes.io/managed-by": "Helm"}))

    cluster.scale_up("up-1")

    assert cluster.answers["find_pending_pods"]["refused"] == "ForeignDefinitions"
    cluster.kube.put(definition("nodepools.karpenter.sh", **OURS))
    cluster.scale_up("up-2")
    assert len(cluster.ec2.instances) == 1


def test_our_own_definitions_cost_one_request_a_look(cluster: SimulatedCluster) -> None:
    """A look that finds no pending pod is repeated once; only the second one reads more than pods."""
    cluster.prepare()
    for name in DEFINITIONS:
        cluster.kube.put(definition(name, **OURS))

    cluster.scale_up("up-1")

    assert sum("customresourcedefinitions" in call for call in cluster.kube.asked) == 1


def test_a_sweep_beside_karpenter_reports_it_and_looks_no_further(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), lease("karpenter-leader-election"))

    surveyed, _ = cluster.survey("sweep-1")

    assert surveyed["refused"] == "KarpenterRuns"
    assert "karpenter-leader-election-0" in surveyed["reasons"][0]
    assert [reason for reason, _ in events(cluster, "NodePool")] == ["KarpenterRuns"]


def test_beside_cluster_autoscaler_joiner_acts_and_warns_once(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), lease("cluster-autoscaler"))

    cluster.scale_up("up-1")
    cluster.sweep("up-2")

    assert len(cluster.ec2.instances) == 1
    warned = [reason for reason, _ in events(cluster, "NodePool") if reason == "ClusterAutoscalerRuns"]
    assert warned == ["ClusterAutoscalerRuns"]


# Pause


def test_whoever_pauses_before_the_launch_finds_nothing_launched_and_whoever_resumes_finds_it_launched_once(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"))
    cluster.pause.paused = True

    assert cluster.scale_up("up-1")

    assert cluster.answers["launch_instances"] == {"paused": True}
    assert (cluster.ec2.asked.count(FLEET), cluster.ledger.unrecorded_launches()) == (0, [])
    cluster.pause.paused = False
    cluster.sweep("up-2")
    assert cluster.ec2.asked.count(FLEET) == 1
    assert [claim.launched for claim in list_claims(cluster.kube).claims] == [True]


# Pods that no node helps


def test_a_pod_without_hope_is_planned_after_one_two_four_eight_minutes_and_costs_two_small_looks_between(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("huge", cpu="64"))
    planned = []

    for minute in range(26):
        cluster.now = NOON + timedelta(minutes=minute)
        cluster.answers.clear()
        cluster.scale_up(f"up-{minute}") if minute == 0 else cluster.sweep(f"up-{minute}")
        if "plan_capacity" in cluster.answers:
            planned.append(minute)

    assert planned == [0, 1, 3, 7, 15, 25]


def test_a_hopeless_pod_that_rings_again_is_neither_kept_nor_planned(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("huge", cpu="64"))
    cluster.scale_up("up-1")
    cluster.answers.clear()

    cluster.scale_up("up-2")

    found = cluster.answers.pop("find_pending_pods")
    assert (found["pods"], found["podsToPlan"], found["snapshot"]) == (1, 0, "")
    assert cluster.answers == {}


def test_another_pod_is_helped_at_once_and_the_hopeless_one_waits_no_longer_for_it(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("huge", cpu="64"))
    cluster.scale_up("up-1")

    cluster.kube.put(pending("web-1"))
    cluster.now += timedelta(seconds=10)
    cluster.scale_up("up-2")

    assert len(cluster.ec2.instances) == 1


def test_a_pool_that_is_edited_makes_a_hopeless_pod_asked_for_at_once(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("huge", cpu="64"))
    cluster.scale_up("up-1")
    wider = {**NODEPOOL, "metadata": {**NODEPOOL["metadata"], "generation": 2}}
    cluster.kube.put(wider)
    cluster.answers.clear()

    cluster.scale_up("up-2")

    assert cluster.answers["find_pending_pods"]["podsToPlan"] == 1
    assert "plan_capacity" in cluster.answers


def test_a_pool_without_capacity_is_asked_again_when_its_offerings_are_no_longer_known_as_short(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"))
    cluster.ec2.short = {(name, zone) for name in ("m5.large", "m5.xlarge") for zone in ("us-east-1a", "us-east-1b")}
    cluster.scale_up("up-1")
    asked = cluster.ec2.asked.count(FLEET)
    note = next(note for reason, note in events(cluster, "Pod") if reason == "NotTriggerScaleUp")
    assert "short of capacity" in note
    assert "m5.large in us-east-1a" in note

    for minute in (1, 2):
        cluster.now = NOON + timedelta(minutes=minute)
        cluster.sweep(f"up-{minute}")
    assert cluster.ec2.asked.count(FLEET) == asked

    cluster.ec2.short = set()
    cluster.now = NOON + timedelta(minutes=3, seconds=1)
    cluster.sweep("up-again")
    assert len(cluster.ec2.instances) == 1


def test_a_launch_that_ec2_refuses_for_good_is_tried_less_and_less_and_reported_once_in_ten_minutes(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"))
    tries = []

    def refuse(name: str, do: Any) -> Any:
        if name == FLEET:
            tries.append(int((cluster.now - NOON).total_seconds() // 60))
            encoded = f"You are not authorized. Encoded authorization failure message: x{len(tries)}"
            raise refused(name, "UnauthorizedOperation", encoded)
        return do()

    cluster.ec2.fault = refuse
    for minute in range(10):
        cluster.now = NOON + timedelta(minutes=minute)
        cluster.scale_up("up-0") if minute == 0 else cluster.sweep(f"up-{minute}")

    assert tries == [0, 1, 3, 7]
    assert sorted(reason for reason, _ in events(cluster, "NodePool")) == ["NodeRegistrationUnhealthy", "Unauthorized"]
    assert list_claims(cluster.kube).claims == ()


def test_a_claim_that_cannot_be_made_is_tried_less_and_less(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    family = {**NODECLASS, "spec": {**NODECLASS["spec"], "userData": "#!/bin/sh\n" + "x" * 20_000}}
    cluster.kube.put(family)
    planned = []

    for minute in range(10):
        cluster.now = NOON + timedelta(minutes=minute)
        cluster.answers.clear()
        cluster.scale_up("up-0") if minute == 0 else cluster.sweep(f"up-{minute}")
        if "plan_capacity" in cluster.answers:
            planned.append(minute)

    assert planned == [0, 1, 3, 7]
    assert [reason for reason, _ in events(cluster, "NodePool")] == ["UserDataSizeLimitExceeded"]
