"""Finds what a YAML file has in place of a value: a reader turns the word n into false and 1.10 into 1.1.

Messages quote the text of the file. A file is only composed again for a problem whose value may be such a word, and
only once.

>>> text = "a: 1\\n---\\nmetadata: {name: n, labels: {version: 1.10, app: x}}\\n"
>>> WrittenValues().find(text, 2)
{'metadata.name': 'n', 'metadata.labels.version': '1.10'}
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from joiner.pools import InvalidManifest
from joiner_cli.manifests.manifest_documents import ManifestDocument
from joiner_cli.manifests.yaml_text import compose_documents, read_boolean

REWRITTEN: Final = re.compile(r"true|false|-?[\d.]+(e[+-]?\d+)?")
"""Values of problems that may be written differently in the file."""
QUOTED: Final = re.compile(r'put it in quotes: "[^"]*".*')


class WrittenValues:
    """Finds the written values of documents that are read one after the other. It keeps those of the last file."""

    def __init__(self, compose: Callable[[str], Sequence[Any]] = compose_documents) -> None:
        self._compose = compose
        self._text: str | None = None
        self._documents: Sequence[Any] = ()
        self._found: dict[int, Mapping[str, str]] = {}

    def quote(self, problem: InvalidManifest, document: ManifestDocument) -> InvalidManifest:
        """Return the problem with its value as it stands in the document."""
        if not REWRITTEN.fullmatch(problem.value):
            return problem
        path = _normalize(f"{document.item}{problem.field}")
        written = self.find(document.text, document.number).get(path)
        if written is None:
            return problem
        remedy = problem.remedy
        if QUOTED.fullmatch(remedy):
            remedy = f'put it in quotes: "{written}"; without quotes, it means {problem.value}'
        return InvalidManifest(problem.object, problem.field, written, remedy, problem.severity)

    def find(self, text: str, number: int) -> Mapping[str, str]:
        """Return the scalars of a document (counted from 1) that a reader changes, by their paths."""
        if text != self._text:
            self._text, self._documents, self._found = text, self._compose(text), {}
        if number not in self._found:
            node = self._documents[number - 1] if number <= len(self._documents) else None
            self._found[number] = dict(_changed(node, "")) if node else {}
        return self._found[number]


def _changed(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = read_boolean(key.value) if key.tag.endswith(":bool") and not key.style else key.value
                yield from _changed(value, f"{path}.{name}" if path else name)
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            yield from _changed(value, f"{path}.{position}")
    elif isinstance(node, yaml.ScalarNode) and not node.style and not node.tag.endswith(":str"):
        try:
            same = json.dumps(json.loads(node.value)) == node.value
        except ValueError:
            same = False
        if not same:
            yield path, node.value


def _normalize(field: str) -> str:
    """Return the path of a field with dots only.

    >>> _normalize("spec.containers[0].resources.limits[nvidia.com/gpu]")
    'spec.containers.0.resources.limits.nvidia.com/gpu'
    """
    return field.replace("[", ".").replace("]", "")
