"""Suggestions for misspelt names."""

import difflib
from collections.abc import Container, Iterable, Sequence
from typing import Final

LEAST_LETTERS: Final = 5
"""Shorter names are too often one letter apart by intention, such as cpu and gpu."""


def suggest_nearest(name: str, known: Sequence[str], *, cutoff: float = 0.7) -> str:
    """Return ``; did you mean "x"?`` if one of the known names is near; an empty text otherwise. ``cutoff`` is the
    least similarity, from 0 to 1 for equal names: with the default, three letters of which one is wrong are another
    name.

    >>> suggest_nearest("limitz", ["limits", "weight"])
    '; did you mean "limits"?'
    >>> suggest_nearest("CPU", ["cpu", "memory"]), suggest_nearest("cpus", ["cpu", "memory"])
    ('; did you mean "cpu"?', '; did you mean "cpu"?')
    >>> suggest_nearest("gpu", ["cpu", "memory"]), suggest_nearest("io4", ["io1", "io2"])
    ('', '')

    A prefix that two names share makes them no nearer.

    >>> [suggest_nearest(name, ["joiner.dev/burstable"]) for name in ("joiner.dev/pause", "joiner.dev/burstabel")]
    ['', '; did you mean "joiner.dev/burstable"?']
    """
    asked = name.strip().lower()
    lower = {one.lower(): one for one in known}
    domain, slash, own = asked.rpartition("/")
    beside = {one.rpartition("/")[2]: one for one in lower if slash and one.rpartition("/")[0] == domain}
    near = [beside[one] for one in difflib.get_close_matches(own, beside, n=1, cutoff=cutoff)]
    near = near or difflib.get_close_matches(asked, lower.keys() - beside.values(), n=1, cutoff=cutoff)
    return f'; did you mean "{lower[near[0]]}"?' if near else ""


def find_misspelt(name: str, known: Iterable[str]) -> str:
    """Return the known name that was surely meant by this one: it differs by one mistake, and is not too short.

    >>> find_misspelt("defualt", ["gpu", "default"]), find_misspelt("gpu", ["cpu"]), find_misspelt("web-1", ["web-2"])
    ('default', '', '')
    """
    if len(name) < LEAST_LETTERS:
        return ""
    return next((one for one in sorted(known) if is_one_mistake(name.lower(), one.lower())), "")


def is_one_mistake(name: str, meant: str) -> bool:
    """Return whether one letter is missing, surplus or wrong, or two neighbours are exchanged. Digits are no letters:
    names with different numbers are different names.

    >>> [is_one_mistake(name, "default") for name in ("defualt", "defaul", "defaullt", "defeult", "defau", "default2")]
    [True, True, True, True, False, False]
    """
    start = _count_equal(name, meant)
    name, meant = name[start:], meant[start:]
    end = _count_equal(name[::-1], meant[::-1])
    name, meant = name[: len(name) - end], meant[: len(meant) - end]
    if name == meant or any(one.isdigit() for one in name + meant):
        return False
    return max(len(name), len(meant)) == 1 or (len(name) == 2 and name == meant[::-1])


def _count_equal(one: str, other: str) -> int:
    """Return the number of equal letters at the beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def refuse_value(value: str, allowed: Sequence[str]) -> str:
    """Return the remedy for a value that is none of those allowed; ``value`` is empty if it is missing.

    >>> refuse_value("RAID5", ["RAID0"]), refuse_value("opened", ["open", "targeted"])
    ('use RAID0', 'use one of open, targeted; did you mean "open"?')
    """
    if len(allowed) == 1:
        return f"use {allowed[0]}"
    return f"use one of {', '.join(allowed)}{suggest_nearest(value, allowed) if value else ''}"


def refuse_field(name: str, known: Iterable[str], present: Container[str] = ()) -> str:
    """Return the remedy for a field that does not exist. Of the known fields, those that are ``present`` beside it are
    not meant, unless there is just one mistake between the names.

    >>> refuse_field("limitz", ["limits"]), refuse_field("a", ["limits"])
    ('there is no such field; did you mean "limits"?', 'there is no such field; remove it')
    >>> refuse_field("minValues", ["values"], {"minValues", "values"})
    'there is no such field; remove it'
    """
    meant = [one for one in sorted(known) if one not in present or is_one_mistake(name.lower(), one.lower())]
    return f"there is no such field{suggest_nearest(name, meant) or '; remove it'}"
