"""Each field of a spec that docs/fields.toml calls acted upon: another value of it is read as another value, which the
module of its row uses.
"""

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner.planning.inputs.capacity_buffers import resolve_buffers
from joiner.pools import InvalidManifest, read_manifests, read_overlays
from joiner.pools.codecs.unsupported_fields import UNSUPPORTED
from joiner_local.packaged_data.field_table import LIBRARY, REPOSITORY, FieldRow, read_rows
from tests.crd_fields import crd_fields

Manifest = Mapping[str, Any]
FILES = ("everything.yaml", "alternatives.yaml", "claims_overlays_buffers.yaml")
MANIFESTS: tuple[Manifest, ...] = tuple(
    manifest
    for name in FILES
    for manifest in yaml.safe_load_all((Path(__file__).parent / "manifests" / name).read_text(encoding="utf-8"))
)
FIELDS = crd_fields()
ACTED = [row for row in read_rows() if row.use == "acted upon" and row.path.startswith("spec.")]
ONE_VALUE = {"apiVersion", "kind", "group", "apiGroup", "containerRuntime", "provisioningStrategy"}
"""Names of fields that may have one value only. Any other one is refused, and the problem names the field."""
OTHERS: Mapping[str, Sequence[object]] = {
    "alias": ("al2023@v20260101",),
    "key": ("example.com/other",),
    "kind": ("StatefulSet",),
    "deviceName": ("/dev/xvdb",),
}
"""Name of a field -> valid values that are not made from the present one."""


def template(cpu: str) -> Manifest:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


