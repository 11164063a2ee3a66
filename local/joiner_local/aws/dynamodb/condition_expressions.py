"""Conditions and filters of DynamoDB: refused if they are malformed, and evaluated by the types of their operands.

moto reads a condition only when it evaluates it, and answers some malformed ones with status 500. It compares the
Python values of attributes, so that TRUE is equal to 1 and an absent attribute is equal to NULL, and it fails where the
types of two values have no order. DynamoDB refuses a malformed condition before it reads any item; values of different
types are not equal, and neither is less than the other.

Source: Amazon DynamoDB developer guide, "Condition and filter expressions, operators, and functions".
"""

import base64
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal, DecimalException
from typing import Any, Final

from joiner_local.aws.attribute_patches import replace_attribute

ORDERED: Final = frozenset({"N", "S", "B"})
"""Types whose values have an order."""
SIZED: Final = frozenset({"S", "B", "SS", "NS", "BS", "L", "M"})
DIGITS: Final = Context(prec=38)

CONDITIONS: Final = ("ConditionExpression", "FilterExpression")
EXPRESSIONS: Final = (*CONDITIONS, "UpdateExpression", "KeyConditionExpression", "ProjectionExpression")
PLACEHOLDER: Final = re.compile(r"[#:][A-Za-z0-9_]+")

Typed = tuple[str, Any]
"""The type of an attribute, and its value in a form that is equal for equal values only."""


def install() -> None:
    from moto.dynamodb import comparisons

    for name, compare in (
        ("OpLessThan", operator.lt),
        ("OpLessThanOrEqual", operator.le),
        ("OpGreaterThan", operator.gt),
        ("OpGreaterThanOrEqual", operator.ge),
    ):
        replace_attribute(getattr(comparisons, name), "expr", _ordering(compare))
    replace_attribute(comparisons.OpEqual, "expr", _is_equal)
    replace_attribute(comparisons.OpNotEqual, "expr", lambda self, item: not _is_equal(self, item))
    replace_attribute(comparisons.FuncBetween, "expr", _is_between)
    replace_attribute(comparisons.FuncIn, "expr", _is_in)
    replace_attribute(comparisons.FuncContains, "expr", _contains)


def validate_expressions(request: Mapping[str, Any]) -> None:
    """Validate the conditions and filters of a request, and the placeholders of all its expressions, those of each
    action of a transaction included; raise ValidationException for the first that is malformed."""
    actions = [action for one in request.get("TransactItems") or () for action in one.values()]
    for each in (request, *actions):
        for parameter in EXPRESSIONS:
            if each.get(parameter) is not None:
                _validate_placeholders(parameter, each)
        for parameter in CONDITIONS:
            if each.get(parameter) is not None:
                _validate_condition(parameter, each)


def _validate_placeholders(parameter: str, request: Mapping[str, Any]) -> None:
    from moto.dynamodb.exceptions import MockValidationException

    for placeholder in PLACEHOLDER.findall(request[parameter]):
        kind = "Values" if placeholder.startswith(":") else "Names"
        if placeholder not in (request.get(f"ExpressionAttribute{kind}") or {}):
            what = kind.removesuffix("s").lower()
            problem = f"An expression attribute {what} used in expression is not defined; attribute {what}"
            raise MockValidationException(f"Invalid {parameter}: {problem}: {placeholder}")


def _validate_condition(parameter: str, request: Mapping[str, Any]) -> None:
    from moto.dynamodb.comparisons import get_filter_expression
    from moto.dynamodb.exceptions import MockValidationException

    values = request.get("ExpressionAttributeValues") or {}
    try:
        for value in values.values():
            _typed_json(value)
        if not request[parameter].strip():
            raise ValueError("The expression can not be empty;")
        parsed = get_filter_expression(request[parameter], request.get("ExpressionAttributeNames") or {}, values)
        for problem in _problems(parsed):
            raise ValueError(problem)
    except (ValueError, TypeError, AttributeError, LookupError, AssertionError) as reason:  # moto's reading ends so
        raise MockValidationException(f"Invalid {parameter}: {reason or 'Syntax error'}") from reason


def _problems(node: Any) -> Iterator[str]:
    """Yield the operands of a condition whose types its operators and functions do not accept. Only the types of values
    count: attributes may have any."""
    from moto.dynamodb import comparisons as c

    match node:
        case c.OpLessThan() | c.OpLessThanOrEqual() | c.OpGreaterThan() | c.OpGreaterThanOrEqual():
            for operand in (node.lhs, node.rhs):
                yield from _refused_type(operand, ORDERED, node.OP)
        case c.FuncBetween():
            yield from _bounds_problems(node)
        case c.FuncBeginsWith():
            yield from _refused_type(node.substr, frozenset({"S", "B"}), node.FUNC)
        case c.FuncAttrType():
            yield from _refused_type(node.type, frozenset({"S"}), node.FUNC)
            if isinstance(node.type, c.AttributeValue) and node.type.value not in FORMS:
                yield f"Invalid attribute type name found; type: {node.type.value}"
        case c.Op():
            for part in (node.lhs, node.rhs):
                yield from _problems(part)


