"""`joiner status` shows the last scale-up that did something, and not one that only joined it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner_cli.last_scale_up import MOST_READ, find_last_scale_up

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
JOINED = {"joined": True}
NOTHING = {"pods": 0, "launched": 0, "short": 0, "failed": 0, "rounds": 1, "paused": False}
LAUNCHED = {**NOTHING, "pods": 5, "launched": 2, "short": 1, "pending": ["1 pod: general: no instance type"]}


class FakeExecutions:
    """The executions of one state machine; each began a minute before the one that it follows."""

    def __init__(self, *ends: Mapping[str, Any]) -> None:
        self.all: dict[str, dict[str, Any]] = {
            f"arn:{number}": {
                "executionArn": f"arn:{number}",
                "name": f"up-{number}",
                "startDate": NOON - timedelta(minutes=number),
                **({"output": json.dumps(end), "status": "SUCCEEDED"} if "status" not in end else end),
            }
            for number, end in enumerate(ends)
        }

    def list_executions(self, *, stateMachineArn: str, maxResults: int) -> Mapping[str, Any]:
        assert stateMachineArn == "arn:machine"
        return {"executions": [{"executionArn": arn} for arn in self.all][:maxResults]}

    def describe_execution(self, *, executionArn: str) -> Mapping[str, Any]:
        return self.all[executionArn]


def lines(*ends: Mapping[str, Any]) -> list[str]:
    found = find_last_scale_up(FakeExecutions(*ends), "arn:machine")
    return found.to_lines() if found else []


def test_executions_that_did_nothing_are_passed_over() -> None:
    paused = {"paused": True}

    assert lines(JOINED, paused, NOTHING, LAUNCHED, JOINED) == [
        "up-3 SUCCEEDED, started 2026-11-28T11:57:00Z: 2 launched, 1 short of capacity",
        "pending then: 1 pod: general: no instance type",
    ]


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ({"status": "RUNNING"}, "up-1 RUNNING, started 2026-11-28T11:59:00Z"),
        (
            {"status": "FAILED", "error": "States.Timeout", "cause": "too long"},
            "up-1 FAILED, started 2026-11-28T11:59:00Z: States.Timeout too long",
        ),
        ({**NOTHING, "failed": 3}, "up-1 SUCCEEDED, started 2026-11-28T11:59:00Z: 3 failed"),
        ({**NOTHING, "pods": 3}, "up-1 SUCCEEDED, started 2026-11-28T11:59:00Z: no node launched"),
        (
            {"refused": "Karpenter runs in the cluster"},
            "up-1 SUCCEEDED, started 2026-11-28T11:59:00Z: refused: Karpenter runs in the cluster",
        ),
    ],
    ids=["running", "failed", "no launch succeeded", "pods got existing nodes", "refused"],
)
def test_one_that_joined_does_not_hide(end: Mapping[str, Any], line: str) -> None:
    assert lines(JOINED, end, LAUNCHED) == [line]


def test_if_none_did_anything_the_newest_is_shown() -> None:
    assert lines() == []
    assert lines(JOINED, NOTHING) == ["up-0 SUCCEEDED, started 2026-11-28T12:00:00Z: no node launched"]
    assert lines(*[JOINED] * MOST_READ, LAUNCHED)[0].startswith("up-0 ")


def test_the_json_has_the_counts_and_the_reasons() -> None:
    found = find_last_scale_up(FakeExecutions(JOINED, LAUNCHED), "arn:machine")

    assert found is not None
    assert found.to_json() == {
        "name": "up-1",
        "status": "SUCCEEDED",
        "started": "2026-11-28T11:59:00Z",
        "launched": 2,
        "short": 1,
        "failed": 0,
        "pending": ["1 pod: general: no instance type"],
    }
