"""Converts the schemas into msgspec types, a fast path for lists of thousands of valid objects.

An object that these types accept is valid, and is returned in the same form as by ``openapi_schemas``. An object that
they refuse is read again there, which reports the errors. So these types may be stricter than the schemas, never laxer.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from joiner.cluster.quantities import PATTERN
from joiner_cli.manifests.openapi_schemas import LIMITS, METADATA, QUANTITY, TIME, Schema

OBJECTS_BEFORE_STRUCT: Final = 20
"""Objects of a kind that are read by the schemas first: building the types takes longer than reading this many."""


class SchemaStructs:
    """msgspec types by kind, built at the first use."""

    def __init__(self, kinds: Mapping[str, str], types: Mapping[str, Schema]) -> None:
        self._kinds = kinds
        self._schemas = types
        self._made: dict[str, Any] = {}
        self._seen: dict[str, int] = {}

    def read(self, kind: str, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the parsed manifest, or None if it must be read by the schemas."""
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] <= OBJECTS_BEFORE_STRUCT:
            return None
        try:
            found = msgspec.convert(manifest, self._named(self._kinds[kind]))
        except (msgspec.ValidationError, RecursionError):
            return None
        read: dict[str, Any] = msgspec.to_builtins(found)
        return read

    def _named(self, name: str) -> Any:
        if name not in self._made:
            schema = self._schemas[name]
            if name in self._kinds.values() and "metadata" in schema["properties"]:
                schema = {**schema, "properties": {**schema["properties"], "metadata": {"$ref": METADATA}}}
            self._made[name] = self._type(schema, name)
        return self._made[name]

    def _type(self, schema: Schema, name: str) -> Any:
        if "$ref" in schema:
            return _QUANTITY if schema["$ref"] == QUANTITY else self._named(schema["$ref"])
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return self._text(schema) | Annotated[int, msgspec.Meta(ge=-LIMITS["int32"] - 1, le=LIMITS["int32"])]
        match schema.get("type"):
            case "object":
                made = self._object(schema, name)
            case "array":
                made = self._list(schema, name)
            case "string":
                made = self._text(schema)
            case "integer":
                made = self._integer(schema)
            case kind:
                made = bool if kind == "boolean" else Any
        return made

    def _object(self, schema: Schema, name: str) -> Any:
        if "properties" not in schema:
            inner = schema.get("additionalProperties")
            if not isinstance(inner, Mapping):
                return dict[str, Any]
            values: Any = dict[str, self._type(inner, f"{name}[]")]  # type: ignore[misc]  # built at run time
            most = schema.get("maxProperties")
            return values if most is None else Annotated[values, msgspec.Meta(max_length=most)]
        if any(one.get("default") is not None for one in schema["properties"].values()):
            return _Never  # the schemas fill in defaults
        required = set(schema.get("required", ()))
        fields: list[Any] = []
        names: dict[str, str] = {}
        for number, (key, inner) in enumerate(schema["properties"].items()):
            names[f"f{number}"] = key
            read = self._type(inner, f"{name}.{key}")
            fields.append((f"f{number}", read) if key in required else (f"f{number}", read | None, None))
        return msgspec.defstruct(
            "Kind",
            fields,
            rename=names,
            kw_only=True,
            forbid_unknown_fields=not schema.get("x-kubernetes-preserve-unknown-fields"),
            omit_defaults=True,
            gc=False,
        )

    def _list(self, schema: Schema, name: str) -> Any:
        items: Any = list[self._type(schema["items"], f"{name}[]")]  # type: ignore[misc]  # built at run time
        least, most = schema.get("minItems"), schema.get("maxItems")
        return (
            items
            if least is None and most is None
            else Annotated[items, msgspec.Meta(min_length=least, max_length=most)]
        )

    def _text(self, schema: Schema) -> Any:
        if schema.get("enum"):
            return Literal[tuple(schema["enum"])]
        pattern = f"^({TIME.pattern})\\Z" if schema.get("format") == "date-time" else schema.get("pattern")
        least, most = schema.get("minLength"), schema.get("maxLength")
        if pattern is None and least is None and most is None:
            return str
        return Annotated[str, msgspec.Meta(pattern=pattern, min_length=least, max_length=most)]

    def _integer(self, schema: Schema) -> Any:
        limit = LIMITS.get(schema.get("format", ""), LIMITS["int64"])
        least, most = schema.get("minimum", -limit - 1), schema.get("maximum", limit)
        return Annotated[int, msgspec.Meta(ge=least, le=most)]


class _Never(msgspec.Struct, forbid_unknown_fields=True):
    """A type that no manifest matches."""

    nothing: Literal["\0"]


_QUANTITY: Final[Any] = Annotated[str, msgspec.Meta(pattern=f"^(?:{PATTERN.pattern})\\Z")] | int | float
