"""Reads YAML as kubectl and the API server do: YAML 1.1 with differences that change the meaning of a manifest.

`y`, `yes` and `on` are true; `1:30` and `2026-01-02` are texts; a key that is a number or a boolean becomes a text.
Values that JSON does not have (sets, binary data, infinities) are refused. A duplicate key is refused, because its
meaning is ambiguous.

>>> read_yaml("a: 1:30\\nb: yes\\n---\\n1: 2026-01-02\\n")
[{'a': '1:30', 'b': True}, {'1': '2026-01-02'}]
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import yaml

from joiner.pools.yaml_mistakes import (
    DuplicatedKey,
    YamlMistake,
    explain_bad_character,
    explain_syntax_error,
)

MAX_VALUES: Final = 5_000_000
"""The most values of a document with its aliases expanded; a few lines of aliases can expand to billions."""

MAX_DIGITS: Final = 1000
"""The most digits of a number: each finite floating-point number has fewer, and Python converts longer ones slowly."""

MAX_DEPTH: Final = 200
"""The deepest nesting: the C loader recurses once for each level, and a stack overflow would end the process."""

FLATTEN: Final = "no manifest is nested so deeply: look for brackets or indentation by mistake"
MARKER_OR_CONTENT: Final = re.compile(
    r"^(?:---(?=\s|$)|\.\.\.(?:[ \t\r][^\n]*)?(?:\n|\Z)|(?![%#]|[ \t\r]*$).)", re.MULTILINE
)
NO_ALIAS: Final = "write the values instead of aliases of aliases"

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotYaml(ValueError):
    """The text is not valid YAML: the ``mistake``, with its line and the remedy; ``templated`` texts have {{ }}.
    ``text`` is that of the document."""

    templated = False
    text = ""

    def __init__(self, mistake: YamlMistake) -> None:
        super().__init__(mistake.message)
        self.mistake = mistake


class _Loader(_Base):  # type: ignore[misc]  # the C loader, where there is one, has no types
    """SafeLoader with kubectl's resolution of plain words."""

    # PyYAML wants it on the class
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    yaml_constructors = dict(yaml.SafeLoader.yaml_constructors)  # noqa: RUF012

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:  # noqa: ARG002 - PyYAML's signature
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(
                None, None, "fields (key: value) are required here", node.start_mark
            )
        own: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in own:
                raise DuplicatedKey(key.value, key.start_mark, outer=node.start_mark.column == 0)
            own.add(key.value)
        self.flatten_mapping(node)
        return {
            _key(self.construct_object(key, deep=True), key): self.construct_object(value, deep=True)
            for key, value in node.value
        }


def _key(key: Any, node: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    raise yaml.constructor.ConstructorError(None, None, "a key must be a text", node.start_mark)


def _integer(loader: Any, node: Any) -> int | str:
    """Return the number. One that is too large even for a floating-point number is a text, as for the API server."""
    written: str = loader.construct_scalar(node)
    text = written.replace("_", "")
    if len(text) > MAX_DIGITS:
        return written
    sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text.lstrip("+"))
    base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2].lower())
    if base:
        return sign * int(digits[2:], base)
    return sign * (int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits))


def _float(loader: Any, node: Any) -> float:
    text = loader.construct_scalar(node).replace("_", "").lower()
    found = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(found):
        raise yaml.constructor.ConstructorError(None, None, f"{text} is not a finite number", node.start_mark)
    return found


def read_boolean(word: str) -> str:
    """Return ``true`` or ``false`` for one of YAML's words for it."""
    return "true" if word.lower() in ("y", "yes", "true", "on") else "false"


def _boolean(loader: Any, node: Any) -> bool:
    return read_boolean(loader.construct_scalar(node)) == "true"


def _refuse(_: Any, node: Any) -> Any:
    raise yaml.constructor.ConstructorError(None, None, f"a manifest cannot hold {node.tag}", node.start_mark)


def _fields(loader: Any, node: Any) -> Any:
    return loader.construct_mapping(node)


