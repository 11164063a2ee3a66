"""Differences between EC2 and the cluster: lost instances, instances and nodes without claims, and lost claims."""

from datetime import timedelta
from typing import Any

import pytest

from functions.collect_garbage import handler as collect_garbage
from functions.rebuild_claims import handler as rebuild_claims
from functions.survey_instances import handler as survey_instances
from functions.survey_instances.optional_calls import OptionalCalls
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.kube_claims import write_conditions
from joiner.adapters.kube_errors import Unreachable
from joiner.adapters.orphan_records import Absences, Impairments
from joiner.adapters.payload import Execution, Task
from joiner.adapters.retirements import Retirements
from joiner.item_keys import ABSENT
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CLUSTER
from tests.unit.functions.sweeping import (
    claims,
    end_pods,
    launch_of,
    looked,
    memory,
    retired,
    stand,
    without_claim,
    without_node,
)


@pytest.fixture
def standing(cluster: SimulatedCluster) -> SimulatedCluster:
    return stand(cluster)


@pytest.mark.parametrize("state", ["stopped", "terminated"])
def test_a_terminated_instance_is_lost_at_once_even_if_its_claim_was_empty(
    standing: SimulatedCluster, state: str
) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)
    standing.ec2.instances[claim.instance_id]["State"] = {"Name": state}

    assert retired(looked(standing, 1)[1]) == [(claim.name, "lost")]


