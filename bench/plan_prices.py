"""Compare plans with recorded answers of Karpenter: ``python -m bench.plan_prices [--cases FOLDER]``.

It measures prices and durations. Times are CPU seconds of ``plan`` alone, from decoded pods to the plan, in a
process that has planned before. Karpenter's seconds are scaled to this machine by the calibration recorded with its
answers. The calibration runs before and after each measurement, so that load on the machine changes both times
equally.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.cases import CLASSES, RecordedCase, add_case_arguments, read_catalogue, select_cases
from joiner.catalogue import Catalogue
from joiner.planning import Plan
from joiner.planning.effort import Effort
from joiner.planning.planner import Planner
from tests.plan_checker import check_plan

GPU_MIXES = ("openball", "openbtaint")
ALL_MIXES = ("web", "web32", "webcons", "bench", *GPU_MIXES, "openbcpu", "openbnogpu")
SPEED_GOALS = ((100, 300, ">= 1 x"), (1000, 1100, ">= 5 x"), (5000, 9000, ">= 20 x"), (20000, 20000, ">= 50 x"))
"""Sizes of cases from and to, and how much faster a first plan is than Karpenter's."""
BRIEFLY = 0.25
"""The deadline of a short search, in seconds."""
CALIBRATED = 1.25
"""The seconds that the recording machine took for twenty million iterations of ``calibrate``'s loop, at module level.
"""


@dataclass(frozen=True, slots=True)
class PlanPrices:
    """One case: the first plan, the plan within the time goal of its mix and size, and, for comparison with a longer
    search, the plan found within BRIEFLY."""

    case: RecordedCase
    first: Plan
    first_seconds: float
    best: Plan
    slower: float
    wrong: int
    brief: Plan | None = None
    longer: Plan | None = None

    @property
    def behind(self) -> float:
        """Return by which share the plan found within BRIEFLY is more expensive than that of a longer search."""
        if self.brief is None or self.longer is None:
            return float("nan")
        return self.brief.price_per_hour / min(self.longer.price_per_hour, self.brief.price_per_hour) - 1

    @property
    def karpenter(self) -> float:
        """Return the recorded price of Karpenter's plan in $/h; NaN without one."""
        return float(self.case.answer["usd_h"]) if self.case.answer else float("nan")

    @property
    def karpenter_seconds(self) -> float:
        """Return Karpenter's time on this machine now; its recorded CPU seconds if no run on an idle machine exists."""
        if not self.case.answer:
            return float("nan")
        return float(self.case.answer["solve_s"] or self.case.answer["cpu_s"]) * self.slower


def calibrate() -> float:
    """Return how much slower this machine is now than the recording machine."""
    started = time.process_time()
    # at module level, as recorded
    exec(compile("s = 0\nfor i in range(1_000_000):\n    s += i\n", "calibration", "exec"), {})  # noqa: S102
    return (time.process_time() - started) / (CALIBRATED / 20)


def budget(case: RecordedCase) -> float:
    """Return the goal for the duration of such a plan, in seconds."""
    if case.mix == "bench" and case.size >= 1000:
        return 2.0
    return 1.0 if case.pods > 1100 or case.mix.startswith("openb") else BRIEFLY


def measured(
    case: RecordedCase, catalogue: Catalogue, *, seconds: float | None, check: bool, longer: float | None
) -> PlanPrices:
    """Plan the case: a first plan (the best of a few), one with time, and one with more time."""
    snapshot, planner = case.snapshot(), Planner()
    before = calibrate()
    gc.collect()
    best_of = []
    for _ in range(3):
        started = time.process_time()
        first = planner.plan(snapshot, catalogue, classes=CLASSES, effort=Effort(steps=0))
        best_of.append(time.process_time() - started)
    slower = (before + calibrate()) / 2
    allowed = budget(case) if seconds is None else seconds

    def within(wanted: float, seed: int = 0) -> Plan:
        effort = Effort(seconds=wanted * slower, seed=seed, clock=time.process_time)
        return planner.plan(snapshot, catalogue, classes=CLASSES, effort=effort)

    improved = within(allowed) if allowed else first
    brief = (within(BRIEFLY) if allowed != BRIEFLY else improved) if longer else None
    wrong = len(check_plan(case.lists(), catalogue.to_json(), improved.to_json())) if check else 0
    return PlanPrices(
        case, first, min(best_of), improved, slower, wrong, brief, within(longer, seed=1) if longer else None
    )


def lines(rows: Sequence[PlanPrices]) -> Iterator[str]:
    """Yield one line for each case."""
    titles = ("Karpenter $/h", "first", "with time", "bound", "gap", "saved", "ms", "x")
    yield f"{'case':28}{'pods':>6}" + "".join(f"{title:>{max(10, len(title) + 1)}}" for title in titles)
    for row in rows:
        saved = 1 - row.best.price_per_hour / row.karpenter
        speed = row.karpenter_seconds / row.first_seconds
        note = f"  {row.wrong} wrong" if row.wrong else ""
        note += f"  {len(row.best.pending)} pending" if row.best.pending else ""
        note += f"  {row.behind:.2%} behind" if row.longer else ""
        prices = (row.karpenter, row.first.price_per_hour, row.best.price_per_hour, row.best.lower_bound_per_hour)
        shown = f"{row.case.name:28}{row.case.pods:6}{prices[0]:14.3f}" + "".join(
            f"{price:10.3f}" for price in prices[1:]
        )
        yield f"{shown}{row.best.gap:10.2%}{saved:10.1%}{row.first_seconds * 1e3 / row.slower:10.1f}{speed:10.1f}{note}"