_TAG: Final = "tag:yaml.org,2002:"
for _name, _pattern, _first in (
    ("bool", r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?(0b[01_]+|0o[0-7_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", r"<<", "<"),
):
    for _letter in _first:
        _Loader.yaml_implicit_resolvers.setdefault("" if _letter == "\0" else _letter, []).append(
            (_TAG + _name, re.compile(rf"^(?:{_pattern})$"))
        )
for _name, _constructor in (("int", _integer), ("float", _float), ("bool", _boolean), ("map", _fields)):
    _Loader.yaml_constructors[_TAG + _name] = _constructor
for _name in ("set", "omap", "pairs", "binary"):
    _Loader.yaml_constructors[_TAG + _name] = _refuse
_Loader.yaml_constructors[_TAG + "seq"] = lambda loader, node: loader.construct_sequence(node, deep=True)
_Loader.yaml_constructors[_TAG + "timestamp"] = lambda loader, node: loader.construct_scalar(node)


def read_yaml(text: str) -> list[Any]:
    """Return the documents of the text, None for an empty one, and a ``NotYaml`` for one that is invalid or too large.

    The text is parsed as a whole; only after a mistake is it divided at its separators (---), and each part parsed.

    >>> read_yaml("a: 1\\n---\\na: 1\\na: 2\\n---\\na: 3\\n")
    [{'a': 1}, NotYaml("the key 'a' is duplicated in one mapping"), {'a': 3}]
    """
    try:
        return list(_parse(text))
    except NotYaml:
        parts = list(divide_documents(text))
        return [one for before, part in parts for one in _parse_part(part, before, several=len(parts) > 1)]


def compose_documents(text: str) -> list[Any]:
    """Return the YAML nodes of each document, None for one that is empty or invalid."""
    found: list[Any] = []
    for _, part in divide_documents(text):
        try:
            found.extend(yaml.compose_all(part, Loader=_Loader))
        except (yaml.YAMLError, RecursionError, ValueError):
            found.append(None)
    return found


def divide_documents(text: str) -> Iterator[tuple[int, str]]:
    """Yield each document of a text with the number of lines before it.

    A line that begins with --- or ... is a marker also within brackets, quotations and block texts.

    >>> list(divide_documents("a: 1\\n---\\nb: 2\\n"))
    [(0, 'a: 1\\n'), (1, '---\\nb: 2\\n')]
    """
    start, before = 0, 0
    ended = True  # only comments and directives (%) since the end of the document before
    for line in MARKER_OR_CONTENT.finditer(text):
        marker = line.group()[:3]
        if marker in ("---", "...") and not ended:
            end = line.start() if marker == "---" else line.end()
            yield before, text[start:end]
            start, before = end, before + text.count("\n", start, end)
        ended = marker == "..."
    yield before, text[start:]


def _parse_part(text: str, before: int, *, several: bool) -> Iterator[Any]:
    try:
        yield from _parse(text, before)
    except NotYaml as error:
        if several and not error.mistake.line:  # of a document without a line, the first one
            error.mistake = replace(error.mistake, line=before + 1)
        error.templated = "{{" in text and "}}" in text
        error.text = text
        yield error


def _parse(text: str, before: int = 0) -> Iterator[Any]:
    """Yield the documents of a text that begins after so many lines of its file; raises ``NotYaml`` at a mistake."""
    aliases = "&" in text and "*" in text
    try:
        _check_depth(text, before)
        for document in yaml.load_all(text, Loader=_Loader):
            if aliases:
                _check_size(document)
            yield document
    except yaml.MarkedYAMLError as error:
        raise NotYaml(explain_syntax_error(error, text, before)) from error
    except yaml.YAMLError as error:
        raise NotYaml(explain_bad_character(error, text, before)) from error
    except RecursionError:
        raise NotYaml(YamlMistake("it is nested too deeply", remedy=FLATTEN)) from None
    except ValueError as error:  # a number with too many digits, an invalid character
        raise error if isinstance(error, NotYaml) else NotYaml(YamlMistake(str(error))) from error


def _check_depth(text: str, before: int) -> None:
    """Raise ``NotYaml`` if the text is nested too deeply; parse its events only if brackets or indentation allow that
    depth.
    """
    longest = max((len(line) - len(line.lstrip(" -?:")) for line in text.splitlines()), default=0)
    if text.count("[") + text.count("{") + longest < MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                message = f"it is nested too deeply, {MAX_DEPTH} levels and more"
                line = event.start_mark.line + 1 + before if event.start_mark else 0
                raise NotYaml(YamlMistake(message, line, FLATTEN))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_size(document: Any) -> None:
    """Raise ``NotYaml`` if the document with its aliases expanded has too many values, or an alias contains itself."""
    known: dict[int, int] = {}
    open_now: set[int] = set()

    def size(value: Any) -> int:
        if not isinstance(value, dict | list):
            return 1
        if id(value) in open_now:
            raise NotYaml(YamlMistake("an alias (*) contains itself", remedy=NO_ALIAS))
        if id(value) not in known:
            open_now.add(id(value))
            known[id(value)] = 1 + sum(map(size, value.values() if isinstance(value, dict) else value))
            open_now.discard(id(value))
        return known[id(value)]

    if size(document) <= MAX_VALUES:
        return
    path, inner = "", document
    while larger := [(key, one) for key, one in _entries(inner) if size(one) > MAX_VALUES]:
        key, inner = larger[0]
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
    message = f"its aliases (*) expand to more than {MAX_VALUES:,} values{f' in {path[:100]}' if path else ''}"
    raise NotYaml(YamlMistake(message, remedy=NO_ALIAS))


def _entries(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def seems_to_define(text: str, kind: str, name: str) -> bool:
    """Return whether a text that cannot be read has a field with this kind, and one with this name.

    >>> seems_to_define("kind: EC2NodeClass\\nmetadata: {name: gpu", "EC2NodeClass", "gpu")
    True
    >>> seems_to_define("kind: EC2NodeClass\\nmetadata: {name: gpu-large", "EC2NodeClass", "gpu")
    False
    """
    of_kind = rf"""^[\s{{"'-]*kind["']?[ \t]*:[ \t]*["']?{re.escape(kind)}\b"""
    of_name = rf"""(?<![\w./-])name["']?[ \t]*:[ \t]*["']?{re.escape(name)}["']?[ \t\r]*(,|\}}|#|$)"""
    return all(re.search(one, text, re.MULTILINE) for one in (of_kind, of_name))
