"""Nothing is garbage by one look: what may be done about what was found, and what has to be seen again first.

Something that was *absent* is acted upon when two looks agree, at least some time apart. And however many looks agree,
if more than a few of our instances turn out orphaned at once, it is rather our own eyes that are at fault (a wrong
account, an empty list, a table that was restored): then nothing ends, and people are warned.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from joiner.lifecycle.checks.instance_survey import Mismatch

FEW: Final = 5
SHARE: Final = 0.05
REBUILT_AT_ONCE: Final = 20  # the rest at the next sweep; each is a few writes to the API server


@dataclass(frozen=True, slots=True)
class OrphanVerdict:
    """What to do now. `waiting` names what is absent and was not seen so for long enough; `refused` counts what is too
    much to end.
    """

    retire: tuple[Mismatch, ...] = ()
    collect: tuple[Mismatch, ...] = ()
    rebuild: tuple[Mismatch, ...] = ()
    waiting: frozenset[str] = frozenset()
    refused: int = 0


def removal_limit(instances: int) -> int:
    """How many of so many instances of ours may turn out orphaned in one sweep.

    >>> removal_limit(0), removal_limit(100), removal_limit(240)
    (5, 5, 12)
    """
    return max(FEW, int(instances * SHARE))


def judge_orphans(
    cases: Iterable[Mismatch], *, absent_since: Mapping[str, int], now: int, apart: int, instances: int
) -> OrphanVerdict:
    """`absent_since` is when each absence was first seen, the look being over; `now` is when this look began (both in
    epoch seconds).

    `apart` is how many seconds must lie between the two.
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
