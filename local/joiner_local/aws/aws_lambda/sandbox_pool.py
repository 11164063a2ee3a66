"""Choose the sandbox that serves an invocation: a warm one, a new one, or none because of the concurrency limit.

A function keeps its sandboxes warm; a changed function retires its old ones. On one machine many cold starts at once
take longer than waiting for a warm sandbox. So beyond one sandbox a core an invocation waits a little first, the longer
the more sandboxes the function has, and no more sandboxes start at once than there are cores. A sandbox that becomes
free is given to the invocation of its function that waits the longest, and no other is woken.
"""

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from joiner_local.aws.aws_lambda.sandboxes import (
    INIT_LIMIT,
    FunctionSpec,
    InvocationResult,
    Sandbox,
    SandboxEnvironment,
)

CORES = max(2, os.cpu_count() or 2)
PATIENCE = 0.3  # seconds that an invocation waits for a warm sandbox, for each sandbox from the last core on
MOST_SANDBOXES = 50  # of one function
WAITING = 1.0  # seconds until an invocation looks whether it may start a sandbox, if no event tells it before
REAPING = 15.0  # seconds between searches for unused sandboxes


class InvocationThrottled(Exception):
    """The function already uses all of its concurrency."""


@dataclass(slots=True)
class _Fleet:
    """The sandboxes of one function: the idle ones by last use, the numbers of all and of busy ones, and the
    invocations that wait for one, in their order.
    """

    idle: list[Sandbox] = field(default_factory=list)
    alive: int = 0
    busy: int = 0
    waiting: deque[threading.Event] = field(default_factory=deque)

    def call_next(self) -> None:
        """Wake the invocation that waits the longest."""
        if self.waiting:
            self.waiting[0].set()


class SandboxPool:
    def __init__(self, around: SandboxEnvironment) -> None:
        self._around = around
        self._lock = threading.Lock()
        self._fleets: dict[str, _Fleet] = {}
        self._starting = 0
        self._all: set[Sandbox] = set()
        around.scratch.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._reap_for_ever, name="sandbox-reaper", daemon=True).start()

    def invoke(
        self, spec: FunctionSpec, payload: bytes, request_id: str | None = None, client_context: str | None = None
    ) -> InvocationResult:
        """Invoke the function. Raises `InvocationThrottled` at once when its concurrency is used up."""
        sandbox = self._take(spec)
        try:
            return sandbox.invoke(payload, request_id or str(uuid.uuid4()), client_context)
        finally:
            self._give_back(spec, sandbox)

    def _take(self, spec: FunctionSpec) -> Sandbox:
        asked, turn = time.monotonic(), threading.Event()
        with self._lock:
            fleet = self._fleets.setdefault(spec.arn, _Fleet())
            if fleet.busy >= spec.concurrency:
                raise InvocationThrottled(spec.name)
            fleet.busy += 1
            fleet.waiting.append(turn)
        while True:
            with self._lock:
                turn.clear()
                stale = self._retire(fleet, [each for each in fleet.idle if each.spec != spec or not each.usable])
                sandbox, starts, wait = None, False, None  # who is not the first is woken when it becomes that
                if fleet.waiting[0] is turn:
                    sandbox, starts, wait = self._choose(fleet, time.monotonic() - asked)
                if sandbox or starts:
                    fleet.waiting.popleft()
                    fleet.call_next()
            for each in stale:
                each.kill()
            if sandbox or starts:
                return sandbox or self._start(spec, fleet)
            turn.wait(wait)

    def _choose(self, fleet: _Fleet, waited: float) -> tuple[Sandbox | None, bool, float | None]:
        """Return an idle sandbox, or whether one is to be started, or the seconds after which to choose again."""
        if fleet.idle:
            return fleet.idle.pop(), False, 0.0  # the most recently used one, so that the others can expire
        patience = PATIENCE * max(0, fleet.alive - CORES + 1)
        if self._starting >= CORES or fleet.alive >= MOST_SANDBOXES:
            return None, False, WAITING
        if waited < patience:
            return None, False, patience - waited
        self._starting += 1
        fleet.alive += 1
        return None, True, 0.0

    def forget(self, arn: str) -> None:
        """Retire the sandboxes of a deleted function; busy ones finish first."""
        with self._lock:
            fleet = self._fleets.get(arn, _Fleet())
            gone = self._retire(fleet, fleet.idle)
        for each in gone:
            each.kill()

    def end_idle(self) -> int:
        """End all idle sandboxes; return their number."""
        return self._end(lambda _sandbox: True)

    def _reap_for_ever(self) -> None:
        while True:
            time.sleep(REAPING)
            self._end(lambda sandbox: not sandbox.usable)

    def _end(self, chosen: Callable[[Sandbox], bool]) -> int:
        with self._lock:
            ended = [
                each
                for fleet in self._fleets.values()
                for each in self._retire(fleet, [one for one in fleet.idle if chosen(one)])
            ]
        for each in ended:
            each.kill()
        return len(ended)

    def _retire(self, fleet: _Fleet, sandboxes: Sequence[Sandbox]) -> list[Sandbox]:
        retired = list(sandboxes)
        for each in retired:
            fleet.idle.remove(each)
            fleet.alive -= 1
            self._all.discard(each)
        return retired

    def _start(self, spec: FunctionSpec, fleet: _Fleet) -> Sandbox:
        try:
            sandbox = Sandbox(spec, self._around)
        except BaseException:
            with self._lock:
                self._starting -= 1
                fleet.alive -= 1
                fleet.busy -= 1
                self._call_next()
            raise
        with self._lock:
            self._all.add(sandbox)
        threading.Thread(target=self._started, args=(sandbox,), name="started", daemon=True).start()
        return sandbox

    def _started(self, sandbox: Sandbox) -> None:
        sandbox.api.ready.wait(INIT_LIMIT + 5)
        with self._lock:
            self._starting -= 1
            self._call_next()

    def _call_next(self) -> None:
        """Wake the first waiting invocation of each function: one of them may start a sandbox."""
        for fleet in self._fleets.values():
            fleet.call_next()

    def _give_back(self, spec: FunctionSpec, sandbox: Sandbox) -> None:
        with self._lock:
            fleet = self._fleets[spec.arn]
            fleet.busy -= 1
            if sandbox.closed:
                fleet.alive -= 1
                self._all.discard(sandbox)
            else:
                fleet.idle.append(sandbox)
            fleet.call_next()
        if sandbox.closed:
            sandbox.kill()

    def close(self) -> None:
        """End all processes. The server ends right after this, so it happens in the foreground."""
        with self._lock:
            everything = list(self._all)
        for sandbox in everything:
            sandbox.kill()
        self._around.interpreters.close()
        for sandbox in everything:
            sandbox.forget_folder()
