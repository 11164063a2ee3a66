"""Which requested retirements may begin: claims, their nodes, and the rules of one reading of cluster and ledger."""

from dataclasses import replace

import pytest

from joiner.cluster.taints import DISRUPTED_TAINT
from joiner.lifecycle.disruption_progress import as_disrupted
from joiner.lifecycle.retirement import RetirementContext, RetirementReason, RetirementRequest
from joiner.lifecycle.retirement_candidates import (
    NodeListing,
    RetirementCandidate,
    RetirementRules,
    find_launching_claims,
    read_pods,
)
from tests.unit.lifecycle.joining_nodes import NOON, claim, node, node_manifest, pod, pod_manifest

CLAIM = claim("a")
EMPTY = RetirementRequest("a", RetirementReason.EMPTY)
DELETED = RetirementRequest("a", RetirementReason.DELETED)


def listing(*manifests: dict[str, object], readable: bool = True) -> NodeListing:
    nodes = [node("node-1", taints=[])] if readable else []
    return NodeListing.of({"a": CLAIM}, nodes, manifests or (node_manifest("node-1"),))


def rules(*, leased: bool, pods: tuple[dict[str, object], ...] = ()) -> RetirementRules:
    return RetirementRules(RetirementContext(NOON, pods=tuple(read_pods(pods))), {"node-1": pods}, leased)


def test_a_claim_has_the_node_of_its_instance() -> None:
    assert listing().find_candidates([EMPTY]) == [RetirementCandidate(EMPTY, CLAIM, node("node-1", taints=[]))]


def test_a_node_without_an_instance_belongs_to_the_claim_that_owns_it() -> None:
    manifest = node_manifest("node-1", provider_id="")
    manifest["metadata"]["ownerReferences"] = [{"kind": "NodeClaim", "name": "a"}]
    found = NodeListing.of({"a": CLAIM}, [node("node-1", provider_id="")], [manifest]).find_candidates([EMPTY])

    assert [each.node and each.node.name for each in found] == ["node-1"]


def test_a_claim_is_not_retired_while_its_node_cannot_be_read() -> None:
    (candidate,) = listing(readable=False).find_candidates([DELETED])

    assert (candidate.node, candidate.unreadable) == (None, "node-1")
    assert rules(leased=False).objection(candidate) == "its node node-1 cannot be read"


def test_a_voluntary_retirement_needs_the_lease_and_others_do_not() -> None:
    (empty, deleted) = listing().find_candidates([EMPTY, DELETED])

    assert rules(leased=False).objection(empty) == "it needs the lease"
    assert rules(leased=False).objection(deleted) == ""
    assert rules(leased=True).objection(empty) == ""


def test_a_claim_that_is_already_deleted_needs_no_lease() -> None:
    candidate = RetirementCandidate(EMPTY, replace(CLAIM, deletion=NOON), node("node-1", taints=[]))

    assert not candidate.voluntary


@pytest.mark.parametrize(
    ("chosen", "marked", "reason"),
    [
        ("Expired", True, RetirementReason.AGED),
        ("Expired", False, RetirementReason.EXPIRED),
        ("Underutilized", True, RetirementReason.EXPIRED),
        ("", True, RetirementReason.EXPIRED),
    ],
)
def test_an_expired_node_that_disrupt_chose_for_its_age_is_retired_gracefully(
    chosen: str, marked: bool, reason: RetirementReason
) -> None:
    """As an execution of an earlier version requests it."""
    its = as_disrupted(CLAIM, chosen, "", at=NOON) if chosen else CLAIM
    one = node("node-1", taints=[DISRUPTED_TAINT.to_kube()] if marked else [])
    requested = RetirementRequest("a", RetirementReason.EXPIRED)

    (found,) = NodeListing.of({"a": its}, [one], [node_manifest("node-1")]).find_candidates([requested])

    assert found.request == replace(requested, reason=reason)
    assert found.voluntary is (reason is RetirementReason.AGED)


def test_a_pod_that_was_bound_before_the_taint_stops_a_voluntary_retirement() -> None:
    (candidate,) = listing().find_candidates([EMPTY])
    bound = [pod_manifest("web", on="node-1")]

    assert rules(leased=True).objection_after_taint(candidate, []) == ""
    assert rules(leased=True).objection_after_taint(candidate, bound) == "its node is not empty"


def test_pods_of_the_node_that_have_a_controller_move() -> None:
    (candidate,) = listing().find_candidates([DELETED])
    pods = (pod_manifest("web", on="node-1"), pod_manifest("agent", on="node-1", owner="DaemonSet"))

    assert rules(leased=False, pods=pods).count_moving_pods(candidate, CLAIM, 0, NOON) == 1


def test_a_pod_that_cannot_be_read_still_counts_as_a_pod_of_its_node() -> None:
    broken = pod_manifest("web", cpu="many", on="node-1")
    (found,) = read_pods([broken])

    assert (found.key, found.node_name, found.phase) == ("default/web", "node-1", "Running")
    assert read_pods([pod_manifest("web")]) == [pod("web")]


def test_claims_may_still_be_launched_if_a_launch_is_open_or_the_holder_of_the_lease_wrote_them() -> None:
    written = replace(claim("b", provider_id=""), annotations={"joiner.dev/lease": "3"})
    claims = [CLAIM, written]

    assert find_launching_claims(claims, ["c"], 3) == {"b", "c"}
    assert find_launching_claims(claims, ["c"], 4) == {"c"}
    assert find_launching_claims(claims, ["c"], 0) == {"c"}