def workload(name: str, cpu: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": 10, "template": template(cpu)}}


WORKLOADS: Mapping[str, Sequence[Manifest]] = {
    "deployments": [workload("web", "1"), workload("webb", "2")],
    "statefulsets": [workload("web", "3")],
    "podtemplates": [
        {"metadata": {"name": name, "namespace": "default"}, "template": template(cpu)}
        for name, cpu in (("chunk", "1"), ("chunkb", "2"))
    ],
}
"""What the CapacityBuffers of the manifests refer to, and what they refer to with another value."""


def read(manifest: Manifest) -> tuple[object, Sequence[InvalidManifest]]:
    """Return the value that the library reads from a manifest, and the problems that keep it from being used."""
    problems: Sequence[InvalidManifest]
    if manifest["kind"] == "NodeOverlay":
        value, problems = read_overlays([manifest])
        return value, [one for one in problems if one.severity == "error"]
    if manifest["kind"] == "CapacityBuffer":
        (buffer,) = resolve_buffers({**WORKLOADS, "capacitybuffers": [manifest]})
        return buffer.pods, [buffer.problem] if buffer.problem else []
    found = read_manifests([manifest])
    # The class of a pool, and the pool of a Machine, are in other manifests
    beside = ("spec.template.spec.nodeClassRef", "spec.providerRef")
    errors = [one for one in found.problems if one.severity == "error" and one.field not in beside]
    return (found.pools, found.classes, found.claims), errors


def places(value: object, path: str = "") -> Iterator[tuple[str, list[str | int]]]:
    """Yield each leaf of a manifest: its path as in the CRD, and its keys."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            for inner, keys in places(part, f"{path}.{key}" if path else key):
                yield inner, [key, *keys]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, part in enumerate(value):
            for inner, keys in places(part, f"{path}[]"):
                yield inner, [index, *keys]
    else:
        yield path, []


def below(path: str, field: str) -> bool:
    """Return whether the field is at this path or below it."""
    return field == path or field.startswith((f"{path}.", f"{path}[]"))


def other_values(kind: str, path: str, value: object) -> Iterator[object]:
    """Yield values of the type of the field; None, which is no value, if the CRD allows only one."""
    schema = next((schema for field, schema in FIELDS[kind].items() if below(field, path)), {})
    enum = schema.get("enum", ())
    yield from enum if len(enum) != 1 else [None]
    yield from OTHERS.get(re.split(r"[.\[]", path.removesuffix("[]"))[-1], ())
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    else:
        text = str(value)
        yield from (re.sub(r"\d+", lambda number: str(int(number[0]) + 1), text), f"{text}b", f"{text}/b")


def put(manifest: Manifest, keys: Sequence[str | int], value: object) -> Manifest:
    """Return the manifest with another value of one leaf."""
    copied = copy.deepcopy(manifest)
    inner: Any = copied
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return copied


def differences(one: object, other: object) -> Iterator[str]:
    """Yield the attributes and the keys in which two values differ."""
    if one == other:
        return
    parts: Iterator[tuple[str, object, object]] = iter(())
    if is_dataclass(one) and type(one) is type(other):
        parts = ((name, getattr(one, name), getattr(other, name)) for name in _attributes(one.__class__))
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        parts = ((str(key), one.get(key), other.get(key)) for key in {**one, **other})
    elif isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        parts = (("", first, second) for first, second in zip_longest(one, other))
    for name, first, second in parts:
        if first != second:
            yield name
            yield from differences(first, second)


@cache
def _attributes(of: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields and the properties of a dataclass."""
    return (*(field.name for field in fields(of)), *(name for name, one in vars(of).items() if type(one) is property))


@cache
def effects(kind: str) -> Mapping[str, frozenset[str]]:
    """Return for each leaf of the kind's manifests the attributes that another value of it changes.

    A field of one value, whose other values are all refused by name, has the attribute of its own name.
    """
    found: dict[str, set[str]] = {}
    for manifest in (one for one in MANIFESTS if one["kind"] == kind):
        before, errors = read(manifest)
        assert errors == [], "the manifests are valid"
        for path, keys in places(manifest["spec"], "spec"):
            refused: list[bool] = []
            present = _at(manifest, ["spec", *keys])
            for value in (other for other in other_values(kind, path, present) if other != present):
                after, problems = read(put(manifest, ["spec", *keys], value))
                if value is not None:
                    refused.append(bool(problems) and all(below(path, _as_path(one.field)) for one in problems))
                if not problems:
                    found.setdefault(path, set()).update(differences(before, after))
            name = path.rpartition(".")[2]
            if name in ONE_VALUE and refused and all(refused):
                found.setdefault(path, set()).add(name)
    return {path: frozenset(names) for path, names in found.items() if names}


def _at(manifest: Any, keys: Sequence[str | int]) -> object:
    for key in keys:
        manifest = manifest[key]
    return manifest


def _as_path(place: str) -> str:
    return re.sub(r"\[[^\]]*\]", "[]", place)


@cache
def uses(place: str) -> frozenset[str]:
    """Return the names and the texts in the code of a module, without those that it only defines."""
    tree = ast.parse((REPOSITORY / LIBRARY / place).read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = {id(each.value) for node in ast.walk(tree) if isinstance(node, documented) for each in _opening(node.body)}
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Load()):
                found.add(name)
            case ast.Constant(value=str(name)) if id(node) not in texts:
                found.add(name)
    return frozenset(found)


def _opening(body: Sequence[ast.stmt]) -> list[ast.Expr]:
    return [each for each in body[:1] if isinstance(each, ast.Expr)]


def test_the_module_of_a_row_uses_the_field() -> None:
    rows = [row for row in read_rows() if row.place]

    assert [row for row in rows if row.symbol not in uses(row.place)] == []


def leaves(kind: str) -> list[str]:
    """Return the paths of the fields of the kind's spec that have an effect."""
    reported = {row.path for row in UNSUPPORTED if row.kind == kind}
    return [path for path in FIELDS[kind] if path.startswith("spec.") and path not in reported]


@pytest.mark.parametrize("kind", FIELDS)
def test_the_manifests_have_each_field_of_the_crd(kind: str) -> None:
    used = {path for one in MANIFESTS if one["kind"] == kind for path, _ in places(one["spec"], "spec")}

    assert [path for path in leaves(kind) if not any(below(path, one) for one in used)] == []


@pytest.mark.parametrize("kind", FIELDS)
def test_another_value_of_a_field_is_read_as_another_value(kind: str) -> None:
    found = effects(kind)

    assert [path for path in leaves(kind) if not any(below(path, one) for one in found)] == []


@pytest.mark.parametrize("kind", FIELDS)
def test_the_name_of_a_row_is_the_field_or_an_attribute_that_it_changes(kind: str) -> None:
    found = effects(kind)

    def names(row: FieldRow) -> set[str]:
        return {name for path, changed in found.items() if below(row.path, path) for name in changed}

    wrong = [
        f"{row.path}: {row.symbol}, not one of {sorted(names(row))}"
        for row in ACTED
        if row.kind == kind and row.symbol not in {row.path.rpartition(".")[2].removesuffix("[]"), *names(row)}
    ]
    assert wrong == []
