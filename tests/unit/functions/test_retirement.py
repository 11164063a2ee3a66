"""RETIRE over fakes: every function in its order, the state that each leaves, and the state after one fails."""

import os
import random
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.launching import PairedInstance
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import DISRUPTED, EXCLUDE_FROM_LOAD_BALANCERS, TERMINATION_FINALIZER
from joiner.pools import NodeClaim, NodeClassRef, read_node_claim, write_claim_status, write_node_claim
from tests.unit.functions.conftest import MakeWorld
from tests.unit.functions.faults import Fault, Trouble
from tests.unit.functions.retire import Retirement, arn, retire
from tests.unit.functions.scale_up import NOON, World

TRIED = 6  # calls of each fault and reason, of about thirty; `JOINER_CRASHES=all` tries all of them
SEED = 20261121


@pytest.fixture
def grown(world: World) -> World:
    return grow(world)


def grow(world: World) -> World:
    """Return a world with two nodes that run a pod each, as a scale-up leaves them."""
    world.prepare()
    for number in (1, 2):
        _node(world, f"default-{number}", f"i-000{number}", f"node-{number}")
        owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}
        metadata = {"name": f"web-{number}", "namespace": "default", "ownerReferences": [owner]}
        world.kube.put(running(metadata, f"node-{number}"))
    return world


