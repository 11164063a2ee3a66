"""Marks of DISRUPT beside sweeps, retirements and failed writes: none is removed early, and none is left."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import Forbidden
from joiner.disruption.proposal import DisruptionAction
from joiner.names import EXCLUDE_FROM_LOAD_BALANCERS
from tests.unit.functions.disruption_execution import ARN, REMOVED, is_tainted, marked, reason_of, records, settled
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster

Answer = Callable[[], dict[str, Any]]


def before_first(cluster: SimulatedCluster, method: str, ending: str, act: Callable[[], object]) -> None:
    """Before the first call of the API server whose path has this ending, do something else."""

    def fault(its_method: str, path: str, answer: Answer) -> dict[str, Any]:
        if its_method == method and path.endswith(ending):
            cluster.kube.fault = None
            act()
        return answer()

    cluster.kube.fault = fault


def mark_and_release(cluster: SimulatedCluster, action: DisruptionAction = REMOVED) -> None:
    marked(cluster, action)
    cluster.machine.break_lease(ARN, 1)


def exclude(cluster: SimulatedCluster, node: str) -> None:
    """Exclude the node from load balancers, as a retirement does that stops after that."""
    cluster.kube.patch(kinds.NODES, node, {"metadata": {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}}})


def is_excluded(cluster: SimulatedCluster, node: str) -> bool:
    return EXCLUDE_FROM_LOAD_BALANCERS in cluster.kube.objects["nodes", "", node]["metadata"].get("labels", {})


@pytest.mark.parametrize("listed", ["/nodes", "/nodeclaims", "/pods"])
def test_a_sweep_leaves_alone_what_is_marked_while_it_lists(grown: SimulatedCluster, listed: str) -> None:
    before_first(grown, "GET", listed, lambda: mark_and_release(grown))

    surveyed, _ = grown.survey("s1")

    assert is_tainted(grown, "node-1")
    assert surveyed["retire"] == []
    assert surveyed["disruption"]["executions"] == [ARN]


def test_a_sweep_leaves_alone_what_is_settled_while_it_lists(grown: SimulatedCluster) -> None:
    """The node was listed with its taint, which is removed with its record before the records are read again."""
    mark_and_release(grown)

    def refuse_and_settle() -> None:
        settled(grown)
        grown.kube.objects["nodes", "", "node-1"]["spec"]["taints"] = []
        settled(grown)

    before_first(grown, "GET", "/pods", refuse_and_settle)

    assert grown.survey("s1")[0]["retire"] == []
    assert records(grown).all() == []


def test_a_request_for_an_empty_node_does_not_open_a_node_that_disrupt_has_marked(grown: SimulatedCluster) -> None:
    mark_and_release(grown)
    exclude(grown, "node-1")

    done = retire(grown, ("default-1", "empty"))

    assert done.left_out == {"default-1": "its node is not empty"}
    assert (is_tainted(grown, "node-1"), reason_of(grown, "default-1")) == (True, "Underutilized")
    assert not is_excluded(grown, "node-1"), "its pods serve until their retirement"
    assert [each["claim"] for each in settled(grown)["retire"]] == ["default-1"]


@pytest.mark.parametrize(("claim", "stays"), [("default-1", True), ("default-2", False)], ids=["mine", "another"])
def test_a_record_that_cannot_be_read_keeps_the_marks_of_its_own_claims_only(
    grown: SimulatedCluster, claim: str, stays: bool
) -> None:
    mark_and_release(grown)
    [record] = records(grown).all()
    values = {":since": "noon", ":claims": (claim,)}
    records(grown)._update("DISRUPTION", record.id, "SET since = :since, claims = :claims", values)

    retire(grown, ("default-1", "empty"))

    assert is_tainted(grown, "node-1") == stays


def test_a_node_with_a_taint_of_no_disruption_is_opened(grown: SimulatedCluster) -> None:
    mark_and_release(grown)
    [record] = records(grown).all()
    records(grown).end(record.id)
    exclude(grown, "node-1")
    [due] = grown.survey("s1")[0]["retire"]

    retire(grown, (due["claim"], due["reason"]))

    assert (is_tainted(grown, "node-1"), is_excluded(grown, "node-1")) == (False, False)


@pytest.mark.parametrize(
    ("disruption", "annotation", "why"),
    [
        ({"consolidateAfter": "Never"}, "", "NodePool/default keeps empty nodes"),
        (
            {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"},
            "true",
            "its node has the annotation karpenter.sh/do-not-consolidate",
        ),
    ],
)
def test_an_empty_node_with_a_taint_of_no_disruption_is_opened_if_its_pool_keeps_it(
    grown: SimulatedCluster, disruption: dict[str, str], annotation: str, why: str
) -> None:
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": disruption}})
    mark_and_release(grown)
    [record] = records(grown).all()
    records(grown).end(record.id)
    del grown.kube.objects["pods", "default", "web-1"]
    grown.kube.objects["nodes", "", "node-1"]["metadata"]["annotations"] = {
        "karpenter.sh/do-not-consolidate": annotation
    }
    [due] = grown.survey("s1")[0]["retire"]

    done = retire(grown, (due["claim"], due["reason"]))

    assert done.left_out == {"default-1": why}
    assert not is_tainted(grown, "node-1")


def test_a_marked_node_that_must_not_be_consolidated_meanwhile_stays(grown: SimulatedCluster) -> None:
    mark_and_release(grown)
    grown.kube.objects["nodes", "", "node-1"]["metadata"]["annotations"] = {"karpenter.sh/do-not-consolidate": "true"}

    done = retire(grown, ("default-1", "consolidated"))

    assert done.left_out == {"default-1": "the node has the annotation karpenter.sh/do-not-consolidate"}


def test_a_mark_that_is_undone_leaves_no_condition(grown: SimulatedCluster) -> None:
    """The condition of one claim is written, that of the other one is refused."""
    both = replace(REMOVED, claims=("default-1", "default-2"), moves={"default/web-1": "n", "default/web-2": "n"})
    refused: list[str] = []

    def refuses_once(method: str, path: str, answer: Answer) -> dict[str, Any]:
        if method == "PATCH" and path.endswith("/nodeclaims/default-2/status") and not refused:
            refused.append(path)
            raise Forbidden("as the test says")
        return answer()

    grown.kube.fault = refuses_once

    assert marked(grown, both)["marked"] == []
    assert len(refused) == 1
    assert [reason_of(grown, name) for name in both.claims] == ["", ""]
    assert [is_tainted(grown, name) for name in ("node-1", "node-2")] == [False, False]
    assert records(grown).all() == []


def test_a_condition_of_a_disruption_that_is_gone_is_found_and_removed(grown: SimulatedCluster) -> None:
    mark_and_release(grown)
    [record] = records(grown).all()
    records(grown).end(record.id)
    grown.kube.objects["nodes", "", "node-1"]["spec"]["taints"] = []
    assert grown.survey("s1")[0]["disruption"]["staleMarks"] == 1

    settled(grown)

    assert reason_of(grown, "default-1") == ""
    assert grown.survey("s2")[0]["disruption"]["staleMarks"] == 0


def test_the_condition_of_a_disruption_that_begins_meanwhile_stays(grown: SimulatedCluster) -> None:
    """The claims are listed with an old condition, and marked before the records are read again."""
    mark_and_release(grown)
    [record] = records(grown).all()
    records(grown).end(record.id)
    grown.kube.objects["nodes", "", "node-1"]["spec"]["taints"] = []
    before_first(grown, "GET", "/nodes", lambda: records(grown).begin(record))

    settled(grown)

    assert reason_of(grown, "default-1") == "Underutilized"
