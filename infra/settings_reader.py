"""Reads a YAML file into frozen dataclasses. The class is the schema; all mistakes of a file are reported together,
with the remedy.

The type of a field defines what a value may be (`str`, `int`, `float`, `bool`, `Literal`, `X | None`, `tuple[str,
...]`, `Mapping[str, str]`, another dataclass, or a tuple of one), its annotations what else must be true::

    rate: Annotated[int, NumberRange(1, 1000)] = 5
    region: Annotated[str, TextPattern(r"[a-z]{2}(-[a-z]+)+-\\d", "a region's name, such as eu-west-1")]

Keys in the file are the names of the fields in camelCase. A field without a default is required.
"""

import dataclasses
import difflib
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import yaml

T = TypeVar("T")


class SettingsError(ValueError):
    """The file cannot be used. Each line of the message names the file, the field, the value and the remedy."""


@dataclass(frozen=True, slots=True)
class SettingsMistake:
    """One mistake in the file. `field` is the field that is meant, also where the file misspells it."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A text must match the pattern as a whole; `remedy` describes in words what to write."""

    pattern: str
    remedy: str


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A number must be between the two, both included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OneOf:
    """A number must be one of these."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A list must contain something; `remedy` describes in words what to write."""

    remedy: str


END: Final = "<stream end>"
"""How PyYAML calls the end of the file."""
MAX_DEPTH: Final = 20
"""Levels of lists and mappings in a file of settings. The deepest setting has five."""


def _check_events(path: Path, events: Iterable[yaml.Event]) -> None:
    """Raise SettingsError for an alias, a second document and too many levels, before anything is constructed."""
    depth = documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                where = f" begins in line {event.start_mark.line + 1}" if event.start_mark else " begins"
                raise SettingsError(
                    f"{path}: a second document{where}: settings are one document; is this a file of manifests?"
                )
        if isinstance(event, yaml.AliasEvent):
            raise SettingsError(f"{path}: aliases (*NAME) are not supported: write the value where it is meant")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise SettingsError(f"{path}: lists or mappings are nested too deeply: at most {MAX_DEPTH} levels")


