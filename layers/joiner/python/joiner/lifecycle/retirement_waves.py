"""The waves of one execution that retires claims, and what becomes of claims above its limit."""

from collections.abc import Sequence
from typing import Final

from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason, RetiringClaim

WAVE: Final = 20
"""Nodes that one function drains at the same time."""


def split_into_waves(retiring: Sequence[RetiringClaim]) -> list[Sequence[RetiringClaim]]:
    """Return the claims in waves, in their order.

    Empty nodes are one wave: they need few calls each, and one wave saves state transitions.
    """
    empty = all(one.reason is RetirementReason.EMPTY for one in retiring)
    size = RETIRED_AT_ONCE if empty else WAVE
    return [retiring[start : start + size] for start in range(0, len(retiring), size)]


def describe_claims_over_limit(number: int) -> str:
    """Return why this number of claims is not retired by an execution that has the maximum of claims.

    >>> describe_claims_over_limit(7)
    '7 claims are more than one execution retires (100): the next one takes them'
    """
    return f"{number} claims are more than one execution retires ({RETIRED_AT_ONCE}): the next one takes them"
