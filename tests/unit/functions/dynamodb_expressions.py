"""Condition and update expressions of DynamoDB, as far as Joiner writes them: an interpreter that refuses the rest.

`ValidationError` is what DynamoDB refuses, with status 400. `NotFaked` is what DynamoDB may accept and this interpreter
does not know: paths within an attribute, other functions, other types.

Source: Amazon DynamoDB developer guide, "Condition and filter expressions, operators, and functions" and "Using update
expressions in DynamoDB".
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

Value = Mapping[str, Any]
"""An attribute in DynamoDB's JSON form, ``{"N": "3"}``."""

Values = Mapping[str, Value]
Condition = Callable[[Values, Values], bool]
Operand = Callable[[Values, Values], Value | None]
"""Both are functions of an item and of the values of the request; None is an absent attribute."""

RESERVED: Final = frozenset(each.upper() for each in ReservedKeywords.get_reserved_keywords())
CLAUSES: Final = ("SET", "REMOVE", "ADD", "DELETE")
TOKEN: Final = re.compile(r"\s*(?:([#:]?[A-Za-z_0-9]+)|(<>|<=|>=|[=<>(),+-]))\s*")
COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DIGITS: Final = Context(prec=38)


class ValidationError(Exception):
    """DynamoDB refuses the request: ValidationException."""


class NotFaked(AssertionError):
    """The request has something that the fake does not know. No function catches this."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One expression: what it does, and the placeholders that it uses, `#name` and `:value`."""

    used: frozenset[str]
    condition: Condition = lambda _item, _values: True
    changes: Mapping[str, Operand] | None = None
    """Of an update: the new value of each attribute, None to remove it."""


def parse_condition(expression: str, names: Mapping[str, str]) -> Parsed:
    """Return a condition, a filter or a condition of a key."""
    return _parsed("condition", expression, tuple(sorted(names.items())))


def parse_update(expression: str, names: Mapping[str, str]) -> Parsed:
    """Return an update."""
    return _parsed("update", expression, tuple(sorted(names.items())))


@lru_cache(maxsize=1024)
def _parsed(what: str, expression: str, names: tuple[tuple[str, str], ...]) -> Parsed:
    reading = _Reading(expression, dict(names))
    if what == "update":
        changes = reading.update()
        return Parsed(frozenset(reading.used), changes=changes)
    condition = reading.alternatives()
    reading.ends()
    return Parsed(frozenset(reading.used), condition)


class _Reading:
    """The tokens of one expression, read from left to right."""

    def __init__(self, expression: str, names: Mapping[str, str]) -> None:
        self._expression = expression
        self._names = names
        self._tokens = _tokens(expression)
        self.used: set[str] = set()

    # Tokens

    def _next(self) -> str:
        if not self._tokens:
            raise ValidationError(f"the expression ends too early: {self._expression}")
        return self._tokens.pop(0)

    def _takes(self, token: str) -> bool:
        if self._tokens[:1] == [token]:
            self._tokens.pop(0)
            return True
        return False

    def _expects(self, token: str) -> None:
        if (found := self._next()) != token:
            raise ValidationError(f"{found} instead of {token}: {self._expression}")

    def ends(self) -> None:
        if self._tokens:
            raise ValidationError(f"{self._tokens[0]} is not expected: {self._expression}")

    def _attribute(self) -> str:
        token = self._next()
        if token.startswith("#"):
            if token not in self._names:
                raise ValidationError(f"an expression attribute name is not defined: {token}")
            self.used.add(token)
            return self._names[token]
        if not re.match("[A-Za-z]", token):
            raise ValidationError(f"{token} is no attribute: {self._expression}")
        if token.upper() in RESERVED:
            raise ValidationError(f"attribute name is a reserved keyword: {token}")
        return token

    def _operand(self) -> Operand:
        if self._tokens[1:2] == ["("]:
            raise NotFaked(f"{self._tokens[0]} as an operand: {self._expression}")
        if self._tokens and self._tokens[0].startswith(":"):
            return self._value()
        name = self._attribute()
        return lambda item, _: item.get(name)

    def _value(self) -> Operand:
        token = self._next()
        if not token.startswith(":"):
            raise ValidationError(f"{token} is no value: {self._expression}")
        self.used.add(token)
        return lambda _, values: values[token]

    # Conditions

    def alternatives(self) -> Condition:
        found = [self._together()]
        while self._takes("OR"):
            found.append(self._together())
        return found[0] if len(found) == 1 else lambda item, values: any(each(item, values) for each in found)

    def _together(self) -> Condition:
        found = [self._single()]
        while self._takes("AND"):
            found.append(self._single())
        return found[0] if len(found) == 1 else lambda item, values: all(each(item, values) for each in found)

    def _single(self) -> Condition:
        if self._takes("NOT"):
            negated = self._single()
            return lambda item, values: not negated(item, values)
        if self._takes("("):
            if self._tokens[:1] == ["("] and self._tokens[self._closing() + 1 :][:1] == [")"]:
                raise ValidationError(f"the expression has redundant parentheses: {self._expression}")
            inner = self.alternatives()
            self._expects(")")
            return inner
        for function, wanted in (("attribute_exists", True), ("attribute_not_exists", False)):
            if self._takes(function):
                self._expects("(")
                name = self._attribute()
                self._expects(")")
                return lambda item, _: (name in item) is wanted
        return self._comparison()

    def _closing(self) -> int:
        """Return the position of the parenthesis that closes the next token."""
        depth = 0
        for position, token in enumerate(self._tokens):
            depth += (token == "(") - (token == ")")
            if depth == 0:
                return position
        raise ValidationError(f"a parenthesis is not closed: {self._expression}")

    def _comparison(self) -> Condition:
        left, sign = self._operand(), self._next()
        if sign in ("BETWEEN", "IN"):
            raise NotFaked(f"{sign}: {self._expression}")
        if sign not in {"=", "<>", *COMPARED}:
            raise ValidationError(f"{sign} compares nothing: {self._expression}")
        right = self._operand()
        return lambda item, values: _compare(left(item, values), sign, right(item, values))

    # Updates

    def update(self) -> Mapping[str, Operand]:
        changes: dict[str, Operand] = {}
        seen: set[str] = set()
        while self._tokens:
            clause = self._next()
            if clause not in CLAUSES or clause in seen:
                raise ValidationError(f"{clause} is not expected, or is repeated: {self._expression}")
            seen.add(clause)
            while True:
                name = self._attribute()
                if name in changes:
                    raise ValidationError(f"two document paths overlap: {name}")
                changes[name] = self._change(clause, name)
                if not self._takes(","):
                    break
        if not changes:
            raise ValidationError("the expression is empty")
        return changes

    def _change(self, clause: str, name: str) -> Operand:
        if clause == "REMOVE":
            return lambda _item, _values: None
        if clause == "SET":
            self._expects("=")
            return self._sum()
        value, change = self._value(), _added if clause == "ADD" else _subtracted
        return lambda item, values: change(item.get(name), _present(value(item, values)))

    def _sum(self) -> Operand:
        left = self._assigned()
        sign = next((sign for sign in "+-" if self._takes(sign)), "")
        if not sign:
            return lambda item, values: _present(left(item, values))
        right = self._assigned()
        factor = 1 if sign == "+" else -1

        def total(item: Values, values: Values) -> Value:
            first, second = _present(left(item, values)), _present(right(item, values))
            return written_number(DIGITS.add(_number(first), factor * _number(second)))

        return total

    def _assigned(self) -> Operand:
        if not self._takes("if_not_exists"):
            return self._operand()
        self._expects("(")
        name = self._attribute()
        self._expects(",")
        default = self._operand()
        self._expects(")")
        return lambda item, values: item[name] if name in item else default(item, values)


