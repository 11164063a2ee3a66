"""The two surveys of a sweep over a cluster, an account and a ledger: which claims and instances they retire, terminate
or rebuild, and what they remember.
"""

from datetime import timedelta
from typing import Any

import pytest

from functions.collect_garbage import handler as collect_garbage
from functions.rebuild_claims import handler as rebuild_claims
from functions.survey_instances import handler as survey_instances
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.absences import Absences, Impairments
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.kube_errors import Unreachable
from joiner.adapters.ledger_items import DisruptionRecord
from joiner.adapters.payload import Execution, Task
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import DISRUPTED
from joiner.pools import NodeClaim
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.retire import Retirement, express_arn
from tests.unit.functions.retire import arn as retire_arn
from tests.unit.functions.scale_up import CLUSTER, World, arn, pending

WHEN_EMPTY = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}


@pytest.fixture
def standing(world: World) -> World:
    """Return a world with three nodes with a pod each, an hour after they joined; empty ones are retired after 30 s."""
    world.prepare(pending("web-1"), pending("web-2"), pending("web-3"))
    world.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": WHEN_EMPTY}})
    world.scale_up("up-1")
    world.now += timedelta(hours=1)
    return world


def claims(world: World) -> list[NodeClaim]:
    return list(list_claims(world.kube).claims)


def memory(world: World, kind: Any) -> Any:
    return kind(world.ledger._client, world.ledger._table)


def end_pods(world: World, claim: NodeClaim) -> None:
    for pod in world.kube.all(kinds.PODS):
        if pod["spec"].get("nodeName") == claim.node_name:
            del world.kube.objects["pods", "default", pod["metadata"]["name"]]


def node_of(world: World, pod: str) -> str:
    return str(world.kube.objects["pods", "default", pod]["spec"]["nodeName"])


def retired(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["claim"], each["reason"]) for each in answer["retire"]]


