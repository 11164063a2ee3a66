"""How Step Functions evaluates states: expressions, variables, choices, maps and branches."""

import json

import pytest

from tests.local.state_machine_runs import Sfn, machine

pytestmark = pytest.mark.local


def test_expressions_see_the_input_variables_and_the_context(sfn: Sfn) -> None:
    output = sfn.run(
        {
            "Remember": {"Type": "Pass", "Assign": {"round": "{% $states.input.round + 1 %}", "kept": "as is"}},
            "Report": {
                "Type": "Pass",
                "Output": {
                    "round": "{% $round %}",
                    "kept": "{% $kept %}",
                    "state": "{% $states.context.State.Name %}",
                    "named": "{% $contains($states.context.Execution.Id, $states.context.Execution.Name) %}",
                    "list": "{% $map([1..3], function($n) { $n * 2 }) %}",
                    "nothing": None,
                },
            },
        },
        {"round": 1},
    )
    assert output == {"round": 2, "kept": "as is", "state": "Report", "named": True, "list": [2, 4, 6], "nothing": None}


def test_assignments_of_one_state_see_the_old_values(sfn: Sfn) -> None:
    output = sfn.run(
        {
            "First": {"Type": "Pass", "Assign": {"a": 1, "b": 2}},
            "Swap": {"Type": "Pass", "Assign": {"a": "{% $b %}", "b": "{% $a %}"}},
            "Report": {"Type": "Pass", "Output": "{% [$a, $b] %}"},
        }
    )
    assert output == [2, 1]


def test_text_with_quotes_and_line_ends_survives_variables(sfn: Sfn) -> None:
    text = 'the answer is "no"\nand left {% not an expression'
    states = {
        "Keep": {"Type": "Pass", "Assign": {"text": "{% $states.input %}"}},
        "Report": {"Type": "Pass", "Output": "{% $text %}"},
    }
    assert sfn.run(states, text) == text


def test_an_expression_that_gives_nothing_fails_and_can_be_caught(sfn: Sfn) -> None:
    broken = {"Type": "Pass", "Output": "{% $states.input.missing %}"}
    ended = sfn.end(sfn.start(sfn.create(machine({"Look": broken})), {}))
    assert (ended["status"], ended["error"]) == ("FAILED", "States.QueryEvaluationError")
    assert "An error occurred while executing the state 'Look' (entered at the event id #2)" in ended["cause"]
    assert "returned nothing (undefined)" in ended["cause"]

    caught = {
        "Look": {
            "Type": "Parallel",
            "Branches": [{"StartAt": "Inner", "States": {"Inner": {**broken, "End": True}}}],
            "Catch": [
                {
                    "ErrorEquals": ["States.QueryEvaluationError"],
                    "Next": "Saved",
                    "Output": "{% $states.errorOutput.Error %}",
                }
            ],
        },
        "Saved": {"Type": "Succeed"},
    }
    assert sfn.run(caught, {}) == "States.QueryEvaluationError"


def test_the_first_choice_that_holds_is_taken_and_without_one_the_default(sfn: Sfn) -> None:
    states = {
        "Decide": {
            "Type": "Choice",
            "Choices": [
                {"Condition": "{% $states.input.pods > 9 %}", "Next": "Many", "Assign": {"size": "large"}},
                {
                    "Condition": "{% $states.input.pods > 0 %}",
                    "Next": "Few",
                    "Output": "{% 'few of ' & $states.input.pods %}",
                },
            ],
            "Default": "None",
        },
        "Many": {"Type": "Succeed", "Output": "{% $size %}"},
        "Few": {"Type": "Succeed"},
        "None": {"Type": "Succeed", "Output": "none"},
    }
    arn = sfn.create(machine(states))
    outputs = [json.loads(sfn.end(sfn.start(arn, {"pods": pods}))["output"]) for pods in (17, 3, 0)]
    assert outputs == ["large", "few of 3", "none"]


def test_no_choice_and_no_default_fails(sfn: Sfn) -> None:
    states = {
        "Decide": {"Type": "Choice", "Choices": [{"Condition": "{% false %}", "Next": "End"}]},
        "End": {"Type": "Succeed"},
    }
    assert sfn.end(sfn.start(sfn.create(machine(states))))["error"] == "States.NoChoiceMatched"


def test_a_map_keeps_the_order_and_its_iterations_their_own_variables(sfn: Sfn) -> None:
    iteration = {
        "StartAt": "Mine",
        "States": {
            "Mine": {"Type": "Pass", "Assign": {"own": "{% $states.input.value * $factor %}"}, "Next": "Report"},
            "Report": {"Type": "Pass", "Output": "{% $own %}", "End": True},
        },
    }
    output = sfn.run(
        {
            "Outer": {"Type": "Pass", "Assign": {"factor": 10}},
            "Each": {
                "Type": "Map",
                "Items": "{% $states.input %}",
                "MaxConcurrency": 5,
                "ItemSelector": {"value": "{% $states.context.Map.Item.Value + $states.context.Map.Item.Index %}"},
                "ItemProcessor": iteration,
                "Assign": {"results": "{% $states.result %}"},
                "Output": "{% {'count': $count($states.result)} %}",
            },
            "Report all": {"Type": "Pass", "Output": "{% {'count': $states.input.count, 'results': $results} %}"},
        },
        [1, 2, 3, 4, 5, 6, 7],
    )
    assert output == {"count": 7, "results": [10, 30, 50, 70, 90, 110, 130]}


def test_a_map_over_nothing_gives_nothing(sfn: Sfn) -> None:
    iteration = {"StartAt": "Same", "States": {"Same": {"Type": "Pass", "End": True}}}
    assert sfn.run({"Each": {"Type": "Map", "ItemProcessor": iteration}}, []) == []


def test_branches_run_at_the_same_time_and_give_their_outputs_in_order(sfn: Sfn) -> None:
    branches = [
        {"StartAt": f"Wait {n}", "States": {f"Wait {n}": {"Type": "Wait", "Seconds": 1, "Output": n, "End": True}}}
        for n in (1, 2, 3)
    ]
    execution = sfn.start(sfn.create(machine({"All": {"Type": "Parallel", "Branches": branches}})))
    assert json.loads(sfn.end(execution)["output"]) == [1, 2, 3]
    waits = [each["type"] for each in sfn.events(execution) if each["type"].startswith("WaitState")]
    assert waits == ["WaitStateEntered"] * 3 + ["WaitStateExited"] * 3


def test_a_branch_that_fails_halts_the_others(sfn: Sfn) -> None:
    branches = [
        {"StartAt": "Long", "States": {"Long": {"Type": "Wait", "Seconds": 60, "End": True}}},
        {"StartAt": "Bad", "States": {"Bad": {"Type": "Fail", "Error": "NoCapacity", "Cause": "{% 'none' %}"}}},
    ]
    ended = sfn.end(sfn.start(sfn.create(machine({"All": {"Type": "Parallel", "Branches": branches}}))))
    assert (ended["status"], ended["error"], ended["cause"]) == ("FAILED", "NoCapacity", "none")
