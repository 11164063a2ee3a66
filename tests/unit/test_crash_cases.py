"""Which cases the crash table has: columns, later rounds, and what is tried each time."""

import itertools
from typing import Any

import pytest

from tests.e2e.crash.fault_scenarios import (
    DISRUPT,
    DOWN,
    DOWN_EMPTY,
    FAULT_SCENARIOS,
    RETIRE,
    SCALE_UP,
    SWEEP,
    UP,
    FaultScenario,
)
from tests.e2e.crash.fault_table import NIGHTS, FaultCase, Verdict, cases, of_one_night
from tests.e2e.crash.fault_trial import Trial
from tests.e2e.crash.fixed_cases import FIXED, FURTHER, QUICK

FLEET = ("launch_instances", "ec2 CreateFleet")
PODS = ("plan_capacity", "kube LIST pods")


def lines(found: list[FaultCase]) -> list[str]:
    return [str(case).removeprefix("scale-up, ").removeprefix("again, ") for case in found]


def test_a_call_is_refused_throttled_timed_out_and_loses_its_answer_once_and_for_good() -> None:
    found = cases(SCALE_UP, [FLEET, PODS], ["Launch"], tasks=["Launch"], known={})

    assert lines(found) == [
        "launch_instances: ec2 CreateFleet, refused",
        "launch_instances: ec2 CreateFleet, throttled",
        "launch_instances: ec2 CreateFleet, timed out",
        "launch_instances: ec2 CreateFleet, answer lost",
        "launch_instances: ec2 CreateFleet, refused, and ever again",
        "launch_instances: ec2 CreateFleet, timed out, and ever again",
        "launch_instances: ec2 CreateFleet, answer lost, and ever again",
        "plan_capacity: kube LIST pods, refused",
        "plan_capacity: kube LIST pods, throttled",
        "plan_capacity: kube LIST pods, timed out",
        "plan_capacity: kube LIST pods, refused, and ever again",
        "Launch, entered",
        "Launch, working",
        "Launch, left",
    ]


def test_a_call_that_a_later_round_makes_once_more_is_a_row() -> None:
    again = FaultScenario("again", UP, goes_up=True, rounds=True)
    found = cases(again, [FLEET, PODS, FLEET, FLEET, PODS], [], tasks=[], known={FLEET: 1, PODS: 2})

    assert {each.place.what for each in found} == {"ec2 CreateFleet"}
    assert {each.place.nth for each in found} == {2}  # the third is alike
    assert len(found) == 7


def test_two_nights_strike_every_place_and_a_few_more_every_case() -> None:
    whole = cases(SCALE_UP, [FLEET, PODS, FLEET], ["Launch", "Wait"], tasks=["Launch"], known={})
    places = {case.place for case in whole}

    nights = [of_one_night(whole, night) for night in range(20_000, 20_000 + NIGHTS * 7)]

    for first, second in itertools.pairwise(nights):
        assert sorted(case.place for case in (*first, *second)) == sorted(places)
    assert {case for night in nights for case in night} == set(whole)


@pytest.mark.parametrize("machine", [UP, DOWN, DOWN_EMPTY, SWEEP, DISRUPT])
def test_each_state_machine_is_struck_each_time(machine: str) -> None:
    assert len([case for case in FIXED if case.place.scenario.machine == machine]) >= 2


def test_each_function_outside_of_state_machines_is_struck_each_time() -> None:
    outside = {caller for scenario in FAULT_SCENARIOS for caller in scenario.callers}

    assert outside == {"ring_doorbell", "handle_interruption", "refresh_catalogue"}
    for caller in outside:
        assert len([case for case in FIXED if case.place.caller == caller]) >= 2, caller


def test_a_few_cases_of_make_test_are_of_calls_in_trouble_and_of_each_function_outside_of_state_machines() -> None:
    callers = {case.place.caller for case in QUICK}

    assert {"ring_doorbell", "handle_interruption", "refresh_catalogue"} <= callers
    assert {"launch_instances", "evict_pods", "survey_instances", "collect_garbage"} <= callers
    assert "sweep that gives up a node" in {case.place.scenario.name for case in QUICK}
    assert "rebuild_claims" in {case.place.caller for case in FIXED}


def test_no_case_is_tried_twice_in_a_run_of_all_tests() -> None:
    assert [*FIXED] == [*QUICK, *FURTHER]
    assert len(set(FIXED)) == len(FIXED)


def test_the_table_of_a_trial_counts_the_cases_that_were_struck_and_names_the_others() -> None:
    nowhere: Any = None
    met, wrong, unmet = QUICK[:3]
    trial = Trial(nowhere, print, len(QUICK))
    trial.verdicts |= {met: Verdict(True, 1), wrong: Verdict(True, 2, ("2 nodes, not 3",)), unmet: Verdict(False, 1)}

    table, *counts = trial.describe(60.0).split("; ")

    assert trial.struck == 2
    assert table.endswith("\n\n1 not met, 1 ok, 1 wrong")
    assert counts == [f"2 of {len(QUICK)} cases were struck", "20.0 s a case", f"not met: {[str(unmet)]}"]


def test_each_kind_of_fault_is_among_the_fixed_cases() -> None:
    assert {case.fault for case in FIXED} == {
        "refused",
        "throttled",
        "timed out",
        "answer lost",
        "entered",
        "working",
        "left",
    }
    assert {case.place.scenario.machine for case in QUICK} == {UP, DOWN, SWEEP}
    assert {SCALE_UP, RETIRE} <= {case.place.scenario for case in QUICK}
