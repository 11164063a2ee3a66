"""The state machines' executions: start one scale-up a time slot, a sweep, a retirement; ask how one fares, wake one
that sleeps.

Standard executions keep their name for 90 days, and starting a name again with the same input while it runs is a
success that starts nothing. So the name is the time to a second: a burst of rings becomes one execution.
"""

import json
from datetime import datetime, timedelta
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.adapters.ledger import Ledger
from joiner.adapters.payload import is_express
from joiner.adapters.sweep_slot import SweepSlot

INPUT: Final = json.dumps({"schema": 1})  # a pure function of the name, or a second start would be refused
GATHERING: Final = timedelta(
    seconds=1
)  # a scale-up lists pods no sooner after its start: until then it covers every ring
ATTEMPTS: Final = 5  # names tried; the sweep covers what is left

RUNNING: Final = "RUNNING"
SUCCEEDED: Final = "SUCCEEDED"
GONE: Final = "GONE"
UNTOLD: Final = "UNTOLD"


class Executions:
    """Step Functions, as far as rings need it."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def start_scale_up(self, machine: str, now: datetime) -> str:
        """One scale-up that has not listed pods yet: the name of a new one, or of one that started within the gathering
        second.

        The slot's execution may have ended already (a cluster without pending pods takes two seconds at most) or be
        past its listing; then a name with a number is taken.
        """
        slot = f"up-{now:%Y%m%dT%H%M%S}"
        for attempt in range(1, ATTEMPTS + 1):
            name = slot if attempt == 1 else f"{slot}-{attempt}"
            try:
                started = self._client.start_execution(stateMachineArn=machine, name=name, input=INPUT)["startDate"]
            except ClientError as reason:
                if reason.response["Error"]["Code"] != "ExecutionAlreadyExists":
                    raise
                continue  # it has ended: the next name
            if now - started <= GATHERING:
                return name
        return ""

    def start_sweep(self, machine: str, now: datetime, *, after: int) -> str:
        """A sweep that looks in `after` seconds; its name. Express executions share names freely."""
        name = f"sweep-{now:%Y%m%dT%H%M%S}-deletion"
        self._client.start_execution(stateMachineArn=machine, name=name, input=json.dumps({"after": after}))
        return name

    def start_retirement_of_interrupted(self, machine: str, now: datetime, by: str) -> str:
        """One retirement of all claims whose interruption was noted before `now`; its name, empty if none was left.

        The first caller of a second starts one that reads the notes at once. `by` makes its input unique, so that the
        callers after it are refused: it may have read already. They share the one of the next second, which reads
        nothing before that second and has the same input whoever starts it: a success then says that it was made or
        that it is still running. So a storm starts about one a second. Such a start is right if the clocks of the
        callers and of Step Functions differ by less than a second.
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
        """``RUNNING``, how it ended, or ``GONE`` when Step Functions does not know it (any more); ``UNTOLD`` of an
        Express execution, of which it says nothing: who waits for its end goes by what it wrote down itself.
        """
        if is_express(execution):
            return UNTOLD
        try:
            return str(self._client.describe_execution(executionArn=execution)["status"])
        except ClientError as reason:
            if reason.response["Error"]["Code"] in ("ExecutionDoesNotExist", "InvalidArn"):
                return GONE
            raise

    def wake(self, token: str) -> bool:
        """End a sleep; False if the sleeper woke by itself meanwhile."""
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
    """Count a ring; start a scale-up unless a living holder will see it. Returns the execution's name, empty if none
    was needed.

    First the count, then the start: a holder that releases between the two finds the number changed and lists again. It
    does not list before `stored_at` (epoch) if what rings can be read no sooner.
    """
    lease = ledger.ring(stored_at)
    if lease.living(int(now.timestamp())):
        return ""
    return executions.start_scale_up(machine, now)


def ring_sweep(slot: SweepSlot, executions: Executions, machine: str, now: datetime) -> str:
    """Start a sweep unless one is on its way that will see what rang. Returns the execution's name, empty if none was
    needed.
    """
    wait = slot.take(now)
    return executions.start_sweep(machine, now, after=-(-wait // 1000)) if wait >= 0 else ""


def ring_waves(ledger: Ledger, executions: Executions, now: datetime) -> int:
    """Tell every execution that awaits nodes to look; how many were asleep."""
    tokens = [ledger.ring_wave(wave.name, now.timestamp()) for wave in ledger.waves()]
    return sum(executions.wake(token) for token in tokens if token)
