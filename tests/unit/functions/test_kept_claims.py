"""Claims that stay after their instance has ended: the API server does not let their finalizer go, other controllers
keep them, or a user has created a claim with the same name.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import Forbidden, Unreachable
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import TERMINATION_FINALIZER
from joiner.pools import NodeClaim
from tests.unit.functions.grown_cluster import (
    add_node,
    claims,
    empty,
    evictions,
    first,
    grow,
    node_of,
    nothing_is_left_of,
    pods_on,
)
from tests.unit.functions.retirement_execution import Entries, RetirementExecution, arn, retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.sweeping import looked, memory, retired

POLICY = "denied by ValidatingAdmissionPolicy 'frozen'"
MONTH = 30 * 24 * 3600


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    return grow(cluster)


def at_release(cluster: SimulatedCluster, answer: Callable[[Callable[[], Any]], Any]) -> None:
    """Let `answer` answer the request that removes the finalizer of the first claim."""
    name = first(cluster).name

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        return answer(do) if (method, path.rpartition("/")[2]) == ("PATCH", name) and "claims" in path else do()

    cluster.kube.fault = fault


def refuse(_do: Callable[[], Any]) -> Any:
    raise Forbidden(POLICY, status=403)


def lose_the_answer(do: Callable[[], Any]) -> Any:
    do()
    raise Unreachable("no answer")


def crash(_do: Callable[[], Any]) -> Any:
    raise RuntimeError("the function ends here")


def begin(cluster: SimulatedCluster, name: str = "retire-1") -> tuple[RetirementExecution, Entries]:
    """Begin an execution that runs until the test ends it."""
    execution = RetirementExecution(cluster, name)
    request = RetirementRequest(first(cluster).name, RetirementReason.DELETED)
    return execution, execution._begin([request], 0)["waves"][0]


def notes(cluster: SimulatedCluster, reason: str) -> list[tuple[str, str]]:
    """Return type and note of the events of the first claim with this reason."""
    events = (each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == reason)
    return [(each["type"], each["note"]) for each in events if each["regarding"]["name"] == first(cluster).name]


def finalizers(cluster: SimulatedCluster, *names: str) -> None:
    cluster.kube.objects["nodeclaims", "", first(cluster).name]["metadata"]["finalizers"] = list(names)


def create_again(cluster: SimulatedCluster, former: NodeClaim) -> NodeClaim:
    """Create a claim with the name of one that is gone, as GitOps does for the claim of a user; it is launched."""
    add_node(cluster, former.name, "i-0009", "node-9")
    cluster.kube.objects["nodeclaims", "", former.name]["metadata"]["uid"] = "created-again"
    (again,) = (each for each in claims(cluster) if each.name == former.name)
    assert again.instance_id != former.instance_id
    return again


# Refusals


def test_a_claim_whose_finalizer_a_policy_keeps_stays_with_its_execution_and_has_an_event(
    grown: SimulatedCluster,
) -> None:
    claim = first(grown)
    at_release(grown, refuse)
    execution, wave = begin(grown)
    for number in range(4):
        wave = execution._drain(wave, 4)
        assert retired(looked(grown, number)[1]) == []

    assert [(each["stage"], POLICY in each["why"]) for each in wave] == [("terminated", True)]
    assert notes(grown, "ClaimNotDeleted") == [
        (
            "Warning",
            f"Its instance is gone, and the API server refused to remove the finalizer {TERMINATION_FINALIZER}: "
            f"{POLICY}. It is tried again, and nothing else waits for it",
        )
    ]

    grown.ended.add(execution.arn)
    assert retired(looked(grown, 5)[1]) == [(claim.name, "lost")]
    grown.kube.fault = None
    retire(grown, (claim.name, "lost"), name="retire-2")
    nothing_is_left_of(grown, claim)


def test_a_finalizer_that_was_removed_without_an_answer_leaves_nothing(grown: SimulatedCluster) -> None:
    claim = first(grown)
    at_release(grown, lose_the_answer)
    execution, wave = begin(grown)

    wave = execution._drain(wave, 4)

    assert [each["stage"] for each in wave] == ["forgotten"]
    nothing_is_left_of(grown, claim)


def test_a_crash_before_the_finalizer_is_removed_leaves_a_claim_that_the_sweep_finds(grown: SimulatedCluster) -> None:
    claim = first(grown)
    at_release(grown, crash)
    retire(grown, (claim.name, "deleted"))
    grown.kube.fault = None

    assert memory(grown, Retirements).all() == {}
    assert [name for name, _ in retired(looked(grown, 1)[1])] == [claim.name]
    retire(grown, (claim.name, "deleted"), name="retire-2")
    nothing_is_left_of(grown, claim)


# Finalizers of others


@pytest.mark.parametrize("reason", ["deleted", "lost"])
@pytest.mark.parametrize("leaving", [False, True], ids=["at work", "being uninstalled"])
def test_a_claim_that_only_others_keep_is_not_retired_again(
    grown: SimulatedCluster, reason: str, leaving: bool
) -> None:
    claim = first(grown)
    finalizers(grown, TERMINATION_FINALIZER, "example.com/inventory")
    if reason == "lost":
        grown.ec2.instances[claim.instance_id]["State"] = {"Name": "terminated"}
    retire(grown, (claim.name, reason))
    assert [each.finalizers for each in claims(grown)[:1]] == [("example.com/inventory",)]

    grown.pause.draining = leaving
    for number in range(3):
        assert claim.name not in [name for name, _ in retired(looked(grown, number)[1])]
    assert notes(grown, "ClaimNotDeleted") == [
        (
            "Normal",
            "Its instance is gone, and Joiner has released it. Finalizers of other controllers keep it: "
            "example.com/inventory",
        )
    ]


def test_a_claim_that_lost_our_finalizer_by_another_hand_is_still_retired(grown: SimulatedCluster) -> None:
    claim = first(grown)
    finalizers(grown, "example.com/inventory")
    grown.kube.delete(kinds.NODECLAIMS, claim.name)

    assert retired(looked(grown, 1)[1]) == [(claim.name, "deleted")]


# Claims with the name of one that is gone


def test_a_repeated_call_changes_nothing_of_a_claim_that_was_created_again(grown: SimulatedCluster) -> None:
    former = first(grown)
    execution, wave = begin(grown)
    wave = [{**each, "stage": "terminated"} for each in wave]
    grown.ec2.instances[former.instance_id]["State"] = {"Name": "terminated"}
    retire(grown, (former.name, "lost"), name="retire-1")
    again = create_again(grown, former)
    grown.ledger.assign(again.name, {"default/web": 1}, 1)
    memory(grown, Retirements).hurry(again.name, "spot", 0, int(grown.now.timestamp()), instance=again.instance_id)

    for entry in (wave[0], {**wave[0], "uid": ""}, {**wave[0], "kind": "", "uid": ""}):
        (done,) = execution._step([entry], "terminated", "forget_nodes", execution._forget)
        assert done["stage"] == "forgotten"

    assert not next(each for each in claims(grown) if each.name == again.name).deleting
    assert again.name in grown.ledger.assignments()
    assert memory(grown, Retirements).of(again.name).reasons == ("spot",)
    assert again.instance_id in grown.ledger.pairings([again.instance_id])


def test_a_list_that_fails_after_the_work_does_not_repeat_the_work(grown: SimulatedCluster) -> None:
    claim = first(grown)
    calls: list[str] = []

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        if (method, path.endswith("/nodeclaims")) == ("GET", True) and calls:
            raise Unreachable("no answer")
        calls.extend([path] if (method, path.rpartition("/")[2]) == ("PATCH", claim.name) else [])
        return do()

    grown.kube.fault = fault
    done = retire(grown, (claim.name, "deleted"))

    assert [each["stage"] for each in done.entries] == ["forgotten"]
    nothing_is_left_of(grown, claim)


def leave_a_record(cluster: SimulatedCluster, *, deadline: int = 0) -> None:
    """Leave the record of a former claim with the first claim's name, as a crash may do."""
    retirements, now = memory(cluster, Retirements), int(cluster.now.timestamp())
    retirements.begin(first(cluster).name, arn("former"), "spot", now, instance="i-former")
    retirements.hurry(first(cluster).name, "spot", deadline, now, instance="i-former")
    retirements.disown(first(cluster).name, arn("former"))


