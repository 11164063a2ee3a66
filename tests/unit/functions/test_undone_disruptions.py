"""Which disruptions are undone after the request of a retirement, and what is left: no retirement of their nodes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.disruption_items import DisruptionRecord
from joiner.adapters.kube_errors import Forbidden, Unreachable
from joiner.adapters.ledger_items import Retirement
from joiner.adapters.retirements import Retirements
from tests.unit.functions.disruption_execution import ARN, REMOVED, is_tainted, marked, reason_of, records, settled
from tests.unit.functions.grown_cluster import grow
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn


def retirements_of(cluster: SimulatedCluster) -> dict[str, Retirement]:
    return Retirements(cluster.ledger._client, cluster.ledger._table).all()


def excluded(cluster: SimulatedCluster) -> list[str]:
    """Return the names of the nodes that load balancers leave out."""
    label = "node.kubernetes.io/exclude-from-external-load-balancers"
    nodes = [manifest["metadata"] for (plural, _, _), manifest in cluster.kube.objects.items() if plural == "nodes"]
    return [one["name"] for one in nodes if label in one["labels"]]


def refused_deletions(method: str, _path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A fault: the API server deletes nothing."""
    if method == "DELETE":
        raise Forbidden("nothing may be deleted")
    return answer()


def unanswered(path: str) -> Callable[[str, str, Callable[[], dict[str, Any]]], dict[str, Any]]:
    """A fault: the API server does not answer requests of this path."""

    def fault(_method: str, asked: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if asked.endswith(path):
            raise Unreachable("as the test says")
        return answer()

    return fault


@pytest.mark.parametrize("reason", ["Underutilized", "Drifted", "Expired", "Rebalance"])
def test_a_retirement_that_could_not_begin_ends_with_its_disruption(cluster: SimulatedCluster, reason: Any) -> None:
    """The API server refuses the start three times, until the disruption is undone; the sweep requests what is left."""
    grow(cluster)
    marked(cluster, replace(REMOVED, reason=reason))
    cluster.machine.break_lease(ARN, 1)
    cluster.kube.fault = refused_deletions
    for number in range(3):
        [request] = settled(cluster)["retire"]
        retire(cluster, ("default-1", request["reason"]), name=f"retire-{number}")
        cluster.now += timedelta(minutes=2)
    [undone] = settled(cluster)["undone"]
    assert undone["claims"] == ["default-1"]
    assert list(cluster.ledger.disruption_back_offs(cluster.now)) == ["NodePool/default"]
    cluster.kube.fault = None
    assert retirements_of(cluster)["default-1"].reasons == (request["reason"],)

    done = retire(cluster, ("default-1", request["reason"]))

    assert done.left_out == {"default-1": "its node has no mark of a disruption any more"}
    assert not cluster.kube.objects["nodeclaims", "", "default-1"]["metadata"].get("deletionTimestamp")
    assert retirements_of(cluster)["default-1"].reasons == (), "the sweep does not request it again"


def test_refusals_between_two_requests_count_once(cluster: SimulatedCluster) -> None:
    """The sweep of each minute requests again what the API server refused."""
    grow(cluster)
    marked(cluster, REMOVED)
    cluster.machine.break_lease(ARN, 1)
    cluster.kube.fault = refused_deletions
    [request] = settled(cluster)["retire"]
    for number in range(3):
        retire(cluster, ("default-1", request["reason"]), name=f"retire-{number}")
        cluster.now += timedelta(minutes=1)
    assert records(cluster).all()[0].refusals == 1
    cluster.kube.fault = None

    [again] = settled(cluster)["retire"]

    assert retire(cluster, ("default-1", again["reason"])).left_out == {}
    assert settled(cluster)["finished"] == 1


@pytest.mark.parametrize("path", ["/nodes", "/nodeclaims/default-1"], ids=["nothing is tried", "no answer"])
def test_an_api_server_without_answers_refuses_nothing(cluster: SimulatedCluster, path: str) -> None:
    grow(cluster)
    marked(cluster, REMOVED)
    cluster.machine.break_lease(ARN, 1)
    for number in range(4):
        [request] = settled(cluster)["retire"]
        cluster.kube.fault = unanswered(path)
        with suppress(Unreachable):
            retire(cluster, ("default-1", request["reason"]), name=f"retire-{number}")
        cluster.kube.fault = None
        cluster.now += timedelta(minutes=2)
        assert excluded(cluster) == [], "the pods stay, so the node stays behind load balancers"

    [last] = settled(cluster)["retire"]

    assert retire(cluster, ("default-1", last["reason"])).left_out == {}


def test_a_pause_after_the_request_of_a_retirement_undoes_nothing(cluster: SimulatedCluster) -> None:
    grow(cluster)
    marked(cluster, REMOVED)
    cluster.machine.break_lease(ARN, 1)
    settled(cluster)
    cluster.now += timedelta(hours=3)
    assert [each["claim"] for each in settled(cluster)["retire"]] == ["default-1"], "the lease is taken just then"
    cluster.now += timedelta(minutes=2)

    [request] = settled(cluster)["retire"]

    assert retire(cluster, ("default-1", request["reason"])).left_out == {}
    assert settled(cluster)["finished"] == 1


@pytest.mark.parametrize("requested", [False, True])
def test_a_disruption_whose_record_cannot_be_read_is_undone_and_reported(
    cluster: SimulatedCluster, requested: bool
) -> None:
    """Another one goes on."""
    grow(cluster)
    marked(cluster, REMOVED, replace(REMOVED, claims=("default-2",), moves={"default/web-2": "node-1"}))
    cluster.machine.break_lease(ARN, 1)
    if requested:
        settled(cluster)
        cluster.now += timedelta(minutes=2)
    broken, other = records(cluster).all()
    records(cluster)._update("DISRUPTION", broken.id, "SET deadline = :deadline", {":deadline": "soon"})
    surveyed, instances = cluster.survey("s1")
    assert surveyed["disruption"]["executions"] == ["", ARN]
    assert instances["leftDisruptions"] == [""], "the other belongs to an execution that runs"

    answer = settled(cluster)

    why = "the record of its disruption cannot be read: attribute deadline has type S instead of N"
    assert answer["undone"] == [{"claims": ["default-1"], "why": why}]
    assert [each["claim"] for each in answer["retire"]] == ["default-2"]
    assert [each.id for each in records(cluster).all()] == [other.id]
    assert [is_tainted(cluster, node) for node in ("node-1", "node-2")] == [False, True]
    notes = {each["note"] for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "DisruptionFailed"}
    assert notes == {f"Disruption: the node stays, because {why}"}
    assert cluster.ledger.disruption_back_offs(cluster.now) == {}


def test_the_disruption_of_an_execution_is_left_to_it_while_it_runs(cluster: SimulatedCluster) -> None:
    """It has written its record, and taints the node next."""
    grow(cluster)
    other = arn("disrupt-2")
    begun = DisruptionRecord("disrupt-2-0", other, "Underutilized", message="saves", claims=("default-2",))
    records(cluster).begin(begun)

    during = settled(cluster)
    left = [record.id for record in records(cluster).all()]
    after = settled(cluster, left=[other])

    assert (during["undone"], left) == ([], ["disrupt-2-0"])
    assert after["undone"] == [{"claims": ["default-2"], "why": "default-2 was not marked completely"}]
    assert records(cluster).all() == []


def test_a_record_whose_claims_cannot_be_read_closes_no_node(cluster: SimulatedCluster) -> None:
    grow(cluster)
    marked(cluster, REMOVED)
    cluster.machine.break_lease(ARN, 1)
    [broken] = records(cluster).all()
    records(cluster)._update("DISRUPTION", broken.id, "SET claims = :claims", {":claims": 7})
    surveyed, _ = cluster.survey("s1")
    assert surveyed["disruption"]["executions"] == [""]

    for each in surveyed["retire"]:
        retire(cluster, (each["claim"], each["reason"]))
    settled(cluster)
    settled(cluster)

    assert records(cluster).all() == []
    assert (is_tainted(cluster, "node-1"), reason_of(cluster, "default-1")) == (False, "")
    after = cluster.survey("s2")[0]
    assert (after["retire"], after["disruption"]["executions"]) == ([], [])


def test_requests_for_which_no_execution_gets_the_lease_do_not_end_a_disruption(cluster: SimulatedCluster) -> None:
    grow(cluster)
    marked(cluster, REMOVED)
    cluster.machine.break_lease(ARN, 1)
    for _ in range(5):
        assert [each["claim"] for each in settled(cluster)["retire"]] == ["default-1"]
        cluster.now += timedelta(minutes=2)

    [request] = settled(cluster)["retire"]

    assert retire(cluster, ("default-1", request["reason"])).left_out == {}
    assert settled(cluster)["finished"] == 1
