"""Conditions of IAM policies: the operators, their modifiers, and wildcards.

Source: IAM user guide, "IAM JSON policy elements: Condition operators" and "Set operators for multivalued context keys".
A key that the request does not have: an operator without a modifier does not match, a negated one does, `…IfExists` does,
`ForAllValues` does, `ForAnyValue` does not.
"""

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

Context = Mapping[str, Sequence[str]]
"""Condition keys in lower case, and the values that the request has for each. A key that is not there was not in the request."""

Compare = Callable[[str, str], bool]
"""Whether the request's value matches the policy's."""


@cache
def wildcard(pattern: str) -> re.Pattern[str]:
    """`*` is any text, `?` any one character; nothing else is special.

    >>> bool(wildcard("arn:aws:s3:::b/*").fullmatch("arn:aws:s3:::b/a/c")), bool(wildcard("a[b]").fullmatch("ab"))
    (True, False)
    """
    return re.compile("".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern), re.DOTALL)


def like(value: str, pattern: str) -> bool:
    return wildcard(pattern).fullmatch(value) is not None


def arn_like(value: str, pattern: str) -> bool:
    """Each of the six parts is compared by itself: a wildcard does not reach over a colon, but in the last part."""
    values, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(values) == len(patterns) == 6 and all(map(like, values, patterns))


def _numeric(compare: Callable[[float, float], bool]) -> Compare:
    def compared(value: str, said: str) -> bool:
        try:
            return compare(float(value), float(said))
        except ValueError:
            return False

    return compared


def _dated(compare: Callable[[float, float], bool]) -> Compare:
    def compared(value: str, said: str) -> bool:
        try:
            return compare(_epoch(value), _epoch(said))
        except ValueError:
            return False

    return compared


def _epoch(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else dt.datetime.fromisoformat(text).timestamp()


def _in_range(value: str, said: str) -> bool:
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(said, strict=False)
    except ValueError:
        return False


OPERATORS: Final[Mapping[str, Compare]] = {
    "StringEquals": lambda value, said: value == said,
    "StringEqualsIgnoreCase": lambda value, said: value.lower() == said.lower(),
    "StringLike": like,
    "ArnEquals": arn_like,  # the same as ArnLike, says the guide
    "ArnLike": arn_like,
    "Bool": lambda value, said: value.lower() == said.lower(),
    "IpAddress": _in_range,
    "NumericEquals": _numeric(lambda value, said: value == said),
    "NumericLessThan": _numeric(lambda value, said: value < said),
    "NumericLessThanEquals": _numeric(lambda value, said: value <= said),
    "NumericGreaterThan": _numeric(lambda value, said: value > said),
    "NumericGreaterThanEquals": _numeric(lambda value, said: value >= said),
    "DateEquals": _dated(lambda value, said: value == said),
    "DateLessThan": _dated(lambda value, said: value < said),
    "DateLessThanEquals": _dated(lambda value, said: value <= said),
    "DateGreaterThan": _dated(lambda value, said: value > said),
    "DateGreaterThanEquals": _dated(lambda value, said: value >= said),
}

NEGATED: Final[Mapping[str, str]] = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NotIpAddress": "IpAddress",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
}

SETS: Final = ("ForAllValues", "ForAnyValue")
VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")


class UnknownOperator(ValueError):
    """A policy names an operator that IAM does not have."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator for one key. The values are alternatives; the conditions of a statement must all hold."""

    operator: str
    key: str
    values: tuple[str, ...]
    of_set: str = ""
    if_exists: bool = False
    negated: bool = False

    @classmethod
    def read(cls, written: str, key: str, values: Sequence[Any]) -> "Condition":
        """
        >>> Condition.read("ForAllValues:StringNotLikeIfExists", "aws:TagKeys", ["a*"])
        Condition(operator='StringLike', key='aws:tagkeys', values=('a*',), of_set='ForAllValues', if_exists=True, negated=True)
        """
        of_set, _, name = written.rpartition(":")
        bare = name.removesuffix("IfExists")
        operator = NEGATED.get(bare, bare)
        if (of_set and of_set not in SETS) or (operator not in OPERATORS and operator != "Null"):
            raise UnknownOperator(f"Condition: {written} is no operator of IAM")
        texts = tuple(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
        return cls(operator, key.lower(), texts, of_set, name != bare, bare in NEGATED)

    def holds(self, context: Context) -> bool:
        values = context.get(self.key)
        if self.operator == "Null":
            return any((said.lower() == "true") is (values is None) for said in self.values)
        if values is None:
            return self.if_exists or self.of_set == "ForAllValues" or (self.negated and not self.of_set)
        if self.of_set == "ForAllValues":
            return all(self._matches(value, context) for value in values)
        return any(self._matches(value, context) for value in values)

    def _matches(self, value: str, context: Context) -> bool:
        compare = OPERATORS[self.operator]
        said = (filled(each, context) for each in self.values)
        return any(each is not None and compare(value, each) for each in said) is not self.negated


def filled(text: str, context: Context) -> str | None:
    """A policy's text with its variables replaced; None where the request has no single value for one of them.

    >>> filled("a/${aws:RequestedRegion}", {"aws:requestedregion": ("us-east-1",)}), filled("${aws:userid}", {})
    ('a/us-east-1', None)
    """
    if "${" not in text:
        return text
    found = {name: (name,) if name in ("*", "?", "$") else context.get(name.lower(), ()) for name in VARIABLE.findall(text)}
    return VARIABLE.sub(lambda match: found[match[1]][0], text) if all(len(each) == 1 for each in found.values()) else None
