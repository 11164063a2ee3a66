"""A write of a claim that the API server refuses for a long time is tried at intervals. Meanwhile no scale-up starts
each minute for it, and other nodes are disrupted.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.find_candidates import handler as find_candidates
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.kube_errors import Forbidden, KubeError, Unreachable
from tests.unit.functions.disruption_execution import task
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.small_account import pending
from tests.unit.functions.test_refused_claim_writes import POLICY, claims_by_state, refusing, sweep_twice


def forbidden() -> KubeError:
    return Forbidden(POLICY, status=403)


def no_answer() -> KubeError:
    return Unreachable("failed calling webhook")


class KeptAnswers(dict[str, dict[str, Any]]):
    """The last answer of each function, and all answers of record_launches."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[dict[str, Any]] = []

    def __setitem__(self, name: str, answer: dict[str, Any]) -> None:
        super().__setitem__(name, answer)
        self.recorded += [answer] if name == "record_launches" else []

    def total(self, name: str) -> float:
        return sum(float(answer[name]) for answer in self.recorded)


@pytest.fixture
def answers(cluster: SimulatedCluster) -> KeptAnswers:
    kept = KeptAnswers()
    cluster.answers = kept
    return kept


def find_minutes_of_tries(cluster: SimulatedCluster, name: str, until: int) -> list[int]:
    """Run a sweep each minute; return those in which one of its counts starts a scale-up."""
    found = []
    for minute in range(1, until + 1):
        cluster.now += timedelta(minutes=1)
        if cluster.sweep(f"up-sweep-{minute}")[name]:
            found.append(minute)
    return found


def why_no_candidates(cluster: SimulatedCluster) -> str:
    view, guards = ListedCluster(cluster.kube, find_candidates.DISRUPTED), AutoscalerDetection(cluster.kube)
    listing = find_candidates.CandidateListing(view, cluster.ledger, cluster.store, guards)
    return str(listing.answer(task(0), cluster.now, 0)["why"])


@pytest.mark.parametrize("error", [forbidden, no_answer], ids=["403", "no answer"])
def test_an_outcome_that_cannot_be_written_is_tried_at_growing_intervals_and_stops_no_disruption(
    cluster: SimulatedCluster, error: Callable[[], KubeError]
) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.kube.fault = refusing("PATCH", error)
    cluster.scale_up("up-1")

    assert find_minutes_of_tries(cluster, "openLaunches", 33) == [1, 2, 4, 8, 16, 31]
    assert why_no_candidates(cluster) == ""
    assert cluster.survey("reported")[0]["unwritten"] == 1

    cluster.kube.fault = None
    cluster.now += timedelta(minutes=15)
    assert why_no_candidates(cluster) == "the outcome of a launch is not recorded yet", "it is due now"
    sweep_twice(cluster)
    nothing_is_left(cluster)
    assert cluster.survey("quiet")[0]["unwritten"] == 0


def test_a_claim_that_cannot_be_deleted_is_tried_at_growing_intervals(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), pending("db-1", cpu="3"))
    cluster.stop_after = "record_node_claims"
    cluster.scale_up("up-1")  # two claims, none of which is launched
    cluster.stop_after = ""
    cluster.now += timedelta(minutes=5)
    cluster.kube.fault = refusing("DELETE", forbidden)
    cluster.scale_up("up-2")

    assert find_minutes_of_tries(cluster, "staleClaims", 33) == [1, 2, 4, 8, 16, 31]
    assert cluster.survey("reported")[0]["unwritten"] == 1

    cluster.kube.fault = None
    cluster.now += timedelta(minutes=15)
    sweep_twice(cluster)
    nothing_is_left(cluster)
    assert cluster.survey("quiet")[0]["unwritten"] == 0


def test_a_user_deletes_a_claim_whose_outcome_cannot_be_written_and_its_instance_ends(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"))
    cluster.kube.fault = refusing("PATCH", forbidden)
    cluster.scale_up("up-1")
    find_minutes_of_tries(cluster, "openLaunches", 9)
    cluster.kube.fault = None
    (refused,) = list_claims(cluster.kube).claims
    cluster.kube.delete(kinds.PODS, "web-1", namespace="default")
    cluster.kube.delete(kinds.NODECLAIMS, refused.name)

    surveyed, _ = cluster.survey("deleted")
    assert [(each["claim"], each["reason"]) for each in surveyed["retire"]] == [(refused.name, "deleted")]
    assert retire(cluster, (refused.name, "deleted")).left_out == {}
    assert cluster.kube.all(kinds.NODES) == []
    sweep_twice(cluster)

    assert list_claims(cluster.kube).claims == ()
    assert [each["State"]["Name"] for each in cluster.ec2.instances.values()] == ["terminated"]
    assert cluster.ledger.unrecorded_launches() == []
    assert cluster.ledger.assignments() == {}


def test_a_write_that_gets_no_answer_is_repeated_twice_after_a_wait(
    cluster: SimulatedCluster, answers: KeptAnswers
) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.kube.fault = refusing("PATCH", no_answer)

    assert cluster.scale_up("up-1")

    assert [(each["again"], each["later"]) for each in answers.recorded] == [(True, True), (True, True), (False, False)]
    assert len(claims_by_state(cluster)[0]) == 1

    answers.recorded.clear()
    cluster.now += timedelta(minutes=1)
    cluster.sweep("up-sweep")
    assert [(each["again"], each["later"]) for each in answers.recorded] == [(False, False)]


def test_a_launch_that_two_passes_record_counts_once(cluster: SimulatedCluster, answers: KeptAnswers) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.kube.fault = refusing("PATCH", forbidden)
    cluster.scale_up("up-1")
    assert answers.total("launched") == 1

    cluster.kube.fault = None
    sweep_twice(cluster)

    nothing_is_left(cluster)
    assert answers.total("launched") == 2
    assert answers.total("pricePerHour") == pytest.approx(2 * answers.recorded[0]["pricePerHour"])


def test_claims_without_an_instance_that_two_passes_delete_count_once(
    cluster: SimulatedCluster, answers: KeptAnswers
) -> None:
    cluster.prepare(pending("db-1", cpu="3"), pending("db-2", cpu="3"))
    cluster.ec2.short = {("m5.xlarge", zone) for zone in ("us-east-1a", "us-east-1b")}
    cluster.kube.fault = refusing("DELETE", forbidden)
    cluster.scale_up("up-1")
    assert answers.total("short") == 1

    cluster.kube.fault = None
    sweep_twice(cluster)

    assert list_claims(cluster.kube).claims == ()
    assert answers.total("short") == 2
