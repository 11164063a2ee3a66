"""Instances without claims and claims without instances: the action for each, and when it is allowed."""

from typing import Any

import pytest

from joiner.lifecycle.checks.check_registry import INSTANCE_CHECKS
from joiner.lifecycle.checks.instance_survey import InstanceSurvey, Mismatch, SeenClaim, SeenInstance
from joiner.lifecycle.orphans import REBUILT_AT_ONCE, OrphanVerdict, judge_orphans

NOW = 1_795_262_400
APART = 45


def seen(name: str, instance: str = "", **fields: Any) -> SeenClaim:
    return SeenClaim(
        name,
        "NodeClaim",
        f"aws:///us-east-1a/{instance}" if instance else "",
        **{"registered": bool(instance), **fields},
    )


def survey(*claims: SeenClaim, instances: dict[str, str] | None = None, **fields: Any) -> InstanceSurvey:
    """Return a survey; `instances` gives states by id. Each claim has a running instance with a node, unless an
    argument differs.
    """
    states = {claim.instance: "running" for claim in claims if claim.instance} if instances is None else instances
    nodes = fields.pop("nodes", {claim.instance: f"node-{claim.name}" for claim in claims if claim.instance})
    return InstanceSurvey(
        claims, nodes, {each: SeenInstance(each, state, "launch-1") for each, state in states.items()}, **fields
    )


def cases(given: InstanceSurvey) -> list[Mismatch]:
    return [case for check in INSTANCE_CHECKS for case in check.find(given)]


def verdicts(given: InstanceSurvey) -> list[tuple[str, str, str, bool]]:
    """Return action, claim or instance, reason, and whether one survey is enough."""
    return [(case.action, case.claim or case.instance, case.reason, not case.absent) for case in cases(given)]


def test_claims_with_their_instances_and_nodes_are_as_they_should_be() -> None:
    assert cases(survey(seen("a", "i-a"), seen("b", "i-b"), seen("written"))) == []


@pytest.mark.parametrize("state", ["stopping", "stopped", "shutting-down", "terminated"])
def test_a_terminated_instance_is_lost_at_the_first_survey(state: str) -> None:
    assert verdicts(survey(seen("a", "i-a"), instances={"i-a": state})) == [("retire", "a", "lost", True)]
    assert verdicts(survey(seen("a", "i-a", deleting=True), instances={"i-a": state})) == [
        ("retire", "a", "lost", True)
    ]


def test_an_instance_that_ec2_does_not_show_is_lost_only_if_it_stays_so() -> None:
    assert verdicts(survey(seen("a", "i-a"), instances={})) == [("retire", "a", "lost", False)]


def test_a_registered_claim_whose_node_is_not_there_goes_if_it_stays_so() -> None:
    assert verdicts(survey(seen("a", "i-a"), nodes={})) == [("retire", "a", "deleted", False)]
    assert verdicts(survey(seen("a", "i-a", registered=False), nodes={})) == []


def test_what_is_absent_of_a_claim_that_goes_already_is_no_news() -> None:
    assert verdicts(survey(seen("a", "i-a", deleting=True), instances={}, nodes={})) == []


def test_an_instance_that_no_claim_knows_is_garbage_if_it_has_no_node_and_if_it_stays_so() -> None:
    assert verdicts(survey(instances={"i-x": "running"})) == [("collect", "i-x", "", False)]
    assert verdicts(survey(instances={"i-x": "stopped"})) == [("collect", "i-x", "", False)]
    assert verdicts(survey(instances={"i-x": "terminated", "i-y": "shutting-down"})) == []


def test_an_instance_whose_node_is_there_is_never_garbage_its_claim_is_rebuilt() -> None:
    found = cases(survey(instances={"i-x": "running"}, nodes={"i-x": "node-x"}, pairings={"i-x": "default-x"}))

    assert [(case.action, case.instance, case.node, case.claim) for case in found] == [
        ("rebuild", "i-x", "node-x", "default-x")
    ]


def test_an_instance_of_a_launch_that_is_not_recorded_yet_is_no_orphan() -> None:
    assert cases(survey(instances={"i-x": "running"}, unrecorded=frozenset({"launch-1"}))) == []


