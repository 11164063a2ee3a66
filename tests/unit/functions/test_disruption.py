"""DISRUPT over fakes: marking nodes, settling disruptions, and the state after a failure at any call."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.find_candidates import handler as find_candidates
from functions.mark_nodes import handler as mark_nodes
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.disruption_items import PodsOfClaim
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.ledger_items import LaunchRecord, LeaseLost
from joiner.disruption.proposal import DisruptionAction, Proposal
from joiner.pools.node_claim import build_claim_name
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.disruption_execution import (
    ARN,
    NAME,
    REMOVED,
    event_reasons,
    failing_from,
    hold_lease,
    is_tainted,
    marked,
    planned,
    reason_of,
    records,
    settled,
    task,
)
from tests.unit.functions.grown_cluster import add_node, grow
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster


def expirations(cluster: SimulatedCluster, kind: str) -> list[Any]:
    """Return when DynamoDB deletes each item of a kind."""
    return [item.get("expires") for item in cluster.ledger._query(kind)]


def test_a_removal_is_marked_requested_and_finished(grown: SimulatedCluster) -> None:
    answer = marked(grown, REMOVED)

    assert answer == {
        "plan": "",
        "marked": [{"reason": "Underutilized", "claims": ["default-1"]}],
        "replacements": 0,
        "dropped": [],
    }
    assert (is_tainted(grown, "node-1"), is_tainted(grown, "node-2")) == (True, False)
    assert reason_of(grown, "default-1") == "Underutilized"
    assert event_reasons(grown) == {("DisruptionTerminating", "Node"), ("DisruptionTerminating", "NodeClaim")}
    [record] = records(grown).all()
    assert expirations(grown, "DISRUPTION") == [None], "a pause may be longer than any time"
    assert (record.id, record.claims, record.replacements, record.requests) == (f"{NAME}-0000", ("default-1",), (), 0)

    request = {"claim": "default-1", "reason": "consolidated", "instance": "i-0001", "notBefore": 0}
    assert settled(grown) == {"retire": [request], "waiting": 0, "requested": 0, "undone": [], "finished": 0}
    assert settled(grown)["requested"] == 1, "the retirement is requested once"
    assert expirations(grown, "DISRUPTION") == [None]
    assert records(grown).moves(int(grown.now.timestamp())) == [], "no pod has moved"

    grown.machine.break_lease(ARN, 1)
    assert retire(grown, ("default-1", "consolidated")).left_out == {}
    assert settled(grown)["finished"] == 1
    assert records(grown).all() == []
    [moved] = records(grown).moves(int(grown.now.timestamp()))
    assert (moved.at, moved.pods, moved.workloads) == (
        int(grown.now.timestamp()),
        {"NodePool/default": 1},
        ("default/ReplicaSet/web",),
    )
    assert records(grown).moves(int(grown.now.timestamp()) + 24 * 3600) == []
    assert "node-1" not in {each["metadata"]["name"] for each in grown.kube.all(kinds.NODES)}


def test_nodes_are_retired_in_the_order_of_their_actions_the_best_first(grown: SimulatedCluster) -> None:
    """With a limit of evictions at a time, the price falls by the best actions first."""
    names = [f"default-{number}" for number in range(14, 2, -1)]
    for number in range(3, 15):
        add_node(grown, f"default-{number}", f"i-01{number:02}", f"node-{number}")
    marked(grown, *(DisruptionAction("Underutilized", (name,)) for name in names))

    assert [each["claim"] for each in settled(grown)["retire"]] == names


def test_the_events_of_a_node_name_where_its_first_pods_go(grown: SimulatedCluster) -> None:
    moves = {f"default/web-{number}": "node-2" for number in range(1, 6)}

    marked(grown, replace(REMOVED, moves=moves))

    notes = {each["note"] for each in grown.kube.all(kinds.EVENTS) if each["reason"] == "DisruptionTerminating"}
    assert notes == {
        "Underutilized: removes 1 node, saves $0.10/h, moves 5 pods "
        "(default/web-1 to node-2, default/web-2 to node-2, default/web-3 to node-2 and 2 more)"
    }


def test_replacements_keep_their_place_in_the_plan_when_an_action_before_them_is_dropped(
    grown: SimulatedCluster,
) -> None:
    """The pod on node-1 has no place in the first proposal, so its action is dropped after its record was written."""
    dropped = DisruptionAction("Drifted", ("default-1",), (planned("n1"),), {})
    stays = DisruptionAction("Drifted", ("default-2",), (planned("n2"),), {"default/web-2": "n2"})

    answer = marked(grown, dropped, stays)

    assert [each["claims"] for each in answer["marked"]] == [["default-2"]]
    assert answer["dropped"] == [
        {"claims": ["default-1"], "why": "pod default/web-1 was bound to node node-1 meanwhile"}
    ]
    [record] = records(grown).all()
    assert record.replacements == (build_claim_name("default", task().claim_suffix(0)),)
    assert [node.name for node in documents.get_plan(grown.store, answer["plan"]).nodes] == ["n2"]
    assert (is_tainted(grown, "node-1"), is_tainted(grown, "node-2")) == (False, True)
    assert record.moves == {"default-2": PodsOfClaim("NodePool/default", 1, ("default/ReplicaSet/web",))}


def test_an_attempt_after_one_that_marked_some_nodes_begins_anew(grown: SimulatedCluster) -> None:
    """The function ended after it had marked one of two actions: each keeps a replacement of its own."""
    first = DisruptionAction("Drifted", ("default-1",), (planned("n1"),), {"default/web-1": "n1"})
    second = DisruptionAction("Drifted", ("default-2",), (planned("n2"),), {"default/web-2": "n2"})
    marked(grown, first)
    assert is_tainted(grown, "node-1")

    answer = marked(grown, first, second, again=True)

    assert [each["claims"] for each in answer["marked"]] == [["default-1"], ["default-2"]]
    assert [node.name for node in documents.get_plan(grown.store, answer["plan"]).nodes] == ["n1", "n2"]
    replacements = [one.replacements for one in records(grown).all()]
    assert replacements == [(build_claim_name("default", task().claim_suffix(number)),) for number in range(2)]
    assert (is_tainted(grown, "node-1"), is_tainted(grown, "node-2")) == (True, True)


def test_what_an_earlier_attempt_marked_and_this_one_drops_is_open_again(grown: SimulatedCluster) -> None:
    marked(grown, REMOVED)

    grown.kube.objects["nodes", "", "node-1"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    answer = marked(grown, replace(REMOVED, moves={}), again=True)

    assert answer["marked"] == []
    assert not is_tainted(grown, "node-1") and reason_of(grown, "default-1") == "" and records(grown).all() == []


def test_what_an_earlier_attempt_marked_is_open_again_after_a_ring(grown: SimulatedCluster) -> None:
    """The pod that rang may need the free resources of these nodes, and DISRUPT ends without marks."""
    marked(grown, REMOVED)
    assert is_tainted(grown, "node-1")

    answer = marked(grown, REMOVED, rings=1, again=True)

    assert answer["marked"] == []
    assert not is_tainted(grown, "node-1") and reason_of(grown, "default-1") == "" and records(grown).all() == []


def test_a_pause_reports_the_nodes_that_a_disruption_has_closed(grown: SimulatedCluster) -> None:
    marked(grown, REMOVED)
    grown.pause.paused = True
    grown.now += timedelta(seconds=60)

    surveyed, _ = grown.survey("s1")

    notes = "takes no pods: its disruption (Underutilized) waits while Joiner is paused"
    assert f"NodeClaim/default-1 {notes}" in surveyed["reasons"]
    assert ("DisruptionPaused", "Node") in event_reasons(grown)
    assert ("DisruptionPaused", "NodeClaim") in event_reasons(grown)


def test_a_replaced_node_is_retired_only_when_its_replacement_is_initialized(grown: SimulatedCluster) -> None:
    action = DisruptionAction("Drifted", ("default-1",), (planned(),), {"default/web-1": "n1"})
    answer = marked(grown, action)
    plan = documents.get_plan(grown.store, answer["plan"])
    [record] = records(grown).all()
    [replacement] = record.replacements
    assert ([node.name for node in plan.nodes], replacement) == (["n1"], f"default-{task().claim_suffix(0)}")

    old = grown.kube.objects["nodeclaims", "", "default-2"]
    booting = {**old, "metadata": {**old["metadata"], "name": replacement, "uid": "new"}, "status": {}}
    grown.kube.put(booting)
    assert settled(grown)["waiting"] == 1
    grown.kube.put({**booting, "status": old["status"]})

    assert [(each["claim"], each["reason"]) for each in settled(grown)["retire"]] == [("default-1", "drifted")]


def test_a_pod_that_was_bound_meanwhile_has_no_place_and_undoes_the_mark(grown: SimulatedCluster) -> None:
    answer = marked(grown, DisruptionAction("Underutilized", ("default-1",), moves={"default/other": "node-2"}))

    assert answer["marked"] == []
    assert answer["dropped"] == [
        {"claims": ["default-1"], "why": "pod default/web-1 was bound to node node-1 meanwhile"}
    ]
    assert (is_tainted(grown, "node-1"), reason_of(grown, "default-1"), records(grown).all()) == (False, "", [])


def test_a_ring_after_the_snapshot_drops_everything(grown: SimulatedCluster) -> None:
    grown.machine.ring()

    assert marked(grown, REMOVED, rings=0)["dropped"] == [
        {"claims": ["default-1"], "why": "the doorbell rang after the snapshot"}
    ]
    assert not is_tainted(grown, "node-1")


def test_an_empty_node_about_to_be_removed_counts_against_the_budgets(grown: SimulatedCluster) -> None:
    emptiness = EmptyNodes(grown.ledger._client, grown.ledger._table)
    emptiness.begin("default-2", int(grown.now.timestamp()))
    emptiness.ask("default-2", int(grown.now.timestamp()) + 60, by="sweep-1")

    [dropped] = marked(grown, REMOVED)["dropped"]

    assert "counts against the budgets" in dropped["why"]


def test_an_empty_node_stays_if_disrupt_has_used_the_budget_since_the_sweep_asked_for_it(
    grown: SimulatedCluster,
) -> None:
    one = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "1"}]}
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": one}})
    marked(grown, REMOVED)
    release = {":free": 0}
    grown.machine._update("LEASE", "scale-up", "REMOVE holder SET leaseUntil = :free", release)
    for pod in ("web-1", "web-2"):
        grown.kube.objects["pods", "default", pod]["status"]["phase"] = "Succeeded"

    done = retire(grown, ("default-2", "empty"))

    why = "the budgets of NodePool/default allow 1 nodes, and 1 others leave or are not ready"
    assert done.left_out == {"default-2": why}
    assert (is_tainted(grown, "node-1"), is_tainted(grown, "node-2")) == (True, False)


def test_an_action_whose_node_is_being_removed_is_dropped_and_others_are_not(grown: SimulatedCluster) -> None:
    both = (REMOVED, DisruptionAction("Underutilized", ("default-2",), moves={"default/web-2": "node-1"}))
    grown.kube.objects["nodeclaims", "", "default-1"]["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"

    answer = marked(grown, *both)

    assert [each["claims"] for each in answer["marked"]] == [["default-2"]]
    assert answer["dropped"] == [{"claims": ["default-1"], "why": "node node-1 is being removed"}]


def test_nothing_is_marked_without_the_lease(grown: SimulatedCluster) -> None:
    key = documents.put_proposal(grown.store, task(), Proposal((REMOVED,)))
    parts = (grown.kube, grown.ledger, records(grown), EmptyNodes(grown.ledger._client, grown.ledger._table))

    with pytest.raises(LeaseLost):
        mark_nodes.NodeMarking(*parts, grown.store).answer(task(), key, 0, grown.now, 0)

    assert not is_tainted(grown, "node-1")


def test_a_mark_that_fails_at_any_call_leaves_a_record_of_each_tainted_node(make_cluster: MakeCluster) -> None:
    for number in range(1, 12):
        cluster = grow(make_cluster())
        cluster.kube.fault = failing_from(number)
        with suppress(KubeError):
            marked(cluster, REMOVED)
        cluster.kube.fault = None

        if is_tainted(cluster, "node-1"):
            assert [record.claims for record in records(cluster).all()] == [("default-1",)], number


def test_an_action_without_a_place_for_a_pod_is_undone_whichever_call_of_its_mark_fails(
    make_cluster: MakeCluster,
) -> None:
    """A pod was bound before the taint. The next execution opens the node; it does not retire it."""
    bound = DisruptionAction("Underutilized", ("default-1",), moves={"default/other": "node-2"})
    left_over = []
    for number in range(1, 12):
        cluster = grow(make_cluster())
        cluster.kube.fault = failing_from(number)
        with suppress(KubeError):
            marked(cluster, bound)
        cluster.kube.fault = None
        left_over.append(bool(records(cluster).all()))

        assert settled(cluster)["retire"] == [], number
        assert (is_tainted(cluster, "node-1"), reason_of(cluster, "default-1"), records(cluster).all()) == (
            False,
            "",
            [],
        )

    assert any(left_over), "the mark failed after its record was written"


def test_a_listing_counts_the_nodes_that_may_be_candidates_and_stores_them(grown: SimulatedCluster) -> None:
    listing = find_candidates.CandidateListing(
        ListedCluster(grown.kube, find_candidates.DISRUPTED),
        grown.ledger,
        grown.store,
        AutoscalerDetection(grown.kube),
    )

    found = listing.answer(task(0), grown.now, 0)

    assert (found["why"], found["candidates"]) == ("", 2)
    assert {pod.key for pod in documents.get_snapshot(grown.store, found["snapshot"]).pods} == {
        "default/web-1",
        "default/web-2",
    }

    launch = LaunchRecord("l-1", "{}", "token", claims=("default-9",), lease_number=1, execution=ARN, details="{}")
    hold_lease(grown)
    assert listing.answer(task(0), grown.now, 0)["why"] == "another execution plans or launches nodes"
    grown.ledger.begin_launch(launch)
    until = int(grown.now.timestamp()) + 90
    assert listing.answer(task(1), grown.now, until)["why"] == "the outcome of a launch is not recorded yet"


def test_a_listing_under_the_lease_has_the_pool_behind_each_ring_that_it_counts(grown: SimulatedCluster) -> None:
    slept: list[float] = []
    listing = find_candidates.CandidateListing(
        ListedCluster(grown.kube, find_candidates.DISRUPTED),
        grown.ledger,
        grown.store,
        AutoscalerDetection(grown.kube),
        sleep=slept.append,
    )
    grown.ledger.ring(grown.now.timestamp() + 0.7)
    listing.answer(task(0), grown.now, 0)
    assert slept == []  # the second listing decides
    hold_lease(grown)

    found = listing.answer(task(1), grown.now, int(grown.now.timestamp()) + 90)

    assert slept == pytest.approx([0.7])
    assert found["rings"] == 1
