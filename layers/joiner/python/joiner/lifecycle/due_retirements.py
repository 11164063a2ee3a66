"""Which of the retirements that the checks of a sweep found are requested by this sweep."""

from collections.abc import Collection, Iterable
from typing import Final

from joiner.lifecycle.checks.cluster_survey import DueRetirement
from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason

DUE_AT_ONCE: Final = 200
"""Claims in one answer; the next sweep returns the others."""


def choose_retirements(found: Iterable[DueRetirement], owned: Collection[str]) -> list[DueRetirement]:
    """Return each claim once, with its first reason; claims that no execution retires come first.

    `owned` are the names of claims that an execution retires already. Of empty nodes there are no more than one
    execution retires: further requests would count against the budgets.
    """
    by_claim: dict[str, DueRetirement] = {}
    for due in found:
        by_claim.setdefault(due.claim.name, due)
    ordered = sorted(by_claim.values(), key=lambda due: due.claim.name in owned)
    empty = [due.claim.name for due in ordered if due.reason is RetirementReason.EMPTY]
    chosen = frozenset(empty[:RETIRED_AT_ONCE])
    return [due for due in ordered if due.reason is not RetirementReason.EMPTY or due.claim.name in chosen][
        :DUE_AT_ONCE
    ]
