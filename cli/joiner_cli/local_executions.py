"""The executions of a local stack, as text: the Step Functions console does not show a local AWS.

Express executions are not listed here: no API of AWS lists them (the knob `express-executions` does).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

MOST_SHOWN: Final = 20
"""The newest executions of each state machine that are listed."""
MOST_SEARCHED: Final = 1000  # a page of Step Functions


class ExecutionUnknown(ValueError):
    """No state machine has an execution of this name."""


def list_executions(states: Any, now: datetime) -> Iterator[str]:
    """Yield one line for each of the newest executions, those that began last at the end.

    ``states`` is a boto3 client of Step Functions.
    """
    found = sorted(_newest(states), key=lambda one: one[1]["startDate"])
    for machine, one in found:
        seconds = ((one.get("stopDate") or now) - one["startDate"]).total_seconds()
        yield f"{one['startDate']:%H:%M:%S}  {seconds:7.1f} s  {one['status']:<10}  {machine}  {one['name']}"


def _newest(states: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for machine in _standard_machines(states):
        arn = machine["stateMachineArn"]
        for one in states.list_executions(stateMachineArn=arn, maxResults=MOST_SHOWN)["executions"]:
            yield machine["name"], one


def _standard_machines(states: Any) -> Iterator[Mapping[str, Any]]:
    listed = states.list_state_machines(maxResults=MOST_SEARCHED)["stateMachines"]
    return (one for one in listed if one["type"] == "STANDARD")


def describe_execution(states: Any, name: str) -> Iterator[str]:
    """Yield what an execution did: each state with the time from the start, its seconds, and what failed; its end with
    the error and cause. ExecutionUnknown if there is none."""
    arn = _find_execution(states, name)
    described = states.describe_execution(executionArn=arn)
    pages = states.get_paginator("get_execution_history").paginate(executionArn=arn)
    yield from _describe_states([event for page in pages for event in page["events"]], described["startDate"])
    error = f": {described['error']}: {described.get('cause', '')}" if described.get("error") else ""
    yield f"{described['status']}{error}"


def _find_execution(states: Any, name: str) -> str:
    for machine in _standard_machines(states):
        arn = machine["stateMachineArn"]
        for one in states.list_executions(stateMachineArn=arn, maxResults=MOST_SEARCHED)["executions"]:
            if one["name"] == name:
                return str(one["executionArn"])
    raise ExecutionUnknown(
        f"no execution of the last {MOST_SEARCHED:,} of a state machine has the name {name}: `joiner local executions` "
        "lists the newest"
    )


def _describe_states(events: Sequence[Mapping[str, Any]], start: datetime) -> Iterator[str]:
    exits = _find_exits(events)
    for event in events:
        after = (event["timestamp"] - start).total_seconds()
        if detail := event.get("stateEnteredEventDetails"):
            ended = exits.get(event["id"])
            took = f"{(ended - event['timestamp']).total_seconds():7.1f} s" if ended else " " * 9
            yield f"{after:7.1f} s  {took}  {detail['name']}"
        elif failure := _failure(event):
            yield f"{after:7.1f} s  {'':9}  {event['type']}: {failure}"


def _find_exits(events: Iterable[Mapping[str, Any]]) -> dict[int, datetime]:
    """Return when each visit of a state ended, by the id of the event with which it began: the last one of this state
    in the chain of events that leads to the exit."""
    by_id, found = {event["id"]: event for event in events}, dict[int, datetime]()
    for event in by_id.values():
        if not (left := event.get("stateExitedEventDetails")):
            continue
        before = event
        while before and before.get("stateEnteredEventDetails", {}).get("name") != left["name"]:
            before = by_id.get(before.get("previousEventId", 0), {})
        if before:
            found[before["id"]] = event["timestamp"]
    return found


def _failure(event: Mapping[str, Any]) -> str:
    """Return error and cause of a failed or timed out task; empty for other events."""
    if not event["type"].endswith(("Failed", "TimedOut")) or event["type"].startswith("Execution"):
        return ""
    details = [value for key, value in event.items() if key.endswith("EventDetails")]
    return ": ".join(text for one in details for text in (one.get("error", ""), one.get("cause", "")) if text)
