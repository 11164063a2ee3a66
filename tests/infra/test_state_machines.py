"""The state machines as graphs: every transition has a target, every state is reachable, and every failure has a retry
and a next state."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonata
import pytest

from infra.function_configuration import CONFIGURATIONS
from infra.launch_states import AWAIT_NODES_EXPRESSION, BATCHES
from infra.lease_limits import LEASE_SECONDS
from infra.retirement_limits import MAX_DUE_WAIT_SECONDS
from joiner.adapters.kube_errors import TooManyRequests, Unreachable
from joiner.lifecycle.emptiness import AHEAD
from tests.infra.conftest import States, Synthesis, flat, graphs

UNDER_THE_LEASE = (
    "find_pending_pods",
    "resolve_node_classes",
    "plan_capacity",
    "record_node_claims",
    "launch_instances",
    "record_launches",
    "begin_retirement",
)

WARM_UP_STATE = "Warm up one function"
"""Its function does nothing, and the next sweep invokes it again: it is not retried."""


def test_a_retirement_waits_as_long_as_the_sweep_starts_it_early() -> None:
    assert MAX_DUE_WAIT_SECONDS == AHEAD


def test_a_retirement_under_the_lease_releases_it_on_every_path(machines: Mapping[str, Mapping[str, Any]]) -> None:
    _, group, _ = (graph["States"] for graph in graphs(machines["joiner-retire-example"]))

    for name in ("Begin under the lease", "Begin retirement"):
        ways = {each["Next"]: each["ErrorEquals"] for each in group[name]["Catch"]}
        assert ways == {"Left for the next sweep": ["LeaseLost"], "Give back the lease": ["States.ALL"]}
        assert group[name]["TimeoutSeconds"] < LEASE_SECONDS
    assert group["Take the lease"]["Next"] == "Begin under the lease"
    assert (group["Begin under the lease"]["Next"], group["Release the lease"]["Next"]) == (
        "Release the lease",
        "What has begun?",
    )
    assert group["Begin retirement"]["Next"] == "What has begun?"


def test_a_sweep_rings_before_it_starts_a_scale_up_that_may_find_the_lease_taken(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    states: States = machines["joiner-sweep-example"]["States"]

    assert [name for name, state in states.items() if "Start a scale-up" in following(state)] == ["Ring"]
    ring = states["Ring"]["Arguments"]
    assert ring["Key"] == {"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}
    assert (ring["UpdateExpression"], ring["ExpressionAttributeValues"]) == ("ADD rings :one", {":one": {"N": "1"}})


def test_a_start_that_fails_in_a_sweep_prevents_no_other_start(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    states: States = machines["joiner-sweep-example"]["States"]

    for name, onward in {
        "Start a retirement": "Is a scale-up due?",
        "Start a scale-up": "Is there garbage?",
        "Collect garbage": "Are claims missing?",
        "Rebuild claims": "Is drift to be detected?",
        "Start a disruption": "Do more empty nodes wait?",
        "Sweep again": "Give the turn back",
    }.items():
        assert {states[name]["Next"], *(each["Next"] for each in states[name]["Catch"])} == {onward}, name


def test_every_next_exists_and_every_state_is_reached(machines: Mapping[str, Mapping[str, Any]]) -> None:
    for name, machine in machines.items():
        for graph in graphs(machine):
            states: States = graph["States"]
            reached, found = set(), [graph["StartAt"]]
            while found:
                state = found.pop()
                assert state in states, f"{name}: nothing is called {state}"
                if state not in reached:
                    reached.add(state)
                    found.extend(following(states[state]))
            assert reached == set(states), name


def tasks(machines: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and state of each task of these machines."""
    for machine in machines.values():
        for graph in graphs(machine):
            yield from ((name, state) for name, state in graph["States"].items() if state["Type"] == "Task")


