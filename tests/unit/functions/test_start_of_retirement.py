"""When a retirement may begin: empty nodes under the lease, and claims that are launched or protected."""

from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from tests.unit.functions.grown_cluster import (
    add_node,
    claims,
    empty,
    evictions,
    first,
    grow,
    lease_values,
    node_of,
    nothing_is_left_of,
    pods_on,
    running,
    written,
)
from tests.unit.functions.retirement_execution import RetirementExecution, retire
from tests.unit.functions.simulated_cluster import SimulatedCluster


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    return grow(cluster)


def test_an_empty_node_goes_under_the_lease_and_one_that_is_not_empty_stays(grown: SimulatedCluster) -> None:
    gone, stays = claims(grown)
    empty(grown, gone)

    done = retire(grown, (gone.name, "empty"), (stays.name, "empty"))

    nothing_is_left_of(grown, gone)
    assert done.left_out == {stays.name: "its node is not empty"}
    assert node_of(grown, stays)["spec"]["taints"] == []
    assert not claims(grown)[0].deleting
    assert grown.ledger.lease().holder == ""


@pytest.mark.parametrize(
    "met", ["begin_retirement", "evict_pods", "terminate_instances", "confirm_termination", "forget_nodes", "nothing"]
)
def test_an_express_execution_that_runs_twice_at_one_time_or_once_more_harms_nothing(
    grown: SimulatedCluster, met: str
) -> None:
    """The second run of the execution runs completely before a state of the first, or after all of its states."""
    claim, other = claims(grown)
    empty(grown, claim)
    went: list[RetirementExecution] = []

    def the_other_run(state: str) -> None:
        if state == met and not went:
            went.append(retire(grown, (claim.name, "empty"), (other.name, "empty"), express=True))

    retire(grown, (claim.name, "empty"), (other.name, "empty"), express=True, before_state=the_other_run)
    the_other_run(met)

    nothing_is_left_of(grown, claim)
    assert went[0].left_out[other.name] == "its node is not empty"
    assert claims(grown) == [other]
    assert node_of(grown, other)["spec"]["taints"] == []
    assert grown.ec2.instances[other.instance_id]["State"]["Name"] == "running"
    assert grown.ledger.lease().holder == ""


def test_a_pod_that_lands_before_the_node_is_closed_takes_the_retirement_back(grown: SimulatedCluster) -> None:
    claim = first(grown)
    empty(grown, claim)
    before = node_of(grown, claim)["metadata"]["labels"]

    def lands_on_the_taint(method: str, path: str, do: Any) -> Any:
        answer = do()
        if method == "PATCH" and path.endswith(claim.node_name) and not pods_on(grown, claim.node_name):
            grown.kube.put(running({"name": "late"}, claim.node_name))
        return answer

    grown.kube.fault = lands_on_the_taint
    done = retire(grown, (claim.name, "empty"))
    grown.kube.fault = None

    assert done.left_out == {claim.name: "its node is not empty"}
    node = node_of(grown, claim)
    assert (node["spec"]["taints"], node["metadata"]["labels"]) == ([], before)
    assert not first(grown).deleting
    assert RetirementExecution(grown, "").retirements.all()[claim.name].owner == ""


@pytest.mark.parametrize("where", ["claim", "node"])
def test_a_node_that_must_not_be_disrupted_stays_although_it_is_empty(grown: SimulatedCluster, where: str) -> None:
    claim = first(grown)
    empty(grown, claim)
    target = node_of(grown, claim) if where == "node" else grown.kube.objects["nodeclaims", "", claim.name]
    target["metadata"].setdefault("annotations", {})["karpenter.sh/do-not-disrupt"] = "true"
    named = {"claim": "NodeClaim"}.get(where, where)

    done = retire(grown, (claim.name, "empty"))

    assert done.left_out == {claim.name: f"the {named} has the annotation karpenter.sh/do-not-disrupt"}


def test_an_empty_node_stays_for_a_pod_that_has_to_leave_another(grown: SimulatedCluster) -> None:
    leaving, emptied = claims(grown)
    [pod] = pods_on(grown, leaving.node_name)
    grown.kube.held.add(pod)
    retire(grown, (leaving.name, "deleted"), passes=2)
    empty(grown, emptied)

    done = retire(grown, (emptied.name, "empty"), name="retire-2")

    assert done.left_out == {emptied.name: f"pod default/{pod} has to move and may want its node"}


def test_a_pod_that_has_to_leave_keeps_one_empty_node_and_not_all_that_it_fits_and_not_for_ever(
    grown: SimulatedCluster,
) -> None:
    grown.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}})
    leaving, emptied = claims(grown)
    [pod] = pods_on(grown, leaving.node_name)
    grown.kube.held.add(pod)
    retire(grown, (leaving.name, "deleted"), passes=2)
    empty(grown, emptied)
    add_node(grown, "default-3", "i-0003", "node-3")

    done = retire(grown, ("default-3", "empty"), (emptied.name, "empty"), name="retire-2")

    assert done.left_out == {emptied.name: f"pod default/{pod} has to move and may want its node"}
    assert [each["claim"] for each in done.entries] == ["default-3"]

    grown.now += timedelta(minutes=10)
    assert not retire(grown, (emptied.name, "empty"), name="retire-3").left_out


def test_what_is_voluntary_does_not_begin_without_the_lease(grown: SimulatedCluster) -> None:
    claim = first(grown)
    empty(grown, claim)
    execution = RetirementExecution(grown, "retire-1")

    begun = execution._begin([RetirementRequest(claim.name, RetirementReason.EMPTY)], 0)

    assert begun["skipped"] == [{"claim": claim.name, "why": "it needs the lease"}]


def test_a_claim_that_may_still_be_launched_is_left_to_the_next_sweep(cluster: SimulatedCluster) -> None:
    claim = written(cluster)
    cluster.machine._update(
        "LEASE", "scale-up", "SET holder = :me, leaseUntil = :until, leaseNumber = :number", lease_values(cluster)
    )

    done = retire(cluster, (claim.name, "deleted"))

    assert done.left_out == {claim.name: "it may still be launched"}
    assert not first(cluster).deleting


def test_a_claim_that_was_never_launched_just_goes(cluster: SimulatedCluster) -> None:
    claim = written(cluster)
    cluster.machine._update(
        "LEASE", "scale-up", "SET holder = :me, leaseUntil = :until, leaseNumber = :number", lease_values(cluster)
    )
    cluster.now += timedelta(minutes=5)  # its lease has expired

    done = retire(cluster, (claim.name, "deleted"))

    assert done.entries[0]["stage"] == "forgotten"
    assert claims(cluster) == []


def test_beside_karpenter_nothing_begins(grown: SimulatedCluster) -> None:
    claim = first(grown)
    lease = {"holderIdentity": "karpenter-0", "renewTime": f"{grown.now:%Y-%m-%dT%H:%M:%S}.000000Z"}
    grown.kube.put(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
            "spec": lease,
        }
    )

    done = retire(grown, (claim.name, "deleted"))

    assert done.left_out == {claim.name: "KarpenterRuns"}
    assert not first(grown).deleting


def test_the_node_with_the_largest_pod_is_drained_first(grown: SimulatedCluster) -> None:
    grown.kube.objects["pods", "default", "web-2"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1800m"}
    small, large = claims(grown)

    retire(grown, (small.name, "deleted"), (large.name, "deleted"))

    assert [pod for asked in evictions(grown) for pod in ("web-1", "web-2") if pod in asked] == ["web-2", "web-1"]
