"""Every field of the CRDs is acted upon, reported on its object, or named as not used; docs/fields.md says which.

`test_acted_fields.py` has the proof of the first, `tests/unit/functions/test_fields_without_effect.py` of the second.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

import pytest

from joiner import names
from joiner.pools import read_manifests
from joiner.pools.codecs.unsupported_fields import UNSUPPORTED, UnsupportedField
from joiner_local.packaged_data.field_table import (
    LIBRARY,
    PAGE,
    REPOSITORY,
    FieldRow,
    read_keys,
    read_rows,
    render,
)
from tests.crd_fields import crd_fields, read_crds

FIELDS = crd_fields()
ROWS = read_rows()
KEYS = read_keys()
KEY = re.compile(r"([a-z0-9-]+\.)+[a-z]+/[A-Za-z][A-Za-z0-9_.-]+")
NO_KEYS_OF_OBJECTS = {
    "app.kubernetes.io/managed-by": "label of the CRDs and other objects that the deployment installs",
    "buffer.x-k8s.io/active-capacity": "a strategy of CapacityBuffer",
    "joiner.dev/cluster": "tag of access entries and roles",
    "joiner.dev/joiner": "the reporting controller of events",
    "joiner.dev/node": "annotation of an Eviction",
    "karpenter.k8s.aws/instance-": "the prefix of labels",
    "karpenter.sh/discovery": "tag of resources of EC2",
    "karpenter.sh/nodeclaim": "tag of instances",
    "kubernetes.io/aws-ebs": "a volume plugin",
    "kubernetes.io/no-provisioner": "a volume plugin",
    **dict.fromkeys(
        ("amd.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "habana.ai/gaudi", "nvidia.com/gpu"),
        "a resource",
    ),
    **dict.fromkeys(
        ("vpc.amazonaws.com/efa", "vpc.amazonaws.com/pod-eni", "vpc.amazonaws.com/PrivateIPv4Address"), "a resource"
    ),
}
"""Texts of the code that look like keys of annotations and labels, and what they are."""
SCHEMAS: dict[str, Any] = {
    crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in read_crds()
}


def below(path: str, field: str) -> bool:
    """Return whether the field is at this path or below it."""
    return field == path or field.startswith((f"{path}.", f"{path}[]"))


@pytest.mark.parametrize("kind", FIELDS)
def test_each_field_of_a_crd_has_a_row(kind: str) -> None:
    rows = {row.path for row in ROWS if row.kind == kind}

    assert [field for field in FIELDS[kind] if not any(below(path, field) for path in rows)] == []


def test_each_row_is_a_field_of_its_crd() -> None:
    assert [row for row in ROWS if not any(below(row.path, field) for field in FIELDS[row.kind])] == []


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field_has_one_row(kind: str) -> None:
    paths = [row.path for row in ROWS if row.kind == kind]

    assert sorted(paths) == sorted(set(paths))


def keys_of_the_code() -> set[str]:
    """Return every text in the library and the functions that has the form of a key, versions of APIs left out."""
    files = [*(REPOSITORY / LIBRARY).rglob("*.py"), *(REPOSITORY / "functions").rglob("*.py")]
    texts = {
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in texts if KEY.fullmatch(text) and not re.search(r"/v\d+((alpha|beta)\d+)?$", text)}


def test_each_key_of_an_annotation_or_a_label_in_the_code_has_a_row() -> None:
    listed = {row.key for row in KEYS}

    assert keys_of_the_code() - listed == NO_KEYS_OF_OBJECTS.keys()
    assert listed - keys_of_the_code() == set()


def test_the_module_of_a_key_uses_it() -> None:
    modules = {row.place: (REPOSITORY / LIBRARY / row.place).read_text(encoding="utf-8") for row in KEYS}

    without = [row for row in KEYS if not re.search(rf"(?<![\w-]){re.escape(row.symbol)}(?![\w-])", modules[row.place])]
    assert without == []


def test_each_annotation_of_a_pool_is_known_to_the_reader_of_pools() -> None:
    assert {row.key for row in KEYS if row.what == "annotation of a pool"} == set(names.POOL_ANNOTATIONS)


@pytest.mark.parametrize("kind", ["NodePool", "Provisioner"])
def test_an_unknown_annotation_of_joiner_is_reported_with_the_nearest_one(kind: str) -> None:
    annotations = {"joiner.dev/drifts": "detect", "example.com/drift": "detect", "joiner.dev/placing": "?"}
    manifest = {"kind": kind, "metadata": {"name": "default", "annotations": annotations}, "spec": {}}

    found = [one for one in read_manifests([manifest]).problems if one.field.startswith("metadata.annotations")]

    assert [(one.field, one.value, one.remedy, one.severity) for one in found] == [
        (
            "metadata.annotations[joiner.dev/drifts]",
            "detect",
            'it has no effect: no such annotation is known; did you mean "joiner.dev/drift"?',
            "warning",
        ),
        (
            "metadata.annotations[joiner.dev/placing]",
            "?",
            "it has no effect; use bind or schedule",
            "warning",
        ),
    ]


@pytest.mark.parametrize("name", names.POOL_ANNOTATIONS)
def test_no_known_annotation_of_a_pool_is_reported_as_unknown(name: str) -> None:
    manifest = {"kind": "NodePool", "metadata": {"name": "default", "annotations": {name: "?"}}, "spec": {}}

    remedies = [one.remedy for one in read_manifests([manifest]).problems if one.field.startswith("metadata.")]

    assert len(remedies) == 1, "a strange value is reported once"
    assert "no such annotation" not in remedies[0]


def using(row: UnsupportedField) -> tuple[dict[str, Any], str, object]:
    """Return a manifest that uses the field, and the place and the value in it."""
    kind_of_value = next(schema for field, schema in FIELDS[row.kind].items() if below(row.path, field)).get(
        "type", "string"
    )
    values: Mapping[str, object] = {
        "boolean": True,
        "integer": 7,
        "string": "2026-11-23T12:00:00Z",
        "object": {"a": "b"},
    }
    value = values[kind_of_value]
    manifest: dict[str, Any] = {"kind": row.kind, "metadata": {"name": "used"}}
    inner: Any = manifest
    *outer, last = row.path.split(".")
    for part in outer:
        name, items, _ = part.partition("[]")
        if items:
            inner[name] = [{}]
            inner = inner[name][0]
        else:
            inner = inner.setdefault(name, {})
    inner[last.removesuffix("[]")] = [value] if last.endswith("[]") else value
    return manifest, row.path.replace("[]", "[0]"), value


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: f"{row.kind}-{row.path}")
def test_the_use_of_an_unsupported_field_is_reported_on_its_object(row: UnsupportedField) -> None:
    manifest, place, value = using(row)

    found = [problem for problem in read_manifests([manifest]).problems if problem.field == place]

    assert [(one.object, one.remedy, one.severity) for one in found] == [(f"{row.kind}/used", row.remedy, row.severity)]
    assert found[0].value.lower() == re.sub(r"[{}\"' ]", "", str(value)).lower() or isinstance(value, dict)


def test_only_fields_of_a_status_are_not_used() -> None:
    assert [row for row in ROWS if row.use == "not used" and not row.path.startswith("status.")] == []


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.use == "not used"], ids=lambda row: f"{row.kind}-{row.path}"
)
def test_the_description_of_an_unused_field_states_it(row: FieldRow) -> None:
    description = FIELDS[row.kind][row.path]["description"]

    assert "Not used" in description or "no effect" in description


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: f"{row.kind}-{row.path}")
def test_the_description_of_a_field_without_effect_states_it(row: UnsupportedField) -> None:
    schema = SCHEMAS[row.kind]
    for part in row.path.split("."):
        schema = schema["properties"][part.removesuffix("[]")]
        schema = schema["items"] if part.endswith("[]") else schema

    assert "no effect" in schema["description"]


IDLE_TEXTS = re.compile(r"\bnot used\b|\bno effect\b|\byet\b|\bnot supported\b|\bignored\b", re.IGNORECASE)


@pytest.mark.parametrize("kind", sorted(FIELDS))
def test_no_description_of_a_field_that_is_acted_upon_denies_it(kind: str) -> None:
    acted = {row.path for row in ROWS if row.kind == kind and row.use == "acted upon"}

    denied = {path: FIELDS[kind][path].get("description", "") for path in acted}

    assert {path: text for path, text in denied.items() if IDLE_TEXTS.search(text)} == {}


def test_the_page_is_current() -> None:
    current = render(ROWS, KEYS)

    assert PAGE.read_text(encoding="utf-8") == current, "run python -m joiner_local.packaged_data.field_table"
