"""The last scale-up that did something, for `joiner status`.

Most executions of SCALE UP do nothing: one that starts while another one runs ends as *Joined the running scale-up*,
and one that finds nothing to do has an output without pods and launches.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from joiner.pools.timestamps import format_timestamp

MOST_READ: Final = 25
"""Executions that are looked through, newest first: a call each."""
LONGEST_CAUSE: Final = 300
COUNTS: Final = (("launched", "launched"), ("short", "short of capacity"), ("failed", "failed"))
"""Fields of the output that count NodeClaims (`infra.scale_up_expressions`), with how they are shown."""


class ScaleUpExecutions(Protocol):
    """The calls of Step Functions that are needed."""

    def list_executions(self, *, stateMachineArn: str, maxResults: int) -> Mapping[str, Any]:
        """Return the executions of a state machine, newest first."""

    def describe_execution(self, *, executionArn: str) -> Mapping[str, Any]:
        """Return one execution with its output, or with its error and cause."""


@dataclass(frozen=True, slots=True)
class LastScaleUp:
    """One execution; ``counts`` are NodeClaims by their outcome, ``pending`` the reasons of the pods that it left
    pending, ``cause`` is why it failed or was refused.
    """

    name: str
    status: str
    started: datetime
    counts: Mapping[str, int]
    pending: tuple[str, ...] = ()
    cause: str = ""
    pods: int = 0

    @property
    def did_something(self) -> bool:
        """Return whether it runs, failed, was refused, or had pods or claims."""
        return self.status != "SUCCEEDED" or bool(self.cause or self.pending or self.pods or any(self.counts.values()))

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `lastScaleUp`."""
        fields: dict[str, Any] = {
            "name": self.name,
            "status": self.status,
            "started": format_timestamp(self.started),
            **self.counts,
            "pending": list(self.pending),
        }
        return {**fields, "cause": self.cause} if self.cause else fields

    def to_lines(self) -> list[str]:
        """Return one line about the execution, and one for each reason of pending pods.

        >>> noon = datetime.fromisoformat("2026-11-28T12:00:00+00:00")
        >>> LastScaleUp("up-1", "SUCCEEDED", noon, {"launched": 2, "short": 1}, ("1 pod: why",)).to_lines()
        ['up-1 SUCCEEDED, started 2026-11-28T12:00:00Z: 2 launched, 1 short of capacity', 'pending then: 1 pod: why']
        """
        counts = ", ".join(f"{self.counts[name]} {text}" for name, text in COUNTS if self.counts.get(name))
        did = self.cause or counts or ("no node launched" if self.status == "SUCCEEDED" else "")
        end = f": {did}" if did else ""
        return [
            f"{self.name} {self.status}, started {format_timestamp(self.started)}{end}",
            *(f"pending then: {each}" for each in self.pending),
        ]


def find_last_scale_up(states: ScaleUpExecutions, machine: str) -> LastScaleUp | None:
    """Return the newest execution of the state machine SCALE UP that did something, else the newest; None without one.

    At most ``MOST_READ`` executions are read.
    """
    listed: Sequence[Mapping[str, Any]] = states.list_executions(stateMachineArn=machine, maxResults=MOST_READ)[
        "executions"
    ]
    newest = None
    for one in listed:
        found = _read(states.describe_execution(executionArn=one["executionArn"]))
        if found.did_something:
            return found
        newest = newest or found
    return newest


def _read(described: Mapping[str, Any]) -> LastScaleUp:
    output = json.loads(described.get("output") or "{}")
    cause = " ".join(filter(None, (described.get("error"), described.get("cause"))))[:LONGEST_CAUSE]
    if refused := output.get("refused"):
        cause = f"refused: {refused}"
    return LastScaleUp(
        name=described["name"],
        status=described["status"],
        started=described["startDate"],
        counts={name: int(output.get(name) or 0) for name, _ in COUNTS},
        pending=tuple(output.get("pending") or ()),
        cause=cause,
        pods=int(output.get("pods") or 0),
    )
