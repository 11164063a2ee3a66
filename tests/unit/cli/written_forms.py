"""The forms in which a problem may show a value of a manifest: its text, or YAML's flow style of a list or object."""

from collections.abc import Iterator
from typing import Any

import yaml

from joiner.pools.codecs.manifest_fields import format_value
from joiner_cli.manifests.yaml_text import compose_documents, read_yaml


def list_written_forms(text: str) -> frozenset[str]:
    """Return the forms of all values and keys of a YAML text."""
    values = (form for document in read_yaml(text) for form in _forms_of_values(document))
    nodes = (form for node in compose_documents(text) for form in _forms_of_nodes(node))
    return frozenset((*values, *nodes))


def _forms_of_values(value: Any) -> Iterator[str]:
    yield format_value(value)
    if value is None:  # the API server reads the zero value of the field
        yield from map(format_value, ("", 0))
    if isinstance(value, dict):
        for key, inner in value.items():
            yield format_value(key)
            yield from _forms_of_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _forms_of_values(inner)


def _forms_of_nodes(node: Any) -> Iterator[str]:
    if isinstance(node, yaml.ScalarNode):
        yield format_value(node.value)
    elif isinstance(node, yaml.SequenceNode):
        for inner in node.value:
            yield from _forms_of_nodes(inner)
    elif isinstance(node, yaml.MappingNode):
        for key, inner in node.value:
            yield from _forms_of_nodes(key)
            yield from _forms_of_nodes(inner)
