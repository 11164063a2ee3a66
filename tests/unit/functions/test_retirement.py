"""RETIRE over fakes: every function in its order, the state that each leaves, and the state after one fails."""

import os
import random
from datetime import timedelta

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_nodes import read_node
from joiner.names import DISRUPTED, EXCLUDE_FROM_LOAD_BALANCERS, TERMINATION_FINALIZER
from joiner.pools import NodeClaim
from joiner.pools.retiring_nodes import find_blocked_drains
from tests.unit.functions.call_faults import Fault, Trouble
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.fake_kube import HELD
from tests.unit.functions.grown_cluster import (
    claims,
    daemon,
    empty,
    first,
    grow,
    node_of,
    nothing_is_left_of,
    pods_on,
)
from tests.unit.functions.retirement_execution import RetirementExecution, arn, retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NOON

TRIED = 6  # calls of each fault and reason, of about thirty; `JOINER_CRASHES=all` tries all of them
SEED = 20261121


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    return grow(cluster)


def test_a_deleted_claim_is_drained_terminated_and_forgotten(grown: SimulatedCluster) -> None:
    claim, others = first(grown), claims(grown)[1:]
    grown.kube.put(daemon(claim.node_name))
    assert TERMINATION_FINALIZER in node_of(grown, claim)["metadata"]["finalizers"]

    done = retire(grown, (claim.name, "deleted"))

    assert [(each["stage"], each["instance"]) for each in done.entries] == [("forgotten", claim.instance_id)]
    assert done.moving == 1
    nothing_is_left_of(grown, claim)
    assert claims(grown) == others
    assert grown.ledger.lease().holder == ""
    evicted = [asked for asked in grown.kube.asked if asked.endswith("/eviction")]
    assert len(evicted) == 1  # the daemon's pod ran until the end


def test_while_it_drains_the_node_is_closed_and_out_of_load_balancers_and_the_claim_shows_what_it_waits_for(
    grown: SimulatedCluster,
) -> None:
    claim = first(grown)
    [pod] = pods_on(grown, claim.node_name)
    grown.kube.held.add(pod)

    done = retire(grown, (claim.name, "deleted"), passes=3)

    node, now = node_of(grown, claim), first(grown)
    assert [taint["key"] for taint in node["spec"]["taints"]] == [DISRUPTED]
    assert node["metadata"]["labels"][EXCLUDE_FROM_LOAD_BALANCERS] == "karpenter"
    assert now.deleting
    assert now.conditions["Drained"].status == "Unknown"
    assert now.conditions["Drained"].message == f"pod default/{pod} {HELD}"
    assert done.entries[0]["why"] == f"pod default/{pod} {HELD}"
    assert grown.ec2.instances[claim.instance_id]["State"]["Name"] == "running"
    notes = {
        each["reason"]: each["note"]
        for each in grown.kube.all(kinds.EVENTS)
        if each["regarding"]["name"] == claim.node_name
    }
    assert {"DisruptionTerminating", "FailedDraining"} <= notes.keys()
    assert notes["FailedDraining"] == (
        f"Drain is blocked: pod default/{pod} {HELD}. To go on: let the PodDisruptionBudget allow a disruption (more "
        "healthy replicas, or other numbers in the budget); or set a time after which it is drained in any case: "
        f"kubectl annotate {claim.kind.lower()} {claim.name} karpenter.sh/nodeclaim-termination-timestamp=TIME, "
        "TIME in UTC, such as 2026-12-31T18:00:00Z"
    )


def test_an_execution_goes_on_where_another_ended(grown: SimulatedCluster) -> None:
    claim = first(grown)
    [pod] = pods_on(grown, claim.node_name)
    grown.kube.held.add(pod)
    retire(grown, (claim.name, "deleted"), passes=2)
    grown.kube.held.clear()

    owned = retire(grown, (claim.name, "deleted"), name="retire-2")
    assert owned.left_out == {claim.name: "another execution retires it"}
    assert RetirementExecution(grown, "").retirements.disown(claim.name, arn("retire-1"))

    retire(grown, (claim.name, "deleted"), name="retire-3")

    nothing_is_left_of(grown, claim)


