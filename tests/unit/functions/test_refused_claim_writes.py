"""An API server that refuses one write of a claim, as by an admission policy, keeps no other claim from its node."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters.kube_claims import list_claims
from joiner.adapters.kube_errors import Forbidden, Invalid, KubeError, Unreachable
from joiner.pools import NodeClaim
from tests.unit.functions.fake_kube import Fault
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.small_account import pending
from tests.unit.functions.test_scale_up import reasons

POLICY = "denied the request: every node needs a cost center"


def refusing(method: str, error: Callable[[], KubeError], *, claims: int = 1, times: int = 1000) -> Fault:
    """Refuse a method for the first `claims` NodeClaims that are asked for, so many times."""
    chosen: list[str] = []
    refusals: list[str] = []

    def answer(called: str, path: str, do: Any) -> Any:
        _, found, name = path.partition("/nodeclaims/")
        if called != method or not found or len(refusals) >= times:
            return do()
        name = name.partition("/")[0]
        if name not in chosen and len(chosen) < claims:
            chosen.append(name)
        if name not in chosen:
            return do()
        refusals.append(path)
        raise error()

    return answer


def claims_by_state(cluster: SimulatedCluster) -> tuple[list[NodeClaim], list[NodeClaim]]:
    """Return the claims whose node takes pods, and the others."""
    claims = list_claims(cluster.kube).claims
    return [one for one in claims if one.initialized], [one for one in claims if not one.initialized]


def sweep_twice(cluster: SimulatedCluster) -> None:
    for number in (1, 2):
        cluster.now += timedelta(seconds=60)
        cluster.sweep(f"up-sweep-{number}")


@pytest.mark.parametrize(
    "error", [lambda: Forbidden(POLICY, status=403), lambda: Invalid(POLICY, status=422)], ids=["403", "422"]
)
def test_a_refused_write_of_one_claim_keeps_no_other_launch_from_its_nodes(
    cluster: SimulatedCluster, error: Callable[[], KubeError]
) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"), pending("db-1", cpu="3"))
    cluster.kube.fault = refusing("PATCH", error)

    assert cluster.scale_up("up-1")

    joined, (refused,) = claims_by_state(cluster)
    assert len(joined) == 2
    assert [refused.name in launch.claims for launch in cluster.ledger.unrecorded_launches()] == [True]
    assert "LaunchNotRecorded" in reasons(cluster, "NodeClaim", refused.name)
    recorded = cluster.answers["record_launches"]
    assert (recorded["launched"], recorded["waiting"], recorded["again"]) == (2, 2, False)

    cluster.scale_up("up-2")  # pods of other nodes get theirs while the policy refuses
    cluster.kube.put(pending("late-1"))
    cluster.scale_up("up-3")
    assert len(claims_by_state(cluster)[0]) == 3

    cluster.kube.fault = None
    sweep_twice(cluster)
    nothing_is_left(cluster)


def test_a_refused_deletion_of_a_claim_without_an_instance_keeps_no_other_launch_from_its_nodes(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"), pending("db-1", cpu="3"))
    cluster.ec2.short = {("m5.xlarge", zone) for zone in ("us-east-1a", "us-east-1b")}
    cluster.kube.fault = refusing("DELETE", lambda: Forbidden(POLICY, status=403))

    assert cluster.scale_up("up-1")

    (joined,), (refused,) = claims_by_state(cluster)
    assert joined.instance_type == "m5.large"
    assert [launch.claims for launch in cluster.ledger.unrecorded_launches()] == [(refused.name,)]
    assert "LaunchNotRecorded" in reasons(cluster, "NodeClaim", refused.name)
    assert cluster.answers["record_launches"]["again"] is False

    cluster.kube.fault = None
    cluster.ec2.short = set()
    cluster.now += timedelta(minutes=4)
    sweep_twice(cluster)
    nothing_is_left(cluster)


def test_a_write_without_an_answer_is_repeated_by_the_same_scale_up(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.kube.fault = refusing("PATCH", lambda: Unreachable("no answer"), times=1)

    assert cluster.scale_up("up-1")

    nothing_is_left(cluster)
    assert len(claims_by_state(cluster)[0]) == 2
    for claim in list_claims(cluster.kube).claims:
        assert "LaunchNotRecorded" not in reasons(cluster, "NodeClaim", claim.name)


@pytest.mark.parametrize(
    "error", [lambda: Forbidden(POLICY, status=403), lambda: Unreachable("no answer")], ids=["403", "no answer"]
)
def test_a_refused_deletion_of_a_claim_that_was_never_launched_stops_no_scale_up(
    cluster: SimulatedCluster, error: Callable[[], KubeError]
) -> None:
    cluster.prepare(pending("web-1"), pending("db-1", cpu="3"))
    cluster.stop_after = "record_node_claims"
    cluster.scale_up("up-1")  # two claims, none of which is launched
    never_launched = {claim.name for claim in list_claims(cluster.kube).claims}
    cluster.stop_after = ""
    cluster.now += timedelta(minutes=5)
    cluster.kube.fault = refusing("DELETE", error)

    assert cluster.scale_up("up-2")

    joined, (refused,) = claims_by_state(cluster)
    assert refused.name in never_launched
    assert len(joined) == 2
    assert not never_launched & {claim.name for claim in joined}
    assert refused.name in cluster.ledger.assignments()  # by which the next pass finds it
    assert ("ClaimNotDeleted" in reasons(cluster, "NodeClaim", refused.name)) is isinstance(error(), Forbidden)

    cluster.kube.fault = None
    sweep_twice(cluster)
    nothing_is_left(cluster)


def test_a_claim_whose_deletion_lost_its_answer_leaves_no_assignment(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), pending("db-1", cpu="3"))
    cluster.stop_after = "record_node_claims"
    cluster.scale_up("up-1")  # two claims, none of which is launched
    never_launched = {claim.name for claim in list_claims(cluster.kube).claims}
    cluster.stop_after = ""
    cluster.now += timedelta(minutes=5)

    def lose_answers(called: str, path: str, do: Any) -> Any:
        done = do()
        if called == "PATCH" and path.rpartition("/")[2] in never_launched:
            raise Unreachable("no answer")
        return done

    cluster.kube.fault = lose_answers

    assert cluster.scale_up("up-2")

    joined, others = claims_by_state(cluster)
    assert (len(joined), others) == (2, [])
    assert not never_launched & cluster.ledger.assignments().keys()
