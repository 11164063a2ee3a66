"""Reasons for which Joiner does not act: another autoscaler, a pause, and pods whose events already show why no node
helps them.
"""

from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.lifecycle.other_autoscalers import DEFINITIONS
from tests.unit.functions import scale_up as machine
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.scale_up import NOON, SimulatedCluster, pending

FLEET = "CreateFleet"


def events(world: SimulatedCluster, kind: str) -> list[tuple[str, str]]:
    """Return reason and note of the events on objects of a kind."""
    return [
        (event["reason"], event["note"]) for event in world.kube.all(kinds.EVENTS) if event["regarding"]["kind"] == kind
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
    world: SimulatedCluster, namespace: str
) -> None:
    world.prepare(pending("web-1"), lease("karpenter-leader-election", namespace=namespace))

    assert world.scale_up("up-1")

    assert world.answers["find_pending_pods"]["refused"] == "KarpenterRuns"
    assert set(world.answers) == {"find_pending_pods"}
    assert (list_claims(world.kube).claims, world.ec2.instances) == ((), {})
    ((reason, note),) = events(world, "NodePool")
    assert reason == "KarpenterRuns"
    assert f"{namespace}/karpenter-leader-election" in note
    assert not [call for call in world.kube.asked if not call.startswith("GET") and "/events" not in call]


