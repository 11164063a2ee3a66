"""The claims whose interruption was noted in the ledger: what a retirement of interrupted instances begins with."""

from collections.abc import Iterable
from datetime import datetime
from math import inf
from typing import Final

from joiner.adapters.ledger_items import Retirement
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.lifecycle.retirement_back_off import may_back_off

INTERRUPTED: Final = frozenset({RetirementReason.SPOT, RetirementReason.LOST})

FRESH_FOR: Final = 300
"""Seconds after which a note is left to the sweep, which asks EC2 first: an instance that was lost may run again."""


def take_noted_claims(noted: Iterable[Retirement], *, owner: str, now: datetime) -> list[RetirementRequest]:
    """Interrupted claims that nobody attends and that do not rest, each with its most urgent reason: lost ones first,
    then by deadline.

    The claims of `owner` are among them: when its first try failed midway, its second one has to go on with what the
    first one took.
    """
    moment = int(now.timestamp())
    wanted = [one for one in noted if INTERRUPTED & _reasons(one) and _is_free(one, owner, moment)]
    wanted.sort(key=lambda one: (RetirementReason.LOST not in _reasons(one), one.deadline or inf, one.claim))
    return [
        RetirementRequest(one.claim, max(_reasons(one), key=lambda reason: reason.urgency), one.instance)
        for one in wanted
    ]


def _is_free(one: Retirement, owner: str, now: int) -> bool:
    if now - one.noted_at > FRESH_FOR:
        return False
    return one.owner == owner or not (one.attended(now) or may_back_off(one.look_at, (one.deadline,), now))


def _reasons(one: Retirement) -> set[RetirementReason]:
    return {RetirementReason(each) for each in one.reasons if each in set(RetirementReason)}
