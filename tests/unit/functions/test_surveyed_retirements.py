"""Retirements that a sweep requests or continues: of empty nodes, and of claims that no running execution retires."""

from collections.abc import Sequence
from typing import Any

import pytest

from functions.survey_instances import handler as survey_instances
from functions.survey_instances.optional_calls import OptionalCalls
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.orphan_records import Absences, Impairments
from joiner.adapters.payload import Execution, Task
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason, RetirementRequest
from joiner.pools import NodeClaim
from tests.unit.functions.retirement_execution import RetirementExecution, express_arn
from tests.unit.functions.retirement_execution import arn as retire_arn
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CLUSTER, pending
from tests.unit.functions.sweeping import (
    claims,
    end_pods,
    looked,
    memory,
    retired,
    stand,
)


@pytest.fixture
def standing(cluster: SimulatedCluster) -> SimulatedCluster:
    return stand(cluster)


def test_an_empty_node_is_remembered_asked_for_once_for_its_time_and_forgotten_when_a_pod_comes(
    standing: SimulatedCluster,
) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)

    _, first = looked(standing, 1)
    at = int(standing.now.timestamp())
    _, second = looked(standing, 2, after=20)

    assert first["retire"] == [
        {"claim": claim.name, "reason": "empty", "instance": claim.instance_id, "notBefore": at + 30}
    ]
    assert second["retire"] == []
    assert memory(standing, EmptyNodes).all()[claim.name].since == at

    standing.kube.put(
        {**pending("new"), "spec": {"nodeName": claim.node_name, "containers": []}, "status": {"phase": "Running"}}
    )
    assert retired(looked(standing, 3)[1]) == []
    assert memory(standing, EmptyNodes).all() == {}


def test_the_start_of_emptiness_is_kept_as_long_as_the_node_is_empty(standing: SimulatedCluster) -> None:
    """A pool may keep empty nodes for ten days. Earlier versions let the record expire after a week."""
    ten_days = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "240h", "budgets": [{"nodes": "100%"}]}
    standing.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": ten_days}})
    claim = claims(standing)[0]
    end_pods(standing, claim)
    emptiness, since = memory(standing, EmptyNodes), int(standing.now.timestamp())
    emptiness._update(
        "EMPTY", claim.name, "SET since = :now, expires = :end", {":now": since, ":end": since + 7 * 24 * 3600}
    )

    looked(standing, 1)

    assert [item.get("expires") for item in emptiness._query("EMPTY")] == [None]
    assert emptiness.all()[claim.name].since == since
    assert retired(looked(standing, 2, after=10 * 24 * 3600)[0]) == [(claim.name, "empty")]


def test_a_retirement_of_an_empty_node_that_never_began_is_asked_for_again(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)
    looked(standing, 1)

    _, later = looked(standing, 2, after=61)

    assert later["retire"] == [{"claim": claim.name, "reason": "empty", "instance": claim.instance_id, "notBefore": 0}]


def test_a_repeated_survey_requests_the_same_retirements(standing: SimulatedCluster) -> None:
    end_pods(standing, claims(standing)[0])

    first, second = (standing.survey("s1")[0] for _ in range(2))

    assert first["retire"] == second["retire"] != []


def test_a_pod_that_cannot_be_read_keeps_its_node(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)
    strange = {**pending("strange"), "status": {"phase": "Running"}}
    strange["spec"] = {
        "nodeName": claim.node_name,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "a lot"}}}],
    }
    standing.kube.put(strange)

    assert looked(standing, 1)[0]["retire"] == []


