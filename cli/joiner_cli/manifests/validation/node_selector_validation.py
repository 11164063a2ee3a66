"""Validates node selector terms and tolerations, which pods, PersistentVolumes and RuntimeClasses have."""

from collections.abc import Mapping, Sequence
from typing import Any

from joiner.cluster.label_values import parse_integer
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner_cli.manifests.validation.metadata_validation import (
    DNS_SUBDOMAIN,
    LABEL_VALUE,
    QUALIFIED_NAME,
    is_key,
    is_subdomain,
    is_value,
)

Manifest = Mapping[str, Any]


def check_tolerations(
    tolerations: Sequence[Manifest], notes: ManifestProblems, path: str, *, once: bool = False
) -> None:
    """Note mistakes in tolerations; with `once`, also repeated ones."""
    for number, one in enumerate(tolerations):
        where = f"{path}[{number}]"
        key, operator, value = one.get("key") or "", one.get("operator") or "Equal", one.get("value") or ""
        if key and not is_key(key):
            notes.note(f"{where}.key", key, QUALIFIED_NAME)
        if not key and operator != "Exists":
            notes.note(
                f"{where}.operator", one.get("operator"), "without a key it must be Exists, which matches every taint"
            )
        if operator == "Exists" and value:
            notes.note(f"{where}.value", value, "the operator Exists takes no value; remove it")
        elif operator == "Equal" and not is_value(value):
            notes.note(f"{where}.value", value, LABEL_VALUE)
        elif operator in ("Gt", "Lt") and not _integer(value):
            notes.note(f"{where}.value", one.get("value"), f"the operator {operator} needs a whole number")
        if once and one in tolerations[:number]:
            notes.note(where, one, "it is duplicated; remove one")
        if one.get("tolerationSeconds") is not None and one.get("effect") != "NoExecute":
            notes.note(f"{where}.effect", one.get("effect"), "with tolerationSeconds it must be NoExecute")


def check_node_term(term: Manifest, notes: ManifestProblems, path: str) -> None:
    """Check one node selector term (of a pod's or a PersistentVolume's node affinity)."""
    for number, one in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{number}]"
        key, operator, values = one.get("key") or "", one.get("operator"), one.get("values")
        if not is_key(key):
            notes.note(f"{where}.key", one.get("key"), QUALIFIED_NAME)
        if operator in ("In", "NotIn") and not values:
            notes.note(f"{where}.values", values, f"the operator {operator} needs at least one value")
        elif operator in ("Exists", "DoesNotExist") and values:
            notes.note(f"{where}.values", values, f"the operator {operator} takes no values; remove them")
        elif operator in ("Gt", "Lt") and len(values or ()) != 1:
            notes.note(f"{where}.values", values, f"the operator {operator} needs exactly one value")
        for position, value in enumerate(values or ()):
            if not is_value(value):
                notes.note(f"{where}.values[{position}]", value, LABEL_VALUE)
        if (
            operator in ("Gt", "Lt") and values and len(values) == 1 and parse_integer(values[0]) is None
        ):  # the API server stores it, but kube-scheduler ignores the term
            notes.note(f"{where}.values[0]", values[0], f"the operator {operator} needs a whole number")
    _check_fields(term, notes, path)


def _check_fields(term: Manifest, notes: ManifestProblems, path: str) -> None:
    for number, one in enumerate(term.get("matchFields") or ()):
        where = f"{path}.matchFields[{number}]"
        if one.get("key") != "metadata.name":
            notes.note(f"{where}.key", one.get("key"), "only metadata.name is supported")
        if one.get("operator") not in ("In", "NotIn"):
            notes.note(f"{where}.operator", one.get("operator"), "use In or NotIn")
        if len(one.get("values") or ()) != 1:
            notes.note(f"{where}.values", one.get("values"), "give exactly one name")
        elif not is_subdomain(one["values"][0]):
            notes.note(f"{where}.values[0]", one["values"][0], DNS_SUBDOMAIN)


def _integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and digits.isascii() and (digits == "0" or digits[0] != "0")