def _tokens(expression: str) -> list[str]:
    found, position = [], 0
    while position < len(expression):
        match = TOKEN.match(expression, position)
        if match is None:
            raise NotFaked(f"{expression[position:]!r} in {expression}")
        found.append(match[1] or match[2])
        position = match.end()
    return found


def _compare(left: Value | None, sign: str, right: Value | None) -> bool:
    """An absent attribute is not equal to any value, and neither less nor greater; so is one of another type."""
    if sign in ("=", "<>"):
        same = left is not None and right is not None and _comparable(left) == _comparable(right)
        return same is (sign == "=")
    if left is None or right is None or left.keys() != right.keys():
        return False
    if not left.keys() & {"N", "S"}:
        raise NotFaked(f"{sign} between {left} and {right}")
    return COMPARED[sign](_comparable(left)[1], _comparable(right)[1])


def _comparable(value: Value) -> tuple[str, Any]:
    ((kind, content),) = value.items()
    if kind == "N":
        return kind, Decimal(content)
    return kind, content.encode() if kind == "S" else content


def _present(value: Value | None) -> Value:
    if value is None:
        raise ValidationError("the provided expression refers to an attribute that does not exist in the item")
    return value


def _number(value: Value) -> Decimal:
    if "N" not in value:
        raise ValidationError("an operand in the update expression has an incorrect data type")
    return Decimal(value["N"])


def _added(before: Value | None, value: Value) -> Value:
    if not value.keys() & {"N", "SS"}:
        raise ValidationError("incorrect operand type for ADD")
    if before is None:
        return value
    if before.keys() != value.keys():
        raise ValidationError("an operand in the update expression has an incorrect data type")
    if "SS" in value:
        return {"SS": sorted({*before["SS"], *value["SS"]})}
    return written_number(DIGITS.add(_number(before), _number(value)))


def _subtracted(before: Value | None, value: Value) -> Value | None:
    if "SS" not in value:
        raise ValidationError("incorrect operand type for DELETE")
    if before is None:
        return None
    if "SS" not in before:
        raise ValidationError("an operand in the update expression has an incorrect data type")
    left = sorted({*before["SS"]} - {*value["SS"]})
    return {"SS": left} if left else None


def written_number(number: Decimal) -> Value:
    """Return a number as DynamoDB writes it.

    >>> written_number(Decimal("120.50"))
    {'N': '120.5'}
    """
    return {"N": format(number.normalize(DIGITS), "f") if number else "0"}


def accepted(value: Value) -> Value:
    """Return the value of a request as DynamoDB keeps it."""
    match dict(value):
        case {"S": str(), **rest} | {"BOOL": bool(), **rest} if not rest:
            return value
        case {"N": str(content), **rest} if not rest:
            try:
                return written_number(DIGITS.create_decimal(content))
            except InvalidOperation as reason:
                raise ValidationError(f"the parameter cannot be converted to a numeric value: {content}") from reason
        case {"SS": [*members], **rest} if not rest:
            if not members or len({*members}) < len(members):
                raise ValidationError("a string set may not be empty or contain duplicates")
            return {"SS": sorted(members)}
        case {"L": [*members], **rest} if not rest:
            return {"L": [accepted(each) for each in members]}
    raise NotFaked(f"a value of this type: {value}")