def test_a_lost_instance_is_not_drained_and_its_pods_go_at_once(grown: SimulatedCluster) -> None:
    claim = first(grown)
    [pod] = pods_on(grown, claim.node_name)
    grown.ec2.instances[claim.instance_id]["State"] = {"Name": "stopped"}

    done = retire(grown, (claim.name, "lost"), passes=1)

    assert done.entries[0]["stage"] == "forgotten"
    nothing_is_left_of(grown, claim)
    assert not any(asked.endswith("/eviction") for asked in grown.kube.asked)
    assert f"DELETE /api/v1/namespaces/default/pods/{pod}" in grown.kube.asked


def test_a_spot_warning_ends_a_drain_that_is_blocked(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    now = int(grown.now.timestamp())
    RetirementExecution(grown, "").retirements.hurry(claim.name, "spot", now + 120, now)

    done = retire(grown, (claim.name, "spot"), passes=20)

    nothing_is_left_of(grown, claim)
    assert done.entries[0]["stage"] == "forgotten"
    assert int(grown.now.timestamp()) - now <= 122


@pytest.mark.parametrize(("seconds", "blocked"), [(0, True), (3600, True), (600, False), (120, False)])
def test_the_claim_of_a_blocked_drain_says_whether_the_drain_ends_soon(
    grown: SimulatedCluster, seconds: int, *, blocked: bool
) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    now = int(grown.now.timestamp())
    RetirementExecution(grown, "").retirements.hurry(claim.name, "maintenance", now + seconds if seconds else 0, now)

    retire(grown, (claim.name, "maintenance"), passes=1)

    node = read_node(grown.kube.get(kinds.NODES, claim.node_name))
    assert first(grown).conditions["Drained"].message
    assert find_blocked_drains([node], [first(grown)]) == ({claim.node_name} if blocked else set())


def test_the_time_that_a_pool_allows_for_the_drain_counts_from_the_deletion(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.objects["nodeclaims", "", claim.name]["spec"]["terminationGracePeriod"] = "5m"
    grown.kube.held.update(pods_on(grown, claim.node_name))

    early = retire(grown, (claim.name, "deleted"), passes=2)
    assert early.entries[0]["stage"] == "draining"
    timestamp = first(grown).annotations["karpenter.sh/nodeclaim-termination-timestamp"]
    assert timestamp == "2026-11-21T12:05:00Z"  # the fake deletes at noon

    grown.now += timedelta(minutes=5)
    assert RetirementExecution(grown, "").retirements.disown(claim.name, arn("retire-1"))
    retire(grown, (claim.name, "deleted"), name="retire-2")
    nothing_is_left_of(grown, claim)


def attach_volume(grown: SimulatedCluster, node: str) -> None:
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1"},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    }
    grown.kube.put(attachment)


def test_volumes_are_waited_for_without_limit_if_the_claim_sets_none(grown: SimulatedCluster) -> None:
    claim = first(grown)
    attach_volume(grown, claim.node_name)

    waiting = retire(grown, (claim.name, "deleted"), passes=4)

    assert waiting.entries[0]["why"] == "volumes are detached: pv-1"
    assert first(grown).conditions["Drained"].true
    assert first(grown).conditions["VolumesDetached"].reason == "AwaitingVolumeDetachment"

    grown.now += timedelta(hours=6)
    RetirementExecution(grown, "").retirements.disown(claim.name, arn("retire-1"))
    later = retire(grown, (claim.name, "deleted"), name="retire-2", passes=2)
    assert (later.entries[0]["stage"], later.entries[0]["why"]) == ("draining", "volumes are detached: pv-1")

    del grown.kube.objects["volumeattachments", "", "csi-1"]
    RetirementExecution(grown, "").retirements.disown(claim.name, arn("retire-2"))
    retire(grown, (claim.name, "deleted"), name="retire-3")
    nothing_is_left_of(grown, claim)


def test_volumes_are_not_waited_for_past_the_termination_grace_period(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.objects["nodeclaims", "", claim.name]["spec"]["terminationGracePeriod"] = "5m"
    attach_volume(grown, claim.node_name)

    waiting = retire(grown, (claim.name, "deleted"), passes=4)
    assert waiting.entries[0]["why"] == "volumes are detached: pv-1"

    grown.now = NOON + timedelta(minutes=5)
    RetirementExecution(grown, "").retirements.disown(claim.name, arn("retire-1"))
    retire(grown, (claim.name, "deleted"), name="retire-2")
    nothing_is_left_of(grown, claim)


def test_an_agent_that_does_not_tolerate_the_taint_is_evicted_after_the_pods_that_it_serves(
    grown: SimulatedCluster,
) -> None:
    claim = first(grown)
    agent = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "logs-1",
            "namespace": "kube-system",
            "uid": "logs-1",
            "ownerReferences": [{"kind": "DaemonSet", "name": "logs", "controller": True}],
            "annotations": {"karpenter.sh/do-not-disrupt": "always"},
        },
        "spec": {"nodeName": claim.node_name, "containers": []},
        "status": {"phase": "Running"},
    }
    grown.kube.put(agent)

    done = retire(grown, (claim.name, "deleted"))

    assert done.moving == 1
    evicted = [asked.split("/")[-2] for asked in grown.kube.asked if asked.endswith("/eviction")]
    assert evicted == ["web-1", "logs-1"]
    found = grown.kube.all(kinds.EVENTS)
    invalid = [each for each in found if each["reason"] == "InvalidDoNotDisruptAnnotation"]
    assert [(each["regarding"]["name"], each["note"]) for each in invalid] == [
        (
            "logs-1",
            "The annotation karpenter.sh/do-not-disrupt: 'always' did not protect this pod: "
            "set true, or a duration such as 2h30m",
        )
    ]
    nothing_is_left_of(grown, claim)


def test_an_instance_that_does_not_carry_our_tags_is_not_touched(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.ec2.instances[claim.instance_id]["Tags"] = [{"Key": "Name", "Value": "another cluster's"}]

    done = retire(grown, (claim.name, "deleted"))

    assert done.entries[0]["why"] == (
        f"instance {claim.instance_id} lacks a tag of demo: "
        "kubernetes.io/cluster/demo=owned, eks:eks-cluster-name=demo and karpenter.sh/nodepool must be there"
    )
    assert "TerminateInstances" not in grown.ec2.asked
    assert first(grown).deleting


def test_while_joiner_is_paused_nothing_is_terminated(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.pause.paused = True

    done = retire(grown, (claim.name, "deleted"), passes=5)

    assert done.entries[0]["why"] == "Joiner is paused"
    assert "TerminateInstances" not in grown.ec2.asked


@pytest.mark.parametrize("reason", ["deleted", "empty", "lost"])
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: str(fault.value))
def test_whatever_call_fails_the_next_execution_finishes_it(
    make_cluster: MakeCluster, fault: Fault, reason: str
) -> None:
    def prepared() -> tuple[SimulatedCluster, NodeClaim]:
        cluster = grow(make_cluster())
        if reason == "empty":
            empty(cluster, first(cluster))
        return cluster, first(cluster)

    cluster, claim = prepared()
    with Trouble(cluster) as recorded:
        retire(cluster, (claim.name, reason))
    nothing_is_left_of(cluster, claim)

    wrong = []
    numbers = range(len(recorded.calls))
    chooser = random.Random(SEED)  # noqa: S311 - a choice of tests
    chosen = numbers if os.environ.get("JOINER_CRASHES") == "all" else chooser.sample(numbers, TRIED)
    for number in sorted(chosen):
        cluster, claim = prepared()
        with Trouble(cluster, fault, number) as trouble:
            retire(cluster, (claim.name, reason))
        try:
            for attempt in (2, 3):
                _as_the_sweep_would(cluster, claim, reason, attempt)
            nothing_is_left_of(cluster, claim)
            assert cluster.ledger.lease().holder == ""
        except AssertionError as problem:
            wrong.append(f"{number} {trouble.calls[number]}: {problem}")

    assert wrong == []


def _as_the_sweep_would(cluster: SimulatedCluster, claim: NodeClaim, reason: str, attempt: int) -> None:
    """Do what the sweep does: release what ended owners and holders have; retire a claim that still exists again."""
    cluster.now += timedelta(seconds=60)
    retirements, lease = RetirementExecution(cluster, "").retirements, cluster.machine.lease()
    if lease.holder:
        cluster.machine.break_lease(lease.holder, lease.number)
    for one in retirements.all().values():
        retirements.disown(one.claim, one.owner)
    if standing := [each for each in claims(cluster) if each.name == claim.name]:
        retire(cluster, (claim.name, "deleted" if standing[0].deleting else reason), name=f"retire-{attempt}")
