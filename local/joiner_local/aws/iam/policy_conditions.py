"""Conditions of IAM policies: the operators, their modifiers, wildcards and policy variables.

Source: IAM user guide, "IAM JSON policy elements: Condition operators", "Set operators for multivalued context keys"
and "Variables and tags". If the request has no value for a key, an operator without a modifier does not match, a
negated operator matches, `...IfExists` matches, `ForAllValues` matches, and `ForAnyValue` does not match. An empty list
of values is the same as a missing key.
"""

import base64
import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

Context = Mapping[str, Sequence[str]]
"""Condition keys in lower case with the values that the request has for each. A key that the request does not have is
missing."""

Compare = Callable[[str, str], bool]
"""Reports whether the value of the request matches the value of the policy."""

LITERAL: Final = re.compile(r"\$\{([*?$])\}")
VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
WITH_DEFAULT: Final = re.compile(r"\s*([^,]*?)\s*,\s*'(.*)'\s*")


class MalformedPolicy(ValueError):
    """IAM would refuse to store this policy. The message names the policy, the statement, and the problem."""


@cache
def wildcard(pattern: str) -> re.Pattern[str]:
    """Compile a pattern: `*` is any text, `?` is any one character; `${*}`, `${?}` and `${$}` are these characters
    themselves.

    >>> bool(wildcard("arn:aws:s3:::b/*").fullmatch("arn:aws:s3:::b/a/c")), bool(wildcard("a[b]").fullmatch("ab"))
    (True, False)
    >>> bool(wildcard("a/${*}").fullmatch("a/*")), bool(wildcard("a/${*}").fullmatch("a/b"))
    (True, False)
    """
    parts = re.split(r"(\$\{[*?$]\}|[*?])", pattern)
    return re.compile("".join({"*": ".*", "?": "."}.get(each, re.escape(literal(each))) for each in parts), re.DOTALL)


def literal(pattern: str) -> str:
    """Return the text of a pattern for operators without wildcards.

    >>> literal("a*${*}")
    'a**'
    """
    return LITERAL.sub(r"\1", pattern)


def like(value: str, pattern: str) -> bool:
    """Report whether the value matches a pattern with wildcards."""
    return wildcard(pattern).fullmatch(value) is not None


def arn_like(value: str, pattern: str) -> bool:
    """Compare each of the six parts of two ARNs: a wildcard does not match a colon, except in the last part."""
    values, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(values) == len(patterns) == 6 and all(map(like, values, patterns))


def _numeric(compare: Callable[[float, float], bool]) -> Compare:
    def compared(value: str, operand: str) -> bool:
        try:
            return compare(float(value), float(operand))
        except ValueError:
            return False

    return compared


def _dated(compare: Callable[[float, float], bool]) -> Compare:
    def compared(value: str, operand: str) -> bool:
        try:
            return compare(_epoch(value), _epoch(operand))
        except ValueError:
            return False

    return compared