def test_the_record_of_a_former_claim_retires_no_claim(grown: SimulatedCluster) -> None:
    claim = first(grown)
    leave_a_record(grown)
    assert retired(looked(grown, 1)[1]) == []

    done = retire(grown, (claim.name, "empty"))
    assert done.left_out == {claim.name: "its node is not empty"}
    assert not first(grown).deleting

    now = int(grown.now.timestamp())
    memory(grown, Retirements).hurry(claim.name, "spot", 0, now, instance=claim.instance_id)
    assert retired(looked(grown, 2)[1]) == [(claim.name, "spot")]


def test_the_deadline_of_a_former_claim_deletes_no_pods(grown: SimulatedCluster) -> None:
    claim = first(grown)
    leave_a_record(grown, deadline=int(grown.now.timestamp()) - 60)
    there = pods_on(grown, claim.node_name)
    grown.kube.held.update(there)

    retire(grown, (claim.name, "deleted"), passes=3)

    assert pods_on(grown, claim.node_name) == there
    assert len(evictions(grown)) == 3


@pytest.mark.parametrize("deleted", [False, True], ids=["there", "being deleted"])
def test_the_owner_of_a_claim_learns_of_its_loss_also_if_a_former_claim_left_its_record(
    grown: SimulatedCluster, deleted: bool
) -> None:
    claim, retirements = first(grown), memory(grown, Retirements)
    leave_a_record(grown, deadline=int(grown.now.timestamp()) - 60)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    if deleted:
        grown.kube.delete(kinds.NODECLAIMS, claim.name)
    execution, wave = begin(grown)
    noted = retirements.of(claim.name)
    assert (noted.instance, noted.reasons, noted.deadline) == (claim.instance_id, ("deleted",), 0)
    assert (noted.owner, noted.attempt, noted.noted_at) == (execution.arn, 1, 0)

    assert retirements.add(claim.name, "lost", instance=claim.instance_id)

    assert [each["stage"] for each in execution._evict(wave, 1)["claims"]] == ["drained"]


