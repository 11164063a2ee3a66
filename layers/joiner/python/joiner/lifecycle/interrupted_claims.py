"""The claims whose interruption is recorded in the ledger; a retirement of interrupted instances starts with them."""

from collections.abc import Iterable
from datetime import datetime
from math import inf
from typing import Final, Protocol

from joiner.lifecycle.recorded_retirement import RecordedRetirement, is_about
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest, is_voluntary
from joiner.lifecycle.retirement_back_off import may_back_off
from joiner.pools import NodeClaim

INTERRUPTED: Final = frozenset(
    {RetirementReason.SPOT, RetirementReason.RESERVATION, RetirementReason.MAINTENANCE, RetirementReason.LOST}
)
"""Reasons that handle_interruption records."""

FRESH_FOR: Final = 300
"""Age in seconds from which a record is left to the sweep, which asks EC2 first: a lost instance may run again."""


class NotedRetirement(RecordedRetirement, Protocol):
    """A retirement whose last interruption is recorded."""

    @property
    def noted_at(self) -> int:
        """Return the time of the last interruption in epoch seconds; 0 if there was none."""


def take_noted_claims(noted: Iterable[NotedRetirement], *, owner: str, now: datetime) -> list[RetirementRequest]:
    """Return interrupted claims that have no active owner and no back-off, each with its most urgent reason.

    Lost ones come first, then the earliest deadline. The claims of `owner` are included: if its first try failed
    midway, the second try continues with the claims of the first.
    """
    moment = int(now.timestamp())
    wanted = [one for one in noted if INTERRUPTED & _reasons(one) and _is_free(one, owner, moment)]
    wanted.sort(key=lambda one: (RetirementReason.LOST not in _reasons(one), one.deadline or inf, one.claim))
    return [
        RetirementRequest(one.claim, max(_reasons(one), key=lambda reason: reason.urgency), one.instance)
        for one in wanted
    ]


def find_binding_reason(noted: NotedRetirement, claim: NodeClaim, now: datetime) -> RetirementReason | None:
    """Return the most urgent recorded reason that is not optional; None if there is none.

    An older loss does not count: the sweep asks EC2 first. Nor does a record of another claim that had this name.
    """
    if not is_about(noted, claim.instance_id):
        return None
    fresh = now.timestamp() - noted.noted_at <= FRESH_FOR
    found = [one for one in _reasons(noted) if not is_voluntary(one, claim)]
    lasting = [one for one in found if fresh or one is not RetirementReason.LOST]
    return max(lasting, key=lambda reason: reason.urgency, default=None)


def _is_free(one: NotedRetirement, owner: str, now: int) -> bool:
    if now - one.noted_at > FRESH_FOR:
        return False
    return one.owner == owner or not (one.attended(now) or may_back_off(one.back_off_until, (one.deadline,), now))


def _reasons(one: NotedRetirement) -> set[RetirementReason]:
    return {RetirementReason(each) for each in one.reasons if each in set(RetirementReason)}