def goals(rows: Sequence[PlanPrices]) -> Iterator[str]:
    """Yield the goals, each with the measured value."""
    web = _of(rows, "web", "web32", "webcons", low=5000)
    yield _gap("above the bound: web mixes of 5,000 pods and more, 1 s", web, "<= 0.3%")
    yield _gap("above the bound: pods with GPUs, 1,000 and more, 1 s", _of(rows, *GPU_MIXES, low=1000), "<= 1.5%")
    yield _gap("above the bound: Karpenter's own mix, 1,000 and more, 2 s", _of(rows, "bench", low=1000), "<= 4%")
    yield from _behind(rows)
    small = [row for row in rows if row.case.pods <= 36]
    below = sum(not _above_greedy(row.best) for row in small)
    yield f"{'at or under the greedy, 3 to 30 pods':64} goal   always  measured {below} of {len(small)}"
    default = _of(rows, "web", "webcons", "bench", low=300)
    yield _saving("saved, default pool, 300 pods and more (median)", default, ">= 25%")
    yield _saving("saved, types <= 32 vCPU, 300 pods and more (median)", _of(rows, "web32", low=300), ">= 10%")
    yield _saving("saved, GPU mixes, 300 pods and more (median)", _of(rows, *GPU_MIXES, low=300), ">= 35%")
    slowest = max((row.first_seconds / row.slower for row in small), default=float("nan"))
    yield f"{'first plan, 30 pods and fewer, ms':64} goal    <= 30  measured {slowest * 1e3:7.1f} at worst"
    for low, high, goal in SPEED_GOALS:
        yield _speed(f"first plan against Karpenter, {low:,} pods", _of(rows, *ALL_MIXES, low=low, high=high), goal)


def _of(rows: Sequence[PlanPrices], *mixes: str, low: int = 0, high: int = 10**9) -> list[PlanPrices]:
    return [row for row in rows if row.case.mix in mixes and low <= row.case.size <= high]


def _above_greedy(found: Plan) -> bool:
    greedy = found.greedy_price_per_hour
    return greedy is not None and found.price_per_hour > greedy + 1e-9


def _gap(label: str, found: Sequence[PlanPrices], goal: str) -> str:
    worst = max((row.best.gap for row in found), default=float("nan"))
    return f"{label:64} goal {goal:>8}  measured {worst:7.2%} ({len(found)} cases)"


def _saving(label: str, found: Sequence[PlanPrices], goal: str) -> str:
    known = [1 - row.best.price_per_hour / row.karpenter for row in found if row.case.answer]
    median = statistics.median(known) if known else float("nan")
    return f"{label:64} goal {goal:>8}  measured {median:7.1%} ({len(known)} cases)"


def _speed(label: str, found: Sequence[PlanPrices], goal: str) -> str:
    known = [row.karpenter_seconds / row.first_seconds for row in found if row.case.answer]
    worst = min(known, default=float("nan"))
    return f"{label:64} goal {goal:>8}  measured {worst:7.1f} x at worst ({len(known)} cases)"


def _behind(rows: Sequence[PlanPrices]) -> Iterator[str]:
    """Yield the comparison with a longer search, if one ran."""
    few = [row.behind for row in rows if row.longer and row.case.pods <= 36]
    more = [row.behind for row in rows if row.longer and 36 < row.case.pods <= 1100]
    if few:
        label = "above what a longer search finds, 3 to 30 pods (median)"
        yield f"{label:64} goal  <= 0.5%  measured {statistics.median(few):7.2%} ({len(few)} cases)"
    if more:
        label = "above what a longer search finds, 100 to 1,000 pods (worst)"
        yield (
            f"{label:64} goal    <= 1%  measured {max(more):7.2%}, median {statistics.median(more):.2%} "
            f"({len(more)} cases)"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan_prices", description=(__doc__ or "").splitlines()[0])
    add_case_arguments(parser, most_pods=10**9)
    parser.add_argument(
        "--seconds", type=float, help="time for every plan instead of what its goal says; 0: first plans only"
    )
    parser.add_argument(
        "--longer", type=float, help="plan once more with so many seconds, to compare with what a quarter of one finds"
    )
    parser.add_argument("--check", action="store_true", help="check every plan with the independent checker")
    options = parser.parse_args(arguments)
    cases, catalogue = select_cases(options), read_catalogue(options.cases)
    Planner().plan(cases[0].snapshot(), catalogue, classes=CLASSES, effort=Effort(steps=0))  # imports
    rows = []
    for case in cases:
        rows.append(measured(case, catalogue, seconds=options.seconds, check=options.check, longer=options.longer))
        print(list(lines(rows[-1:]))[1], file=sys.stderr, flush=True)
    print("\n".join((*lines(rows), "", *goals(rows))))
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