def test_a_retried_start_keeps_what_was_noted_after_the_record_of_a_former_claim_was_forgotten(
    grown: SimulatedCluster,
) -> None:
    claim, retirements, now = first(grown), memory(grown, Retirements), int(grown.now.timestamp())
    leave_a_record(grown)
    begin(grown)
    retirements.hurry(claim.name, "spot", now + 120, now, instance=claim.instance_id)

    begin(grown)

    noted = retirements.of(claim.name)
    assert (noted.instance, noted.reasons, noted.deadline) == (claim.instance_id, ("deleted", "spot"), now + 120)


def test_a_warning_for_a_claim_has_no_deadline_of_a_former_claim(grown: SimulatedCluster) -> None:
    claim, retirements, now = first(grown), memory(grown, Retirements), int(grown.now.timestamp())
    leave_a_record(grown, deadline=now - 60)
    retirements.begin(claim.name, arn("former-2"), "empty", now, instance="i-former")
    there = pods_on(grown, claim.node_name)
    grown.kube.held.update(there)

    for _ in range(2):  # the queue may deliver a message twice
        retirements.hurry(claim.name, "spot", now + 3600, now, instance=claim.instance_id)

    noted = retirements.of(claim.name)
    assert (noted.instance, noted.reasons, noted.deadline) == (claim.instance_id, ("spot",), now + 3600)
    assert (noted.owner, noted.attempt, noted.since) == ("", 0, now)
    retire(grown, (claim.name, "spot"), passes=3)
    assert pods_on(grown, claim.node_name) == there


def test_the_loss_of_a_former_instance_ends_no_drain_of_the_new_one(grown: SimulatedCluster) -> None:
    claim, retirements = first(grown), memory(grown, Retirements)
    begin(grown)

    assert not retirements.add(claim.name, "lost", instance="i-former")

    assert retirements.of(claim.name).reasons == ("deleted",)


def test_a_request_for_the_instance_of_a_former_claim_leaves_the_new_one_alone(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.now += timedelta(minutes=10)

    execution = RetirementExecution(grown, "retire-1").run(
        RetirementRequest(claim.name, RetirementReason.LOST, "i-former")
    )

    assert [(each["instance"], each["stage"]) for each in execution.entries] == [("i-former", "forgotten")]
    assert (first(grown), node_of(grown, claim)["spec"]["taints"]) == (claim, [])
    assert memory(grown, Retirements).all() == {}


def test_a_record_outlives_a_long_pause(grown: SimulatedCluster) -> None:
    claim, retirements = first(grown), memory(grown, Retirements)
    empty(grown, claim)
    now = int(grown.now.timestamp())
    retirements.begin(claim.name, arn("retire-1"), "deleted", now)

    assert [int(item["expires"]["N"]) - now for item in retirements._query("RETIREMENT")] == [MONTH]
