"""Drains that take several passes, or several executions: what one of them has done counts for the next."""

from datetime import timedelta
from typing import Any

import pytest

from functions.evict_pods.handler import NO_TIME, PodEviction
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.parallel_calls import RESERVE, TimeLeft
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.draining import SELDOM, SOON
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest, RetiringClaim
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
    running,
)
from tests.unit.functions.retirement_execution import RetirementExecution, arn, retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.sweeping import looked, memory, retired

ATTACHMENTS = "GET /apis/storage.k8s.io/v1/volumeattachments"


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    return grow(cluster)


def execute(cluster: SimulatedCluster, name: str, *, passes: int = 2) -> None:
    """Run an execution for a deleted claim that ends because its rounds are used up."""
    retire(cluster, (first(cluster).name, "deleted"), name=name, passes=passes)
    cluster.ended.add(arn(name))


def seconds_to_next(cluster: SimulatedCluster) -> int:
    """Sweep every ten seconds until the claim is requested again."""
    ended = cluster.now
    while (first(cluster).name, "deleted") not in retired(looked(cluster, 1, after=10)[1]):
        assert cluster.now - ended < timedelta(hours=1)
    return int((cluster.now - ended).total_seconds())


def attach(cluster: SimulatedCluster, node: str, volume: str) -> None:
    spec = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}}
    metadata = {"name": f"csi-{volume}"}
    cluster.kube.put(
        {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": metadata, "spec": spec}
    )


# The back-off between executions


def test_a_drain_that_a_budget_allows_pod_by_pod_goes_on_at_once_and_its_back_off_begins_again(
    grown: SimulatedCluster,
) -> None:
    node = first(grown).node_name
    for number in (3, 4):
        grown.kube.put(running({"name": f"web-{number}", "namespace": "default"}, node))
    grown.kube.held.update(pods_on(grown, node))
    waits = []
    for turn in range(1, 7):
        if turn in (3, 4):  # its budget allows one pod at a time
            grown.kube.held.discard(pods_on(grown, node)[0])
        execute(grown, f"retire-{turn}", passes=2 if turn in (3, 4) else 8)  # eight passes take three minutes
        waits.append(seconds_to_next(grown))

    assert waits == [70, 130, 10, 10, 70, 130]  # a survey releases the claim after ten seconds


def test_an_execution_that_stalls_after_some_progress_starts_the_back_off_again(grown: SimulatedCluster) -> None:
    node = first(grown).node_name
    grown.kube.put(running({"name": "web-3", "namespace": "default"}, node))
    grown.kube.held.update(pods_on(grown, node))
    for turn in (1, 2):
        execute(grown, f"retire-{turn}")
        seconds_to_next(grown)

    grown.kube.held.discard("web-1")
    execute(grown, "retire-3", passes=10)  # pauses of up to a minute

    assert pods_on(grown, node) == ["web-3"]
    assert seconds_to_next(grown) == 70


def test_a_retried_start_is_one_attempt(grown: SimulatedCluster) -> None:
    claim = first(grown)
    grown.kube.delete(kinds.NODECLAIMS, claim.name)
    execution = RetirementExecution(grown, "retire-1")

    for _ in range(3):
        execution._begin([RetirementRequest(claim.name, RetirementReason.DELETED)], 0)

    assert execution.retirements.all()[claim.name].attempt == 1


def test_progress_of_an_execution_that_lost_its_claim_does_not_count(grown: SimulatedCluster) -> None:
    claim, retirements = first(grown), memory(grown, Retirements)
    retirements.begin(claim.name, arn("retire-2"), "deleted", 1000)

    retirements.note_progress([claim.name], arn("retire-1"), 1010)

    assert (retirements.of(claim.name).attempt, retirements.of(claim.name).progressed_at) == (1, 0)


# The taint


def land(cluster: SimulatedCluster, node: str) -> None:
    cluster.kube.put(running({"name": "late", "namespace": "default"}, node))


def undo_a_retirement(cluster: SimulatedCluster) -> None:
    def lands_on_the_taint(method: str, path: str, do: Any) -> Any:
        answer = do()
        if method == "PATCH" and path.endswith(first(cluster).node_name):
            cluster.kube.fault = None
            land(cluster, first(cluster).node_name)
        return answer

    cluster.kube.fault = lands_on_the_taint
    undone = retire(cluster, (first(cluster).name, "empty"), name="undone")
    assert undone.left_out == {first(cluster).name: "its node is not empty"}
    empty(cluster, first(cluster))


def note_a_warning(cluster: SimulatedCluster) -> None:
    now = int(cluster.now.timestamp())
    memory(cluster, Retirements).hurry(first(cluster).name, "empty", 0, now)


@pytest.mark.parametrize("before", [undo_a_retirement, note_a_warning], ids=["undone", "noted"])
def test_an_instance_is_kept_for_some_seconds_after_the_taint_however_old_its_record_is(
    grown: SimulatedCluster, before: Any
) -> None:
    claim = first(grown)
    empty(grown, claim)
    before(grown)
    grown.now += timedelta(hours=1)

    execution = retire(grown, (claim.name, "empty"), passes=1)
    assert [(each["stage"], each["why"]) for each in execution.entries] == [
        ("draining", "no pod is left; one may still come")
    ]

    land(grown, claim.node_name)  # its scheduler had not seen the taint
    execution._drain(execution.entries, 12)
    assert len(evictions(grown)) == 1
    nothing_is_left_of(grown, claim)


def test_a_node_that_was_opened_during_its_drain_is_kept_for_some_seconds_after_the_new_taint(
    grown: SimulatedCluster,
) -> None:
    claim = first(grown)
    grown.kube.held.update(pods_on(grown, claim.node_name))
    execution = retire(grown, (claim.name, "deleted"), passes=5)
    node_of(grown, claim)["spec"]["taints"] = []
    empty(grown, claim)

    (entry,) = execution._drain(execution.entries, 1)

    assert (entry["stage"], entry["why"]) == ("draining", "no pod is left; one may still come")
    assert execution._drain([entry], 3)[0]["stage"] == "forgotten"


def test_a_retirement_that_could_not_begin_is_not_the_start_of_a_later_one(grown: SimulatedCluster) -> None:
    claim, retirements = first(grown), memory(grown, Retirements)
    empty(grown, claim)
    retirements.begin(claim.name, arn("retire-1"), "empty", int(grown.now.timestamp()))
    retirements.disown(claim.name, arn("retire-1"))
    grown.now += timedelta(hours=1)

    begun = retire(grown, (claim.name, "empty"), name="retire-2", passes=1)

    assert [each["since"] for each in begun.entries] == [int(begun.started.timestamp())]
    assert retirements.of(claim.name).attempt == 1


# A pass over many nodes


def test_a_pass_lists_the_volume_attachments_once_for_all_its_nodes(grown: SimulatedCluster) -> None:
    add_node(grown, "default-3", "i-0003", "node-3")
    for number, claim in enumerate(claims(grown), 1):
        empty(grown, claim)
        if number < 3:
            attach(grown, claim.node_name, f"pv-{number}")
    execution = RetirementExecution(grown, "retire-1")
    requests = [RetirementRequest(each.name, RetirementReason.DELETED) for each in claims(grown)]
    wave = execution._evict(execution._begin(requests, 0)["waves"][0], 1)["claims"]
    grown.now += timedelta(seconds=10)
    grown.kube.asked.clear()

    found = execution._evict(wave, 1)["claims"]

    assert {each["claim"]: each["why"] for each in found} == {
        "default-1": "volumes are detached: pv-1",
        "default-2": "volumes are detached: pv-2",
        "default-3": "",
    }
    assert grown.kube.asked.count(ATTACHMENTS) == 1


def test_nodes_for_which_a_pass_has_no_time_come_first_in_the_next_one(grown: SimulatedCluster) -> None:
    execution = RetirementExecution(grown, "retire-1")
    requests = [RetirementRequest(each.name, RetirementReason.DELETED) for each in claims(grown)]
    wave = execution._begin(requests, 0)["waves"][0]
    one_eviction = TimeLeft(lambda: RESERVE - len(evictions(grown)))

    def evict() -> dict[str, str]:
        nonlocal wave
        entries = [RetiringClaim.from_json(each) for each in wave]
        passing = PodEviction(grown.kube, execution.retirements, one_eviction)
        wave = passing.answer(execution.execution, entries, 1, grown.now)["claims"]
        return {each["claim"]: each["why"] for each in wave}

    assert evict() == {"default-1": "1 pods leave", "default-2": NO_TIME}
    assert len(evictions(grown)) == 1

    grown.kube.asked.clear()
    land(grown, "node-1")
    assert evict() == {"default-1": NO_TIME, "default-2": "1 pods leave"}


def passes_of(cluster: SimulatedCluster, reasons: dict[str, str], *, evictions_each: int) -> Any:
    """Return a pass over all nodes, which has time for some evictions: it returns the answer of evict_pods.

    `reasons` are those that the last pass gave.
    """
    execution = RetirementExecution(cluster, "retire-1")
    requests = [RetirementRequest(each.name, RetirementReason.DELETED) for each in claims(cluster)]
    entries = [RetiringClaim.from_json(each) for each in execution._begin(requests, 0)["waves"][0]]
    entries = [each.at(each.stage, reasons.get(each.claim, "")) for each in entries]

    def evict() -> Any:
        nonlocal entries
        before = len(evictions(cluster))
        time_left = TimeLeft(lambda: RESERVE + evictions_each - 1 - (len(evictions(cluster)) - before))
        passing = PodEviction(cluster.kube, execution.retirements, time_left)
        answer = passing.answer(execution.execution, entries, 60, cluster.now)
        entries = [RetiringClaim.from_json(each) for each in answer["claims"]]
        return answer

    return evict


def note_deadline(cluster: SimulatedCluster, claim: str) -> None:
    now = int(cluster.now.timestamp())
    instance = next(each.instance_id for each in claims(cluster) if each.name == claim)
    memory(cluster, Retirements).hurry(claim, "spot", now + 120, now, instance=instance)


def test_what_a_pass_had_no_time_for_does_not_wait_as_long_as_what_was_refused(grown: SimulatedCluster) -> None:
    evict = passes_of(grown, {}, evictions_each=0)

    answer = evict()

    assert [each["why"] for each in answer["claims"]] == [NO_TIME, NO_TIME]
    assert (answer["evicted"], answer["pause"]) == (0, SOON)

    grown.kube.held.update(("web-1", "web-2"))
    assert passes_of(grown, {}, evictions_each=9)()["pause"] == SELDOM


def test_a_node_with_a_deadline_comes_before_one_for_which_the_last_pass_had_no_time(grown: SimulatedCluster) -> None:
    evict = passes_of(grown, {"default-1": NO_TIME}, evictions_each=1)
    note_deadline(grown, "default-2")

    answer = evict()

    assert [each["why"] for each in answer["claims"]] == [NO_TIME, "1 pods leave"]


def test_a_node_with_a_deadline_whose_evictions_are_refused_does_not_use_up_each_pass(grown: SimulatedCluster) -> None:
    evict = passes_of(grown, {}, evictions_each=1)
    note_deadline(grown, "default-1")
    grown.kube.held.add("web-1")

    assert [each["why"] == NO_TIME for each in evict()["claims"]] == [False, True]
    assert [each["why"] == NO_TIME for each in evict()["claims"]] == [True, False]
