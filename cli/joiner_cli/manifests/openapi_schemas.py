"""Checks types, unknown fields and ranges: the API server's strict decoding, and the schemas of CRDs.

The schemas are the API server's own (``joiner_local.packaged_data.kube_schemas`` packages them). ``Schemas.read``
returns the parsed manifest: without null fields, with 2.0 as 2, and with the defaults of CRDs. A wrong value with only
one meaning (a text without quotes, a number in quotes) is parsed as that; a field with any other wrong value is listed
in ``doubts``.

>>> from joiner.pools.codecs.manifest_fields import ManifestProblems
>>> notes = ManifestProblems("Namespace/shop")
>>> namespace = {"kind": "Namespace", "metadata": {"name": 5, "lables": {"a": "b"}}}
>>> understood = Schemas.packaged().read("v1/Namespace", namespace, notes)
>>> understood.manifest["metadata"], understood.doubts
({'name': '5'}, ('metadata.lables',))
>>> print(notes.problems[1])
Namespace/shop: metadata.lables is {a: b}: there is no such field; did you mean "labels"?
"""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from joiner.cluster import InvalidField
from joiner.cluster.quantities import parse_amount
from joiner.pools.codecs.karpenter_v1 import TERMS, UBUNTU_REMEDY
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.suggestions import refuse_field, refuse_value
from joiner_cli.manifests.pattern_remedies import describe_pattern

Schema = Mapping[str, Any]

QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
TIME: Final = re.compile(r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
LIMITS: Final = {"int32": 2**31 - 1, "int64": 2**63 - 1}
TYPE_NAMES: Final = {
    "object": "fields (key: value)",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "boolean": "true or false",
}


QUANTITY_REMEDY: Final = 'give a quantity, such as "1000", "500m" or "64Gi"'
BOOLEAN_WORDS: Final = {  # the words of YAML 1.1, which a manifest read by kubectl may have
    False: ', or "n", "no" or "off" if that is the word here: without quotes, it means false',
    True: ', or "y", "yes" or "on" if that is the word here: without quotes, it means true',
}
FIELD_EXAMPLES: Final[Mapping[str, str]] = {
    **TERMS,
    "nodeClassRef": "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}",
    "subnetSelector": "{karpenter.sh/discovery: my-cluster}",
    "securityGroupSelector": "{karpenter.sh/discovery: my-cluster}",
}
"""Examples for required fields of Karpenter's kinds."""
FORMER_VALUES: Final[Mapping[tuple[str, str], str]] = {("amiFamily", "Ubuntu"): UBUNTU_REMEDY}
"""Values that earlier versions of a kind had, by field and value, with what to write instead."""


@dataclass(frozen=True, slots=True)
class ParsedManifest:
    """A parsed manifest, and the fields whose meaning is unknown (``doubts``).

    Use it only if ``notes`` has no errors, or for fields that do not depend on a doubt.
    """

    manifest: dict[str, Any]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Schemas:
    """``kinds`` maps ``version/Kind`` to the name of its schema; ``others`` are kinds of known versions that plans
    ignore.
    """

    kinds: Mapping[str, str]
    types: Mapping[str, Schema]
    others: Mapping[str, frozenset[str]]
    namespaced: frozenset[str]

    @classmethod
    def packaged(cls) -> "Schemas":
        """Return the schemas that the command contains."""
        return _packaged()

    def read(self, kind: str, manifest: Mapping[str, Any], notes: ManifestProblems) -> ParsedManifest:
        """Read a manifest by the schema of its kind; mistakes are added to `notes`."""
        reading = _ManifestParser(self.types, notes, of_crd=not self.kinds[kind].startswith(BUILT_IN))
        read: dict[str, Any] = reading.value(manifest, {"$ref": self.kinds[kind]}, "")
        return ParsedManifest(read, tuple(reading.doubts))


@cache
def _packaged() -> Schemas:
    built_in, ours = (
        json.loads(gzip.decompress(files("joiner_cli").joinpath("data", name).read_bytes()))
        for name in ("kubernetes.json.gz", "karpenter.json.gz")
    )
    return Schemas(
        kinds={**built_in["kinds"], **ours["kinds"]},
        types={**built_in["types"], **ours["types"]},
        others={version: frozenset(kinds) for version, kinds in built_in["others"].items()},
        namespaced=frozenset((*built_in["namespaced"], *ours["namespaced"])),
    )


BUILT_IN: Final = "io.k8s."
"""The names of the types of Kubernetes itself begin with it, those of CRDs do not."""


class _ManifestParser:
    """Parses one manifest and collects its problems."""

    def __init__(self, types: Mapping[str, Schema], notes: ManifestProblems, *, of_crd: bool) -> None:
        self.types = types
        self.notes = notes
        self.of_crd = of_crd
        self.doubts: list[str] = []

    def value(self, raw: Any, schema: Schema, path: str) -> Any:
        if "$ref" in schema:
            if schema["$ref"] == QUANTITY:
                return self._quantity(raw, path)
            schema = self.types[schema["$ref"]]
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return self._int_or_text(raw, schema, path)
        reader = READERS.get(schema.get("type", ""))
        return raw if reader is None else reader(self, raw, schema, path)

    def _wrong(self, path: str, raw: Any, kind: str, instead: Any) -> Any:
        if kind == "string" and not isinstance(raw, dict | list):
            words = BOOLEAN_WORDS[raw] if isinstance(raw, bool) else ""
            self.notes.note(path, raw, f'put it in quotes: "{_plain(raw)}"{words}')
            return _plain(raw)
        unquoted = ", without quotes" if isinstance(raw, str) and kind in ("integer", "boolean") else ""
        self.notes.note(path, raw, f"give {TYPE_NAMES[kind]} here{unquoted}")
        if kind == "integer" and isinstance(raw, str) and re.fullmatch(r"-?[0-9]{1,9}", raw):
            return int(raw)
        self.doubts.append(path)
        return instead

    def _boolean(self, raw: Any, schema: Schema, path: str) -> bool:
        del schema
        return raw if isinstance(raw, bool) else bool(self._wrong(path, raw, "boolean", False))

    def _object(self, raw: Any, schema: Schema, path: str) -> dict[str, Any]:
        if not isinstance(raw, Mapping):
            found: dict[str, Any] = self._wrong(path, raw, "object", {})
            return found
        if "properties" not in schema:
            return self._map(raw, schema, path)
        if not path and "metadata" in schema["properties"]:  # CRDs leave metadata to the API server
            schema = {**schema, "properties": {**schema["properties"], "metadata": {"$ref": METADATA}}}
        known, read = schema["properties"], {}
        for name, value in raw.items():
            if name not in known:
                if not schema.get("x-kubernetes-preserve-unknown-fields"):
                    self.doubts.append(_at(path, name))
                    self.notes.note(_at(path, name), value, refuse_field(str(name), known, raw))
            elif value is not None:
                read[name] = self.value(value, known[name], _at(path, name))
        for name, inner in known.items():
            if name not in read and inner.get("default") is not None:
                read[name] = self.value(inner["default"], inner, _at(path, name))
        if not path.startswith("status"):  # controllers write the status
            for name in schema.get("required", ()):
                if name not in read:
                    self.doubts.append(_at(path, name))
                    fault = "it is empty" if name in raw else "it is missing"
                    self.notes.missing(_at(path, name), f"{fault}: {self._how_to_set(name, known.get(name, {}))}")
        return read

    def _how_to_set(self, name: str, schema: Schema) -> str:
        """Return the remedy for a required field without a value."""
        if name in FIELD_EXAMPLES:
            return f"write for example {FIELD_EXAMPLES[name]}"
        if schema.get("$ref") == QUANTITY:
            return QUANTITY_REMEDY
        schema = self.types[schema["$ref"]] if "$ref" in schema else schema
        if schema.get("enum"):
            return refuse_value("", schema["enum"])
        if "pattern" in schema:
            return describe_pattern(schema["pattern"])
        if name == "name":
            return "give a name here"
        needed = schema.get("required", ())
        with_these = f", with {', '.join(needed)}" if needed else ""
        return f"give {TYPE_NAMES.get(schema.get('type', ''), 'a value')} here{with_these}"

    def _map(self, raw: Mapping[str, Any], schema: Schema, path: str) -> dict[str, Any]:
        inner = schema.get("additionalProperties")
        if not isinstance(inner, Mapping):
            return dict(raw)
        most = schema.get("maxProperties")
        if most is not None and len(raw) > most:
            self.doubts.append(path)
            self.notes.note(path, raw, f"give {most} entries at most")
        empty = 0 if inner.get("$ref") == QUANTITY else ""
        return {
            name: self.value(empty if value is None else value, inner, f"{path}[{name}]") for name, value in raw.items()
        }

    def _list(self, raw: Any, schema: Schema, path: str) -> list[Any]:
        if not isinstance(raw, list):
            found: list[Any] = self._wrong(path, raw, "array", [])
            return found
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if len(raw) < least or (most is not None and len(raw) > most):
            self.doubts.append(path)
            like = next((f", such as {example}" for name, example in TERMS.items() if path.endswith(f".{name}")), "")
            self.notes.note(
                path, raw, (f"give {least} to {most} items" if most is not None else f"give at least {least}") + like
            )
        read = []
        for number, one in enumerate(raw):
            if one is None and self.of_crd and not path.startswith("metadata."):
                self.doubts.append(path)
                self.notes.note(f"{path}[{number}]", "null", "it is empty: give a value here, or remove the item")
                continue
            if one is None:  # the API server turns null in a list of a built-in kind into an empty value
                one = {"object": {}, "string": ""}.get(_kind(schema["items"], self.types))  # noqa: PLW2901
            read.append(self.value(one, schema["items"], f"{path}[{number}]"))
        return read

    def _text(self, raw: Any, schema: Schema, path: str) -> str:
        if not isinstance(raw, str) and not (
            _is_scalar(raw) and "pattern" in schema and not _matches_pattern(_plain(raw), schema)
        ):
            found: str = self._wrong(path, raw, "string", "")
            return found
        remedy, text = "", _plain(raw)
        if schema.get("enum") and text not in schema["enum"] and not path.startswith("status"):
            former = FORMER_VALUES.get((path.rpartition(".")[2], text))
            remedy = former or refuse_value(text, schema["enum"])
        elif len(text) < schema.get("minLength", 0):
            remedy = _describe_shortness(schema, text)
        elif not _matches_pattern(text, schema):
            remedy = describe_pattern(schema["pattern"], text)
        elif len(text) > schema.get("maxLength", len(text)):
            remedy = f"use {schema['maxLength']} characters at most"
        elif schema.get("format") == "date-time" and not TIME.fullmatch(text):
            remedy = 'give a time such as "2026-01-02T03:04:05Z"'
        if remedy:
            self.notes.note(path, raw, remedy)
        return text

    def _integer(self, raw: Any, schema: Schema, path: str) -> int:
        if isinstance(raw, float) and raw.is_integer():
            raw = int(raw)
        if isinstance(raw, bool) or not isinstance(raw, int):
            found: int = self._wrong(path, raw, "integer", 0)
            return found
        limit = LIMITS.get(schema.get("format", ""), LIMITS["int64"])
        least, most = schema.get("minimum", -limit - 1), schema.get("maximum", limit)
        if not least <= raw <= most:
            asked = f"from {least} to {most}"
            if most == limit and raw < least:  # the limit of the format is no help
                asked = f"of at least {least}"
            elif least == -limit - 1 and raw > most:
                asked = f"of at most {most}"
            self.notes.note(path, raw, f"give a number {asked}")
        return raw

    def _int_or_text(self, raw: Any, schema: Schema, path: str) -> Any:
        if isinstance(raw, float) and raw.is_integer():
            raw = int(raw)
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            self.doubts.append(path)
            self.notes.note(path, raw, "give a whole number or a text")
            return 0
        if isinstance(raw, int) and "pattern" in schema and not -LIMITS["int64"] - 1 <= raw <= LIMITS["int64"]:
            size = "large" if raw > 0 else "small"
            self.notes.note(path, raw, f"the number is too {size}: {describe_pattern(schema['pattern'])}")
            return raw
        if isinstance(raw, int):
            return self._integer(raw, {"format": "int32" if "format" in schema else "int64"}, path)
        return self._text(raw, schema, path)

    def _quantity(self, raw: Any, path: str) -> Any:
        if isinstance(raw, dict | list):
            self.doubts.append(path)
            self.notes.note(path, raw, QUANTITY_REMEDY)
            return "0"
        amount = raw.strip(" ") if isinstance(raw, str) else raw
        try:
            parse_amount(amount)
        except InvalidField as invalid:
            self.notes.note(path, raw, invalid.remedy)
        return amount


READERS: Final[Mapping[str, Callable[[_ManifestParser, Any, Schema, str], Any]]] = {
    "object": _ManifestParser._object,
    "array": _ManifestParser._list,
    "string": _ManifestParser._text,
    "integer": _ManifestParser._integer,
    "boolean": _ManifestParser._boolean,
}


def _at(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _kind(schema: Schema, types: Mapping[str, Schema]) -> str:
    return str((types[schema["$ref"]] if "$ref" in schema else schema).get("type") or "")


def _is_scalar(value: object) -> bool:
    return not isinstance(value, dict | list)


def _matches_pattern(text: str, schema: Schema) -> bool:
    return "pattern" not in schema or bool(_pattern(schema["pattern"]).search(text))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Compile a Go pattern. In the patterns of the CRDs only ``$`` differs: in Python it also matches before a last
    newline.
    """
    return re.compile(re.sub(r"\$$", r"\\Z", text))


def _plain(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) else value


def _describe_shortness(schema: Schema, text: str) -> str:
    """Return the remedy for a text that is too short.

    >>> name = {"minLength": 3, "maxLength": 128, "pattern": r"^[a-zA-Z0-9().\\-/_]+$"}
    >>> _describe_shortness(name, "ab")
    'use 3 to 128 characters: give the name of a launch template, such as my-nodes, of letters, digits and ().-/_'
    >>> _describe_shortness({"minLength": 1}, "")
    'it must not be empty'
    """
    if schema["minLength"] == 1:
        return "it must not be empty"
    least = (
        f"{schema['minLength']} to {schema['maxLength']}"
        if "maxLength" in schema
        else f"at least {schema['minLength']}"
    )
    form = f": {describe_pattern(schema['pattern'], text)}" if "pattern" in schema else ""
    return f"use {least} characters{form}"
