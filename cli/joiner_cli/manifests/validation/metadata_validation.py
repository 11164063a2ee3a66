"""Validates the syntax of names, labels, annotations and selectors.

Source: Kubernetes, "Object Names and IDs", "Labels and Selectors"; ``apimachinery/pkg/util/validation``.

>>> notes = ManifestProblems("Pod/shop/web-0")
>>> check_labels({"app": "web store"}, notes, "metadata.labels")
>>> print(notes.problems[0].message)
metadata.labels[app] is web store: a label value has up to 63 letters, digits, - _ . and begins and ends with a \
letter or digit
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from joiner.names import POD_DELETION_COST
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import note_annotations, note_labels
from joiner.pools.label_rules import VALUE

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
WHOLE_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}|-[0-9]{1,30}")
MOST_ANNOTATION_BYTES: Final = 256 * 1024

OWNER_FIELD = "it is missing: copy it from the owner, or remove the reference"
DNS_LABEL = "use up to 63 lowercase letters, digits and -, beginning and ending with a letter or digit"
DNS_SUBDOMAIN = (
    "use up to 253 lowercase letters, digits, - and ., each part beginning and ending with a letter or digit"
)
QUALIFIED_NAME = "use a key: an optional DNS prefix and /, then up to 63 letters, digits, - _ ."
LABEL_VALUE = "a label value has up to 63 letters, digits, - _ . and begins and ends with a letter or digit"


def is_label(text: str) -> bool:
    """Return whether the text is a DNS label (RFC 1123)."""
    return len(text) <= 63 and bool(LABEL.fullmatch(text))


def is_subdomain(text: str) -> bool:
    """Return whether the text is a DNS subdomain (RFC 1123)."""
    return len(text) <= 253 and bool(SUBDOMAIN.fullmatch(text))


def is_key(text: str) -> bool:
    """Return whether the text is a qualified name: the key of a label, an annotation, a taint or a resource.

    >>> is_key("topology.kubernetes.io/zone"), is_key("a/b/c"), is_key("/zone"), is_key("")
    (True, False, False, False)
    """
    prefix, slash, name = text.partition("/")
    if not slash:
        prefix, name = "", text
    return (not slash or is_subdomain(prefix)) and len(name) <= 63 and bool(QUALIFIED.fullmatch(name))


def is_value(text: str) -> bool:
    """Return whether the text is the value of a label."""
    return bool(VALUE.fullmatch(text))


def is_port_name(text: str) -> bool:
    """Return whether the text is an IANA service name.

    >>> is_port_name("http-1"), is_port_name("1Gi"), is_port_name("a--b")
    (True, False, False)
    """
    shaped = len(text) <= 15 and bool(LABEL.fullmatch(text)) and "--" not in text
    return shaped and any(one.isalpha() for one in text)


def check_metadata(metadata: Mapping[str, Any], notes: ManifestProblems, *, kind: str, namespaced: bool) -> None:
    """Note mistakes in the metadata of an object of this kind."""
    name, prefix = metadata.get("name"), metadata.get("generateName")
    suits, remedy = (is_label, DNS_LABEL) if kind == "v1/Namespace" else (is_subdomain, DNS_SUBDOMAIN)
    if name:
        if not suits(name):
            notes.note("metadata.name", name, remedy)
    elif not prefix and kind != "v1/LimitRange":  # the API server names a LimitRange
        notes.note("metadata.name", name, "it is missing: name the object")
    if prefix and not suits(f"{prefix}x"):
        notes.note("metadata.generateName", prefix, remedy)
    namespace = metadata.get("namespace")
    if namespace and not namespaced:
        notes.note("metadata.namespace", namespace, "objects of this kind are in no namespace; remove it")
    elif namespace and not is_label(namespace):
        notes.note("metadata.namespace", namespace, DNS_LABEL)
    check_labels(metadata.get("labels") or {}, notes, "metadata.labels")
    check_annotations(metadata.get("annotations") or {}, notes, "metadata.annotations")
    for number, owner in enumerate(metadata.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                notes.note(f"metadata.ownerReferences[{number}].{field}", owner.get(field), OWNER_FIELD)
    if sum(bool(owner.get("controller")) for owner in metadata.get("ownerReferences") or ()) > 1:
        notes.note("metadata.ownerReferences", metadata["ownerReferences"], "only one owner can be the controller")
    for number, finalizer in enumerate(metadata.get("finalizers") or ()):
        if not is_key(finalizer):
            notes.note(f"metadata.finalizers[{number}]", finalizer, QUALIFIED_NAME)


def check_labels(labels: Mapping[str, str], notes: ManifestProblems, path: str) -> None:
    """Note labels whose key or value is not valid."""
    for key, value in labels.items():
        if not is_key(key):
            notes.note(f"{path}[{key}]", key, QUALIFIED_NAME)
        elif not is_value(value):
            notes.note(f"{path}[{key}]", value, LABEL_VALUE)


def check_annotations(annotations: Mapping[str, str], notes: ManifestProblems, path: str) -> None:
    """Note annotations whose key is not valid, or that are too large together."""
    for key in annotations:
        if not is_key(key.lower()):
            notes.note(f"{path}[{key}]", key, QUALIFIED_NAME)
    if sum(len(key) + len(value) for key, value in annotations.items()) > MOST_ANNOTATION_BYTES:
        notes.missing(path, "annotations may have 256 KiB together")


def check_deletion_cost(annotations: Mapping[str, str], notes: ManifestProblems, path: str) -> None:
    """Note a deletion cost of a pod that the API server refuses (``ValidatePodSpecificAnnotations``)."""
    cost = annotations.get(POD_DELETION_COST)
    if cost is not None and not (WHOLE_NUMBER.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        notes.note(f"{path}[{POD_DELETION_COST}]", cost, 'give a whole number of 32 bits, such as "-10"')


def check_effects(metadata: Mapping[str, Any], notes: ManifestProblems, path: str, scope: str) -> None:
    """Note annotations and labels of Joiner and Karpenter that have no effect on an object of the kind ``scope``."""
    note_annotations(metadata.get("annotations") or {}, notes, f"{path}.annotations", scope)
    note_labels(metadata.get("labels") or {}, notes, f"{path}.labels")


def check_selector(selector: Mapping[str, Any] | None, notes: ManifestProblems, path: str) -> None:
    """Check a label selector: ``matchLabels`` and ``matchExpressions``."""
    if selector is None:
        return
    check_labels(selector.get("matchLabels") or {}, notes, f"{path}.matchLabels")
    for number, one in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{number}]"
        operator, values = one.get("operator"), one.get("values")
        if not is_key(one.get("key") or ""):
            notes.note(f"{where}.key", one.get("key"), QUALIFIED_NAME)
        if operator in ("In", "NotIn"):
            if not values:
                notes.note(f"{where}.values", values, f"the operator {operator} needs at least one value")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                notes.note(f"{where}.values", values, f"the operator {operator} takes no values; remove them")
        else:
            notes.note(f"{where}.operator", operator, "use In, NotIn, Exists or DoesNotExist")
        for position, value in enumerate(values or ()):
            if not is_value(value):
                notes.note(f"{where}.values[{position}]", value, LABEL_VALUE)