def test_every_task_has_a_timeout_a_retry_and_a_state_for_failures(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    for name, state in tasks(machines):
        assert isinstance(state["TimeoutSeconds"], str) or state["TimeoutSeconds"] > 0, name
        assert any(
            each.get("MaxAttempts", 3) > 0 and each["JitterStrategy"] == "FULL"
            for each in state["Retry"]
            if "JitterStrategy" in each
        ), name
        assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"], name


def test_every_ends_and_joins_are_well_formed(machines: Mapping[str, Mapping[str, Any]]) -> None:
    for machine in machines.values():
        for graph in graphs(machine):
            for name, state in graph["States"].items():
                assert len(name) <= 80
                ends = state["Type"] in {"Succeed", "Fail", "Choice"}
                assert ends or ("Next" in state) != ("End" in state), name
                for each in (*state.get("Retry", ()), *state.get("Catch", ())):
                    # "States.ALL must appear alone": Amazon States Language, Retrying after error
                    assert each["ErrorEquals"] == ["States.ALL"] or "States.ALL" not in each["ErrorEquals"], name


def test_errors_of_lambda_itself_are_retried_throttling_included(machines: Mapping[str, Mapping[str, Any]]) -> None:
    calls = [
        state
        for machine in machines.values()
        for graph in graphs(machine)
        for name, state in graph["States"].items()
        if str(state.get("Resource", "")).endswith(":lambda:invoke") and name != WARM_UP_STATE
    ]

    assert len(calls) == 20 + 10 + 12  # those of SCALE UP and SWEEP, of RETIRE twice, and of DISRUPT
    for state in calls:
        assert any("Lambda.TooManyRequestsException" in each["ErrorEquals"] for each in state["Retry"])


def test_a_call_that_times_out_is_made_again_unless_its_timeout_is_awaited(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    """States.TaskFailed stands for every error but this one."""
    for name, state in tasks(machines):
        first = next(each for each in state["Retry"] if "States.Timeout" in each["ErrorEquals"])
        awaited = any("States.Timeout" in each["ErrorEquals"] for each in state["Catch"])
        assert (first["MaxAttempts"] == 0) == awaited, name


def test_a_function_that_was_idle_for_weeks_has_time_to_get_its_network_interface(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    """Lambda's guide speaks of 60 to 90 seconds in which its state is Pending."""
    for machine in machines.values():
        for graph in graphs(machine):
            for name, state in graph["States"].items():
                if str(state.get("Resource", "")).endswith(":lambda:invoke") and name != WARM_UP_STATE:
                    waking = next(
                        each for each in state["Retry"] if "Lambda.ResourceNotReadyException" in each["ErrorEquals"]
                    )
                    assert expected_seconds(waking) >= 90, name


def expected_seconds(retrier: Mapping[str, Any]) -> float:
    """Return how long the attempts of a retrier take on average: full jitter halves each interval."""
    intervals = (
        retrier["IntervalSeconds"] * retrier["BackoffRate"] ** attempt for attempt in range(retrier["MaxAttempts"])
    )
    return float(sum(min(each, retrier["MaxDelaySeconds"]) / 2 for each in intervals))


def test_functions_are_called_again_for_a_quarter_of_a_minute_while_the_api_server_is_away(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    """Errors have the names of the classes that functions raise."""
    away = {Unreachable.__name__, TooManyRequests.__name__}
    for machine in machines.values():
        for graph in graphs(machine):
            for name, state in graph["States"].items():
                if str(state.get("Resource", "")).endswith(":lambda:invoke") and name != WARM_UP_STATE:
                    retriers = state["Retry"]
                    first = next(each for each in retriers if {*each["ErrorEquals"]} & {*away, "States.TaskFailed"})
                    assert {*first["ErrorEquals"]} == away, name
                    assert expected_seconds(first) >= 15, name


def test_a_lost_lease_is_no_failure_and_is_not_retried(scale_up: States) -> None:
    under = ["Find pending pods", "Resolve node classes", "Plan capacity", "Record node claims", "Record launches"]

    for name in under:
        assert scale_up[name]["Retry"][0] == {"ErrorEquals": ["LeaseLost"], "MaxAttempts": 0}, name
        assert [(each["ErrorEquals"], each["Next"]) for each in scale_up[name]["Catch"]] == [
            (["LeaseLost"], "Are nodes on their way?"),
            (["States.ALL"], "Release after a failure"),
        ], name


def test_every_path_to_the_end_releases_the_lease(scale_up: States) -> None:
    """Between taking and releasing the lease, every path to the end contains one of the states that release it."""
    releasing = {"Release the lease", "Release the unused lease", "Release after a failure", "Hand over"}
    found, reached = ["Find pending pods"], set()
    while found:
        name = found.pop()
        if name in reached or name in releasing:
            continue
        reached.add(name)
        state = scale_up[name]
        lost = {
            each["Next"] for each in state.get("Catch", ()) if each["ErrorEquals"] == ["LeaseLost"]
        }  # no lease to release
        found.extend(next_ for next_ in following(state) if next_ not in lost)

    assert not reached & {
        "Summarise",
        "The scale-up failed",
        "Joined the running scale-up",
        "Are nodes on their way?",
        "Check registration",
    }


def test_no_function_under_the_lease_may_run_longer_than_the_lease() -> None:
    assert max(CONFIGURATIONS[name].timeout_seconds for name in UNDER_THE_LEASE) < LEASE_SECONDS


def test_a_tasks_timeout_comes_after_its_functions_own(
    machines: Mapping[str, Mapping[str, Any]], example: Synthesis
) -> None:
    timeouts = {
        version: example.template["Resources"][each["Properties"]["FunctionName"]["Ref"]]["Properties"]["Timeout"]
        for version, each in example.resources("AWS::Lambda::Version").items()
    }

    for machine in machines.values():
        for graph in graphs(machine):
            for name, state in graph["States"].items():
                if str(state.get("Resource", "")).endswith(":lambda:invoke") and name != WARM_UP_STATE:
                    version = state["Arguments"]["FunctionName"].strip("${}")
                    assert state["TimeoutSeconds"] > timeouts[version], name


def test_no_wait_for_nodes_lasts_long_without_a_check(scale_up: States) -> None:
    assert scale_up["Await nodes"]["TimeoutSeconds"] == f"{{% {AWAIT_NODES_EXPRESSION} %}}"
    numbers = [int(number) for number in re.findall(r"\b\d+", AWAIT_NODES_EXPRESSION)]
    assert numbers
    assert max(numbers) <= 15
    caught = {error: each["Next"] for each in scale_up["Await nodes"]["Catch"] for error in each["ErrorEquals"]}
    assert caught["States.Timeout"] == caught["DynamoDb.ConditionalCheckFailedException"] == "Check registration"


@pytest.mark.parametrize(
    ("registered", "initialized", "joining", "opens_in", "seconds"),
    [
        (0, 0, 0, 0, 15),
        (1, 0, 0, 0, 5),
        (1, 1, 0, 0, 15),
        (2, 1, 0, 0, 5),
        (0, 0, 1, 0, 5),
        (1, 1, 1, 0, 5),
        (2, 1, 0, 3, 3),
        (2, 1, 0, 6, 6),
        (1, 0, 0, 3600, 15),
    ],
    ids=[
        "all instances boot",
        "a node is not ready for pods",
        "the others boot",
        "one of several is not ready",
        "a node could not be registered",
        "one of several could not be registered",
        "a node opens soon",
        "a node opens later than the usual check",
        "the clock of a node is wrong",
    ],
)
def test_a_wait_for_nodes_is_shorter_when_a_check_may_open_one(
    registered: int, initialized: int, joining: int, opens_in: int, seconds: int
) -> None:
    expression = jsonata.Jsonata(AWAIT_NODES_EXPRESSION)
    counts = {"registered": registered, "initialized": initialized, "joining": joining, "opensIn": opens_in}
    expression.assign("registration", counts)

    assert expression.evaluate(None) == seconds


@pytest.mark.parametrize(
    ("groups", "batches"),
    [
        (2, [(0, 2, True)]),
        (16, [(0, 16, True)]),
        (17, [(0, 8, False), (8, 8, False), (16, 1, True)]),
        (24, [(0, 8, False), (8, 8, False), (16, 8, True)]),
    ],
)
def test_one_invocation_launches_sixteen_groups_and_several_eight_each(
    groups: int, batches: list[tuple[int, int, bool]]
) -> None:
    expression = jsonata.Jsonata(BATCHES)
    expression.assign("claims", {"groups": list(range(groups))})

    assert [(each["first"], each["count"], each["last"]) for each in expression.evaluate(None)] == batches


def test_an_express_machine_waits_for_no_token(example: Synthesis) -> None:
    express = {
        each["Properties"]["StateMachineName"]: flat(each["Properties"]["DefinitionString"])
        for each in example.resources("AWS::StepFunctions::StateMachine").values()
        if each["Properties"].get("StateMachineType") == "EXPRESS"
    }

    assert set(express) == {"joiner-sweep-example", "joiner-empty-example"}
    assert [name for name, definition in express.items() if "waitForTaskToken" in definition] == []


def test_every_expression_is_jsonata(machines: Mapping[str, Mapping[str, Any]]) -> None:
    expressions = [text for machine in machines.values() for text in _expressions(machine)]

    assert len(expressions) > 100
    for text in expressions:
        jsonata.Jsonata(text)


def test_no_variable_hides_a_function_of_jsonata_or_is_read_before_it_is_written(
    machines: Mapping[str, Mapping[str, Any]],
) -> None:
    for machine in machines.values():
        written = {name for graph in graphs(machine) for state in graph["States"].values() for name in _assigned(state)}
        read = {
            name
            for text in _expressions(machine)
            for name in re.findall(r"\$([a-z]\w*)(?!\w*\s*\()", re.sub(r"\$\w+ :=", "", text))
            if name != "states"
        }
        bound = r"function\(\$(\w+)\)|\$(\w+) :="
        parameters = {
            name for text in _expressions(machine) for found in re.findall(bound, text) for name in found if name
        }
        assert read <= written | parameters, read - written - parameters
        # The variable would shadow the function
        assert not (written | parameters) & {
            "round",
            "count",
            "sum",
            "max",
            "min",
            "string",
            "number",
            "now",
            "millis",
            "exists",
            "floor",
            "type",
            "keys",
        }


def following(state: Mapping[str, Any]) -> list[str]:
    found = [each["Next"] for each in (*state.get("Choices", ()), *state.get("Catch", ()))]
    return [*found, *(state[key] for key in ("Next", "Default") if key in state)]


def _assigned(state: Mapping[str, Any]) -> Iterator[str]:
    yield from state.get("Assign", {})
    for each in state.get("Catch", ()):
        yield from each.get("Assign", {})


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("{%"):
        yield value.removeprefix("{%").removesuffix("%}")
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _expressions(each)
    elif isinstance(value, list):
        for each in value:
            yield from _expressions(each)
