"""Suggestions for misspelt names."""

import difflib
from collections.abc import Sequence


def suggest_nearest(name: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Return ``; did you mean "x"?`` if one of the known names is near; an empty text otherwise. ``cutoff`` is the
    least similarity, from 0 to 1 for equal names.

    >>> suggest_nearest("limitz", ["limits", "weight"])
    '; did you mean "limits"?'
    >>> suggest_nearest("CPU", ["cpu", "memory"])
    '; did you mean "cpu"?'
    """
    lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.strip().lower(), lower, n=1, cutoff=cutoff)
    return f'; did you mean "{lower[near[0]]}"?' if near else ""


def refuse_field(name: str, known: Sequence[str]) -> str:
    """Return the remedy for a field that does not exist.

    >>> refuse_field("limitz", ["limits"]), refuse_field("a", ["limits"])
    ('there is no such field; did you mean "limits"?', 'there is no such field; remove it')
    """
    return f"there is no such field{suggest_nearest(name, known) or '; remove it'}"
