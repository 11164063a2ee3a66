"""The function propose_disruption over fakes: what it records beside the proposal itself."""

from typing import Any

from functions.find_candidates import handler as find_candidates
from functions.propose_disruption import handler as propose_disruption
from functions.report_candidates import handler as report_candidates
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.ledger_items import OfferingKey
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.lifecycle.disruption_progress import back_off_id
from joiner.planning import Ceilings
from tests.unit.functions.disruption_execution import records, task
from tests.unit.functions.simulated_cluster import SimulatedCluster


def proposed(cluster: SimulatedCluster) -> dict[str, Any]:
    """List the candidates and propose, as DISRUPT does without the lease; return the answer with the snapshot."""
    view = ListedCluster(cluster.kube, find_candidates.DISRUPTED)
    guards = AutoscalerDetection(cluster.kube)
    listed = find_candidates.CandidateListing(view, cluster.ledger, cluster.store, guards)
    client, table = cluster.ledger._client, cluster.ledger._table
    recommendations = Recommendations(client, table)
    planning = propose_disruption.DisruptionPlanning(
        cluster.ledger, records(cluster), recommendations, cluster.store, Ceilings()
    )
    keys = {
        "snapshot": listed.answer(task(0), cluster.now, 0)["snapshot"],
        "classes": documents.put_node_classes(cluster.store, task(0), [cluster.node_class]),
        "proposal": "",
        "digest": "a",
    }
    answer: dict[str, Any] = planning.answer(task(0), keys, cluster.now, 0)
    return {**answer, "snapshot": keys["snapshot"]}


def test_a_proposal_has_no_end_of_a_limit_if_no_limit_is_in_effect(grown: SimulatedCluster) -> None:
    proposed(grown)

    made = records(grown).last_proposal()
    assert (made.digest, made.at, made.limits_end) == ("a", int(grown.now.timestamp()), 0)


def test_a_proposal_keeps_when_the_first_of_its_limits_ends(grown: SimulatedCluster) -> None:
    at = int(grown.now.timestamp())
    grown.ledger.back_off(back_off_id("NodePool/default"), "no capacity", at)
    proposed(grown)
    assert records(grown).last_proposal().limits_end == at + 60

    grown.ledger.mark_unavailable(OfferingKey("spot", "m5.large", "us-east-1b"), at + 40, "no capacity")
    proposed(grown)

    assert records(grown).last_proposal().limits_end == at + 40


def test_a_meaningless_annotation_is_reported_on_one_pod_of_each_workload(grown: SimulatedCluster) -> None:
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    for pod in ("web-1", "web-2"):
        metadata = grown.kube.objects["pods", "default", pod]["metadata"]
        metadata["annotations"] = {"karpenter.sh/do-not-disrupt": "later"}
    made = proposed(grown)

    report = report_candidates.CandidateReport(grown.kube, grown.store)
    report.answer(task(0), made["proposal"], made["snapshot"], grown.now)

    [event] = [each for each in grown.kube.all(kinds.EVENTS) if each["reason"] == "InvalidDoNotDisruptAnnotation"]
    assert (event["regarding"]["kind"], event["regarding"]["name"], event["type"]) == ("Pod", "web-1", "Warning")
    assert event["note"].startswith("metadata.annotations[karpenter.sh/do-not-disrupt] is 'later': write \"true\"")


def test_a_proposal_to_replace_outdated_nodes_has_the_price_of_the_cluster(grown: SimulatedCluster) -> None:
    at_rest = proposed(grown)
    claim = grown.kube.objects["nodeclaims", "", "default-1"]
    drifted = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": "2026-11-21T12:00:00Z"}
    claim["status"]["conditions"] = [*claim["status"]["conditions"], drifted]

    made = proposed(grown)

    assert (made["actions"], made["pricePerHour"]) == (1, at_rest["pricePerHour"])
    assert made["pricePerHour"] > 0
