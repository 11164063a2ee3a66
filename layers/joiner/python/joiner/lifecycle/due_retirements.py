"""Which of the retirements that the checks of a sweep found are requested by this sweep."""

from collections.abc import Collection, Iterable
from typing import Final

from joiner.lifecycle.checks import DueRetirement

DUE_AT_ONCE: Final = 200
"""Claims in one answer; the next sweep returns the others."""

EMPTY_AT_ONCE: Final = 100
"""Empty nodes in one answer: one execution retires so many, and further requests would count against the budgets."""


def choose_retirements(found: Iterable[DueRetirement], owned: Collection[str]) -> list[DueRetirement]:
    """Return each claim once, with its first reason; claims that no execution retires come first.

    `owned` are the names of claims that an execution retires already.
    """
    by_claim: dict[str, DueRetirement] = {}
    for due in found:
        by_claim.setdefault(due.claim.name, due)
    ordered = sorted(by_claim.values(), key=lambda due: due.claim.name in owned)
    empty = {due.claim.name for due in [due for due in ordered if due.reason == "empty"][:EMPTY_AT_ONCE]}
    return [due for due in ordered if due.reason != "empty" or due.claim.name in empty][:DUE_AT_ONCE]