def _bounds_problems(between: Any) -> Iterator[str]:
    for operand in (between.attr, between.start, between.end):
        yield from _refused_type(operand, ORDERED, "BETWEEN")
    low, high = (_typed_value(bound) for bound in (between.start, between.end))
    if low is None or high is None:
        return
    if low[0] != high[0]:
        yield "The BETWEEN operator requires same data type for lower and upper bounds"
    elif low > high:
        yield "The BETWEEN operator requires upper bound to be greater than or equal to lower bound"


def _refused_type(operand: Any, accepted: frozenset[str], name: str) -> Iterator[str]:
    typed = _typed_value(operand)
    if typed is not None and typed[0] not in accepted:
        wrong = f"operator or function: {name}, operand type: {typed[0]}"
        yield f"Incorrect operand type for operator or function; {wrong}"


def _typed_value(operand: Any) -> Typed | None:
    """Return a value of the request; None for an attribute or a function."""
    from moto.dynamodb.comparisons import AttributeValue

    return _typed_json({operand.type: operand.value}) if isinstance(operand, AttributeValue) else None


def _typed(operand: Any, item: Any) -> Typed | None:
    """Return what an operand is in this item; None for an absent attribute, or one that has no size."""
    from moto.dynamodb.comparisons import AttributePath, FuncSize

    match operand:
        case AttributePath():
            attribute = operand._get_attr(item)
            return None if attribute is None else _typed_json(attribute.to_regular_json())
        case FuncSize():
            sized = _typed(operand.attr, item)
            return ("N", _number(_size(*sized))) if sized and sized[0] in SIZED else None
        case _:
            return _typed_value(operand)


def _size(kind: str, content: Any) -> int:
    """Return the characters of a text, or the bytes or elements of another value."""
    return len(content.decode()) if kind == "S" else len(content)


def _typed_json(value: Mapping[str, Any]) -> Typed:
    """
    >>> _typed_json({"L": [{"N": "1.0"}, {"BOOL": True}]})
    ('L', (('N', Decimal('1')), ('BOOL', True)))
    """
    ((kind, content),) = value.items()
    return kind, FORMS[kind](content)


def _number(content: object) -> Decimal:
    """Return a number; raise ValueError if it is none."""
    try:
        return DIGITS.create_decimal(str(content)).normalize(DIGITS)
    except DecimalException as reason:
        raise ValueError(f"The parameter cannot be converted to a numeric value: {content}") from reason


def _members(kind: str) -> Callable[[Any], frozenset[Typed]]:
    return lambda content: frozenset(_typed_json({kind: each}) for each in content)


FORMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "N": _number,
    "S": str.encode,  # ordered by the bytes of UTF-8
    "B": lambda content: content if isinstance(content, bytes) else base64.b64decode(content),
    "L": lambda content: tuple(map(_typed_json, content)),
    "M": lambda content: tuple(sorted((name, _typed_json(each)) for name, each in content.items())),
    "SS": _members("S"),
    "NS": _members("N"),
    "BS": _members("B"),
    "BOOL": bool,
    "NULL": bool,
}
"""By type: the form of its values in which equal values are equal."""


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(self: Any, item: Any) -> bool:
        return _in_order(_typed(self.lhs, item), _typed(self.rhs, item), compare)

    return holds


def _in_order(first: Typed | None, second: Typed | None, compare: Callable[[Any, Any], bool]) -> bool:
    if first is None or second is None or first[0] != second[0] or first[0] not in ORDERED:
        return False
    return compare(first[1], second[1])


def _is_equal(self: Any, item: Any) -> bool:
    first = _typed(self.lhs, item)
    return first is not None and first == _typed(self.rhs, item)


def _is_between(self: Any, item: Any) -> bool:
    tested, low, high = (_typed(each, item) for each in (self.attr, self.start, self.end))
    return _in_order(low, tested, operator.le) and _in_order(tested, high, operator.le)


def _is_in(self: Any, item: Any) -> bool:
    tested = _typed(self.attr, item)
    return tested is not None and any(tested == _typed(each, item) for each in self.possible_values)


def _contains(self: Any, item: Any) -> bool:
    """Return whether text contains the text, or a set or list contains the element."""
    whole, part = _typed(self.attr, item), _typed(self.operand, item)
    if whole is None or part is None:
        return False
    kind, content = whole
    if kind in ("S", "B"):
        return part[0] == kind and part[1] in content
    return kind in ("L", "SS", "NS", "BS") and part in content