def test_a_claim_that_was_rebuilt_by_half_is_rebuilt_to_its_end() -> None:
    half = survey(seen("a"), instances={"i-x": "running"}, nodes={"i-x": "node-x"}, pairings={"i-x": "a"})

    assert [(case.action, case.claim, case.node, bool(case.absent)) for case in cases(half)] == [
        ("rebuild", "a", "node-x", True)
    ]


@pytest.mark.parametrize("instances", [{}, {"i-x": "shutting-down"}, {"i-x": "terminated"}], ids=str)
def test_a_node_of_ours_without_claim_and_instance_goes_if_it_stays_so(instances: dict[str, str]) -> None:
    lost: dict[str, Any] = {"instances": instances, "nodes": {"i-x": "node-x"}, "ours": frozenset({"i-x"})}

    assert verdicts(survey(**lost)) == [("retire", "node-x", "lost", False)]
    assert verdicts(survey(**lost, pairings={"i-x": "default-x"})) == [("retire", "default-x", "lost", False)]
    assert cases(survey(**{**lost, "ours": frozenset()})) == []


def test_a_second_instance_of_one_claim_is_garbage() -> None:
    both = survey(seen("a", "i-a"), instances={"i-a": "running", "i-x": "running"}, pairings={"i-x": "a"})

    assert [(case.action, case.instance) for case in cases(both)] == [("collect", "i-x")]


def garbage(count: int) -> list[Mismatch]:
    return cases(survey(instances={f"i-{index:03d}": "running" for index in range(count)}))


def judged(found: list[Mismatch], *, seen_at: int | None, instances: int = 10) -> OrphanVerdict:
    since = {} if seen_at is None else {case.absent: seen_at for case in found}
    return judge_orphans(found, absent_since=since, now=NOW, apart=APART, instances=instances)


def test_nothing_is_garbage_by_one_survey_nor_by_two_that_are_too_close() -> None:
    found = garbage(1)

    for seen_at in (None, NOW, NOW - APART + 1):
        verdict = judged(found, seen_at=seen_at)
        assert (len(verdict.collect), set(verdict.waiting)) == (0, {"claim-of/i-000"})
    assert judged(found, seen_at=NOW - APART) == OrphanVerdict(collect=tuple(found))


def test_a_state_that_ec2_reports_needs_no_second_survey() -> None:
    lost = cases(survey(seen("a", "i-a"), instances={"i-a": "terminated"}))

    assert judged(lost, seen_at=None) == OrphanVerdict(retire=tuple(lost))


def test_more_orphans_than_can_be_true_end_nothing_at_all() -> None:
    five, six = garbage(5), garbage(6)

    assert len(judged(five, seen_at=0).collect) == 5
    assert judged(six, seen_at=0) == OrphanVerdict(refused=6)
    assert len(judged(six, seen_at=0, instances=120).collect) == 6


def test_claims_without_instances_count_as_orphans_too() -> None:
    """An empty response of EC2 to a correct request must not drain a cluster."""
    nothing = cases(survey(*(seen(f"c{index}", f"i-{index}") for index in range(20)), instances={}))

    assert judged(nothing, seen_at=0, instances=0) == OrphanVerdict(refused=20)


def test_too_many_orphans_stop_neither_lost_instances_nor_rebuilt_claims() -> None:
    lost = survey(seen("a", "i-a"), instances={"i-a": "terminated", "i-x": "running"}, nodes={"i-x": "node-x"})
    verdict = judged([*cases(lost), *garbage(6)], seen_at=0)

    assert verdict.refused == 6
    assert [case.claim for case in verdict.retire] == ["a"]
    assert [case.node for case in verdict.rebuild] == ["node-x"]


def test_only_so_many_claims_are_rebuilt_at_once() -> None:
    nodes = {f"i-{index:03d}": f"node-{index}" for index in range(REBUILT_AT_ONCE + 1)}
    found = cases(survey(instances=dict.fromkeys(nodes, "running"), nodes=nodes))

    assert len(judged(found, seen_at=0).rebuild) == REBUILT_AT_ONCE