def _epoch(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else dt.datetime.fromisoformat(text).timestamp()


def _same_bytes(value: str, operand: str) -> bool:
    """Return whether both are the same bytes in base64; text that is not base64 matches nothing."""
    try:
        return base64.b64decode(value, validate=True) == base64.b64decode(operand, validate=True)
    except (binascii.Error, ValueError):
        return False


def _in_range(value: str, operand: str) -> bool:
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(operand, strict=False)
    except ValueError:
        return False


OPERATORS: Final[Mapping[str, Compare]] = {
    "StringEquals": lambda value, operand: value == operand,
    "StringEqualsIgnoreCase": lambda value, operand: value.lower() == operand.lower(),
    "StringLike": like,
    "ArnEquals": arn_like,  # the same as ArnLike, according to the guide
    "ArnLike": arn_like,
    "Bool": lambda value, operand: value.lower() == operand.lower(),
    "BinaryEquals": _same_bytes,
    "IpAddress": _in_range,
    "NumericEquals": _numeric(lambda value, operand: value == operand),
    "NumericLessThan": _numeric(lambda value, operand: value < operand),
    "NumericLessThanEquals": _numeric(lambda value, operand: value <= operand),
    "NumericGreaterThan": _numeric(lambda value, operand: value > operand),
    "NumericGreaterThanEquals": _numeric(lambda value, operand: value >= operand),
    "DateEquals": _dated(lambda value, operand: value == operand),
    "DateLessThan": _dated(lambda value, operand: value < operand),
    "DateLessThanEquals": _dated(lambda value, operand: value <= operand),
    "DateGreaterThan": _dated(lambda value, operand: value > operand),
    "DateGreaterThanEquals": _dated(lambda value, operand: value >= operand),
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
WITH_WILDCARDS: Final = ("StringLike", "ArnEquals", "ArnLike")
WITH_VARIABLES: Final = ("StringEquals", "StringEqualsIgnoreCase", *WITH_WILDCARDS, "Bool")
"""According to the guide, the other operators do not support policy variables."""


@dataclass(frozen=True, slots=True)
class PolicyCondition:
    """One operator for one key. The values are alternatives; all conditions of a statement must be true."""

    operator: str
    key: str
    values: tuple[str, ...]
    of_set: str = ""
    if_exists: bool = False
    negated: bool = False

    @classmethod
    def read(cls, written: str, key: str, values: Sequence[Any]) -> "PolicyCondition":
        """Read a condition in JSON form; `MalformedPolicy` for an operator that IAM does not have, or a value that is
        not a scalar.

        >>> found = PolicyCondition.read("ForAllValues:StringNotLikeIfExists", "aws:TagKeys", ["a*"])
        >>> found.operator, found.key, found.values, found.of_set, found.if_exists, found.negated
        ('StringLike', 'aws:tagkeys', ('a*',), 'ForAllValues', True, True)
        """
        of_set, _, name = written.rpartition(":")
        bare = name.removesuffix("IfExists")
        operator = NEGATED.get(bare, bare)
        if (of_set and of_set not in SETS) or (operator not in OPERATORS and name != "Null"):
            raise MalformedPolicy(f"Condition: {written} is no operator of IAM")
        if not all(isinstance(each, str | int | float) for each in values):
            raise MalformedPolicy(f"Condition: {written} of {key} has a value that is neither text, number nor Boolean")
        texts = tuple(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
        return cls(operator, key.lower(), texts, of_set, name != bare, bare in NEGATED)

    def holds(self, context: Context) -> bool:
        """Report whether the condition is true for a request with these values."""
        values = context.get(self.key) or ()
        if self.of_set:
            values = [each for each in values if each]  # an empty text is a null dataset to the set operators
        if self.operator == "Null":
            return any((operand.lower() == "true") is (not values) for operand in self.values)
        if not values:
            return self.if_exists or self.of_set == "ForAllValues" or (self.negated and not self.of_set)
        matches = (self._matches(value, context) for value in values)
        if self.of_set == "ForAllValues":
            return all(each is not self.negated for each in matches)
        if self.of_set == "ForAnyValue":
            return any(each is not self.negated for each in matches)
        return any(matches) is not self.negated

    def _matches(self, value: str, context: Context) -> bool:
        """Report whether one of the policy's values matches, before negation."""
        compare = OPERATORS[self.operator]
        wanted = (
            (replace_variables(each, context) for each in self.values)
            if self.operator in WITH_VARIABLES
            else self.values
        )
        patterns = (each for each in wanted if each is not None)
        return any(compare(value, each if self.operator in WITH_WILDCARDS else literal(each)) for each in patterns)


def replace_variables(text: str, context: Context) -> str | None:
    """Replace the variables of a policy's text. Return None if the request has no single value for a variable without a
    default.

    A `*`, `?` or `$` of a replaced value is literal: it is returned as `${*}`, `${?}` or `${$}`, as `wildcard` reads
    it.

    >>> replace_variables("a/${aws:RequestedRegion}/*", {"aws:requestedregion": ("us-*",)})
    'a/us-${*}/*'
    >>> replace_variables("${aws:userid}", {}) is None
    True
    >>> replace_variables("${aws:PrincipalTag/team, 'everyone'}", {})
    'everyone'
    """
    if "${" not in text:
        return text
    parts = VARIABLE.split(text)  # alternately texts and names of variables
    values = [_value(name, context) for name in parts[1::2]]
    if any(each is None for each in values):
        return None
    parts[1::2] = [each or "" for each in values]
    return "".join(parts)


def _value(variable: str, context: Context) -> str | None:
    if variable in ("*", "?", "$"):
        return f"${{{variable}}}"
    default = WITH_DEFAULT.fullmatch(variable)
    found = context.get((default[1] if default else variable).lower()) or ()
    value = found[0] if len(found) == 1 else default[2] if default and not found else None
    return None if value is None else re.sub(r"[*?$]", r"${\g<0>}", value)
