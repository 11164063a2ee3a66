"""Suggestions for misspelt names."""

import difflib
from collections.abc import Sequence


def suggest_nearest(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean "x"?`` if one of the known names is near; an empty text otherwise.

    >>> suggest_nearest("limitz", ["limits", "weight"])
    '; did you mean "limits"?'
    """
    near = difflib.get_close_matches(name.strip(), known, n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
