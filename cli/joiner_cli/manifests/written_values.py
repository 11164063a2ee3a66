"""Finds what a YAML file has in place of a value: a reader turns the word n into false and 1.10 into 1.1.

Messages quote the text of the file. Documents are only composed again for a problem whose value may be such a word.

>>> text = "a: 1\\n---\\nmetadata: {name: n, labels: {version: 1.10, app: x}}\\n"
>>> find_written_values(text, 2)
{'metadata.name': 'n', 'metadata.labels.version': '1.10'}
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from joiner.pools import InvalidManifest
from joiner_cli.manifests.manifest_documents import ManifestDocument
from joiner_cli.manifests.yaml_text import compose_documents, read_boolean

REWRITTEN: Final = re.compile(r"true|false|-?[\d.]+(e[+-]?\d+)?")
"""Values of problems that may be written differently in the file."""
QUOTED: Final = re.compile(r'put it in quotes: "[^"]*".*')


def quote_as_written(problem: InvalidManifest, document: ManifestDocument) -> InvalidManifest:
    """Return the problem with its value as it stands in the document."""
    if not REWRITTEN.fullmatch(problem.value):
        return problem
    path = _normalize(f"{document.item}{problem.field}")
    written = find_written_values(document.text, document.number).get(path)
    if written is None:
        return problem
    remedy = problem.remedy
    if QUOTED.fullmatch(remedy):
        remedy = f'put it in quotes: "{written}"; without quotes, it means {problem.value}'
    return InvalidManifest(problem.object, problem.field, written, remedy, problem.severity)


def find_written_values(text: str, number: int) -> dict[str, str]:
    """Return the scalars of a document (counted from 1) that a reader changes, by their paths."""
    documents = compose_documents(text)
    return dict(_changed(documents[number - 1], "")) if number <= len(documents) and documents[number - 1] else {}


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