def _node(world: World, name: str, instance: str, node: str) -> None:
    made = NodeClaim(
        name,
        NodeClassRef("EC2NodeClass", "default"),
        pool="default",
        pool_uid="pool-1",
        labels={"karpenter.sh/nodepool": "default"},
    )
    launched = made.as_launched(
        PairedInstance(instance, made.name, "m5.large", "us-east-1a", "on-demand", "ami-1"), at=NOON
    )
    claim = launched.as_registered(node, at=NOON).as_initialized(at=NOON)
    world.kube.put({**write_node_claim(claim), **write_claim_status(claim)})
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}, "finalizers": [TERMINATION_FINALIZER]},
        "spec": {"providerID": claim.provider_id, "taints": []},
        "status": {
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    world.kube.put(manifest)
    tags = {"kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "demo", "karpenter.sh/nodepool": "default"}
    world.ec2.instances[instance] = {
        "InstanceId": instance,
        "InstanceType": "m5.large",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "State": {"Name": "running"},
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    world.ledger.pair(instance, name, "launch-1")


def running(metadata: dict[str, Any], node: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "1500m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def written(world: World) -> NodeClaim:
    """Write a claim under lease 3 that is not launched."""
    claim = NodeClaim(
        "default-3", NodeClassRef("EC2NodeClass", "default"), pool="default", annotations={"joiner.dev/lease": "3"}
    )
    world.kube.put(write_node_claim(claim))
    return claim


def _lease(world: World) -> dict[str, Any]:
    return {":me": "arn:up", ":until": int(world.now.timestamp()) + 60, ":number": 3}


def claims(world: World) -> list[NodeClaim]:
    return [read_node_claim(each) for each in world.kube.all(kinds.NODECLAIMS)]


def first(world: World) -> NodeClaim:
    return claims(world)[0]


def node_of(world: World, claim: NodeClaim) -> Any:
    return world.kube.objects["nodes", "", claim.node_name]


def pods_on(world: World, node: str) -> list[str]:
    return [each["metadata"]["name"] for each in world.kube.all(kinds.PODS) if each["spec"].get("nodeName") == node]


def daemon(node: str) -> dict[str, Any]:
    owner = {"kind": "DaemonSet", "name": "agent", "uid": "ds-1", "controller": True}
    found = running({"name": f"agent-{node}", "ownerReferences": [owner]}, node)
    return {**found, "spec": {**found["spec"], "tolerations": [{"operator": "Exists"}]}}


def empty(world: World, claim: NodeClaim) -> None:
    """Make the node empty: its pods have ended."""
    for name in pods_on(world, claim.node_name):
        del world.kube.objects["pods", "default", name]


def nothing_is_left_of(world: World, claim: NodeClaim) -> None:
    assert claim.name not in [each.name for each in claims(world)]
    assert ("nodes", "", claim.node_name) not in world.kube.objects
    assert world.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"
    assert claim.instance_id not in world.ledger.pairings([claim.instance_id])
    assert claim.name not in Retirement(world, "").retirements.all()
    assert claim.name not in world.ledger.assignments()
    assert pods_on(world, claim.node_name) == []


def test_a_deleted_claim_is_drained_terminated_and_forgotten(grown: World) -> None:
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


def test_while_it_drains_the_node_is_closed_and_out_of_load_balancers_and_the_claim_says_what_it_waits_for(
    grown: World,
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
    assert now.conditions["Drained"].message == f"pod default/{pod} is held by its disruption budget"
    assert done.entries[0]["why"] == f"pod default/{pod} is held by its disruption budget"
    assert grown.ec2.instances[claim.instance_id]["State"]["Name"] == "running"
    reasons = {each["reason"] for each in grown.kube.all(kinds.EVENTS) if each["regarding"]["name"] == claim.node_name}
    assert {"DisruptionTerminating", "FailedDraining"} <= reasons


def test_an_execution_goes_on_where_another_ended(grown: World) -> None:
    claim = first(grown)
    [pod] = pods_on(grown, claim.node_name)
    grown.kube.held.add(pod)
    retire(grown, (claim.name, "deleted"), passes=2)
    grown.kube.held.clear()

    owned = retire(grown, (claim.name, "deleted"), name="retire-2")
    assert owned.left_out == {claim.name: "another execution retires it"}
    assert Retirement(grown, "").retirements.disown(claim.name, arn("retire-1"))

    retire(grown, (claim.name, "deleted"), name="retire-3")

    nothing_is_left_of(grown, claim)


def test_an_empty_node_goes_under_the_lease_and_one_that_is_not_empty_stays(grown: World) -> None:
    gone, stays = claims(grown)
    empty(grown, gone)

    done = retire(grown, (gone.name, "empty"), (stays.name, "empty"))

    nothing_is_left_of(grown, gone)
    assert done.left_out == {stays.name: "its node is not empty"}
    assert node_of(grown, stays)["spec"]["taints"] == []
    assert not claims(grown)[0].deleting
    assert grown.ledger.lease().holder == ""


@pytest.mark.parametrize(
    "met", ["begin_retirement", "evict_pods", "terminate_instances", "confirm_termination", "forget_nodes", "nothing"]
)
def test_an_express_execution_that_runs_twice_at_one_time_or_once_more_harms_nothing(grown: World, met: str) -> None:
    """The second run of the execution runs completely before a state of the first, or after all of its states."""
    claim, other = claims(grown)
    empty(grown, claim)
    went: list[Retirement] = []

    def the_other_run(state: str) -> None:
        if state == met and not went:
            went.append(retire(grown, (claim.name, "empty"), (other.name, "empty"), express=True))

    retire(grown, (claim.name, "empty"), (other.name, "empty"), express=True, before_state=the_other_run)
    the_other_run(met)

    nothing_is_left_of(grown, claim)
    assert went[0].left_out[other.name] == "its node is not empty"
    assert claims(grown) == [other]
    assert node_of(grown, other)["spec"]["taints"] == []
    assert grown.ec2.instances[other.instance_id]["State"]["Name"] == "running"
    assert grown.ledger.lease().holder == ""


def test_a_pod_that_lands_before_the_node_is_closed_takes_the_retirement_back(grown: World) -> None:
    claim = first(grown)
    empty(grown, claim)
    before = node_of(grown, claim)["metadata"]["labels"]

    def lands_on_the_taint(method: str, path: str, do: Any) -> Any:
        answer = do()
        if method == "PATCH" and path.endswith(claim.node_name) and not pods_on(grown, claim.node_name):
            grown.kube.put(running({"name": "late"}, claim.node_name))
        return answer

    grown.kube.fault = lands_on_the_taint
    done = retire(grown, (claim.name, "empty"))
    grown.kube.fault = None

    assert done.left_out == {claim.name: "its node is not empty"}
    node = node_of(grown, claim)
    assert (node["spec"]["taints"], node["metadata"]["labels"]) == ([], before)
    assert not first(grown).deleting
    assert Retirement(grown, "").retirements.all()[claim.name].owner == ""


@pytest.mark.parametrize("where", ["claim", "node"])
def test_a_node_that_must_not_be_disrupted_stays_although_it_is_empty(grown: World, where: str) -> None:
    claim = first(grown)
    empty(grown, claim)
    target = node_of(grown, claim) if where == "node" else grown.kube.objects["nodeclaims", "", claim.name]
    target["metadata"].setdefault("annotations", {})["karpenter.sh/do-not-disrupt"] = "true"
    named = {"claim": "NodeClaim"}.get(where, where)

    done = retire(grown, (claim.name, "empty"))

    assert done.left_out == {claim.name: f"the {named} has the annotation karpenter.sh/do-not-disrupt"}


def test_an_empty_node_stays_for_a_pod_that_has_to_leave_another(grown: World) -> None:
    leaving, emptied = claims(grown)
    [pod] = pods_on(grown, leaving.node_name)
    grown.kube.held.add(pod)
    retire(grown, (leaving.name, "deleted"), passes=2)
    empty(grown, emptied)

    done = retire(grown, (emptied.name, "empty"), name="retire-2")

    assert done.left_out == {emptied.name: f"pod default/{pod} has to move and may want its node"}


def test_a_pod_that_has_to_leave_keeps_one_empty_node_and_not_all_that_it_fits_and_not_for_ever(grown: World) -> None:
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}})
    leaving, emptied = claims(grown)
    [pod] = pods_on(grown, leaving.node_name)
    grown.kube.held.add(pod)
    retire(grown, (leaving.name, "deleted"), passes=2)
    empty(grown, emptied)
    _node(grown, "default-3", "i-0003", "node-3")

    done = retire(grown, ("default-3", "empty"), (emptied.name, "empty"), name="retire-2")

    assert done.left_out == {emptied.name: f"pod default/{pod} has to move and may want its node"}
    assert [each["claim"] for each in done.entries] == ["default-3"]

    grown.now += timedelta(minutes=10)
    assert not retire(grown, (emptied.name, "empty"), name="retire-3").left_out


def test_what_is_voluntary_does_not_begin_without_the_lease(grown: World) -> None:
    claim = first(grown)
    empty(grown, claim)
    execution = Retirement(grown, "retire-1")

    begun = execution._begin([RetirementRequest(claim.name, RetirementReason.EMPTY)], 0)

    assert begun["leftOut"] == [{"claim": claim.name, "why": "it needs the lease"}]


def test_a_lost_instance_is_not_drained_and_its_pods_go_at_once(grown: World) -> None:
    claim = first(grown)
    [pod] = pods_on(grown, claim.node_name)
    grown.ec2.instances[claim.instance_id]["State"] = {"Name": "stopped"}

    done = retire(grown, (claim.name, "lost"), passes=1)

    assert done.entries[0]["stage"] == "forgotten"
    nothing_is_left_of(grown, claim)
    assert not any(asked.endswith("/eviction") for asked in grown.kube.asked)
    assert f"DELETE /api/v1/namespaces/default/pods/{pod}" in grown.kube.asked


def test_a_spot_warning_ends_a_drain_that_is_blocked(grown: World) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    now = int(grown.now.timestamp())
    Retirement(grown, "").retirements.hurry(claim.name, "spot", now + 120, now)

    done = retire(grown, (claim.name, "spot"), passes=20)

    nothing_is_left_of(grown, claim)
    assert done.entries[0]["stage"] == "forgotten"
    assert int(grown.now.timestamp()) - now <= 122


def test_the_time_that_a_pool_allows_for_the_drain_counts_from_the_deletion(grown: World) -> None:
    claim = first(grown)
    grown.kube.objects["nodeclaims", "", claim.name]["spec"]["terminationGracePeriod"] = "5m"
    grown.kube.held.update(pods_on(grown, claim.node_name))

    early = retire(grown, (claim.name, "deleted"), passes=2)
    assert early.entries[0]["stage"] == "draining"
    timestamp = first(grown).annotations["karpenter.sh/nodeclaim-termination-timestamp"]
    assert timestamp == "2026-11-21T12:05:00Z"  # the fake deletes at noon

    grown.now += timedelta(minutes=5)
    assert Retirement(grown, "").retirements.disown(claim.name, arn("retire-1"))
    retire(grown, (claim.name, "deleted"), name="retire-2")
    nothing_is_left_of(grown, claim)


def attach_volume(grown: World, node: str) -> None:
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1"},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    }
    grown.kube.put(attachment)


def test_volumes_are_waited_for_without_limit_if_the_claim_sets_none(grown: World) -> None:
    claim = first(grown)
    attach_volume(grown, claim.node_name)

    waiting = retire(grown, (claim.name, "deleted"), passes=4)

    assert waiting.entries[0]["why"] == "volumes are detached: pv-1"
    assert first(grown).conditions["Drained"].true
    assert first(grown).conditions["VolumesDetached"].reason == "AwaitingVolumeDetachment"

    grown.now += timedelta(hours=6)
    Retirement(grown, "").retirements.disown(claim.name, arn("retire-1"))
    later = retire(grown, (claim.name, "deleted"), name="retire-2", passes=2)
    assert (later.entries[0]["stage"], later.entries[0]["why"]) == ("draining", "volumes are detached: pv-1")

    del grown.kube.objects["volumeattachments", "", "csi-1"]
    Retirement(grown, "").retirements.disown(claim.name, arn("retire-2"))
    retire(grown, (claim.name, "deleted"), name="retire-3")
    nothing_is_left_of(grown, claim)


def test_volumes_are_not_waited_for_past_the_termination_grace_period(grown: World) -> None:
    claim = first(grown)
    grown.kube.objects["nodeclaims", "", claim.name]["spec"]["terminationGracePeriod"] = "5m"
    attach_volume(grown, claim.node_name)

    waiting = retire(grown, (claim.name, "deleted"), passes=4)
    assert waiting.entries[0]["why"] == "volumes are detached: pv-1"

    grown.now = NOON + timedelta(minutes=5)
    Retirement(grown, "").retirements.disown(claim.name, arn("retire-1"))
    retire(grown, (claim.name, "deleted"), name="retire-2")
    nothing_is_left_of(grown, claim)


def test_an_agent_that_does_not_tolerate_the_taint_is_evicted_after_the_pods_that_it_serves(grown: World) -> None:
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


def test_an_instance_that_does_not_carry_our_tags_is_not_touched(grown: World) -> None:
    claim = first(grown)
    grown.ec2.instances[claim.instance_id]["Tags"] = [{"Key": "Name", "Value": "somebody else's"}]

    done = retire(grown, (claim.name, "deleted"))

    assert done.entries[0]["why"] == (
        f"instance {claim.instance_id} lacks a tag of demo: "
        "kubernetes.io/cluster/demo=owned, eks:eks-cluster-name=demo and karpenter.sh/nodepool must be there"
    )
    assert "TerminateInstances" not in grown.ec2.asked
    assert first(grown).deleting


def test_while_joiner_is_paused_nothing_is_terminated(grown: World) -> None:
    claim = first(grown)
    grown.pause.paused = True

    done = retire(grown, (claim.name, "deleted"), passes=5)

    assert done.entries[0]["why"] == "Joiner is paused"
    assert "TerminateInstances" not in grown.ec2.asked


def test_a_claim_that_may_still_be_launched_is_left_to_the_next_sweep(world: World) -> None:
    claim = written(world)
    world.machine._update(
        "LEASE", "scale-up", "SET holder = :me, leaseUntil = :until, leaseNumber = :number", _lease(world)
    )

    done = retire(world, (claim.name, "deleted"))

    assert done.left_out == {claim.name: "it may still be launched"}
    assert not first(world).deleting


def test_a_claim_that_was_never_launched_just_goes(world: World) -> None:
    claim = written(world)
    world.machine._update(
        "LEASE", "scale-up", "SET holder = :me, leaseUntil = :until, leaseNumber = :number", _lease(world)
    )
    world.now += timedelta(minutes=5)  # its lease has expired

    done = retire(world, (claim.name, "deleted"))

    assert done.entries[0]["stage"] == "forgotten"
    assert claims(world) == []


def test_beside_karpenter_nothing_begins(grown: World) -> None:
    claim = first(grown)
    lease = {"holderIdentity": "karpenter-0", "renewTime": f"{grown.now:%Y-%m-%dT%H:%M:%S}.000000Z"}
    grown.kube.put(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
            "spec": lease,
        }
    )

    done = retire(grown, (claim.name, "deleted"))

    assert done.left_out == {claim.name: "KarpenterRuns"}
    assert not first(grown).deleting


@pytest.mark.parametrize("reason", ["deleted", "empty", "lost"])
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: str(fault.value))
def test_whatever_call_fails_the_next_execution_finishes_it(make_world: MakeWorld, fault: Fault, reason: str) -> None:
    def prepared() -> tuple[World, NodeClaim]:
        world = grow(make_world())
        if reason == "empty":
            empty(world, first(world))
        return world, first(world)

    world, claim = prepared()
    with Trouble(world) as recorded:
        retire(world, (claim.name, reason))
    nothing_is_left_of(world, claim)

    wrong = []
    numbers = range(len(recorded.calls))
    chosen = numbers if os.environ.get("JOINER_CRASHES") == "all" else random.Random(SEED).sample(numbers, TRIED)  # noqa: S311 - a choice of tests
    for number in sorted(chosen):
        world, claim = prepared()
        with Trouble(world, fault, number) as trouble:
            retire(world, (claim.name, reason))
        try:
            for attempt in (2, 3):
                _as_the_sweep_would(world, claim, reason, attempt)
            nothing_is_left_of(world, claim)
            assert world.ledger.lease().holder == ""
        except AssertionError as problem:
            wrong.append(f"{number} {trouble.calls[number]}: {problem}")

    assert wrong == []


def _as_the_sweep_would(world: World, claim: NodeClaim, reason: str, attempt: int) -> None:
    """Do what the sweep does: release what ended owners and holders have; retire a claim that still exists again."""
    world.now += timedelta(seconds=60)
    retirements, lease = Retirement(world, "").retirements, world.machine.lease()
    if lease.holder:
        world.machine.break_lease(lease.holder, lease.number)
    for one in retirements.all().values():
        retirements.disown(one.claim, one.owner)
    if standing := [each for each in claims(world) if each.name == claim.name]:
        retire(world, (claim.name, "deleted" if standing[0].deleting else reason), name=f"retire-{attempt}")
