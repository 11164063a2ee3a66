"""States that launch several groups of claims, and meanwhile register the nodes of the groups that are launched.

One branch sends the launches. The other one records, every second or so, the launches that have an outcome, and checks
the registration of their nodes: a node that is Ready gets its pods while another launch still runs. A failure of that
branch ends neither the launches nor the execution: the states that follow record and check the rest.

The branches share no variables. `End the launches` writes `launchesEnded` to the lease; record_launches reads it when
it renews the lease, and reports `launching` as false. Then the branch ends.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.launch_limits import (
    CHECK_DURING_LAUNCHES_SECONDS,
    FIRST_RECORD_SECONDS,
    FREQUENT_RECORDS,
    MAX_RECORDS,
    SECONDS_BETWEEN_FREQUENT_RECORDS,
    SECONDS_BETWEEN_LATER_RECORDS,
)
from infra.launch_states import LaunchStates
from infra.lease_states import LEASE_KEY
from infra.service_integrations import ItemUpdate
from infra.states_language import (
    CONDITION_FAILED,
    EVERY_ERROR,
    EXECUTION_ARN,
    EXECUTION_NAME,
    Catch,
    State,
    States,
    choice_state,
    fail_state,
    jsonata,
    parallel_state,
    pass_state,
    wait_state,
)

RECORD_PAUSE: Final = (
    f"$pass < {FREQUENT_RECORDS} ? {SECONDS_BETWEEN_FREQUENT_RECORDS} : {SECONDS_BETWEEN_LATER_RECORDS}"
)
"""JSONata: wait between two records; `$pass` is the number of the last one."""

NOTHING_RECORDED: Final[Mapping[str, Any]] = {
    "launched": 0,
    "short": 0,
    "failed": 0,
    "throttled": False,
    "complete": False,
}
"""The sums of the branch before its first record; `complete` after a record that read all launches."""

ADD_RECORD: Final = """{
  "launched": $soFar.launched + $states.result.Payload.launched,
  "short": $soFar.short + $states.result.Payload.short,
  "failed": $soFar.failed + $states.result.Payload.failed,
  "throttled": $soFar.throttled or $states.result.Payload.throttled,
  "complete": $states.result.Payload.launching = false
}"""

LAUNCH_RESULT: Final = """{
  "notLaunched": $sum($append([0], $states.input.notLaunched)),
  "paused": $count($states.input[paused]) > 0
}"""
"""JSONata: the output of the branch that launches, from the results of all invocations."""


def launch_and_register(
    launches: LaunchStates,
    *,
    record: Mapping[str, Any],
    next: str,
    catch: Sequence[Catch],
    assign: Mapping[str, Any],
) -> State:
    """Return a Parallel state with both branches; `record` is the payload of record_launches.

    Its result is a pair: `LAUNCH_RESULT`, and the sums of `NOTHING_RECORDED` with `events`.
    """
    return parallel_state(
        [_launching(launches), _registration(launches, record)], next=next, catch=catch, assign=assign
    )


def _launching(launches: LaunchStates) -> States:
    end = ItemUpdate(
        LEASE_KEY,
        "SET launchesEnded = :round",
        {":round": {"S": jsonata("$string($leaseNumber) & '/' & $string($turn)")}, ":me": {"S": EXECUTION_ARN}},
        condition="holder = :me",
    )
    failed = fail_state("$states.input")
    return {
        "Launch all groups": launches.launch_groups(
            next="End the launches",
            catch=[Catch([EVERY_ERROR], "The launches failed", kept=False)],
        ),
        "End the launches": launches.integrations.update_item(
            launches.table,
            end,
            output=jsonata(LAUNCH_RESULT),
            catch=[
                # Another execution has the lease: the next function that renews it raises LeaseLost
                Catch(CONDITION_FAILED, "The lease is lost", kept=False, output=jsonata(LAUNCH_RESULT)),
                Catch([EVERY_ERROR], "The launches failed", kept=False),
            ],
        ),
        "The lease is lost": pass_state(),
        "The launches failed": failed,
    }


def _check(launches: LaunchStates) -> Mapping[str, Any]:
    """Check the registration of the nodes launched so far; its failure ends no launch."""
    return launches.integrations.invoke(
        launches.functions["check_registration"],
        {
            "wave": EXECUTION_NAME,
            "gather": 0,
            "events": jsonata("$newEvents"),
            "launching": True,
            "seconds": CHECK_DURING_LAUNCHES_SECONDS,
        },
        next="Let launches proceed",
        assign={"newEvents": []},
        catch=[Catch([EVERY_ERROR], "Let launches proceed", kept=False)],
    )


def _registration(launches: LaunchStates, record: Mapping[str, Any]) -> States:
    ended = "Launches are recorded"
    return {
        "Let some launches end": wait_state(
            FIRST_RECORD_SECONDS,
            assign={"pass": 1, "soFar": NOTHING_RECORDED, "newEvents": []},
            next="Record launches so far",
        ),
        "Record launches so far": launches.integrations.invoke(
            launches.functions["record_launches"],
            {**record, "pass": jsonata("$pass")},
            next="Are nodes to be registered?",
            assign={
                "soFar": jsonata(ADD_RECORD),
                "newEvents": jsonata("$append($newEvents, $states.result.Payload.events)"),
            },
            catch=[Catch([EVERY_ERROR], ended, kept=False)],
        ),
        "Are nodes to be registered?": choice_state(
            {
                f"$soFar.complete or $pass >= {MAX_RECORDS}": ended,
                "$states.input.waiting > 0": "Check registration so far",
            },
            otherwise="Let launches proceed",
        ),
        "Check registration so far": _check(launches),
        "Let launches proceed": wait_state(
            jsonata(RECORD_PAUSE), assign={"pass": jsonata("$pass + 1")}, next="Record launches so far"
        ),
        ended: pass_state(output={"recorded": jsonata("$soFar"), "events": jsonata("$newEvents")}),
    }
