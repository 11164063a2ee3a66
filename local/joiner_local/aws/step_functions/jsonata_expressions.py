"""JSONata in state machines: ``"{% $states.input.pods + 1 %}"`` anywhere in a field is replaced by its value.

The whole string is the expression, or it is no expression at all. An expression without a value (undefined) is an
error, as on AWS ("Transforming data with JSONata in Step Functions").

>>> evaluate({"next": "{% $round + 1 %}", "text": "as is"}, {"round": 1}, "Arguments")
{'next': 2, 'text': 'as is'}
"""

import hashlib
import json
import random
import threading
import uuid
from collections.abc import Mapping
from typing import Any

import jsonata
from jsonata.jexception import JException
from jsonata.utils import Utils

Json = Any  # the types of json.loads

MOST_SECONDS = 99_999_999
_NAMES = {bool: "boolean", str: "string"}


class QueryEvaluationError(Exception):
    """States.QueryEvaluationError; `location` is the field as the history shows it (``Arguments/Payload``)."""

    def __init__(self, cause: str, location: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.location = location


def is_expression(value: Json) -> bool:
    return isinstance(value, str) and value.startswith("{%") and value.endswith("%}") and len(value) >= 4


def syntax_error(expression: str) -> str | None:
    """Return the syntax error of an expression, or None."""
    try:
        _ENGINES.give_back(expression, _ENGINES.take(expression))
    except JException as error:
        return str(error)
    return None


def evaluate(template: Json, variables: Mapping[str, Json], location: str) -> Json:
    """Return the template with every expression replaced. The result shares no objects with the variables."""
    if isinstance(template, str):
        return _evaluate_expression(template, variables, location) if is_expression(template) else template
    if isinstance(template, Mapping):
        return {key: evaluate(value, variables, f"{location}/{key}") for key, value in template.items()}
    if isinstance(template, list):
        return [evaluate(value, variables, f"{location}[{index}]") for index, value in enumerate(template)]
    return template


def expected(value: Json, kind: type, location: str) -> Json:
    """Return the value if it has the type of the field (`bool`, `str`); otherwise the query fails, as on AWS."""
    if not isinstance(value, kind):
        raise QueryEvaluationError(f"The value of the field '{location}' is no {_NAMES[kind]}: {value!r}", location)
    return value


def whole_number(value: Json, location: str, *, least: int) -> int:
    """Return the value if it is a whole number from `least` to 99,999,999 (Amazon States Language, "Wait state", "Task
    state").

    >>> whole_number(2.0, "Seconds", least=0)
    2
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or value != int(value)
        or not least <= value <= MOST_SECONDS
    ):
        raise QueryEvaluationError(
            f"The field '{location}' must be a whole number from {least} to {MOST_SECONDS}, not {value!r}", location
        )
    return int(value)


def _evaluate_expression(text: str, variables: Mapping[str, Json], location: str) -> Json:
    expression = text[2:-2].strip()
    try:
        engine = _ENGINES.take(expression)
        # Some functions of the engine ($now, $eval, those that call back) use the expression of their thread.
        jsonata.Jsonata.CURRENT.jsonata = engine
        result = engine.evaluate(None, variables)
        _ENGINES.give_back(expression, engine)
    except Exception as error:
        # The engine raises Python's own errors (ZeroDivisionError, TypeError); for a machine they are all failed
        # queries.
        raise _failed(expression, location, f"threw an error: {error}") from error
    if result is None:
        raise _failed(expression, location, "returned nothing (undefined).")
    return _plain(result, expression, location)


def _failed(expression: str, location: str, how: str) -> QueryEvaluationError:
    return QueryEvaluationError(
        f"The JSONata expression '{expression}' specified for the field '{location}' {how}", location
    )


def _plain(value: Any, expression: str, location: str) -> Json:
    """Return plain JSON: the engine returns its own lists and null, and parts of the variables themselves."""
    if value is None or value is Utils.NULL_VALUE:
        return None
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, expression, location) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(value[index], expression, location) for index in range(len(value))]
    raise _failed(expression, location, "returned an unsupported result type.")


# Functions that Step Functions adds to JSONata; it removes $eval.


def _partition(values: list[Json], size: int, *_: Any) -> list[list[Json]]:
    return [list(values[start : start + int(size)]) for start in range(0, len(values), int(size))]


def _range(first: float, last: float, step: float, *_: Any) -> list[int]:
    return list(range(int(first), int(last) + (1 if step > 0 else -1), int(step)))


def _hash(text: str, algorithm: str, *_: Any) -> str:
    return hashlib.new(algorithm.replace("-", "").lower(), text.encode()).hexdigest()


def _random(*seed: Any) -> float:
    # a random number for a user's machine, no secret
    return (random.Random(seed[0]) if seed and seed[0] is not None else random).random()  # noqa: S311


def _uuid(*_: Any) -> str:
    return str(uuid.uuid4())


def _parse(text: str, *_: Any) -> Json:
    return json.loads(text)


def _no_eval(*_: Any) -> Json:
    raise ValueError("$eval is not supported in Step Functions, use $parse")


FUNCTIONS = {
    "eval": _no_eval,
    "partition": _partition,
    "range": _range,
    "hash": _hash,
    "random": _random,
    "uuid": _uuid,
    "parse": _parse,
}


class _Engines:
    """Parsed expressions by their text. Evaluation writes into a parsed expression, so one thread uses it at a time."""

    def __init__(self) -> None:
        self._idle: dict[str, list[jsonata.Jsonata]] = {}
        self._lock = threading.Lock()

    def take(self, expression: str) -> jsonata.Jsonata:
        with self._lock:
            idle = self._idle.setdefault(expression, [])
            if idle:
                return idle.pop()
        engine = jsonata.Jsonata(expression)
        engine.set_output_convert_nulls(False)  # distinguishes null from undefined
        engine.set_validate_input(False)  # the input is JSON already
        for name, function in FUNCTIONS.items():
            engine.register_lambda(name, function)
        return engine

    def give_back(self, expression: str, engine: jsonata.Jsonata) -> None:
        with self._lock:
            self._idle[expression].append(engine)


_ENGINES = _Engines()
