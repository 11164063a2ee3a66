"""RETIRE with faults and missing objects: no instance that runs pods is terminated, and no wait is endless."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.confirm_termination import handler as confirm_termination
from functions.forget_nodes import handler as forget_nodes
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import delete_claim
from joiner.adapters.kube_errors import Invalid, KubeError, Unreachable
from joiner.adapters.payload import Execution
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest, RetirementStage, RetiringClaim
from joiner.names import DISRUPTED, TERMINATION_FINALIZER
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.function_loading import load
from tests.unit.functions.grown_cluster import (
    claims,
    empty,
    evictions,
    first,
    grow,
    node_of,
    nothing_is_left_of,
    pods_on,
)
from tests.unit.functions.retirement_execution import RetirementExecution, arn, retire
from tests.unit.functions.simulated_cluster import SimulatedCluster

Answers = Callable[[], Any]


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    return grow(cluster)


def failing(cluster: SimulatedCluster, error: KubeError, *options: tuple[str, str]) -> None:
    """Make calls of these methods fail for paths that end like this."""

    def fault(method: str, path: str, do: Answers) -> Any:
        if any(method == each and path.endswith(end) for each, end in options):
            raise error
        return do()

    cluster.kube.fault = fault


def may_only_end_what_it_sees(cluster: SimulatedCluster) -> None:
    """Allow terminating only instances that EC2 shows: the IAM policy requires tags, and an instance that does not
    exist has none.
    """

    def fault(operation: str, do: Answers) -> Any:
        if operation == "TerminateInstances":
            raise refused(operation, "UnauthorizedOperation", "You are not authorized to perform this operation.", 403)
        return do()

    cluster.ec2.fault = fault


# Losses


def test_an_instance_that_was_called_lost_and_runs_is_drained_first(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))

    blocked = retire(grown, (claim.name, "lost"), passes=3)

    assert (blocked.entries[0]["stage"], blocked.entries[0]["reason"]) == ("draining", "deleted")
    assert grown.ec2.instances[claim.instance_id]["State"]["Name"] == "running"
    assert blocked.retirements.all()[claim.name].reasons == ()

    grown.kube.held.clear()
    blocked.retirements.disown(claim.name, arn("retire-1"))
    retire(grown, (claim.name, "deleted"), name="retire-2")
    assert len(evictions(grown)) > 1
    nothing_is_left_of(grown, claim)


def test_a_loss_that_comes_during_the_drain_ends_it(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    execution = RetirementExecution(grown, "retire-1")
    wave = execution._begin([RetirementRequest(claim.name, RetirementReason.DELETED)], 0)["waves"][0]
    grown.now += timedelta(seconds=10)
    wave = execution._evict(wave, 1)["claims"]
    assert wave[0]["stage"] == "draining"

    grown.ec2.instances[claim.instance_id]["State"] = {"Name": "terminated"}
    _, swept = grown.survey("s1")
    assert swept["retire"] == []

    assert execution._evict(wave, 1)["claims"][0]["stage"] == "drained"
    assert execution._drain(wave, 2)[0]["stage"] == "forgotten"
    nothing_is_left_of(grown, claim)


def test_an_instance_that_ec2_does_not_know_is_gone_without_a_request(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.now += timedelta(minutes=5)
    del grown.ec2.instances[claim.instance_id]
    may_only_end_what_it_sees(grown)

    done = retire(grown, (claim.name, "lost"), passes=1)

    assert (done.entries[0]["stage"], claim.name in [each.name for each in claims(grown)]) == ("forgotten", False)
    assert "TerminateInstances" not in grown.ec2.asked


def test_an_instance_that_ec2_does_not_know_yet_is_not_gone(grown: SimulatedCluster) -> None:
    claim = first(grown)
    hidden = grown.ec2.instances.pop(claim.instance_id)
    empty(grown, claim)

    early = retire(grown, (claim.name, "deleted"), passes=3)
    assert (early.entries[0]["stage"], early.entries[0]["why"]) == (
        "drained",
        f"EC2 knows no instance {claim.instance_id}",
    )

    grown.ec2.instances[claim.instance_id] = hidden
    early.retirements.disown(claim.name, arn("retire-1"))
    retire(grown, (claim.name, "deleted"), name="retire-2")
    nothing_is_left_of(grown, claim)


def test_the_end_of_an_instance_is_confirmed_once_ec2_could_know_it(grown: SimulatedCluster) -> None:
    since = int(grown.now.timestamp())
    entry = RetiringClaim(
        "default-1",
        RetirementReason.DELETED,
        kind="NodeClaim",
        instance="i-unknown",
        since=since,
        stage=RetirementStage.TERMINATING,
    )
    execution = RetirementExecution(grown, "retire-1")

    def confirmed() -> str:
        answer = execution._confirm(confirm_termination, [entry])
        return str(answer["claims"][0]["stage"])

    assert confirmed() == "terminating"
    grown.now += timedelta(minutes=5)
    assert confirmed() == "terminated"


def test_an_instance_that_is_gone_may_have_lost_its_tags(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.ec2.instances[claim.instance_id] |= {"State": {"Name": "terminated"}, "Tags": []}

    retire(grown, (claim.name, "lost"), passes=1)

    nothing_is_left_of(grown, claim)


def test_a_new_node_that_took_the_name_of_one_that_is_gone_keeps_its_pods(grown: SimulatedCluster) -> None:
    claim = first(grown)
    node_of(grown, claim)["spec"]["providerID"] = "aws:///us-east-1a/i-new"
    there = pods_on(grown, claim.node_name)
    entry = RetiringClaim(
        claim.name,
        RetirementReason.DELETED,
        kind="NodeClaim",
        instance=claim.instance_id,
        node=claim.node_name,
        stage=RetirementStage.TERMINATED,
    )

    forgetting = forget_nodes.NodeRemoval(grown.kube, grown.ledger, RetirementExecution(grown, "").retirements)
    done = forgetting.answer(Execution("retire-1", arn("retire-1"), ""), [entry], grown.now)

    assert done["claims"][0]["stage"] == "forgotten"
    assert pods_on(grown, claim.node_name) == there != []
    assert ("nodes", "", claim.node_name) in grown.kube.objects


# Owners


def test_a_claim_whose_retirement_could_not_begin_has_no_owner(grown: SimulatedCluster) -> None:
    bad, good = claims(grown)
    failing(grown, Unreachable("no answer"), ("PATCH", f"/nodes/{bad.node_name}"))
    execution = RetirementExecution(grown, "retire-1")

    begun = execution._begin([RetirementRequest(each.name, RetirementReason.DELETED) for each in (bad, good)], 0)

    assert [each["claim"] for wave in begun["waves"] for each in wave] == [good.name]
    assert {name: bool(each.owner) for name, each in execution.retirements.all().items()} == {
        bad.name: False,
        good.name: True,
    }
    grown.kube.fault = None
    assert [each["claim"] for each in grown.survey("s1")[1]["retire"]] == [bad.name]


def test_an_owner_that_makes_passes_keeps_its_claims_and_a_silent_one_loses_them(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    execution = RetirementExecution(grown, "retire-1")
    wave = execution._begin([RetirementRequest(claim.name, RetirementReason.DELETED)], 0)["waves"][0]
    for _ in range(4):
        grown.now += timedelta(seconds=60)
        wave = execution._evict(wave, 60)["claims"]
    assert grown.survey("s1")[1]["retire"] == []

    grown.now += timedelta(seconds=181)
    _, swept = grown.survey("s2")

    assert [(each["claim"], each["reason"]) for each in swept["retire"]] == [(claim.name, "deleted")]
    assert swept["endedRetirements"] == 1


@pytest.mark.parametrize("stage", ["drained", "terminating", "terminated"])
def test_every_function_records_that_its_execution_runs(grown: SimulatedCluster, stage: str) -> None:
    claim = first(grown)
    execution = RetirementExecution(grown, "retire-1")
    entry = execution._begin([RetirementRequest(claim.name, RetirementReason.DELETED)], 0)["waves"][0][0] | {
        "stage": stage
    }
    grown.now += timedelta(seconds=90)
    grown.pause.paused = True  # the checks continue in spite of it
    failing(grown, Unreachable("no answer"), ("DELETE", f"/nodes/{claim.node_name}"))
    read = [RetiringClaim.from_json(entry)]

    act = {"drained": execution._terminate, "terminating": execution._confirm, "terminated": execution._forget}[stage]
    act(
        load(
            {"drained": "terminate_instances", "terminating": "confirm_termination", "terminated": "forget_nodes"}[
                stage
            ]
        ),
        read,
    )

    assert execution.retirements.all()[claim.name].seen_at == int(grown.now.timestamp())


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/nodeclaims/default-1/status"), ("GET", "/nodeclaims/default-1"), ("GET", "/nodes/node-1")],
)
def test_what_is_refused_for_one_node_keeps_no_other_of_its_wave(
    grown: SimulatedCluster, method: str, path: str
) -> None:
    other = claims(grown)[1]
    execution = RetirementExecution(grown, "retire-1")
    wave = execution._begin(
        [
            RetirementRequest("default-1", RetirementReason.DELETED),
            RetirementRequest(other.name, RetirementReason.DELETED),
        ],
        0,
    )["waves"][0]
    failing(grown, Invalid("no"), (method, path))

    execution._drain(wave, 5)

    nothing_is_left_of(grown, other)


def test_a_status_that_is_never_written_ends_no_drain(grown: SimulatedCluster) -> None:
    claim = first(grown)
    failing(grown, Invalid("no"), ("PATCH", f"/nodeclaims/{claim.name}/status"))

    retire(grown, (claim.name, "deleted"))

    nothing_is_left_of(grown, claim)


def test_pods_of_one_node_that_cannot_be_listed_keep_no_other_node(grown: SimulatedCluster) -> None:
    bad, good = claims(grown)
    wave = RetirementExecution(grown, "retire-1")._begin(
        [RetirementRequest(each.name, RetirementReason.DELETED) for each in (bad, good)], 0
    )["waves"][0]
    list_of = grown.kube.packed

    def unlisted(kind: kinds.Kind, **options: Any) -> Any:
        if options.get("fields") == f"spec.nodeName={bad.node_name}":
            raise Unreachable("no answer")
        return list_of(kind, **options)

    grown.kube.packed = unlisted  # type: ignore[method-assign]  # the fake's paths do not contain the pods' selector
    answer = RetirementExecution(grown, "retire-1")._evict(wave, 1)

    assert [each["why"] for each in answer["claims"]] == ["no answer", "1 pods leave"]
    assert answer["evicted"] == 1


# Nodes and claims


def test_a_node_whose_taint_was_removed_is_tainted_again_while_it_drains(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    execution = RetirementExecution(grown, "retire-1")
    wave = execution._begin([RetirementRequest(claim.name, RetirementReason.DELETED)], 0)["waves"][0]
    node_of(grown, claim)["spec"]["taints"] = []

    execution._evict(wave, 1)
    execution._evict(wave, 1)

    assert [taint["key"] for taint in node_of(grown, claim)["spec"]["taints"]] == [DISRUPTED]
    assert grown.kube.asked.count(f"PATCH /api/v1/nodes/{claim.node_name}") == 2  # at the beginning, and now


@pytest.mark.parametrize("reason", ["empty", "expired"])
def test_what_may_go_does_not_go_without_its_claim(grown: SimulatedCluster, reason: str) -> None:
    claim = first(grown)
    del grown.kube.objects["nodeclaims", "", claim.name]
    execution = RetirementExecution(grown, "retire-1")

    begun = execution._begin(
        [RetirementRequest(claim.name, RetirementReason(reason), claim.instance_id)], execution._take_the_lease()
    )

    assert begun["skipped"] == [{"claim": claim.name, "why": "its claim is gone"}]


def test_a_node_whose_room_cannot_be_read_is_drained_like_any_other(grown: SimulatedCluster) -> None:
    claim = first(grown)
    node_of(grown, claim)["status"]["allocatable"]["vendor.io/x"] = "a lot"

    retire(grown, (claim.name, "deleted"))

    assert len(evictions(grown)) == 1
    nothing_is_left_of(grown, claim)


def test_a_node_that_cannot_be_read_at_all_is_left_alone(grown: SimulatedCluster) -> None:
    claim = first(grown)
    node_of(grown, claim)["spec"]["taints"] = [{"key": "", "effect": "Sometimes"}]

    done = retire(grown, (claim.name, "deleted"))

    assert done.left_out == {claim.name: f"its node {claim.node_name} cannot be read"}
    assert not first(grown).deleting


def test_volumes_of_a_node_without_a_claim_are_not_awaited_for_ever(grown: SimulatedCluster) -> None:
    claim = first(grown)
    source = {"persistentVolumeName": "pv-1"}
    grown.kube.put(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": "csi-1"},
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": claim.node_name, "source": source},
        }
    )
    del grown.kube.objects["nodeclaims", "", claim.name]
    began = grown.now

    done = RetirementExecution(grown, "retire-1").run(
        RetirementRequest(claim.name, RetirementReason.DELETED, claim.instance_id), passes=20
    )

    assert done.entries[0]["stage"] == "forgotten"
    assert timedelta(minutes=6) <= grown.now - began < timedelta(minutes=8)


def test_a_claim_of_the_same_name_that_is_another_one_is_not_forgotten(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.objects["nodeclaims", "", claim.name]["metadata"]["uid"] = "another"

    delete_claim(grown.kube, claim)

    assert not first(grown).deleting


def test_a_finalizer_that_came_meanwhile_stays(grown: SimulatedCluster) -> None:
    claim = first(grown)
    kept = grown.kube.objects["nodeclaims", "", claim.name]["metadata"]

    def another_comes_first(method: str, _path: str, do: Answers) -> Any:
        if method == "PATCH" and "example.com/other" not in kept["finalizers"]:
            grown.kube.fault = None
            grown.kube.patch(
                kinds.NODECLAIMS, claim.name, {"metadata": {"finalizers": [TERMINATION_FINALIZER, "example.com/other"]}}
            )
        return do()

    grown.kube.fault = another_comes_first
    delete_claim(grown.kube, claim)

    assert grown.kube.objects["nodeclaims", "", claim.name]["metadata"]["finalizers"] == ["example.com/other"]