def test_joiner_acts_as_soon_as_karpenter_has_been_gone_for_a_minute(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"), lease("karpenter-leader-election"))
    world.scale_up("up-1")

    world.now += timedelta(minutes=1)
    world.sweep("up-2")

    assert len(world.ec2.instances) == 1


def test_definitions_that_somebody_else_manages_refuse_and_ours_do_not(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"))
    for name in DEFINITIONS:
        world.kube.put(definition(name, **OURS))
    world.kube.put(definition("nodepools.karpenter.sh", **{"app.kubernetes.io/managed-by": "Helm"}))

    world.scale_up("up-1")

    assert world.answers["find_pending_pods"]["refused"] == "ForeignDefinitions"
    world.kube.put(definition("nodepools.karpenter.sh", **OURS))
    world.scale_up("up-2")
    assert len(world.ec2.instances) == 1


def test_our_own_definitions_cost_one_request_a_look(world: SimulatedCluster) -> None:
    """A look that finds no pending pod is repeated once."""
    world.prepare()
    for name in DEFINITIONS:
        world.kube.put(definition(name, **OURS))

    world.scale_up("up-1")

    assert sum("customresourcedefinitions" in call for call in world.kube.asked) == 2


def test_a_sweep_beside_karpenter_reports_it_and_looks_no_further(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"), lease("karpenter-leader-election"))

    cluster, _ = world.survey("sweep-1")

    assert cluster["refused"] == "KarpenterRuns"
    assert "karpenter-leader-election-0" in cluster["reasons"][0]
    assert [reason for reason, _ in events(world, "NodePool")] == ["KarpenterRuns"]


def test_beside_cluster_autoscaler_joiner_acts_and_warns_once(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"), lease("cluster-autoscaler"))

    world.scale_up("up-1")
    world.sweep("up-2")

    assert len(world.ec2.instances) == 1
    warned = [reason for reason, _ in events(world, "NodePool") if reason == "ClusterAutoscalerRuns"]
    assert warned == ["ClusterAutoscalerRuns"]


# Pause


def test_whoever_pauses_before_the_launch_finds_nothing_launched_and_whoever_resumes_finds_it_launched_once(
    world: SimulatedCluster,
) -> None:
    world.prepare(pending("web-1"))
    world.pause.paused = True

    assert world.scale_up("up-1")

    assert world.answers["launch_instances"] == {"paused": True}
    assert (world.ec2.asked.count(FLEET), world.ledger.unrecorded_launches()) == (0, [])
    world.pause.paused = False
    world.sweep("up-2")
    assert world.ec2.asked.count(FLEET) == 1
    assert [claim.launched for claim in list_claims(world.kube).claims] == [True]


# Pods that no node helps


def test_a_pod_without_hope_is_planned_after_one_two_four_eight_minutes_and_costs_two_small_looks_between(
    world: SimulatedCluster,
) -> None:
    world.prepare(pending("huge", cpu="64"))
    planned = []

    for minute in range(26):
        world.now = NOON + timedelta(minutes=minute)
        world.answers.clear()
        world.scale_up(f"up-{minute}") if minute == 0 else world.sweep(f"up-{minute}")
        if "plan_capacity" in world.answers:
            planned.append(minute)

    assert planned == [0, 1, 3, 7, 15, 25]


def test_a_hopeless_pod_that_rings_again_is_neither_kept_nor_planned(world: SimulatedCluster) -> None:
    world.prepare(pending("huge", cpu="64"))
    world.scale_up("up-1")
    world.answers.clear()

    world.scale_up("up-2")

    found = world.answers.pop("find_pending_pods")
    assert (found["pods"], found["podsToPlan"], found["snapshot"]) == (1, 0, "")
    assert world.answers == {}


def test_another_pod_is_helped_at_once_and_the_hopeless_one_waits_no_longer_for_it(world: SimulatedCluster) -> None:
    world.prepare(pending("huge", cpu="64"))
    world.scale_up("up-1")

    world.kube.put(pending("web-1"))
    world.now += timedelta(seconds=10)
    world.scale_up("up-2")

    assert len(world.ec2.instances) == 1


def test_a_pool_that_is_edited_makes_a_hopeless_pod_asked_for_at_once(world: SimulatedCluster) -> None:
    world.prepare(pending("huge", cpu="64"))
    world.scale_up("up-1")
    wider = {**machine.NODEPOOL, "metadata": {**machine.NODEPOOL["metadata"], "generation": 2}}
    world.kube.put(wider)
    world.answers.clear()

    world.scale_up("up-2")

    assert world.answers["find_pending_pods"]["podsToPlan"] == 1
    assert "plan_capacity" in world.answers


def test_a_pool_without_capacity_is_asked_again_when_its_offerings_are_no_longer_known_as_short(
    world: SimulatedCluster,
) -> None:
    world.prepare(pending("web-1"))
    world.ec2.short = {(name, zone) for name in ("m5.large", "m5.xlarge") for zone in ("us-east-1a", "us-east-1b")}
    world.scale_up("up-1")
    asked = world.ec2.asked.count(FLEET)
    note = next(note for reason, note in events(world, "Pod") if reason == "NotTriggerScaleUp")
    assert "short of capacity" in note
    assert "m5.large in us-east-1a" in note

    for minute in (1, 2):
        world.now = NOON + timedelta(minutes=minute)
        world.sweep(f"up-{minute}")
    assert world.ec2.asked.count(FLEET) == asked

    world.ec2.short = set()
    world.now = NOON + timedelta(minutes=3, seconds=1)
    world.sweep("up-again")
    assert len(world.ec2.instances) == 1


def test_a_launch_that_ec2_refuses_for_good_is_tried_less_and_less_and_reported_once_in_ten_minutes(
    world: SimulatedCluster,
) -> None:
    world.prepare(pending("web-1"))
    tries = []

    def refuse(name: str, do: Any) -> Any:
        if name == FLEET:
            tries.append(int((world.now - NOON).total_seconds() // 60))
            encoded = f"You are not authorized. Encoded authorization failure message: x{len(tries)}"
            raise refused(name, "UnauthorizedOperation", encoded)
        return do()

    world.ec2.fault = refuse
    for minute in range(10):
        world.now = NOON + timedelta(minutes=minute)
        world.scale_up("up-0") if minute == 0 else world.sweep(f"up-{minute}")

    assert tries == [0, 1, 3, 7]
    assert sorted(reason for reason, _ in events(world, "NodePool")) == ["NodeRegistrationUnhealthy", "Unauthorized"]
    assert list_claims(world.kube).claims == ()


def test_a_claim_that_cannot_be_made_is_tried_less_and_less(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"))
    family = {**machine.NODECLASS, "spec": {**machine.NODECLASS["spec"], "userData": "#!/bin/sh\n" + "x" * 20_000}}
    world.kube.put(family)
    planned = []

    for minute in range(10):
        world.now = NOON + timedelta(minutes=minute)
        world.answers.clear()
        world.scale_up("up-0") if minute == 0 else world.sweep(f"up-{minute}")
        if "plan_capacity" in world.answers:
            planned.append(minute)

    assert planned == [0, 1, 3, 7]
    assert [reason for reason, _ in events(world, "NodePool")] == ["UserDataSizeLimitExceeded"]
