"""A retirement that ended because something kept its node rests for a while: a world that stays as it is shall not
always cost one.

It rests after an execution that ended well and left the claim blocked (a disruption budget, a pod that asks not to be
disrupted, a volume), for longer each time. Not while its deadline is near, which ends what keeps it; and not if its
instance is gone, which ends everything.

>>> [back_off_seconds(attempts) for attempts in (1, 2, 3, 9)]
[60, 120, 240, 600]
"""

from datetime import datetime
from typing import Final

from joiner.lifecycle.planning_back_off import BACK_OFF_SECONDS
from joiner.lifecycle.retirement import DRAINED, VOLUMES_DETACHED, drain_deadline
from joiner.pools import NodeClaim

NEAR_DEADLINE: Final = BACK_OFF_SECONDS[-1]
"""Seconds before a deadline in which nothing rests: pods get their grace before it."""


def back_off_seconds(attempts: int) -> int:
    """Seconds until the next execution, after so many."""
    return BACK_OFF_SECONDS[max(0, min(attempts, len(BACK_OFF_SECONDS)) - 1)]


def is_blocked(claim: NodeClaim) -> bool:
    """Does it say that something keeps its node?"""
    found = (claim.conditions[name] for name in (DRAINED, VOLUMES_DETACHED))
    return claim.deleting and any(condition.status == "Unknown" and condition.message for condition in found)


def drained_by(claim: NodeClaim) -> int:
    """Until when the claim itself lets its node drain (epoch seconds, 0 for ever)."""
    moment: datetime | None = drain_deadline(claim, 0)
    return int(moment.timestamp()) if moment is not None else 0


def may_back_off(look_at: int, deadlines: tuple[int, ...], now: int) -> bool:
    """May it wait at `now`? `look_at` is when its rest is over; all in epoch seconds, deadlines 0 for none."""
    return now < look_at and all(not each or now < each - NEAR_DEADLINE for each in deadlines)
