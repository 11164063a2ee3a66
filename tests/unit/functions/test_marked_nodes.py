"""Beside marked nodes, scale-ups launch no node for their pods, and a failed disruption says what happened."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.ledger_items import LaunchRecord
from joiner.adapters.retirements import Retirements
from joiner.cluster import Pod
from joiner.disruption.proposal import DisruptionAction
from joiner.launching import PairedInstance
from joiner.names import LEASE
from joiner.pools import NodeClaim, NodeClassRef, write_claim_status, write_node_claim
from tests.unit.functions.disruption_execution import ARN, is_tainted, marked, planned, records, settled
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import claims, memory

OLD = {"default-1", "default-2"}
REPLACED = DisruptionAction("Drifted", ("default-1",), (planned(),), {"default/web-1": "n1"})


def mark(cluster: SimulatedCluster, *, sent: bool = False) -> NodeClaim:
    """Mark node-1 with one replacement, under a lease that is released then; return the claim to write for it. `sent`:
    its launch was begun."""
    marked(cluster, REPLACED)
    [record] = records(cluster).all()
    lease = cluster.machine.lease().number
    if sent:
        launch = LaunchRecord("l-1", "{}", "token", claims=record.replacements, lease_number=lease, execution=ARN)
        cluster.ledger.begin_launch(launch)
    cluster.machine.break_lease(ARN, lease)
    annotations = {LEASE: str(lease)}
    reference = NodeClassRef("EC2NodeClass", "default")
    return NodeClaim(record.replacements[0], reference, pool="default", annotations=annotations)


def write(cluster: SimulatedCluster, claim: NodeClaim, **metadata: str) -> None:
    manifest = {**write_node_claim(claim), **write_claim_status(claim)}
    cluster.kube.put({**manifest, "metadata": {**manifest["metadata"], **metadata}})


def launched(cluster: SimulatedCluster, claim: NodeClaim) -> NodeClaim:
    instance = PairedInstance("i-0009", claim.name, "m5.large", "us-east-1a", "on-demand", "ami-1")
    return claim.as_launched(instance, at=cluster.now)


def pod(cluster: SimulatedCluster, name: str) -> Mapping[str, Any]:
    return cluster.kube.get(kinds.PODS, name, namespace="default")


def class_of(cluster: SimulatedCluster, name: str) -> str:
    return Pod.from_kube(pod(cluster, name)).class_key


def waiting(cluster: SimulatedCluster, sweep: str) -> list[str]:
    """Return the pods that a sweep finds without a node in flight."""
    surveyed, _ = cluster.survey(sweep)
    return [one.split()[1] for one in surveyed["reasons"] if one.endswith(" waits for a node")]


def test_no_node_is_launched_for_the_running_pods_of_a_disruption_that_failed(grown: SimulatedCluster) -> None:
    """EC2 had no capacity for the replacement: its claim is gone, and the disruption is not undone yet."""
    mark(grown)
    grown.kube.put(pending("late"))
    assert waiting(grown, "s1") == ["default/late"]

    grown.stop_after = "record_node_claims"
    grown.scale_up("up-1")

    assert len({claim.name for claim in claims(grown)} - OLD) == 1, "for the pending pod"
    [stored] = grown.answers["record_node_claims"]["events"]
    events = documents.get_events(grown.store, stored)
    assert {(each.subject.name, each.reason) for each in events} == {("late", "TriggeredScaleUp")}
    assert [undone["claims"] for undone in settled(grown)["undone"]] == [["default-1"]]
    assert not is_tainted(grown, "node-1")


def test_the_pods_of_a_marked_node_need_another_one_as_soon_as_its_retirement_begins(grown: SimulatedCluster) -> None:
    mark(grown)
    assert waiting(grown, "s1") == []

    retire(grown, ("default-1", "spot"), passes=0)

    assert waiting(grown, "s2") == ["default/web-1"]


def test_a_scale_up_launches_nothing_in_the_place_of_a_replacement_that_was_not_launched(
    grown: SimulatedCluster,
) -> None:
    """Joiner was paused between the claim and its launch, and was resumed."""
    claim = mark(grown)
    write(grown, claim)
    grown.ledger.assign(claim.name, {class_of(grown, "web-1"): 1}, claim.lease)

    grown.stop_after = "record_node_claims"
    grown.scale_up("up-1")

    assert {claim.name for claim in claims(grown)} == OLD


def test_a_pending_pod_takes_the_slot_of_a_replacement_before_the_pod_for_which_it_was_launched(
    grown: SimulatedCluster,
) -> None:
    claim = mark(grown)
    write(grown, launched(grown, claim))
    late = {**pod(grown, "web-1"), "status": pending("late")["status"]}
    late = {**late, "metadata": {**late["metadata"], "name": "late"}, "spec": {**late["spec"], "nodeName": ""}}
    grown.kube.put(late)
    assert waiting(grown, "s1") == ["default/late"]

    grown.ledger.assign(claim.name, {class_of(grown, "web-1"): 1}, claim.lease)

    assert waiting(grown, "s2") == []
    retire(grown, ("default-1", "spot"), passes=0)
    assert waiting(grown, "s3") == ["default/web-1"]


def test_a_replacement_that_no_execution_launches_any_more_is_given_up_at_once(grown: SimulatedCluster) -> None:
    claim = mark(grown)
    write(grown, replace(claim, annotations={LEASE: str(grown.machine.lease().number + 1)}))
    assert settled(grown)["waiting"] == 1, "a later lease may launch it"
    write(grown, claim)

    [undone] = settled(grown)["undone"]

    assert undone["why"] == f"replacement {claim.name} was not launched"
    assert not is_tainted(grown, "node-1")


def test_a_replacement_whose_launch_has_no_outcome_yet_is_awaited(grown: SimulatedCluster) -> None:
    claim = mark(grown, sent=True)
    write(grown, claim)

    assert (settled(grown)["waiting"], settled(grown)["undone"]) == (1, [])


def test_a_pause_before_the_launch_opens_the_node_and_no_pool_waits(grown: SimulatedCluster) -> None:
    write(grown, mark(grown))

    [undone] = settled(grown, paused=True)["undone"]

    assert undone["why"] == "Joiner is paused"
    assert not is_tainted(grown, "node-1")
    assert grown.ledger.disruption_back_offs(grown.now) == {}


def test_a_replacement_that_was_launched_and_is_gone_is_not_said_to_be_unlaunched(grown: SimulatedCluster) -> None:
    claim = mark(grown)
    write(grown, launched(grown, claim))
    assert settled(grown)["waiting"] == 1
    del grown.kube.objects["nodeclaims", "", claim.name]

    [undone] = settled(grown)["undone"]

    assert undone["why"].endswith("was launched and is gone: its claim was deleted, or its instance ended")
    assert list(grown.ledger.disruption_back_offs(grown.now)) == ["NodePool/default"]


@pytest.mark.parametrize(
    ("reasons", "why"),
    [
        ((), "replacement {} was deleted"),
        (("deleted", "lost"), "the instance of replacement {} ended"),
        (("never-joined",), "the node of replacement {} did not join"),
        (("of a later version",), "replacement {} was deleted"),
    ],
)
def test_the_event_says_why_a_launched_replacement_is_deleted(
    grown: SimulatedCluster, reasons: tuple[str, ...], why: str
) -> None:
    claim = mark(grown)
    write(grown, launched(grown, claim), deletionTimestamp="2026-11-21T12:00:00Z")
    for reason in reasons:
        memory(grown, Retirements).begin(claim.name, "arn:retire", reason, int(grown.now.timestamp()))

    [undone] = settled(grown)["undone"]

    assert undone["why"] == why.format(claim.name)
    notes = {one["note"] for one in grown.kube.all(kinds.EVENTS) if one["reason"] == "DisruptionFailed"}
    assert notes == {f"Drifted: the node stays, because {why.format(claim.name)}"}