def read_settings(path: Path, schema: type[T]) -> tuple[T, list[SettingsMistake]]:
    """Return the content of the file as a value of the schema, and the mistakes in it. A field with a mistake has no
    reliable value.

    Raises SettingsError if the file does not exist, is not YAML, has aliases (a few lines of them can stand for
    gigabytes), or is not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
        _check_events(path, yaml.parse(text))
        content = yaml.safe_load(text)
    except OSError as missing:
        beside = sorted(file.stem for file in path.parent.glob("*.yaml"))
        hint = f"; known clusters: {', '.join(beside)}" if beside else ""
        raise SettingsError(
            f"{path}: no such file. Write one, or name another cluster with -c cluster=NAME{hint}"
        ) from missing
    except UnicodeDecodeError as binary:
        raise SettingsError(f"{path}: this is not text in UTF-8: {binary.reason} at byte {binary.start}") from binary
    except yaml.YAMLError as broken:
        raise SettingsError(f"{path}: this is not YAML: {_in_one_line(broken)}") from broken
    if content is not None and not isinstance(content, Mapping):
        raise SettingsError(f"{path}: the file is {content!r:.80}: write keys and values, one a line")
    reader = _Reader()
    return reader.dataclass(content or {}, schema, ""), reader.mistakes


def _in_one_line(error: yaml.YAMLError) -> str:
    """Return a YAML error without the quoted lines of the file.

    >>> try:
    ...     yaml.safe_load("a: [1")
    ... except yaml.YAMLError as error:
    ...     _in_one_line(error)
    "expected ',' or ']', but got the end of the file in line 1, column 6: close each bracket and quotation mark, or \
write the value that is missing"
    """
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    problem = str(getattr(error, "problem", None) or " ".join(str(error).split()))
    if END in problem:
        found = problem.replace(f"'{END}'", "the end of the file")
        return f"{found}{where}: close each bracket and quotation mark, or write the value that is missing"
    return f"{problem}{where}: write keys and values, one a line, and texts with special characters in quotes"


def settings_error(path: Path, mistakes: Sequence[SettingsMistake]) -> SettingsError:
    """Return the error that lists the mistakes, one in each line."""
    return SettingsError("\n".join(f"{path}: {mistake.message}" for mistake in mistakes))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Collects mistakes and reads on; a value with a mistake is returned unchanged."""

    mistakes: list[SettingsMistake] = field(default_factory=list)

    def wrong(self, where: str, value: object, remedy: str) -> None:
        self.mistakes.append(SettingsMistake(where, f"{where} is {value!r}: write {remedy}"))

    def dataclass(self, content: object, schema: type[T], where: str) -> Any:
        if not isinstance(content, Mapping):
            self.wrong(where, content, "keys and values, one a line")
            return content
        hints = get_type_hints(schema, include_extras=True)
        fields = {camel_case(each.name): each for each in dataclasses.fields(cast(Any, schema))}
        meant = {self._unknown(str(key), list(fields), where) for key in content if key not in fields}
        values: dict[str, Any] = {}
        for key, each in fields.items():
            if key in content:
                values[each.name] = self.value(content[key], hints[each.name], _at(where, key))
            elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
                values[each.name] = None
                if key not in meant:  # a misspelt key is reported already
                    self.mistakes.append(
                        SettingsMistake(
                            _at(where, key), f"{_at(where, key)} is missing: write {_wanted(hints[each.name])}"
                        )
                    )
        return schema(**values)

    def _unknown(self, key: str, known: list[str], where: str) -> str:
        """Record that the key does not exist, and return the key that is most likely meant."""
        close = difflib.get_close_matches(key, known, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        meant = close[0] if close else key
        self.mistakes.append(SettingsMistake(_at(where, meant), f"{_at(where, key)} is not a setting: {remedy}"))
        return meant

    def value(self, value: object, kind: Any, where: str) -> Any:
        """Return the value as its type requires."""
        rules: tuple[object, ...] = ()
        if get_origin(kind) is Annotated:
            kind, *rest = get_args(kind)
            rules = tuple(rest)
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            options = [option for option in get_args(kind) if option is not type(None)]
            return (
                None
                if value is None
                else self.value(value, Annotated[(options[0], *rules)] if rules else options[0], where)
            )
        if dataclasses.is_dataclass(kind):
            return self.dataclass(value if value is not None else {}, cast(type, kind), where)
        if origin is tuple:
            item = get_args(kind)[0]
            listed = dataclasses.is_dataclass(item)
            return self._dataclasses(value, cast(type, item), where) if listed else self._texts(value, rules, where)
        if origin is Mapping or origin is MappingProxyType:
            return self._mapping(value, where)
        if origin is Literal:
            return self._choice(value, get_args(kind), where)
        return self._scalar(value, kind, rules, where)

    def _texts(self, value: object, rules: tuple[object, ...], where: str) -> Any:
        if not isinstance(value, list):
            self.wrong(where, value, f"a list: [{', '.join(_rules_in_words(rules)) or 'text'}, ...]")
            return value
        for rule in rules:
            if isinstance(rule, NotEmpty) and not value:
                self.wrong(where, value, rule.remedy)
        return tuple(self._scalar(each, str, rules, f"{where}[{index}]") for index, each in enumerate(value))

    def _dataclasses(self, value: object, schema: type, where: str) -> Any:
        if not isinstance(value, list):
            self.wrong(where, value, "a list of keys and values: - key: value")
            return value
        return tuple(self.dataclass(each, schema, f"{where}[{index}]") for index, each in enumerate(value))

    def _mapping(self, value: object, where: str) -> Any:
        if not isinstance(value, Mapping):
            self.wrong(where, value, "keys and values, one a line")
            return value
        for key, text in value.items():
            if not isinstance(key, str) or not isinstance(text, str):
                self.wrong(f"{where}.{key}", text, "texts on both sides, in quotes")
        return MappingProxyType(dict(value))

    def _choice(self, value: object, choices: tuple[object, ...], where: str) -> object:
        if value in choices:
            return value
        if str(value) in choices:
            self.wrong(where, value, f'"{value}", in quotes')  # YAML reads 3.14 as a number
        else:
            close = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1, cutoff=0.5)
            meant = f" (did you mean {close[0]}?)" if close else ""
            self.wrong(where, value, f"one of {', '.join(map(str, choices))}{meant}")
        return value

    def _scalar(self, value: object, kind: Any, rules: tuple[object, ...], where: str) -> Any:
        # For Python a bool is an int; for users a whole number is a number
        fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not fits or (isinstance(value, bool) and kind is not bool):
            quotes = f', in quotes: "{value}"' if kind is str and isinstance(value, int | float) else ""
            self.wrong(where, value, ("; ".join(_rules_in_words(rules)) or _type_in_words(kind)) + quotes)
            return value
        for rule in rules:
            match rule:
                case TextPattern(pattern, remedy) if not re.fullmatch(pattern, str(value), re.ASCII):
                    self.wrong(where, value, remedy)
                # a NumberRange annotates numbers only
                case NumberRange(low, high) if not low <= float(value) <= high:  # type: ignore[arg-type]
                    self.wrong(where, value, _rules_in_words((rule,))[0])
                case OneOf(values) if value not in values:
                    self.wrong(where, value, _rules_in_words((rule,))[0])
        return float(value) if kind is float else value  # type: ignore[arg-type]  # `fits` is true


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def camel_case(name: str) -> str:
    """Return the key of a field in the file.

    >>> camel_case("price_per_hour")
    'pricePerHour'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _wanted(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        kind, *rules = get_args(kind)
        return "; ".join(_rules_in_words(tuple(rules))) or _type_in_words(kind)
    return _type_in_words(kind)


def _type_in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    return words.get(kind) or ("a list" if get_origin(kind) is tuple else "keys and values")


def _rules_in_words(rules: tuple[object, ...]) -> list[str]:
    words: list[str] = []
    for rule in rules:
        match rule:
            case TextPattern(_, remedy):
                words.append(remedy)
            case NumberRange(low, high):
                words.append(f"a number between {low:g} and {high:g}")
            case OneOf(values):
                words.append("one of " + ", ".join(map(str, values)))
    return words
