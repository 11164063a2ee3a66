"""A trial: cases of the crash table, one after another, and what came of each."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.e2e.crash.disturbed_stack import Rig
from tests.e2e.crash.fault_table import FaultCase, Verdict, show

TRIES: Final = 3
"""A case that is not met is tried again: calls of a later round depend on the times of a run."""

UNMET: Final = 0.05
"""The part of the cases that may be not met."""


@dataclass(slots=True)
class Trial:
    """The cases that were tried so far, and what came of them."""

    rig: Rig
    say: Callable[[str], None]
    tried: int
    """How many are to be tried."""

    verdicts: dict[FaultCase, Verdict] = field(default_factory=dict)

    def run(self, cases: Iterable[FaultCase]) -> None:
        """Try all cases, those that begin in a cluster of their own last."""
        cases = list(cases)
        self._walk([case for case in cases if not case.place.scenario.stage])
        for case in [case for case in cases if case.place.scenario.stage]:
            self._try(case)
        self.rig.clean()

    def _walk(self, cases: Iterable[FaultCase]) -> None:
        """Try cases that scale up and others in turn, each from where the one before it ended."""
        queues: dict[bool, deque[FaultCase]] = {True: deque(), False: deque()}
        for case in cases:
            queues[case.place.scenario.goes_up].append(case)
        while any(queues.values()):
            for up, queue in queues.items():
                if not queue:
                    self.rig.undisturbed(up=up)
                elif self._try(queue.popleft()).wrong:
                    self.rig.clean()
                    if up:
                        self.rig.undisturbed(up=True)

    def _try(self, case: FaultCase) -> Verdict:
        for number in range(TRIES):
            if number and not case.place.scenario.stage:
                self.rig.undisturbed(up=not case.place.scenario.goes_up)
            verdict = self.verdicts[case] = self.rig.verdict(case)
            if verdict.struck or verdict.wrong:
                break
        self.say(f"{len(self.verdicts)}/{self.tried} {case}: {'; '.join([str(verdict), *verdict.wrong])}")
        return verdict

    @property
    def wrong(self) -> dict[str, tuple[str, ...]]:
        return {str(case): verdict.wrong for case, verdict in self.verdicts.items() if verdict.wrong}

    @property
    def struck(self) -> int:
        """How many cases had their fault."""
        return sum(verdict.struck for verdict in self.verdicts.values())

    def describe(self, seconds: float) -> str:
        """Return the table of what was tried in so many seconds, how many cases were struck, and those that were not
        met.
        """
        counted = (
            f"{self.struck} of {self.tried} cases were struck; {seconds / max(len(self.verdicts), 1):.1f} s a case"
        )
        return f"{show(self.verdicts)}; {counted}; not met: {self.unmet}"

    @property
    def unmet(self) -> list[str]:
        """The cases whose place the execution did not come to."""
        return [str(case) for case, verdict in self.verdicts.items() if not verdict.struck]
