"""The rows and columns of the crash table, and how it is shown.

A row is a place in one of the scenarios (`fault_scenarios`): a call that a state machine or one of its functions makes,
the n-th of its kind, or a state. Rows come from recorded runs: they are not chosen. A column is what goes wrong there.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.e2e.crash.fault_scenarios import FAULT_SCENARIOS, FaultScenario

ONCE: Final = ("refused", "throttled", "timed out", "answer lost")
FOR_GOOD: Final = ("refused, and ever again", "timed out, and ever again", "answer lost, and ever again")
THROTTLED: Final = "throttled"
READS_FAIL: Final = ("refused", THROTTLED, "timed out", "refused, and ever again")
NIGHTS: Final = 2
"""In so many nights every place is struck; one night takes less than an hour so."""

STOPS: Final = ("entered", "working", "left")

READS: Final = (
    "kube GET ",
    "kube LIST ",
    "dynamodb Query ",
    "dynamodb GetItem ",
    "dynamodb BatchGetItem ",
    "states Describe",
    "pricing Get",
    "s3 GET ",
    "ec2 Describe",
    "ec2 Get",
    "ssm Get",
    "eks GET ",
)
ALIKE: Final = 3
"""Calls of a kind that are rows. The world has three pods and three nodes: a fourth one comes of one more sweep."""


@dataclass(frozen=True, slots=True, order=True)
class FaultPlace:
    """A place in a scenario; `caller` is the folder of the function or the name of the state machine that makes the
    call, and empty for a stop."""

    scenario: FaultScenario
    caller: str
    what: str
    nth: int = 1

    def __str__(self) -> str:
        where = f"{self.caller}: {self.what}" if self.caller else self.what
        return where if self.nth == 1 else f"{where}, no. {self.nth}"


@dataclass(frozen=True, slots=True, order=True)
class FaultCase:
    """One cell: what goes wrong, and where."""

    place: FaultPlace
    fault: str

    @property
    def stops(self) -> bool:
        """Is an execution stopped, rather than a call struck?"""
        return not self.place.caller

    def __str__(self) -> str:
        return f"{self.place.scenario}, {self.place}, {self.fault}"


def cases(
    scenario: FaultScenario,
    calls: Iterable[tuple[str, str]],
    states: Iterable[str],
    *,
    tasks: Iterable[str],
    known: Mapping[tuple[str, str], int],
) -> list[FaultCase]:
    """Return all cells of a scenario, from the calls (caller and what) and the states of one run.

    `tasks` are those states that call something. `known` is how often an earlier scenario makes each call: the first
    one beyond it is made in a later round.

    Each call goes wrong once; the first of its kind is also throttled, and goes wrong from then on for as long as the
    execution lasts. What only reads has no answer to lose that matters, and fails for good in one way. Of reads, of a
    sweep and of a later round the first call of a kind is enough: the others are in the same loop.
    """
    counted: Counter[tuple[str, str]] = Counter()
    found = []
    for caller, what in calls:
        counted[caller, what] += 1
        place, reads = FaultPlace(scenario, caller, what, counted[caller, what]), what.startswith(READS)
        first = known.get((caller, what), 0) + 1
        alike = 1 if scenario.swept or first > 1 or reads else ALIKE
        if place.nth == first:
            faults: tuple[str, ...] = READS_FAIL if reads else ONCE + FOR_GOOD
        elif first < place.nth < first + alike:
            faults = tuple(fault for fault in ONCE if fault != THROTTLED)
        else:
            continue
        found += [FaultCase(place, fault) for fault in faults]
    working = set(tasks)
    for state in dict.fromkeys(states):
        found += [
            FaultCase(FaultPlace(scenario, "", state), when) for when in STOPS if when != "working" or state in working
        ]
    return found


def of_one_night(all_cases: Iterable[FaultCase], night: int) -> list[FaultCase]:
    """Return the part of the table that one night tries: one case of every second place.

    Two nights in a row strike every place, and in as many pairs of nights as a place has faults each of them is tried.
    """
    at: dict[FaultPlace, list[FaultCase]] = {}
    for case in all_cases:
        at.setdefault(case.place, []).append(case)
    kept = []
    for place, there in at.items():
        number = zlib.crc32(
            f"{place.scenario}, {place}".encode()
        )  # the same in each run, whatever was recorded besides
        if number % NIGHTS == night % NIGHTS:
            kept.append(there[(number + night) // NIGHTS % len(there)])
    return kept


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case ended: what was `wrong` after `sweeps` of them; a fault that was never injected proves nothing."""

    struck: bool
    sweeps: int
    wrong: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "not met" if not self.struck else "WRONG" if self.wrong else f"ok {self.sweeps}"


def show(verdicts: Mapping[FaultCase, Verdict]) -> str:
    """The whole table, one line a place; ``ok 1`` is well after one sweep, ``.`` was not tried."""
    lines = []
    for scenario in FAULT_SCENARIOS:
        for faults in (ONCE + FOR_GOOD, STOPS):
            places = sorted(
                {case.place for case in verdicts if case.place.scenario == scenario and case.fault in faults}
            )
            if places:
                width = max(len(str(place)) for place in places)
                lines += ["", f"{scenario.name.upper():{width}} " + " ".join(f"{fault:>26}" for fault in faults)]
                for place in places:
                    cells = [str(verdicts.get(FaultCase(place, fault), ".")) for fault in faults]
                    lines.append(f"{place!s:{width}} " + " ".join(f"{cell:>26}" for cell in cells))
    ended = Counter(
        "not met" if not verdict.struck else "wrong" if verdict.wrong else "ok" for verdict in verdicts.values()
    )
    return "\n".join([*lines, "", ", ".join(f"{count} {what}" for what, count in sorted(ended.items()))])
