"""Which calls fail, and how: one rule at a time.

  {"caller": "launch_instances", "call": "ec2 CreateFleet", "nth": 1, "how": "answer lost", "times": 1, "after": 0}

The nth call fails and, with `times` more than 1, those after it; `times` null is all of them. `how`:

  refused      403, and nothing is done
  timed out    nothing is done, and the connection ends without a response
  answer lost  the call is done, and the connection ends without a response

A connection ends `after` that many seconds: at once, unless the caller's own timeout is to be tested.
"""

import threading
from dataclasses import dataclass, field
from typing import Any, Final

from joiner_local.aws.fault_injection.request_callers import RequestCallers

REFUSED: Final = "refused"
TIMED_OUT: Final = "timed out"
ANSWER_LOST: Final = "answer lost"
WAYS: Final = (REFUSED, TIMED_OUT, ANSWER_LOST)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One request of a role: the caller and the call, without names of objects (``ec2 CreateFleet``, ``kube PATCH
    nodes/status``).
    """

    caller: str
    call: str


@dataclass(slots=True)
class FaultRule:
    """The rule in force; `met` calls matched so far, `struck` of them failed."""

    caller: str
    call: str
    how: str
    nth: int = 1
    times: int | None = 1
    after: float = 0.0
    met: int = 0
    struck: int = 0

    def strikes(self, call: RecordedCall) -> bool:
        if (call.caller, call.call) != (self.caller, self.call):
            return False
        self.met += 1
        strikes = self.met >= self.nth and (self.times is None or self.met < self.nth + self.times)
        self.struck += strikes
        return strikes


@dataclass(slots=True)
class FaultRules:
    """Consulted for every call that enters the local AWS or the API server proxy."""

    callers: RequestCallers
    guarded: dict[str, str] = field(default_factory=dict)
    _rule: FaultRule | None = None
    _calls: list[RecordedCall] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def idle(self) -> bool:
        """There is no rule and no recording: requests need not be read."""
        return self._rule is None and self._calls is None

    def meet(self, access_key: str, call: str) -> FaultRule | None:
        """Return the rule if this call shall fail."""
        caller = self.callers.name(access_key)
        if not caller:
            return None
        asked = RecordedCall(caller, call)
        with self._lock:
            if self._calls is not None:
                self._calls.append(asked)
            return self._rule if self._rule is not None and self._rule.strikes(asked) else None

    def set(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Knob: set the rule."""
        if unknown := asked.keys() - {"caller", "call", "how", "nth", "times", "after"}:
            raise ValueError(f"mishaps/set: {sorted(unknown)} is not known")
        if asked and asked["how"] not in WAYS:
            raise ValueError(f"a call is {' or '.join(WAYS)}, not {asked['how']}")
        with self._lock:
            struck = self._rule.struck if self._rule is not None else 0
            self._rule = FaultRule(**asked) if asked else None
        return {"struck": struck}

    def record(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Knob: start or end the recording."""
        with self._lock:
            noted, self._calls = self._calls or [], [] if asked["on"] else None
        return {"calls": [[each.caller, each.call] for each in noted]}
