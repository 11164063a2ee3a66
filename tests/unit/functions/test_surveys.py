"""The two surveys of a sweep over a cluster at rest: what they report, what they record, and when disruption is due."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters import sweep_documents
from joiner.adapters.disruption_items import DisruptionRecord, LastProposal
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.orphan_records import Absences
from joiner.adapters.retirements import Retirements
from joiner.catalogue.observed_memory import ObservedMemory
from joiner.names import DISRUPTED
from joiner.pools import NodeClaim
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import (
    claims,
    end_pods,
    looked,
    memory,
    node_of,
    retired,
    stand,
)


@pytest.fixture
def standing(cluster: SimulatedCluster) -> SimulatedCluster:
    return stand(cluster)


def test_a_sweep_over_a_cluster_at_rest_finds_nothing_and_remembers_nothing(standing: SimulatedCluster) -> None:
    surveyed, instances = looked(standing, 1)
    disruption, drift = surveyed.pop("disruption"), surveyed.pop("drift")

    assert {name: value for name, value in surveyed.items() if value} == {"survey": "surveys/sweep-s1.json.gz"}
    assert (disruption["due"], disruption["executions"], disruption["staleMarks"]) == (True, [], 0), (
        "nothing was proposed for these nodes yet"
    )
    assert (drift["due"], drift["snapshot"]) == (True, "snapshots/sweep-s1/1.json.gz"), "drift was never looked for"
    assert {name: value for name, value in instances.items() if value} == {
        "instances": len(claims(standing)),
        "described": "instances/sweep-s1.json.gz",
    }
    assert memory(standing, EmptyNodes).all() == memory(standing, Absences).since() == {}


def test_free_addresses_that_change_let_the_cluster_be_surveyed_for_replacements(standing: SimulatedCluster) -> None:
    before = looked(standing, 1)[0]["disruption"]["digest"]

    sweep_documents.put_free_addresses(standing.store, "EC2NodeClass/default/us-east-1a/8")

    assert looked(standing, 2)[0]["disruption"]["digest"] != before


def test_a_node_without_a_claim_lets_the_cluster_be_surveyed_because_pods_may_move_to_it(
    standing: SimulatedCluster,
) -> None:
    before = looked(standing, 1)[0]["disruption"]["digest"]

    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "system-1"},
        "spec": {"providerID": "aws:///z/i-9"},
    }
    standing.kube.put({**node, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    assert looked(standing, 2)[0]["disruption"]["digest"] != before


def test_a_proposal_is_due_after_a_change_and_else_at_growing_intervals(standing: SimulatedCluster) -> None:
    proposals, first = memory(standing, Disruptions), looked(standing, 1)[0]["disruption"]
    start = standing.now
    made = LastProposal(first["digest"], int(start.timestamp()))

    at_rest = []
    for number, (seconds, idle) in enumerate([(29, 0), (30, 0), (569, 1), (570, 1), (3569, 9), (3570, 9)]):
        standing.now = start + timedelta(seconds=seconds)
        proposals.note_proposal(replace(made, idle=idle, repeated=max(0, idle - 1)))
        at_rest.append(looked(standing, 10 + number, after=0)[0]["disruption"])
    assert [each["due"] for each in at_rest] == [False, True, False, True, False, True]
    assert {each["digest"] for each in at_rest} == {first["digest"]}

    standing.now = start + timedelta(minutes=2)
    ends = [int(start.timestamp()) + seconds for seconds in (121, 120)]
    at_its_end = []
    for number, end in enumerate(ends):
        proposals.note_proposal(replace(made, idle=1, limits_end=end))
        at_its_end.append(looked(standing, 20 + number, after=0)[0]["disruption"])
    assert [(each["due"], each["digest"] == first["digest"]) for each in at_its_end] == [(False, True), (True, True)]

    standing.now = start + timedelta(minutes=1)
    proposals.note_proposal(replace(made, idle=1))
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": {}}
    standing.kube.put(budget)
    changed = looked(standing, 30)[0]["disruption"]
    assert (changed["due"], changed["digest"] != first["digest"]) == (True, True)


def test_consolidate_after_starts_again_when_a_pod_ends_and_nothing_is_written_at_rest(
    standing: SimulatedCluster,
) -> None:
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10m"}
    standing.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    ended = next(claim.key for claim in claims(standing) if claim.node_name == node_of(standing, "web-1"))
    others = {claim.key for claim in claims(standing)} - {ended}
    before = looked(standing, 1)[0]["disruption"]["digest"]
    assert {one.at for one in sweep_documents.get_pod_events(standing.store).values()} == {0}

    standing.kube.objects["pods", "default", "web-1"]["status"]["phase"] = "Succeeded"
    restarted = looked(standing, 2)[0]["disruption"]["digest"]
    event, seen = int(standing.now.timestamp()), sweep_documents.get_pod_events(standing.store)
    within = looked(standing, 3, after=599)[0]["disruption"]["digest"]
    over = looked(standing, 4, after=1)[0]["disruption"]["digest"]

    assert {key: one.at for key, one in seen.items()} == {ended: event, **dict.fromkeys(others, 0)}
    assert restarted == within, "the node is within its consolidateAfter"
    assert len({before, within, over}) == 3
    assert sweep_documents.get_pod_events(standing.store) == seen


def test_pod_events_that_cannot_be_read_count_as_none_and_are_written_anew(standing: SimulatedCluster) -> None:
    looked(standing, 1)
    written = sweep_documents.get_pod_events(standing.store)
    standing.store.put(sweep_documents.POD_EVENTS, {"nodes": 7})
    assert sweep_documents.get_pod_events(standing.store) == {}

    looked(standing, 2)
    assert sweep_documents.get_pod_events(standing.store) == written


def report_memory(cluster: SimulatedCluster, size: int) -> None:
    """Let the nodes report this capacity of memory in bytes, and one more for each further node."""
    for number, node in enumerate(cluster.kube.all(kinds.NODES)):
        node["status"]["capacity"] = {**node["status"]["allocatable"], "memory": str(size + number)}


def test_a_sweep_records_the_memory_of_nodes_once(standing: SimulatedCluster) -> None:
    report_memory(standing, 7_000_000_000)

    looked(standing, 1)
    first = sweep_documents.get_observed_memory(standing.store)
    written = int(standing.now.timestamp())
    looked(standing, 2)

    assert first == {"m5.large": {"ami-1": ObservedMemory(7_000_000_000, written)}}
    assert sweep_documents.get_observed_memory(standing.store) == first


def test_an_observed_memory_that_cannot_be_read_counts_as_none_and_is_written_anew(standing: SimulatedCluster) -> None:
    report_memory(standing, 7_000_000_000)
    looked(standing, 1)
    written = sweep_documents.get_observed_memory(standing.store)
    standing.store.put(sweep_documents.OBSERVED_MEMORY, {"types": 7})
    assert sweep_documents.get_observed_memory(standing.store) == {}

    looked(standing, 2)
    assert sweep_documents.get_observed_memory(standing.store).keys() == written.keys() == {"m5.large"}


def test_a_node_of_a_disruption_under_way_is_not_a_half_begun_retirement(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    node = next(each for each in standing.kube.all(kinds.NODES) if each["metadata"]["name"] == claim.node_name)
    node["spec"]["taints"] = [{"key": DISRUPTED, "effect": "NoSchedule"}]
    record = DisruptionRecord("disrupt-1-0", arn("disrupt-1"), "Underutilized", message="saves", claims=(claim.name,))

    memory(standing, Disruptions).begin(record)
    marked = looked(standing, 1)
    memory(standing, Disruptions).end(record.id)
    gone = looked(standing, 2)

    assert (retired(marked[1]), marked[0]["disruption"]["executions"]) == ([], [arn("disrupt-1")])
    assert (retired(gone[1]), gone[0]["disruption"]["executions"]) == ([(claim.name, "empty")], [])


def test_a_disruption_is_left_over_as_soon_as_its_execution_has_ended(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0].name
    for name in ("disrupt-1", "disrupt-2", "disrupt-3"):
        record = DisruptionRecord(f"{name}-0", arn(name), "Underutilized", message="saves", claims=(claim,))
        memory(standing, Disruptions).begin(record)

    standing.dead.add(arn("disrupt-2"))
    standing.ended.add(arn("disrupt-3"))

    assert looked(standing, 1)[1]["leftDisruptions"] == [arn("disrupt-2"), arn("disrupt-3")]


def test_the_turn_of_an_execution_that_no_longer_runs_is_taken(standing: SimulatedCluster) -> None:
    turn = {":me": arn("disrupt-1"), ":until": int(standing.now.timestamp()) + 3600}
    standing.machine._update("LEASE", "disrupt", "SET holder = :me, disruptUntil = :until", turn)

    running = looked(standing, 1)[1]["disrupting"]
    standing.dead.add(arn("disrupt-1"))
    stopped = looked(standing, 2)[1]["disrupting"]

    assert (running, stopped) == (True, False)
    assert memory(standing, Disruptions).turn().holder == ""


def given_up_late(cluster: SimulatedCluster) -> NodeClaim:
    """Return a claim whose node has not joined for sixteen minutes, given up by the execution that waited for it; a
    second later the node joins.
    """
    cluster.prepare(pending("web-1"))
    cluster.boots = False
    cluster._under_the_lease("up-1", cluster._take_lease("up-1") or 0)
    cluster.now += timedelta(minutes=16)
    assert cluster.check("up-1")["failed"] == [claims(cluster)[0].name]
    cluster.dead.add(arn("up-1"))
    cluster.boots = True
    cluster.boot()
    # no execution waits for it, so only its existence requires a survey
    del cluster.kube.objects["pods", "default", "web-1"]
    return claims(cluster)[0]


def test_a_node_that_joins_just_after_it_was_given_up_is_taken_in(cluster: SimulatedCluster) -> None:
    late = given_up_late(cluster)

    cluster.sweep("s1")

    (claim,) = claims(cluster)
    assert (claim.name, claim.registered, claim.initialized) == (late.name, True, True)


def test_a_node_that_joined_while_joiner_was_paused_for_long_is_retired_with_its_claim(
    cluster: SimulatedCluster,
) -> None:
    late = given_up_late(cluster)

    assert retired(looked(cluster, 1, after=3600)[1]) == [(late.name, "never-joined")]


def test_pods_that_cannot_leave_yet_and_have_room_elsewhere_are_planned_for_ever_more_seldom(
    standing: SimulatedCluster,
) -> None:
    leaving, other = claims(standing)[:2]
    end_pods(standing, other)
    standing.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": {"consolidateAfter": "Never"}}})
    standing.kube.delete(kinds.NODECLAIMS, leaving.name)
    memory(standing, Retirements).begin(leaving.name, arn("retire-1"), "deleted", int(standing.now.timestamp()))

    planned = []
    for number in range(12):
        standing.now += timedelta(seconds=60)
        memory(standing, Retirements).see([leaving.name], arn("retire-1"), int(standing.now.timestamp()))
        if standing.sweep(f"s{number}")["pendingPods"]:
            planned.append(number)

    assert planned == [0, 1, 3, 7]
    assert len(claims(standing)) == 3
    (evicted,) = (each for each in standing.kube.all(kinds.PODS) if each["spec"].get("nodeName") == leaving.node_name)
    del standing.kube.objects["pods", "default", evicted["metadata"]["name"]]
    successor = pending("web-again")
    successor["metadata"]["creationTimestamp"] = "2026-11-21T14:00:00Z"
    standing.kube.put(successor)
    assert looked(standing, 12)[0]["pendingPods"] == 1


def test_a_sweep_leaves_out_a_pod_that_no_plan_can_place_in_a_cluster_with_daemon_sets(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("large", cpu="64"))
    template = {"spec": {"containers": [{"name": "main"}]}}
    metadata = {"name": "agent", "namespace": "kube-system"}
    cluster.kube.put(
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {"template": template}}
    )
    cluster.scale_up("up-1")

    assert cluster.survey("s1")[0]["pendingPods"] == 0


def test_annotations_of_pods_without_effect_are_reported_once_for_each_controller(standing: SimulatedCluster) -> None:
    """The mistake is in the template of the workload; a hundred events about it help nobody."""
    for name in ("shop-1", "shop-2"):
        pod = pending(name)
        owner = {**pod["metadata"]["ownerReferences"][0], "name": "shop", "uid": "rs-2"}
        wrong = {"joiner.dev/drian": "rollout", "joiner.dev/drift": "detect", "other.dev/drain": "rollout"}
        metadata = {"ownerReferences": [owner], "annotations": wrong, "labels": {"joiner.dev/drain": "rollout"}}
        standing.kube.put({**pod, "metadata": {**pod["metadata"], **metadata}})

    looked(standing, 1)

    assert sorted(event["note"] for event in about(standing, "shop-1")) == [
        "metadata.annotations[joiner.dev/drian] is rollout: it has no effect: no such annotation is known; did you "
        'mean "joiner.dev/drain"?',
        "metadata.annotations[joiner.dev/drift] is detect: it has no effect here: it is an annotation of a pool",
        "metadata.labels[joiner.dev/drain] is rollout: it has no effect as a label: write it as an annotation",
    ]
    assert {event["reason"] for event in about(standing, "shop-1")} == {"WithoutEffect"}
    assert about(standing, "shop-2") == []


def test_a_value_without_effect_on_a_node_is_an_event_of_that_node(standing: SimulatedCluster) -> None:
    first, second, third = (node_of(standing, f"web-{number}") for number in (1, 2, 3))
    values = {first: "yes", second: "yes", third: "true"}
    for name, value in values.items():
        standing.kube.patch(kinds.NODES, name, {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}})
    standing.kube.patch(kinds.NODES, third, {"metadata": {"labels": {"karpenter.sh/do-not-consolidate": "true"}}})

    looked(standing, 1)

    reported = {name: [one for one in about(standing, name) if one["type"] == "Warning"] for name in values}
    fault = 'metadata.annotations[karpenter.sh/do-not-disrupt] is yes: it has no effect; write "true"'
    label = "metadata.labels[karpenter.sh/do-not-consolidate] is true: it has no effect as a label: write it as an "
    assert {name: [event["note"] for event in events] for name, events in reported.items()} == {
        first: [fault],
        second: [fault],
        third: [f"{label}annotation"],
    }
    (event,) = reported[first]
    assert (event["reason"], event["regarding"]["kind"]) == ("WithoutEffect", "Node")
    assert event["regarding"]["uid"] == first, "kubectl describe node looks for this uid"


def test_a_value_that_all_claims_and_nodes_of_a_pool_have_is_reported_on_two_of_each(
    standing: SimulatedCluster,
) -> None:
    wrong = {"metadata": {"annotations": {"karpenter.sh/do-not-consolidate": "yes"}}}
    names = sorted(node_of(standing, f"web-{number}") for number in (1, 2, 3))
    for claim in claims(standing):
        standing.kube.patch(kinds.NODECLAIMS, claim.name, wrong)
    for name in names:
        standing.kube.patch(kinds.NODES, name, wrong)

    looked(standing, 1)

    reported = [each["regarding"]["name"] for each in standing.kube.all(kinds.EVENTS) if "is yes" in each["note"]]
    assert sorted(reported) == sorted([*names[:2], *sorted(claim.name for claim in claims(standing))[:2]])


def about(cluster: SimulatedCluster, pod: str) -> list[dict[str, Any]]:
    return [each for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["name"] == pod]
