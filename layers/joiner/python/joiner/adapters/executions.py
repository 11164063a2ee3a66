"""Executions of the state machines: start a scale-up (one in each time slot), a sweep or a retirement; query an
execution; wake a waiting one.

Standard executions keep their name for 90 days. To start a name again with the same input while it runs is a success
without effect. Therefore the name is the time in seconds: a burst of rings becomes one execution.
"""

import json
from datetime import datetime, timedelta
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.adapters.immediate_sweeps import ImmediateSweeps
from joiner.adapters.ledger import Ledger
from joiner.adapters.payload import is_express
from joiner.names import WARM_UP

INPUT: Final = json.dumps({"schema": 1})  # depends on the name only; otherwise a second start would be refused
GATHERING: Final = timedelta(
    seconds=1
)  # a scale-up lists pods at the earliest this long after its start, so it covers every ring until then
ATTEMPTS: Final = 5  # names tried; the sweep covers the rest

RUNNING: Final = "RUNNING"
SUCCEEDED: Final = "SUCCEEDED"
GONE: Final = "GONE"
STATUS_UNKNOWN: Final = "UNKNOWN"


class Executions:
    """The Step Functions calls that rings need."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def start_scale_up(self, machine: str, now: datetime) -> str:
        """Start a scale-up that has not listed pods yet; return its name, or that of one started within the gathering
        second.

        The slot's execution may have ended already (a cluster without pending pods takes two seconds at most) or have
        listed already; then a name with a number is used.
        """
        slot = f"up-{now:%Y%m%dT%H%M%S}"
        for attempt in range(1, ATTEMPTS + 1):
            name = slot if attempt == 1 else f"{slot}-{attempt}"
            try:
                started = self._client.start_execution(stateMachineArn=machine, name=name, input=INPUT)["startDate"]
            except ClientError as reason:
                if reason.response["Error"]["Code"] != "ExecutionAlreadyExists":
                    raise
                continue  # it has ended: try the next name
            if now - started <= GATHERING:
                return name
        return ""

    def start_sweep(self, machine: str, now: datetime, *, after: int) -> str:
        """Start a sweep that reads after `after` seconds; return its name. Express executions may share a name."""
        name = f"sweep-{now:%Y%m%dT%H%M%S}-deletion"
        self._client.start_execution(stateMachineArn=machine, name=name, input=json.dumps({"after": after}))
        return name

    def start_warm_up(self, machine: str, now: datetime) -> None:
        """Start an execution of the sweep's machine that only initializes the functions of scale-ups."""
        name = f"warm-up-{now:%Y%m%dT%H%M%S}"
        self._client.start_execution(stateMachineArn=machine, name=name, input=json.dumps({WARM_UP: True}))

    def start_retirement_of_interrupted(self, machine: str, now: datetime, by: str) -> str:
        """Start one retirement of all claims whose interruption was noted before `now`; return its name, empty if all
        names were used.

        The first caller of a second starts an execution that reads the notes at once. `by` makes its input unique, so
        that later callers are refused: it may have read already. They share the execution of the next second. It reads
        nothing before that second and has the same input from every caller, so a success means that it was started or
        still runs. Many simultaneous interruptions therefore start about one execution a second. This is correct if the
        clocks of the callers and of Step Functions differ by less than a second.
        """
        for later in range(ATTEMPTS):
            second = now.replace(microsecond=0) + timedelta(seconds=later)
            name = f"retire-{second:%Y%m%dT%H%M%S}-interrupted"
            not_before = int(second.timestamp()) if later else 0
            asked = {
                "reason": "interruption",
                "claims": [],
                "noted": True,
                "notBefore": not_before,
                "by": "" if later else by,
            }
            try:
                self._client.start_execution(stateMachineArn=machine, name=name, input=json.dumps(asked))
            except ClientError as refused:
                if refused.response["Error"]["Code"] != "ExecutionAlreadyExists":
                    raise
                continue
            return name
        return ""

    def status(self, execution: str) -> str:
        """Return ``RUNNING``, the final status, or ``GONE`` if Step Functions does not know the execution (any more).
        Return ``STATUS_UNKNOWN`` for an Express execution, whose status cannot be queried: the caller uses the end that
        it recorded itself.
        """
        if is_express(execution):
            return STATUS_UNKNOWN
        try:
            return str(self._client.describe_execution(executionArn=execution)["status"])
        except ClientError as reason:
            if reason.response["Error"]["Code"] in ("ExecutionDoesNotExist", "InvalidArn"):
                return GONE
            raise

    def wake(self, token: str) -> bool:
        """End a wait; return False if it ended by itself meanwhile."""
        try:
            self._client.send_task_success(taskToken=token, output="{}")
        except ClientError as reason:
            if reason.response["Error"]["Code"] in ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken"):
                return False
            raise
        return True


def ring_scale_up(
    ledger: Ledger, executions: Executions, machine: str, now: datetime, *, stored_at: float = 0.0
) -> str:
    """Count a ring; start a scale-up unless a lease holder will see the ring. Return the execution's name, empty if
    none was needed.

    The count comes before the start: a holder that releases the lease between the two finds the number changed and
    lists again. It does not list before `stored_at` (epoch), the time from which the change behind the ring can be
    read.
    """
    lease = ledger.ring(stored_at)
    if lease.is_held(int(now.timestamp())):
        return ""
    return executions.start_scale_up(machine, now)


def ring_sweep(sweeps: ImmediateSweeps, executions: Executions, machine: str, now: datetime) -> str:
    """Start a sweep unless one has started that will read the change behind the ring. Return the execution's name,
    empty if none was needed.
    """
    wait = sweeps.take(now)
    return executions.start_sweep(machine, now, after=-(-wait // 1000)) if wait >= 0 else ""


def ring_waves(ledger: Ledger, executions: Executions, now: datetime) -> int:
    """Ring every execution that waits for nodes; return how many of them were waiting."""
    tokens = [ledger.ring_wave(wave.name, now.timestamp()) for wave in ledger.waves()]
    return sum(executions.wake(token) for token in tokens if token)
