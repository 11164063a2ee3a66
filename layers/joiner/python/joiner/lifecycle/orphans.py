"""Decide what to do about orphans, and which of them a second survey must confirm first.

An *absence* causes an action only when two surveys, at least some time apart, confirm it. If more than a few instances
are orphaned at once, the input is probably wrong (a wrong account, an empty list, a restored table): then nothing is
terminated, and a warning is given.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from joiner.lifecycle.checks.instance_survey import Mismatch

FEW: Final = 5
SHARE: Final = 0.05
REBUILT_AT_ONCE: Final = 20  # the next sweep rebuilds the others; each needs a few writes to the API server


@dataclass(frozen=True, slots=True)
class OrphanVerdict:
    """The actions for now. `waiting` names absences that are not confirmed yet; `refused` counts orphans above the
    limit.
    """

    retire: tuple[Mismatch, ...] = ()
    collect: tuple[Mismatch, ...] = ()
    rebuild: tuple[Mismatch, ...] = ()
    waiting: frozenset[str] = frozenset()
    refused: int = 0


def removal_limit(instances: int) -> int:
    """Return how many of this number of instances may be orphaned in one sweep.

    >>> removal_limit(0), removal_limit(100), removal_limit(240)
    (5, 5, 12)
    """
    return max(FEW, int(instances * SHARE))


def judge_orphans(
    cases: Iterable[Mismatch], *, absent_since: Mapping[str, int], now: int, apart: int, instances: int
) -> OrphanVerdict:
    """Return the actions for the differences found.

    `absent_since` gives the end of the survey that first found each absence; `now` is the start of this survey (both in
    epoch seconds). `apart` is the minimum of seconds between the two.
    """
    known = list(cases)
    waiting = {case.absent for case in known if case.absent and absent_since.get(case.absent, now) > now - apart}
    sure = [case for case in known if case.absent not in waiting]
    ending = [case for case in sure if case.absent and case.action != "rebuild"]
    refused = len(ending) if len(ending) > removal_limit(instances) else 0
    done = [case for case in sure if not (refused and case in ending)]
    return OrphanVerdict(
        retire=tuple(case for case in done if case.action == "retire"),
        collect=tuple(case for case in done if case.action == "collect"),
        rebuild=tuple(case for case in done if case.action == "rebuild")[:REBUILT_AT_ONCE],
        waiting=frozenset(waiting),
        refused=refused,
    )
