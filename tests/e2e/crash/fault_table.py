"""The rows and columns of the crash table, and how it is shown.

A row is a place in one of the scenarios (`fault_scenarios`): a call that a state machine or one of its functions makes,
the n-th of its kind, or a state. Rows come from recorded runs: they are not chosen. A column is what goes wrong there.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.e2e.crash.fault_scenarios import FAULT_SCENARIOS, FaultScenario

ONCE: Final = ("refused", "timed out", "answer lost")
FOR_GOOD: Final = tuple(f"{how}, and ever again" for how in ONCE)
STOPS: Final = ("entered", "working", "left")

READS: Final = (
    "kube GET ",
    "kube LIST ",
    "dynamodb Query ",
    "dynamodb GetItem ",
    "s3 GET ",
    "ec2 Describe",
    "ec2 Get",
    "ssm Get",
    "eks GET ",
)
ALIKE: Final = 3  # the world has three pods and three nodes; a fourth call of a kind comes of one more sweep
READS_ALIKE: Final = 2


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
    scenario: FaultScenario, calls: Iterable[tuple[str, str]], states: Iterable[str], *, tasks: Iterable[str]
) -> list[FaultCase]:
    """Return all cells of a scenario, from the calls (caller and what) and the states of one run.

    `tasks` are those states that call something.

    Each call goes wrong once; every kind of call, too, from its first on for as long as the execution lasts. What only
    reads has no answer to lose that matters, and fails for good in one scenario. Of a sweep the first call of a kind is
    enough: the others are in the same loop.
    """
    counted: Counter[tuple[str, str]] = Counter()
    found = []
    for caller, what in calls:
        counted[caller, what] += 1
        place, reads = FaultPlace(scenario, caller, what, counted[caller, what]), what.startswith(READS)
        if place.nth <= (1 if scenario.swept else READS_ALIKE if reads else ALIKE):
            found += [FaultCase(place, fault) for fault in ONCE]
        if place.nth == 1:
            found += [FaultCase(place, fault) for fault in (FOR_GOOD[:1] if reads else FOR_GOOD)]
    working = set(tasks)
    for state in dict.fromkeys(states):
        found += [
            FaultCase(FaultPlace(scenario, "", state), when) for when in STOPS if when != "working" or state in working
        ]
    return found


def in_a_seeded_order(all_cases: Sequence[FaultCase], seed: int) -> list[FaultCase]:
    """The same cases in the same order every time, in an order that says nothing."""
    return random.Random(seed).sample(sorted(all_cases), len(all_cases))  # noqa: S311 - a choice of tests


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
