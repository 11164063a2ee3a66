"""Write moto's responses in a fraction of the time: writing was nearly all of a catalogue refresh, and much of
everything else.

For each member of a response moto asks six providers for the names under which a model may have it, although that
depends on the model's class and the shape only. It searches each DynamoDB attribute for all ten types, and writes XML
through a SAX generator, name by name. This module writes the same result.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from joiner_local.aws.attribute_patches import wrap_attribute

ATTRIBUTE: Final = "@"
TEXT: Final = "#text"
WRITTEN_AS_THEY_ARE: Final = frozenset({"S", "N", "SS", "NS", "BOOL", "NULL"})  # types of attributes of DynamoDB
HEAD: Final = '<?xml version="1.0" encoding="utf-8"?>\n'


def replace_response_serializers() -> None:
    """Replace moto's serializers, for this process."""
    from moto.core import serialize

    get_value = serialize.ResponseSerializer.get_value
    wrap_attribute(serialize.ResponseSerializer, "get_value", _picking(serialize, get_value), get_value)
    serialize_structure = serialize.BaseJSONSerializer._serialize_type_structure
    new = _as_they_are(serialize_structure)
    wrap_attribute(serialize.BaseJSONSerializer, "_serialize_type_structure", new, serialize_structure)
    wrap_attribute(serialize, "xmltodict", _Xml(serialize.xmltodict), serialize.xmltodict)


def _picking(serialize: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `ResponseSerializer.get_value` that determines only once under which names a class of values has a
    member.
    """
    known: dict[
        tuple[type, int, str], tuple[tuple[str, ...], bool, object]
    ] = {}  # with the shape itself, so that no other object gets its id

    @cache
    def names_of_transformers(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path.rpartition(".")[2] for path in paths)

    def get_value(serializer: Any, value: Any, key: str, shape: Any) -> Any:
        picker = serializer._value_picker
        if type(picker) is not serialize.XFormedAttributePicker or key.endswith(
            names_of_transformers(tuple(picker.response_transformers))
        ):
            return original(serializer, value, key, shape)
        identity = (type(value), id(shape), key)
        if identity not in known:
            asked = serialize.AttributePickerContext(value, key, shape)
            names = tuple(dict.fromkeys(picker.get_possible_keys(asked)))
            known[identity] = names, type(value) is dict and "." not in "".join(names), shape
        names, simple, _ = known[identity]
        if simple:
            return next((value[name] for name in names if name in value), None)
        for name in names:
            if (found := serialize.get_value(value, name)) is not serialize.MISSING:
                return found
        return None

    return get_value


def _as_they_are(original: Callable[..., None]) -> Callable[..., None]:
    """Return a `BaseJSONSerializer._serialize_type_structure` that writes a DynamoDB attribute unchanged: it is JSON
    already.
    """

    def serialize_structure(serializer: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name == "AttributeValue" and key and type(value) is dict and value.keys() <= WRITTEN_AS_THEY_ARE:
            serializer._default_serialize(serialized, value, shape, key)
        else:
            original(serializer, serialized, value, shape, key)

    return serialize_structure


class _Xml:
    """Replaces the module `xmltodict` in moto's serializers."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def unparse(self, document: Mapping[str, Any], *, pretty: bool = False, **settings: bool) -> str:
        if pretty:
            return str(self._module.unparse(document, pretty=True, **settings))
        return unparse(document, **settings)


def unparse(document: Mapping[str, Any], *, full_document: bool = True, short_empty_elements: bool = False) -> str:
    """Return the XML of a document in the form of `xmltodict`: ``@name`` is an attribute, ``#text`` the text, a list is
    several elements.

    >>> document = {"a": {"@x": "<", "b": [1, True, None], "c": {"#text": "&"}, "d": []}}
    >>> unparse(document, full_document=False, short_empty_elements=True)
    '<a x="&lt;"><b>1</b><b>true</b><b/><c>&amp;</c></a>'
    """
    written = [HEAD] if full_document else []
    for name, value in document.items():
        _write(name, value, written.append, short_empty_elements)
    return "".join(written)


def _write(name: str, value: Any, write: Callable[[str], None], short: bool) -> None:
    for each in _many(value):
        if isinstance(each, dict):
            attributes = "".join(
                f" {key[1:]}={quoteattr(_text(output))}" for key, output in each.items() if key.startswith(ATTRIBUTE)
            )
            children = [
                (key, child)
                for key, child in each.items()
                if not key.startswith(ATTRIBUTE) and key != TEXT and child != []
            ]
            text = _text(each.get(TEXT))
        else:
            attributes, children, text = "", [], _text(each)
        if short and not text and not children:
            write(f"<{name}{attributes}/>")
            continue
        write(f"<{name}{attributes}>")
        for key, child in children:
            _write(key, child, write, short)
        write(f"{escape(text)}</{name}>")


def _many(value: Any) -> Iterable[Any]:
    return value if hasattr(value, "__iter__") and not isinstance(value, (str, bytes, dict)) else (value,)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
