"""Reads files, folders and stdin into documents: one for each manifest, with its place.

A folder is read as by `kubectl apply -R -f`: every file that ends in .yaml, .yml or .json, sorted by name. Lists are
expanded into their items. An unreadable file does not affect the others: it is returned as an error among the
documents.

>>> [one.where for one in read_text('{"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Node"}]}', "all.json")]
['all.json, item 1', 'all.json, item 2']
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from joiner_cli.manifests.yaml_text import FLATTEN, NotYaml, read_yaml

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_BYTES: Final = 2 * 2**30


class UnreadableInput(Exception):
    """An input that cannot be read: ``where`` it is, what is wrong, and the remedy. ``source`` is its file, and
    ``text`` the part that cannot be read, if it is a text."""

    def __init__(self, where: str, problem: str, remedy: str, source: str = "", text: str = "") -> None:
        self.where, self.problem, self.remedy, self.source = where, problem, remedy, source or where
        self.text = text
        super().__init__(f"{where}: {problem}: {remedy}")

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines that report it."""
        return (str(self),)


class SeveralMistakes(UnreadableInput):
    """A file that cannot be used: each of the ``mistakes`` has its own line and its own remedy."""

    def __init__(self, where: str, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(where, "; ".join(self.mistakes), f"correct {where}")

    @property
    def lines(self) -> tuple[str, ...]:
        """Return a line for each mistake."""
        return tuple(f"{self.where}: {each}" for each in self.mistakes)


class EmptyInput(UnreadableInput):
    """An input without any document: nothing but comments and white space."""

    def __init__(self, where: str) -> None:
        super().__init__(where, "it holds no manifests", "write manifests in it, or leave it out")


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """One manifest; ``where`` is its file and, if the file has several documents, its number. ``text`` is that of the
    file, ``number`` counts its documents from 1, and ``item`` is the path of the manifest in a List."""

    where: str
    manifest: Any
    text: str = field(default="", repr=False)
    number: int = 1
    item: str = ""


def read_documents(paths: Iterable[str]) -> Iterator[ManifestDocument | UnreadableInput]:
    """Yield every document of these files and folders (``-`` is stdin), and an error for each unreadable input."""
    for path in paths:
        if path == STDIN and sys.stdin is None:
            yield UnreadableInput("stdin", "it is closed", "pipe manifests into the command, or name files")
        elif path == STDIN:
            yield from _read_stdin()
        elif os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises an error for a name that is too long
            yield from _read_folder(Path(path))
        else:
            yield from read_file(Path(path))


def read_file(file: Path) -> Iterator[ManifestDocument | UnreadableInput]:
    """Yield the documents of a file, or the reason why it cannot be read."""
    try:
        if file.stat().st_size > MAX_BYTES:
            yield UnreadableInput(str(file), "it has more than 2 GiB", "split it")
            return
        content = file.read_bytes()
    except OSError as error:
        yield UnreadableInput(str(file), error.strerror or str(error), "name a file or folder that can be read")
        return
    yield from _read_bytes(content, str(file))


def read_text(text: str, source: str) -> Iterator[ManifestDocument | UnreadableInput]:
    """Yield the documents of a YAML or JSON text, and an error for each document that cannot be read."""
    found = _parse(text, source)
    for number, one in enumerate(found, 1):
        if isinstance(one, UnreadableInput):
            yield one
        elif one is not None:
            where = f"{source}, document {number}" if len(found) > 1 else source
            for each in _expand_list(where, one, source):
                yield replace(each, text=text, number=number) if isinstance(each, ManifestDocument) else each
    if all(one is None for one in found):
        yield EmptyInput(source)


def _read_stdin() -> Iterator[ManifestDocument | UnreadableInput]:
    try:
        content = sys.stdin.buffer.read()
    except OSError as error:  # stdin may be a folder
        yield UnreadableInput("stdin", error.strerror or str(error), "pipe manifests into the command, or name files")
        return
    yield from _read_bytes(content, "stdin")


def _read_folder(folder: Path) -> Iterator[ManifestDocument | UnreadableInput]:
    closed: list[OSError] = []
    named = (Path(at, name) for at, _, names in os.walk(folder, onerror=closed.append) for name in names)
    files = sorted(one for one in named if one.suffix in SUFFIXES)
    for file in files:
        if file.exists() and not file.is_file():  # reading a pipe waits for its writer
            yield UnreadableInput(str(file), "it is no regular file", "remove it from the folder, or name it itself")
        else:
            yield from read_file(file)
    for error in closed:
        yield UnreadableInput(str(error.filename), error.strerror or str(error), "allow yourself to read this folder")
    if not files and not closed:
        yield UnreadableInput(
            str(folder), "there is no manifest in this folder", f"put files there that end in {', '.join(SUFFIXES)}"
        )


def _read_bytes(content: bytes, source: str) -> Iterator[ManifestDocument | UnreadableInput]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield UnreadableInput(source, f"byte {error.start} is not UTF-8", "save it as UTF-8")
        return
    yield from read_text(text, source)


def _parse(text: str, source: str) -> list[Any]:
    """Return the documents of a text, None for an empty one, and an ``UnreadableInput`` for one with a mistake."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [msgspec.json.decode(text)]
        except RecursionError:
            return [UnreadableInput(source, "it is nested too deeply", FLATTEN)]
        except msgspec.DecodeError:
            several = _parse_json_stream(text)
            if several is not None:
                return several
    return [_unreadable(one, source) if isinstance(one, NotYaml) else one for one in read_yaml(text)]


def _unreadable(error: NotYaml, source: str) -> UnreadableInput:
    mistake = error.mistake
    where = f"{source}, line {mistake.line}" if mistake.line else source
    template = "it looks like a template: render it first, with `helm template` or the like"
    return UnreadableInput(where, str(error), template if error.templated else mistake.remedy, source, error.text)


def _parse_json_stream(text: str) -> list[Any] | None:
    """Parse consecutive JSON documents, which kubectl accepts; None if the text is not JSON (YAML may begin with a
    brace, too).
    """
    decoder, position, found = json.JSONDecoder(), 0, []
    try:
        while text[position:].strip():
            position += len(text[position:]) - len(text[position:].lstrip())
            one, position = decoder.raw_decode(text, position)
            found.append(one)
    except (ValueError, RecursionError):
        return None
    return found


def _expand_list(where: str, manifest: Any, source: str) -> Iterator[ManifestDocument | UnreadableInput]:
    """Yield the items of a ``List``; items of a typed list such as ``PodList`` get the kind that they leave out."""
    if not isinstance(manifest, Mapping):
        yield ManifestDocument(where, manifest)
        return
    kind, items = manifest.get("kind"), manifest.get("items")
    if kind == "List" and not isinstance(items, list | None):
        yield UnreadableInput(where, "its items are no list", "write items: [...]", source)
        return
    if kind == "List":
        items = items or []
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield ManifestDocument(where, manifest)
        return
    given = {} if kind == "List" else {"kind": kind.removesuffix("List"), "apiVersion": manifest.get("apiVersion")}
    for number, item in enumerate(items, 1):
        if item is None:
            yield UnreadableInput(f"{where}, item {number}", "it is empty", "write an object, or remove it", source)
            continue
        inner = {**given, **item} if isinstance(item, Mapping) else item
        if isinstance(item, Mapping) and str(item.get("kind") or "").endswith("List"):
            yield UnreadableInput(
                f"{where}, item {number}", "it is a list inside a list", "put its items into the outer list", source
            )
            continue
        yield ManifestDocument(f"{where}, item {number}", inner, item=f"items[{number - 1}].")