def test_a_claim_is_left_to_the_execution_that_retires_it_while_that_runs(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    standing.kube.delete(kinds.NODECLAIMS, claim.name)
    memory(standing, Retirements).begin(claim.name, arn("retire-1"), "deleted", int(standing.now.timestamp()))

    surveyed, instances = looked(standing, 1)
    assert (retired(surveyed), retired(instances)) == ([(claim.name, "deleted")], [])

    standing.dead.add(arn("retire-1"))
    _, freed = looked(standing, 2)
    assert (retired(freed), freed["endedRetirements"]) == ([(claim.name, "deleted")], 1)
    assert memory(standing, Retirements).of(claim.name).owner == ""


def begin_express_retirement(cluster: SimulatedCluster) -> NodeClaim:
    """Make one pass of an Express execution over a claim whose node is empty, and return the claim."""
    claim = claims(cluster)[0]
    end_pods(cluster, claim)
    request = RetirementRequest(claim.name, RetirementReason.EMPTY)
    RetirementExecution(cluster, "retire-1", express=True).run(request, passes=1)
    return claim


def test_an_empty_node_that_did_not_go_in_time_is_retired_on_as_deleted_once_its_express_execution_has_ended(
    standing: SimulatedCluster,
) -> None:
    """No API shows whether an Express execution runs: its own record decides."""
    claim = begin_express_retirement(standing)

    for number in range(14):
        memory(standing, Retirements).see([claim.name], express_arn("retire-1"), int(standing.now.timestamp()))
        assert retired(looked(standing, number, after=20)[1]) == []
    _, freed = looked(standing, 14, after=20)  # five minutes after its start
    assert (retired(freed), freed["endedRetirements"]) == ([(claim.name, "deleted")], 1)

    RetirementExecution(standing, "retire-2").run(RetirementRequest(claim.name, RetirementReason.DELETED))
    assert claim.name not in [each.name for each in claims(standing)]
    assert standing.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"
    assert memory(standing, Retirements).all() == {}


def test_an_express_execution_that_has_not_looked_for_minutes_is_followed_before_its_time_is_over(
    standing: SimulatedCluster,
) -> None:
    claim = begin_express_retirement(standing)

    assert retired(looked(standing, 1, after=170)[1]) == []
    assert retired(looked(standing, 2, after=10)[1]) == [(claim.name, "deleted")]


def test_a_lease_of_an_express_execution_is_broken_when_it_has_run_out_and_no_sooner(
    standing: SimulatedCluster,
) -> None:
    until = int(standing.now.timestamp()) + 70
    asked = {":me": express_arn("retire-1"), ":until": until, ":number": 9}
    standing.ledger._update("LEASE", "scale-up", "SET holder = :me, leaseUntil = :until, leaseNumber = :number", asked)

    assert not looked(standing, 1)[1]["leaseBroken"]
    assert looked(standing, 2)[1]["leaseBroken"]
    assert standing.ledger.lease().holder == ""


def blocked_until_its_execution_ended(cluster: SimulatedCluster, name: str) -> NodeClaim:
    """Return a node whose pod is protected by its budget; the execution has ended and recorded that."""
    claim = claims(cluster)[0]
    cluster.kube.held.update(each["metadata"]["name"] for each in cluster.kube.all(kinds.PODS))
    RetirementExecution(cluster, name).run(RetirementRequest(claim.name, RetirementReason.DELETED), passes=2)
    cluster.ended.add(retire_arn(name))
    return claim


def test_a_retirement_that_ended_for_what_keeps_its_node_rests_before_the_next_one_and_longer_each_time(
    standing: SimulatedCluster,
) -> None:
    rests = []
    for turn in range(1, 4):
        claim, ended = blocked_until_its_execution_ended(standing, f"retire-{turn}"), standing.now
        while not retired(looked(standing, turn, after=10)[1]):
            pass
        rests.append((standing.now - ended).total_seconds())
        assert claim.name in memory(standing, Retirements).all()

    assert rests == [70, 130, 250]  # the first survey releases it


def test_nothing_rests_whose_deadline_is_near_whose_instance_is_gone_or_whose_execution_died(
    standing: SimulatedCluster,
) -> None:
    claim = blocked_until_its_execution_ended(standing, "retire-1")
    assert retired(looked(standing, 1, after=10)[1]) == []

    memory(standing, Retirements).hurry(
        claim.name, "spot", int(standing.now.timestamp()) + 300, int(standing.now.timestamp())
    )
    assert retired(looked(standing, 2, after=1)[1]) == [(claim.name, "spot")]

    other = blocked_until_its_execution_ended(standing, "retire-2")
    standing.ec2.instances[other.instance_id]["State"] = {"Name": "terminated"}
    assert retired(looked(standing, 3, after=1)[1]) == [(other.name, "lost")]


def test_a_retirement_that_ended_while_its_pods_were_leaving_goes_on_at_once(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    RetirementExecution(standing, "retire-1").run(RetirementRequest(claim.name, RetirementReason.DELETED), passes=1)
    standing.ended.add(retire_arn("retire-1"))

    assert retired(looked(standing, 1, after=10)[1]) == [(claim.name, "deleted")]


def test_a_retirement_that_was_noted_and_never_begun_is_begun_by_the_sweep(standing: SimulatedCluster) -> None:
    """The spot warning was noted, and its handler failed before it started a retirement."""
    claim = claims(standing)[0]
    memory(standing, Retirements).hurry(
        claim.name, "spot", int(standing.now.timestamp()) + 120, int(standing.now.timestamp())
    )

    assert retired(looked(standing, 1)[1]) == [(claim.name, "spot")]


def test_of_several_reasons_the_most_urgent_one_counts(standing: SimulatedCluster) -> None:
    """A node that was closed when it was empty seems half retired, and its spot instance is about to be interrupted."""
    claim = claims(standing)[0]
    retirements, now = memory(standing, Retirements), int(standing.now.timestamp())
    standing.kube.patch(
        kinds.NODES, claim.node_name, {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}
    )
    for reason in ("empty", "spot"):
        retirements.hurry(claim.name, reason, 0, now)
    assert retired(looked(standing, 1)[1]) == [(claim.name, "spot")]

    standing.ec2.instances[claim.instance_id]["State"] = {"Name": "stopping"}
    assert retired(looked(standing, 2)[1]) == [(claim.name, "lost")]


def test_of_more_claims_than_a_sweep_retires_the_least_urgent_ones_wait(standing: SimulatedCluster) -> None:
    """The claims that wait are those of the first reasons in the order of the checks otherwise: lost ones come last."""
    lost, noted, empty = claims(standing)
    end_pods(standing, empty)
    standing.ec2.instances[lost.instance_id]["State"] = {"Name": "terminated"}
    memory(standing, Retirements).hurry(noted.name, "maintenance", 0, int(standing.now.timestamp()))
    asked = [RetirementRequest(f"asked-{number:03}", RetirementReason.EXPIRED) for number in range(RETIRED_AT_ONCE)]

    found = retired(surveyed_with(standing, asked))

    assert len(found) == RETIRED_AT_ONCE
    assert found[:2] == [(lost.name, "lost"), (noted.name, "maintenance")]
    assert found[2:] == [(each.claim, "expired") for each in asked[: RETIRED_AT_ONCE - 2]]


def surveyed_with(cluster: SimulatedCluster, asked: Sequence[RetirementRequest]) -> dict[str, Any]:
    """Run the survey of instances with these requests of the survey of the cluster, besides its own."""
    surveyed, _ = looked(cluster, 1)
    own = [RetirementRequest.from_json(each) for each in surveyed["retire"]]
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)
    kinds_of_records = (Retirements, Absences, Impairments, Disruptions)
    records = survey_instances.InstanceRecords(cluster.ledger, *(memory(cluster, each) for each in kinds_of_records))
    ec2, store = Ec2(cluster.ec2), cluster.store
    parts = (records, cluster, ec2, store, OptionalCalls(ec2, store))
    survey = survey_instances.InstanceSurveying(*parts, clock=lambda: cluster.now)
    return survey.answer(task, survey_instances.ClusterFindings(surveyed["survey"], [*own, *asked]))


def test_a_loss_that_was_noted_is_none_any_more_if_the_instance_runs(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    memory(standing, Retirements).hurry(claim.name, "lost", 0, int(standing.now.timestamp()))

    assert retired(looked(standing, 1)[1]) == []


def test_a_loss_is_recorded_for_the_execution_that_retires_the_claim(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    retirements = memory(standing, Retirements)
    retirements.begin(claim.name, arn("retire-1"), "deleted", int(standing.now.timestamp()))
    standing.ec2.instances[claim.instance_id]["State"] = {"Name": "terminated"}

    assert retired(looked(standing, 1)[1]) == []
    assert retirements.of(claim.name).reasons == ("deleted", "lost")


def test_a_retirement_of_a_claim_that_is_gone_is_not_continued(standing: SimulatedCluster) -> None:
    memory(standing, Retirements).hurry("gone", "spot", 0, int(standing.now.timestamp()))

    assert retired(looked(standing, 1)[1]) == []
