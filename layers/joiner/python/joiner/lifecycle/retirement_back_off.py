"""Back-off for a retirement that ended because something kept its node: repeated executions without progress cost
money.

A claim backs off after an execution that succeeded and left the claim blocked (a disruption budget, a pod with an
annotation against disruption, a volume), longer each time. It does not back off while its pods leave one by one, as a
disruption budget allows, or near its deadline, which overrides the blockers, or if its instance is gone.

>>> [back_off_seconds(attempts) for attempts in (1, 2, 3, 9)]
[60, 120, 240, 600]
"""

from datetime import datetime
from typing import Final

from joiner.lifecycle.draining import SELDOM
from joiner.lifecycle.planning_back_off import BACK_OFF_SECONDS
from joiner.lifecycle.retirement import VOLUMES_DETACHED, drain_deadline
from joiner.pools import NodeClaim
from joiner.pools.retiring_nodes import DRAINED

NEAR_DEADLINE: Final = BACK_OFF_SECONDS[-1]
"""Seconds before a deadline in which nothing backs off: pods get their grace period before the deadline."""

PROGRESS_SECONDS: Final = 2 * SELDOM
"""A drain progresses if a pod left in its last two passes, which are at most `SELDOM` seconds apart."""


def back_off_seconds(attempts: int) -> int:
    """Return the seconds until the next execution after this number of attempts."""
    return BACK_OFF_SECONDS[max(0, min(attempts, len(BACK_OFF_SECONDS)) - 1)]


def progresses(progressed_at: int, seen_at: int) -> bool:
    """Return whether pods still leave: whether one left shortly before the last pass (epoch seconds, 0 for never).

    >>> progresses(1000, 1060), progresses(1000, 1121), progresses(0, 60)
    (True, False, False)
    """
    return progressed_at > 0 and seen_at - progressed_at <= PROGRESS_SECONDS


def is_blocked(claim: NodeClaim) -> bool:
    """Return whether its status gives a reason that keeps its node."""
    found = (claim.conditions[name] for name in (DRAINED, VOLUMES_DETACHED))
    return claim.deleting and any(condition.status == "Unknown" and condition.message for condition in found)


def drained_by(claim: NodeClaim) -> int:
    """Return until when the claim itself allows its node to drain (epoch seconds, 0 for no limit)."""
    moment: datetime | None = drain_deadline(claim, 0)
    return int(moment.timestamp()) if moment is not None else 0


def may_back_off(back_off_until: int, deadlines: tuple[int, ...], now: int) -> bool:
    """Return whether it may back off at `now`. `back_off_until` is the end of the back-off; all in epoch seconds,
    deadlines 0 for none.
    """
    return now < back_off_until and all(not each or now < each - NEAR_DEADLINE for each in deadlines)