def test_an_instance_that_ec2_does_not_show_is_lost_at_the_second_look(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    del standing.ec2.instances[claim.instance_id]

    assert [retired(looked(standing, number, after=after)[1]) for number, after in ((1, 60), (2, 44), (3, 1))] == [
        [],
        [],
        [(claim.name, "lost")],
    ]


def test_an_absence_is_kept_as_long_as_sweeps_find_it_with_few_writes(standing: SimulatedCluster) -> None:
    """Too many orphans are refused until a person looks at them, which may take days."""
    like = next(iter(standing.ec2.instances.values()))
    standing.ec2.instances |= {f"i-x{number}": {**like, "InstanceId": f"i-x{number}"} for number in range(6)}
    looked(standing, 1)
    since, writes = memory(standing, Absences).since(), []

    for number in range(2, 14):
        before = len(standing.machine._client.asked)
        _, found = looked(standing, number, after=4 * 3600)
        writes.append(standing.machine._client.asked[before:].count(("UpdateItem", ABSENT)))
        ends = [int(item["expires"]["N"]) for item in standing.machine._query(ABSENT)]
        assert min(ends) - standing.now.timestamp() > 8 * 3600
        assert found["refused"] == 6

    assert memory(standing, Absences).since() == since
    assert writes == [0, 0, 6] * 4


def test_an_instance_that_is_shown_again_was_never_lost(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    hidden = standing.ec2.instances.pop(claim.instance_id)
    looked(standing, 1)
    standing.ec2.instances[claim.instance_id] = hidden
    looked(standing, 2)
    del standing.ec2.instances[claim.instance_id]

    assert retired(looked(standing, 3)[1]) == []


def test_two_surveys_of_ec2_with_the_same_survey_of_the_cluster_count_as_one(standing: SimulatedCluster) -> None:
    """Both functions may start late: the instance was launched, and its claim updated, after the cluster was read."""
    claim = claims(standing)[0]
    without_claim(standing, claim)
    without_node(standing, claim)
    old, _ = standing.survey("s1")
    standing.now += timedelta(minutes=10)
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)
    module = survey_instances
    kinds_of_records = (Retirements, Absences, Impairments, Disruptions)
    parts = module.InstanceRecords(standing.ledger, *(memory(standing, each) for each in kinds_of_records))
    ec2, store = Ec2(standing.ec2), standing.store
    optional = OptionalCalls(ec2, store)
    slow = module.InstanceSurveying(parts, standing, ec2, store, optional, clock=lambda: standing.now)

    assert slow.answer(task, module.ClusterFindings(old["survey"], []))["garbage"] == []


def test_an_instance_that_has_lost_its_tags_is_there_all_the_same(standing: SimulatedCluster) -> None:
    standing.ec2.instances[claims(standing)[0].instance_id]["Tags"] = []

    assert [retired(looked(standing, number)[1]) for number in (1, 2)] == [[], []]


def test_a_read_of_ec2_that_fails_ends_nothing_and_forgets_nothing(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    del standing.ec2.instances[claim.instance_id]
    looked(standing, 1)
    known = memory(standing, Absences).since()

    def fail(operation: str, _: Any) -> Any:
        raise refused(operation, "RequestLimitExceeded")

    standing.ec2.fault = fail
    with pytest.raises(Exception, match="RequestLimitExceeded"):
        looked(standing, 2)
    assert memory(standing, Absences).since() == known != {}


def test_an_instance_without_claim_and_node_is_garbage_at_the_second_survey_and_is_terminated(
    standing: SimulatedCluster,
) -> None:
    claim = claims(standing)[0]
    without_claim(standing, claim)
    without_node(standing, claim)

    first, second = (looked(standing, number)[1]["garbage"] for number in (1, 2))
    collection = collect_garbage.GarbageCollection(standing.ledger, Ec2(standing.ec2), standing.pause)
    answer = collection.answer(CLUSTER.name, second)

    assert (first, second) == ([], [claim.instance_id])
    assert answer == {"terminated": [claim.instance_id], "refused": 0, "reasons": [], "left": 0}
    assert standing.ec2.instances[claim.instance_id]["State"] == {"Name": "terminated"}
    assert claim.instance_id not in standing.ledger.pairings([claim.instance_id])
    assert looked(standing, 3)[1]["garbage"] == []


def test_a_claim_without_a_node_goes_at_the_second_look(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    without_node(standing, claim)

    assert [retired(looked(standing, number)[1]) for number in (1, 2)] == [[], [(claim.name, "deleted")]]


def test_a_node_without_a_claim_gets_it_back_at_the_second_look(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    without_claim(standing, claim)

    (_, first), (_, second) = (looked(standing, number) for number in (1, 2))
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)
    answer = rebuild_claims.ClaimRebuilding(standing.kube).answer(task, second["rebuild"], standing.now)

    assert first["rebuild"] == []
    assert second["rebuild"] == [{"instance": claim.instance_id, "node": claim.node_name, "claim": claim.name}]
    assert answer == {"rebuilt": [claim.name], "left": []}
    (again,) = (each for each in claims(standing) if each.name == claim.name)
    assert (again.instance_id, again.node_name, again.initialized, again.pool) == (
        claim.instance_id,
        claim.node_name,
        True,
        "default",
    )
    events = [each["reason"] for each in standing.kube.all(kinds.EVENTS) if each["regarding"]["name"] == claim.name]
    assert "ClaimRebuilt" in events
    _, third = looked(standing, 3)
    assert (third["rebuild"], third["garbage"], third["retire"]) == ([], [], [])


def test_a_claim_whose_rebuilding_died_halfway_is_completed_by_a_later_sweep(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    without_claim(standing, claim)
    looked(standing, 1)
    task = Task(Execution("sweep", arn("sweep"), ""), CLUSTER, 0, 1)
    rebuilding = rebuild_claims.ClaimRebuilding(standing.kube)

    def breaks_at_the_status(_method: str, path: str, do: Any) -> Any:
        if path.endswith(f"{claim.name}/status"):
            raise Unreachable("no answer")
        return do()

    standing.kube.fault = breaks_at_the_status
    half = rebuilding.answer(task, looked(standing, 2)[1]["rebuild"], standing.now)
    standing.kube.fault = None
    whole = rebuilding.answer(task, looked(standing, 3)[1]["rebuild"], standing.now)

    assert (half["rebuilt"], whole) == ([], {"rebuilt": [claim.name], "left": []})
    (again,) = (each for each in claims(standing) if each.name == claim.name)
    assert (again.instance_id, again.initialized) == (claim.instance_id, True)
    assert looked(standing, 4)[1]["rebuild"] == []


@pytest.mark.parametrize("became", ["terminated", "unknown"])
def test_a_node_without_a_claim_whose_instance_is_gone_is_retired_at_the_second_look(
    standing: SimulatedCluster, became: str
) -> None:
    claim = claims(standing)[0]
    without_claim(standing, claim)
    if became == "unknown":
        del standing.ec2.instances[claim.instance_id]
    else:
        standing.ec2.instances[claim.instance_id]["State"] = {"Name": became}

    first, second = (retired(looked(standing, number)[1]) for number in (1, 2))
    standing.now += timedelta(minutes=5)  # EC2 may not find a new instance for this long
    RetirementExecution(standing, "retire-1").run(
        RetirementRequest(claim.name, RetirementReason.LOST, claim.instance_id)
    )

    assert (first, second) == ([], [(claim.name, "lost")])
    assert ("nodes", "", claim.node_name) not in standing.kube.objects
    assert memory(standing, Retirements).all() == {}


def test_a_node_without_a_claim_whose_instance_runs_without_its_tags_stays(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    without_claim(standing, claim)
    standing.ec2.instances[claim.instance_id]["Tags"] = []

    assert [retired(looked(standing, number)[1]) for number in (1, 2)] == [[], []]


def test_rebuilding_again_changes_nothing_and_a_claim_that_came_meanwhile_stays(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    asked = [{"instance": claim.instance_id, "node": claim.node_name, "claim": claim.name}]
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)

    assert rebuild_claims.ClaimRebuilding(standing.kube).answer(task, asked, standing.now) == {
        "rebuilt": [],
        "left": [],
    }


def test_a_claim_that_came_meanwhile_keeps_its_conditions(standing: SimulatedCluster) -> None:
    claim = claims(standing)[0]
    marked = claim.with_condition("Drifted", "True", "NodePoolDrifted", "", at=standing.now)
    write_conditions(standing.kube, marked.without_condition("Initialized"))
    asked = [{"instance": claim.instance_id, "node": claim.node_name, "claim": claim.name}]
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)

    answer = rebuild_claims.ClaimRebuilding(standing.kube).answer(task, asked, standing.now)

    (now,) = (each for each in claims(standing) if each.name == claim.name)
    assert answer["left"] == []
    assert now.conditions["Drifted"].reason == "NodePoolDrifted"


def test_a_node_whose_claims_name_is_taken_by_another_instance_gets_one_of_its_own(standing: SimulatedCluster) -> None:
    mine, other = claims(standing)[:2]
    without_claim(standing, mine)
    asked = [{"instance": mine.instance_id, "node": mine.node_name, "claim": other.name}]
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)

    answer = rebuild_claims.ClaimRebuilding(standing.kube).answer(task, asked, standing.now)

    assert answer == {"rebuilt": [f"default-{mine.instance_id[-7:]}"], "left": []}


def test_too_many_orphans_are_reported_and_not_terminated(standing: SimulatedCluster) -> None:
    like = next(iter(standing.ec2.instances.values()))
    for number in range(6):
        standing.ec2.instances[f"i-x{number}"] = {**like, "InstanceId": f"i-x{number}"}

    looked(standing, 1)
    _, second = looked(standing, 2)

    assert (second["garbage"], second["refused"]) == ([], 6)
    assert any("probably wrong" in reason for reason in second["reasons"])


def test_garbage_is_not_collected_while_joiner_is_paused_nor_if_it_is_not_ours_nor_if_its_launch_is_not_recorded(
    standing: SimulatedCluster,
) -> None:
    collect = collect_garbage.GarbageCollection(standing.ledger, Ec2(standing.ec2), standing.pause)
    instance = claims(standing)[0].instance_id
    standing.ec2.instances["i-stranger"] = {**standing.ec2.instances[instance], "InstanceId": "i-stranger", "Tags": []}
    standing.machine._update("LAUNCH", launch_of(standing, instance), "SET recorded = :no", {":no": False})

    assert collect.answer(CLUSTER.name, ["i-stranger", instance]) == {
        "terminated": [],
        "refused": 0,
        "reasons": [],
        "left": 2,
    }
    standing.pause.paused = True
    assert collect.answer(CLUSTER.name, [claims(standing)[1].instance_id]) == {
        "terminated": [],
        "refused": 0,
        "reasons": [],
        "left": 1,
    }
    assert {each["State"]["Name"] for each in standing.ec2.instances.values()} == {"running"}


def test_too_much_garbage_is_refused_before_anything_is_terminated(standing: SimulatedCluster) -> None:
    collect = collect_garbage.GarbageCollection(standing.ledger, Ec2(standing.ec2), standing.pause)
    like = next(iter(standing.ec2.instances.values()))
    names = [f"i-x{number}" for number in range(6)]
    standing.ec2.instances |= {name: {**like, "InstanceId": name} for name in names}

    with pytest.raises(RuntimeError, match="6 of 9 instances"):
        collect.answer(CLUSTER.name, names)
    assert {each["State"]["Name"] for each in standing.ec2.instances.values()} == {"running"}
