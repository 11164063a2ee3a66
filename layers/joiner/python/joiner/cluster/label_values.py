"""The values that one node label may have: the algebra for node selectors and node affinity.

A missing label is also a value, ``ABSENT``. So every Kubernetes operator is a set::

    In a, b       {a, b}              Exists          every value but ABSENT
    NotIn a, b    all but {a, b}      DoesNotExist    {ABSENT}
    Gt 4          every integer > 4   Lt 4            every integer < 4

>>> ValueSet.of("a", "b") & ~ValueSet.of("b") == ValueSet.of("a")
True
>>> ABSENT in ~ValueSet.of("a"), ABSENT in ValueSet.above(4), "5" in ValueSet.above(4)
(True, False, True)

The form is canonical. A set is a rule for all values (whether it has words, and which intervals of integers) and a
finite number of exceptions to the rule. An integer has infinitely many spellings ("5", "05", "+5"), so a finite list
cannot equal a rule. Equal sets therefore have equal forms, and ``==`` and ``hash`` are exact. Rules are combined
interval by interval. The exceptions of the result are among those of its parts.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from joiner.cluster.intervals import ALL_INTEGERS, Interval, combine_intervals

INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Absent:
    """The value of a missing label."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
Value = str | Absent


def parse_integer(value: str) -> int | None:
    """Return the integer that ``Gt`` and ``Lt`` of Kubernetes read in a label, or None.

    64 bits; signs and leading zeros are allowed.

    >>> parse_integer("05"), parse_integer("5.0"), parse_integer("large")
    (5, None, None)
    """
    if not INTEGER.fullmatch(value):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True, repr=False)
class ValueSet:
    """An immutable set of label values, which may include ABSENT.

    ``words``: whether it includes values that are not integers. ``intervals``: the integers that it includes,
    ascending, never touching. ``exceptions``: the values for which that rule is wrong.
    """

    absent: bool = False
    words: bool = False
    intervals: tuple[Interval, ...] = ()
    exceptions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *values: Value) -> "ValueSet":
        """Return the set of exactly these values.

        >>> sorted(ValueSet.of("b", "a"))
        ['a', 'b']
        """
        return cls(absent=ABSENT in values, exceptions=frozenset(value for value in values if isinstance(value, str)))

    @classmethod
    def above(cls, bound: int) -> "ValueSet":
        """Return every integer greater than ``bound``."""
        return cls(intervals=((bound + 1, None),))

    @classmethod
    def below(cls, bound: int) -> "ValueSet":
        """Return every integer less than ``bound``."""
        return cls(intervals=((None, bound - 1),))

    def __contains__(self, value: object) -> bool:
        if value is ABSENT:
            return self.absent
        return isinstance(value, str) and self._rule(value) != (value in self.exceptions)

    def _rule(self, value: str) -> bool:
        number = parse_integer(value)
        if number is None:
            return self.words
        return any((low is None or low <= number) and (high is None or number <= high) for low, high in self.intervals)

    def __and__(self, other: "ValueSet") -> "ValueSet":
        return self._combine(other, lambda mine, its: mine and its)

    def __or__(self, other: "ValueSet") -> "ValueSet":
        return self._combine(other, lambda mine, its: mine or its)

    def __sub__(self, other: "ValueSet") -> "ValueSet":
        return self._combine(other, lambda mine, its: mine and not its)

    def __invert__(self) -> "ValueSet":
        return ValueSet(
            not self.absent,
            not self.words,
            combine_intervals((ALL_INTEGERS, self.intervals), lambda _, mine: not mine),
            self.exceptions,
        )

    def _combine(self, other: "ValueSet", rule: Callable[[bool, bool], bool]) -> "ValueSet":
        base = ValueSet(
            absent=rule(self.absent, other.absent),
            words=rule(self.words, other.words),
            intervals=combine_intervals((self.intervals, other.intervals), rule),
        )
        suspects = self.exceptions | other.exceptions
        wrong = frozenset(value for value in suspects if rule(value in self, value in other) != base._rule(value))
        return ValueSet(base.absent, base.words, base.intervals, wrong)

    def __bool__(self) -> bool:
        return self != NOTHING

    def __le__(self, other: "ValueSet") -> bool:
        """Return whether this is a subset of ``other``."""
        return not self - other

    @property
    def finite(self) -> bool:
        """Return whether the set lists its values, apart from ABSENT."""
        return not self.words and not self.intervals

    def __iter__(self) -> Iterator[str]:
        """Iterate over the values of a finite set without ABSENT, ascending. ValueError for an infinite set."""
        if not self.finite:
            raise ValueError(f"{self} has no end")
        return iter(sorted(self.exceptions))

    def any_value(self) -> Value:
        """Return one member, always the same; ABSENT only if it is the only one. ValueError for an empty set.

        >>> ValueSet.of("b", "a").any_value(), (ValueSet.above(4)).any_value(), ValueSet.of(ABSENT).any_value()
        ('a', '5', ABSENT)
        """
        candidates: Iterable[str] = sorted(self.exceptions) if self.finite else self._examples()
        found = next((value for value in candidates if value in self), None)
        if found is not None:
            return found
        if self.absent:
            return ABSENT
        raise ValueError("no value belongs to the empty set")

    def _examples(self) -> Iterator[str]:
        spare = len(self.exceptions) + 1
        if self.words:
            yield from (f"any{number or ''}" for number in range(spare))
        for low, high in self.intervals:
            start, step = (low, 1) if low is not None else (high if high is not None else 0, -1)
            numbers = (start + step * one for one in range(spare))
            yield from (str(one) for one in numbers if high is None or one <= high)
            yield from (f"{start:0{width}d}" for width in range(1, spare + len(str(start)) + 1))

    def __str__(self) -> str:
        return describe_values(self)

    __repr__ = __str__


NOTHING: Final = ValueSet()
ASSIGNABLE: Final = ValueSet(absent=True, words=True, intervals=((0, 2**63 - 1),))
"""The values that a node can have, as far as intervals say it: no label value begins with a sign, and ``Gt`` and ``Lt``
read no larger integer. Which words are label values is their grammar's matter."""
PRESENT: Final = ValueSet(words=True, intervals=ALL_INTEGERS)
MISSING: Final = ValueSet(absent=True)
ANYTHING: Final = PRESENT | MISSING


def describe_values(values: ValueSet) -> str:
    """Return the set in the words of Kubernetes operators.

    >>> [describe_values(each) for each in (ValueSet.of("a", "b"), ~ValueSet.of("a"), ValueSet.above(2), PRESENT)]
    ['In [a, b]', 'NotIn [a]', 'Gt 2', 'Exists']
    """
    if not values:
        return "nothing"
    if values == MISSING:
        return "DoesNotExist"
    parts = []
    if values.finite:
        parts.append(f"In [{', '.join(sorted(values.exceptions))}]")
    elif values.words:
        excluded = f"NotIn [{', '.join(sorted(values.exceptions))}]" if values.exceptions else ""
        parts.append(
            excluded if values.absent or not excluded else f"Exists, {excluded}"
        ) if excluded else parts.append("Exists")
    else:
        for low, high in values.intervals:
            bounds = ([] if low is None else [f"Gt {low - 1}"]) + ([] if high is None else [f"Lt {high + 1}"])
            parts.append(", ".join(bounds) or "an integer")
        if values.exceptions:
            parts.append(f"but for [{', '.join(sorted(values.exceptions))}]")
    if values.absent and not (values.words and values.exceptions):
        parts.append("or missing")
    return " ".join(parts)