def looked(world: World, number: int, *, after: int = 60) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the surveys of one sweep, some seconds after the last."""
    world.now += timedelta(seconds=after)
    return world.survey(f"s{number}")


def test_a_sweep_over_a_cluster_at_rest_finds_nothing_and_remembers_nothing(standing: World) -> None:
    cluster, instances = looked(standing, 1)
    disruption, drift = cluster.pop("disruption"), cluster.pop("drift")

    assert {name: value for name, value in cluster.items() if value} == {"survey": "surveys/sweep-s1.json.gz"}
    assert (disruption["due"], disruption["unfinished"]) == (True, 0), "nothing was proposed for these nodes yet"
    assert (drift["due"], drift["snapshot"]) == (True, "snapshots/sweep-s1/1.json.gz"), "drift was never looked for"
    assert {name: value for name, value in instances.items() if value} == {
        "instances": len(claims(standing)),
        "described": "instances/sweep-s1.json.gz",
    }
    assert memory(standing, EmptyNodes).all() == memory(standing, Absences).since() == {}


def test_a_proposal_is_due_after_a_change_and_else_at_growing_intervals(standing: World) -> None:
    proposals, start = memory(standing, Disruptions), standing.now
    first = looked(standing, 1)[0]["disruption"]
    proposals.note_proposal(first["digest"], int(start.timestamp()), idle=0)

    at_rest = []
    for number, (minutes, idle) in enumerate([(4, 0), (5, 0), (9, 1), (10, 1), (59, 9), (60, 9)]):
        standing.now = start + timedelta(minutes=minutes)
        proposals.note_proposal(first["digest"], int(start.timestamp()), idle=idle)
        at_rest.append(looked(standing, 10 + number, after=0)[0]["disruption"])
    assert [each["due"] for each in at_rest] == [False, True, False, True, False, True]
    assert {each["digest"] for each in at_rest} == {first["digest"]}

    standing.now = start + timedelta(minutes=1)
    proposals.note_proposal(first["digest"], int(start.timestamp()), idle=1)
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": {}}
    standing.kube.put(budget)
    changed = looked(standing, 20)[0]["disruption"]
    assert (changed["due"], changed["digest"] != first["digest"]) == (True, True)


def test_consolidate_after_starts_again_when_a_pod_ends_and_nothing_is_written_at_rest(standing: World) -> None:
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10m"}
    standing.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": policy}})
    ended = next(claim.key for claim in claims(standing) if claim.node_name == node_of(standing, "web-1"))
    others = {claim.key for claim in claims(standing)} - {ended}
    before = looked(standing, 1)[0]["disruption"]["digest"]
    assert {one.at for one in documents.get_pod_events(standing.store).values()} == {0}

    standing.kube.objects["pods", "default", "web-1"]["status"]["phase"] = "Succeeded"
    restarted = looked(standing, 2)[0]["disruption"]["digest"]
    event, seen = int(standing.now.timestamp()), documents.get_pod_events(standing.store)
    within = looked(standing, 3, after=599)[0]["disruption"]["digest"]
    over = looked(standing, 4, after=1)[0]["disruption"]["digest"]

    assert {key: one.at for key, one in seen.items()} == {ended: event, **dict.fromkeys(others, 0)}
    assert restarted == within, "the node is within its consolidateAfter"
    assert len({before, within, over}) == 3
    assert documents.get_pod_events(standing.store) == seen


def test_pod_events_that_cannot_be_read_count_as_none_and_are_written_anew(standing: World) -> None:
    looked(standing, 1)
    written = documents.get_pod_events(standing.store)
    standing.store.put(documents.POD_EVENTS, {"nodes": 7})
    assert documents.get_pod_events(standing.store) == {}

    looked(standing, 2)
    assert documents.get_pod_events(standing.store) == written


def test_a_node_of_a_disruption_under_way_is_not_a_half_begun_retirement(standing: World) -> None:
    claim = claims(standing)[0]
    node = next(each for each in standing.kube.all(kinds.NODES) if each["metadata"]["name"] == claim.node_name)
    node["spec"]["taints"] = [{"key": DISRUPTED, "effect": "NoSchedule"}]
    record = DisruptionRecord("disrupt-1-0", arn("disrupt-1"), "Underutilized", "saves", (claim.name,))

    memory(standing, Disruptions).begin(record)
    marked = looked(standing, 1)
    memory(standing, Disruptions).end(record.id)
    left = looked(standing, 2)

    assert (retired(marked[1]), marked[0]["disruption"]["unfinished"]) == ([], 1)
    assert (retired(left[1]), left[0]["disruption"]["unfinished"]) == ([(claim.name, "empty")], 0)


def test_the_turn_of_an_execution_that_no_longer_runs_is_taken(standing: World) -> None:
    turn = {":me": arn("disrupt-1"), ":until": int(standing.now.timestamp()) + 3600}
    standing.machine._update("LEASE", "disrupt", "SET holder = :me, disruptUntil = :until", turn)

    running = looked(standing, 1)[1]["disrupting"]
    standing.dead.add(arn("disrupt-1"))
    stopped = looked(standing, 2)[1]["disrupting"]

    assert (running, stopped) == (True, False)
    assert memory(standing, Disruptions).turn().holder == ""


def test_an_empty_node_is_remembered_asked_for_once_for_its_time_and_forgotten_when_a_pod_comes(
    standing: World,
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


def test_a_retirement_of_an_empty_node_that_never_began_is_asked_for_again(standing: World) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)
    looked(standing, 1)

    _, later = looked(standing, 2, after=61)

    assert later["retire"] == [{"claim": claim.name, "reason": "empty", "instance": claim.instance_id, "notBefore": 0}]


def test_a_repeated_survey_requests_the_same_retirements(standing: World) -> None:
    end_pods(standing, claims(standing)[0])

    first, second = (standing.survey("s1")[0] for _ in range(2))

    assert first["retire"] == second["retire"] != []


def test_a_pod_that_cannot_be_read_keeps_its_node(standing: World) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)
    strange = {**pending("strange"), "status": {"phase": "Running"}}
    strange["spec"] = {
        "nodeName": claim.node_name,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "a lot"}}}],
    }
    standing.kube.put(strange)

    assert looked(standing, 1)[0]["retire"] == []


def test_a_claim_is_left_to_the_execution_that_retires_it_while_that_runs(standing: World) -> None:
    claim = claims(standing)[0]
    standing.kube.delete(kinds.NODECLAIMS, claim.name)
    memory(standing, Retirements).begin(claim.name, arn("retire-1"), "deleted", int(standing.now.timestamp()))

    cluster, instances = looked(standing, 1)
    assert (retired(cluster), retired(instances)) == ([(claim.name, "deleted")], [])

    standing.dead.add(arn("retire-1"))
    _, freed = looked(standing, 2)
    assert (retired(freed), freed["deadRetirements"]) == ([(claim.name, "deleted")], 1)
    assert memory(standing, Retirements).of(claim.name).owner == ""


def test_an_empty_node_that_did_not_go_in_time_is_retired_on_as_deleted_once_its_express_execution_has_ended(
    standing: World,
) -> None:
    """No API shows whether an Express execution runs: its own record decides."""
    claim = claims(standing)[0]
    end_pods(standing, claim)
    Retirement(standing, "retire-1", express=True).run(RetirementRequest(claim.name, RetirementReason.EMPTY), passes=1)

    for number in range(14):
        memory(standing, Retirements).see([claim.name], express_arn("retire-1"), int(standing.now.timestamp()))
        assert retired(looked(standing, number, after=20)[1]) == []
    _, freed = looked(standing, 14, after=20)  # five minutes after its start
    assert (retired(freed), freed["deadRetirements"]) == ([(claim.name, "deleted")], 1)

    Retirement(standing, "retire-2").run(RetirementRequest(claim.name, RetirementReason.DELETED))
    assert claim.name not in [each.name for each in claims(standing)]
    assert standing.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"
    assert memory(standing, Retirements).all() == {}


def test_an_express_execution_that_has_not_looked_for_minutes_is_followed_before_its_time_is_over(
    standing: World,
) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)
    Retirement(standing, "retire-1", express=True).run(RetirementRequest(claim.name, RetirementReason.EMPTY), passes=1)

    assert retired(looked(standing, 1, after=170)[1]) == []
    assert retired(looked(standing, 2, after=10)[1]) == [(claim.name, "deleted")]


def test_a_lease_of_an_express_execution_is_broken_when_it_has_run_out_and_no_sooner(standing: World) -> None:
    until = int(standing.now.timestamp()) + 70
    asked = {":me": express_arn("retire-1"), ":until": until, ":number": 9}
    standing.ledger._update("LEASE", "scale-up", "SET holder = :me, leaseUntil = :until, leaseNumber = :number", asked)

    assert not looked(standing, 1)[1]["leaseBroken"]
    assert looked(standing, 2)[1]["leaseBroken"]
    assert standing.ledger.lease().holder == ""


def blocked_until_its_execution_ended(world: World, name: str) -> NodeClaim:
    """Return a node whose pod is protected by its budget; the execution has ended and recorded that."""
    claim = claims(world)[0]
    world.kube.held.update(each["metadata"]["name"] for each in world.kube.all(kinds.PODS))
    Retirement(world, name).run(RetirementRequest(claim.name, RetirementReason.DELETED), passes=2)
    world.ended.add(retire_arn(name))
    return claim


def test_a_retirement_that_ended_for_what_keeps_its_node_rests_before_the_next_one_and_longer_each_time(
    standing: World,
) -> None:
    rests = []
    for turn in range(1, 4):
        claim, ended = blocked_until_its_execution_ended(standing, f"retire-{turn}"), standing.now
        while not retired(looked(standing, turn, after=10)[1]):
            pass
        rests.append((standing.now - ended).total_seconds())
        assert claim.name in memory(standing, Retirements).all()

    assert rests == [70, 130, 250]  # the first survey releases it


def test_nothing_rests_whose_deadline_is_near_whose_instance_is_gone_or_whose_execution_died(standing: World) -> None:
    claim = blocked_until_its_execution_ended(standing, "retire-1")
    assert retired(looked(standing, 1, after=10)[1]) == []

    memory(standing, Retirements).hurry(
        claim.name, "spot", int(standing.now.timestamp()) + 300, int(standing.now.timestamp())
    )
    assert retired(looked(standing, 2, after=1)[1]) == [(claim.name, "spot")]

    other = blocked_until_its_execution_ended(standing, "retire-2")
    standing.ec2.instances[other.instance_id]["State"] = {"Name": "terminated"}
    assert retired(looked(standing, 3, after=1)[1]) == [(other.name, "lost")]


def test_a_retirement_that_ended_while_its_pods_were_leaving_goes_on_at_once(standing: World) -> None:
    claim = claims(standing)[0]
    Retirement(standing, "retire-1").run(RetirementRequest(claim.name, RetirementReason.DELETED), passes=1)
    standing.ended.add(retire_arn("retire-1"))

    assert retired(looked(standing, 1, after=10)[1]) == [(claim.name, "deleted")]


def test_a_retirement_that_was_noted_and_never_begun_is_begun_by_the_sweep(standing: World) -> None:
    """The spot warning was noted, and its handler failed before it started a retirement."""
    claim = claims(standing)[0]
    memory(standing, Retirements).hurry(
        claim.name, "spot", int(standing.now.timestamp()) + 120, int(standing.now.timestamp())
    )

    assert retired(looked(standing, 1)[1]) == [(claim.name, "spot")]


def test_of_several_reasons_the_most_urgent_one_counts(standing: World) -> None:
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


def test_a_loss_that_was_noted_is_none_any_more_if_the_instance_runs(standing: World) -> None:
    claim = claims(standing)[0]
    memory(standing, Retirements).hurry(claim.name, "lost", 0, int(standing.now.timestamp()))

    assert retired(looked(standing, 1)[1]) == []


def test_a_loss_is_recorded_for_the_execution_that_retires_the_claim(standing: World) -> None:
    claim = claims(standing)[0]
    retirements = memory(standing, Retirements)
    retirements.begin(claim.name, arn("retire-1"), "deleted", int(standing.now.timestamp()))
    standing.ec2.instances[claim.instance_id]["State"] = {"Name": "terminated"}

    assert retired(looked(standing, 1)[1]) == []
    assert retirements.of(claim.name).reasons == ("deleted", "lost")


def test_a_retirement_of_a_claim_that_is_gone_is_not_continued(standing: World) -> None:
    memory(standing, Retirements).hurry("gone", "spot", 0, int(standing.now.timestamp()))

    assert retired(looked(standing, 1)[1]) == []


@pytest.mark.parametrize("state", ["stopped", "terminated"])
def test_a_terminated_instance_is_lost_at_once_even_if_its_claim_was_empty(standing: World, state: str) -> None:
    claim = claims(standing)[0]
    end_pods(standing, claim)
    standing.ec2.instances[claim.instance_id]["State"] = {"Name": state}

    assert retired(looked(standing, 1)[1]) == [(claim.name, "lost")]


def test_an_instance_that_ec2_does_not_show_is_lost_at_the_second_look(standing: World) -> None:
    claim = claims(standing)[0]
    del standing.ec2.instances[claim.instance_id]

    assert [retired(looked(standing, number, after=after)[1]) for number, after in ((1, 60), (2, 44), (3, 1))] == [
        [],
        [],
        [(claim.name, "lost")],
    ]


def test_an_instance_that_is_shown_again_was_never_lost(standing: World) -> None:
    claim = claims(standing)[0]
    hidden = standing.ec2.instances.pop(claim.instance_id)
    looked(standing, 1)
    standing.ec2.instances[claim.instance_id] = hidden
    looked(standing, 2)
    del standing.ec2.instances[claim.instance_id]

    assert retired(looked(standing, 3)[1]) == []


def test_two_surveys_of_ec2_with_the_same_survey_of_the_cluster_count_as_one(standing: World) -> None:
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
    slow = module.InstanceSurveying(parts, standing, Ec2(standing.ec2), standing.store, clock=lambda: standing.now)

    assert slow.answer(task, old["survey"], [])["garbage"] == []


def test_an_instance_that_has_lost_its_tags_is_there_all_the_same(standing: World) -> None:
    standing.ec2.instances[claims(standing)[0].instance_id]["Tags"] = []

    assert [retired(looked(standing, number)[1]) for number in (1, 2)] == [[], []]


def test_a_read_of_ec2_that_fails_ends_nothing_and_forgets_nothing(standing: World) -> None:
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


def without_claim(world: World, claim: NodeClaim) -> None:
    """Remove the claim and its finalizer, as a person does."""
    del world.kube.objects["nodeclaims", "", claim.name]


def without_node(world: World, claim: NodeClaim) -> None:
    del world.kube.objects["nodes", "", claim.node_name]


def test_an_instance_without_claim_and_node_is_garbage_at_the_second_survey_and_is_terminated(standing: World) -> None:
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


def test_a_claim_without_a_node_goes_at_the_second_look(standing: World) -> None:
    claim = claims(standing)[0]
    without_node(standing, claim)

    assert [retired(looked(standing, number)[1]) for number in (1, 2)] == [[], [(claim.name, "deleted")]]


def test_a_node_without_a_claim_gets_it_back_at_the_second_look(standing: World) -> None:
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


def test_a_claim_whose_rebuilding_died_halfway_is_completed_by_a_later_sweep(standing: World) -> None:
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
    standing: World, became: str
) -> None:
    claim = claims(standing)[0]
    without_claim(standing, claim)
    if became == "unknown":
        del standing.ec2.instances[claim.instance_id]
    else:
        standing.ec2.instances[claim.instance_id]["State"] = {"Name": became}

    first, second = (retired(looked(standing, number)[1]) for number in (1, 2))
    standing.now += timedelta(minutes=5)  # EC2 may not find a new instance for this long
    Retirement(standing, "retire-1").run(RetirementRequest(claim.name, RetirementReason.LOST, claim.instance_id))

    assert (first, second) == ([], [(claim.name, "lost")])
    assert ("nodes", "", claim.node_name) not in standing.kube.objects
    assert memory(standing, Retirements).all() == {}


def test_a_node_without_a_claim_whose_instance_runs_without_its_tags_stays(standing: World) -> None:
    claim = claims(standing)[0]
    without_claim(standing, claim)
    standing.ec2.instances[claim.instance_id]["Tags"] = []

    assert [retired(looked(standing, number)[1]) for number in (1, 2)] == [[], []]


def test_rebuilding_again_changes_nothing_and_a_claim_that_came_meanwhile_stays(standing: World) -> None:
    claim = claims(standing)[0]
    asked = [{"instance": claim.instance_id, "node": claim.node_name, "claim": claim.name}]
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)

    assert rebuild_claims.ClaimRebuilding(standing.kube).answer(task, asked, standing.now) == {
        "rebuilt": [],
        "left": [],
    }


def test_a_node_whose_claims_name_is_taken_by_another_instance_gets_one_of_its_own(standing: World) -> None:
    mine, other = claims(standing)[:2]
    without_claim(standing, mine)
    asked = [{"instance": mine.instance_id, "node": mine.node_name, "claim": other.name}]
    task = Task(Execution("sweep-s2", arn("sweep-s2"), ""), CLUSTER, 0, 1)

    answer = rebuild_claims.ClaimRebuilding(standing.kube).answer(task, asked, standing.now)

    assert answer == {"rebuilt": [f"default-{mine.instance_id[-7:]}"], "left": []}


def test_too_many_orphans_are_reported_and_not_terminated(standing: World) -> None:
    like = next(iter(standing.ec2.instances.values()))
    for number in range(6):
        standing.ec2.instances[f"i-x{number}"] = {**like, "InstanceId": f"i-x{number}"}

    looked(standing, 1)
    _, second = looked(standing, 2)

    assert (second["garbage"], second["refused"]) == ([], 6)
    assert any("probably wrong" in reason for reason in second["reasons"])


def test_garbage_is_not_collected_while_joiner_is_paused_nor_if_it_is_not_ours_nor_if_its_launch_is_not_recorded(
    standing: World,
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


def test_too_much_garbage_is_refused_before_anything_is_terminated(standing: World) -> None:
    collect = collect_garbage.GarbageCollection(standing.ledger, Ec2(standing.ec2), standing.pause)
    like = next(iter(standing.ec2.instances.values()))
    names = [f"i-x{number}" for number in range(6)]
    standing.ec2.instances |= {name: {**like, "InstanceId": name} for name in names}

    with pytest.raises(RuntimeError, match="6 of 9 instances"):
        collect.answer(CLUSTER.name, names)
    assert {each["State"]["Name"] for each in standing.ec2.instances.values()} == {"running"}


def given_up_late(world: World) -> NodeClaim:
    """Return a claim whose node has not joined for sixteen minutes, given up by the execution that waited for it; a
    second later the node joins.
    """
    world.prepare(pending("web-1"))
    world.boots = False
    world._under_the_lease("up-1", world._take_lease("up-1") or 0)
    world.now += timedelta(minutes=16)
    assert world.check("up-1")["failed"] == [claims(world)[0].name]
    world.dead.add(arn("up-1"))
    world.boots = True
    world.boot()
    # no execution waits for it, so only its existence requires a survey
    del world.kube.objects["pods", "default", "web-1"]
    return claims(world)[0]


def test_a_node_that_joins_just_after_it_was_given_up_is_taken_in(world: World) -> None:
    late = given_up_late(world)

    world.sweep("s1")

    (claim,) = claims(world)
    assert (claim.name, claim.registered, claim.initialized) == (late.name, True, True)


def test_a_node_that_joined_while_joiner_was_paused_for_long_is_retired_with_its_claim(world: World) -> None:
    late = given_up_late(world)

    assert retired(looked(world, 1, after=3600)[1]) == [(late.name, "never-joined")]


def test_pods_that_cannot_leave_yet_and_have_room_elsewhere_are_planned_for_ever_more_seldom(standing: World) -> None:
    leaving, other = claims(standing)[:2]
    end_pods(standing, other)
    standing.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": {"consolidateAfter": "Never"}}})
    standing.kube.delete(kinds.NODECLAIMS, leaving.name)
    memory(standing, Retirements).begin(leaving.name, arn("retire-1"), "deleted", int(standing.now.timestamp()))

    planned = []
    for number in range(12):
        standing.now += timedelta(seconds=60)
        memory(standing, Retirements).see([leaving.name], arn("retire-1"), int(standing.now.timestamp()))
        if standing.sweep(f"s{number}")["pendingPods"]:
            planned.append(number)

    assert planned == [0, 1, 3, 7]
    assert len(claims(standing)) == 3
    (evicted,) = (each for each in standing.kube.all(kinds.PODS) if each["spec"].get("nodeName") == leaving.node_name)
    del standing.kube.objects["pods", "default", evicted["metadata"]["name"]]
    successor = pending("web-again")
    successor["metadata"]["creationTimestamp"] = "2026-11-21T14:00:00Z"
    standing.kube.put(successor)
    assert looked(standing, 12)[0]["pendingPods"] == 1


def launch_of(world: World, instance: str) -> str:
    return world.ledger.pairings([instance])[instance].launch
