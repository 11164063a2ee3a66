"""Which calls fail, and how.

  {"caller": "launch_instances", "call": "ec2 CreateFleet", "nth": 1, "how": "answer lost", "times": 1, "after": 0}

The nth call fails and, with `times` more than 1, those after it; `times` null is all of them. `caller` and `call` may
have wildcards: ``*``, ``kube LIST *``. `how`:

  refused      403, and nothing is done
  throttled    429 with ``Retry-After: 1`` or the service's error for too many requests, and nothing is done
  timed out    nothing is done, and the connection ends without a response
  answer lost  the call is done, and the connection ends without a response
  slow         the call is done `after` that many seconds, and answered

A connection ends `after` that many seconds: at once, unless the caller's own timeout is to be tested. Several rules
hold at a time with ``{"rules": [...]}``; a call that several rules fail fails by the first.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

from joiner_local.aws.fault_injection.small_pages import SmallPages
from joiner_local.knob_requests import check_fields, read_number, read_text, read_whole

REFUSED: Final = "refused"
THROTTLED: Final = "throttled"
TIMED_OUT: Final = "timed out"
ANSWER_LOST: Final = "answer lost"
SLOW: Final = "slow"
WAYS: Final = (REFUSED, THROTTLED, TIMED_OUT, ANSWER_LOST, SLOW)
SETTINGS: Final = frozenset({"caller", "call", "how", "nth", "times", "after"})


class Callers(Protocol):
    """Knows who makes a request."""

    def name(self, access_key: str) -> str:
        """Return the caller of a request; empty if its calls never fail."""
        ...


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One request of a role: the caller and the call, without names of objects (``ec2 CreateFleet``, ``kube PATCH
    nodes/status``).
    """

    caller: str
    call: str


@dataclass(slots=True)
class FaultRule:
    """A rule in force; `met` calls matched so far, `struck` of them failed."""

    caller: str
    call: str
    how: str
    nth: int = 1
    times: int | None = 1
    after: float = 0.0
    met: int = 0
    struck: int = 0

    @classmethod
    def from_knob(cls, asked: Mapping[str, Any]) -> "FaultRule":
        """Read one rule; raises ValueError or MissingField."""
        check_fields(asked, SETTINGS, "faults/set")
        if asked["how"] not in WAYS:
            raise ValueError(f"a call is {' or '.join(WAYS)}, not {asked['how']}")
        always = "times" in asked and asked["times"] is None
        return cls(
            read_text(asked, "caller"),
            read_text(asked, "call"),
            asked["how"],
            nth=read_whole(asked, "nth", 1),
            times=None if always else read_whole(asked, "times", 1),
            after=read_number(asked, "after", 0.0),
        )

    def strikes(self, call: RecordedCall) -> bool:
        if not (fnmatchcase(call.caller, self.caller) and fnmatchcase(call.call, self.call)):
            return False
        self.met += 1
        strikes = self.met >= self.nth and (self.times is None or self.met < self.nth + self.times)
        self.struck += strikes
        return strikes


@dataclass(slots=True)
class FaultRules:
    """Consulted for every call that enters the local AWS or the API server proxy."""

    callers: Callers
    guarded: dict[str, str] = field(default_factory=dict)
    pages: SmallPages = field(default_factory=SmallPages)
    _rules: tuple[FaultRule, ...] = ()
    _calls: list[RecordedCall] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def idle(self) -> bool:
        """There is no rule, no recording and no small page: requests need not be read."""
        return not self._rules and self._calls is None and not self.pages.size

    def meet(self, access_key: str, call: str) -> FaultRule | None:
        """Return the rule if this call shall fail."""
        caller = self.callers.name(access_key)
        if not caller:
            return None
        asked = RecordedCall(caller, call)
        with self._lock:
            if self._calls is not None:
                self._calls.append(asked)
            struck = [rule for rule in self._rules if rule.strikes(asked)]
        return struck[0] if struck else None

    def set(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Knob: replace all rules. Answers how many calls the previous ones failed, together and each."""
        wanted = asked.get("rules", [asked] if asked else [])
        if not isinstance(wanted, list) or not all(isinstance(each, Mapping) for each in wanted):
            raise ValueError("faults/set: rules is a list of JSON objects")
        rules = tuple(map(FaultRule.from_knob, wanted))
        with self._lock:
            counted = self._count()
            self._rules = rules
        return counted

    def count(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        """Knob: answer how many calls the rules have failed until now, together and each."""
        with self._lock:
            return self._count()

    def _count(self) -> dict[str, Any]:
        struck = [rule.struck for rule in self._rules]
        return {"struck": sum(struck), "each": struck}

    def record(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Knob: start or end the recording."""
        with self._lock:
            noted, self._calls = self._calls or [], [] if asked["on"] else None
        return {"calls": [[each.caller, each.call] for each in noted]}
