"""Validates Nodes, PriorityClasses, RuntimeClasses, LimitRanges and Services."""

from collections.abc import Mapping
from typing import Any, Final

from joiner.cluster.taints import TAINT_EFFECTS
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import note_node
from joiner.pools.suggestions import refuse_value, suggest_nearest
from joiner_cli.manifests.validation.metadata_validation import (
    DNS_LABEL,
    LABEL_VALUE,
    QUALIFIED_NAME,
    check_labels,
    is_key,
    is_label,
    is_value,
)
from joiner_cli.manifests.validation.node_selector_validation import check_tolerations
from joiner_cli.manifests.validation.quantity_validation import check_amounts, parse_quantity

Manifest = Mapping[str, Any]

MAX_USER_PRIORITY: Final = 1_000_000_000
LIMITED: Final = ("Container", "Pod", "PersistentVolumeClaim")
COUNTED: Final = ("cpu", "memory", "ephemeral-storage", "storage", "pods")


def check_node(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in the taints and the amounts of a Node, and annotations and labels without effect."""
    metadata = manifest.get("metadata") or {}
    note_node(metadata.get("annotations") or {}, metadata.get("labels") or {}, notes)
    seen: set[tuple[object, object]] = set()
    for number, taint in enumerate((manifest.get("spec") or {}).get("taints") or ()):
        where = f"spec.taints[{number}]"
        if not is_key(taint.get("key") or ""):
            notes.note(f"{where}.key", taint.get("key"), QUALIFIED_NAME)
        if not is_value(taint.get("value") or ""):
            notes.note(f"{where}.value", taint.get("value"), LABEL_VALUE)
        if taint.get("effect") not in TAINT_EFFECTS:
            notes.note(f"{where}.effect", taint.get("effect"), refuse_value(taint.get("effect") or "", TAINT_EFFECTS))
        own = (taint.get("key"), taint.get("effect"))
        if own in seen:
            notes.note(where, taint.get("key"), "another taint has this key and effect")
        seen.add(own)
    for side in ("capacity", "allocatable"):
        check_amounts((manifest.get("status") or {}).get(side) or {}, notes, f"status.{side}", of_container=False)


def check_priority_class(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a PriorityClass."""
    name, value = (manifest.get("metadata") or {}).get("name") or "", manifest.get("value") or 0
    if name.startswith("system-"):
        if name not in ("system-node-critical", "system-cluster-critical"):
            notes.note("metadata.name", name, "names that begin with system- are reserved by Kubernetes")
    elif value > MAX_USER_PRIORITY:
        notes.note("value", value, f"give {MAX_USER_PRIORITY} at most; higher values are reserved by Kubernetes")


def check_runtime_class(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a RuntimeClass."""
    if not is_label(manifest.get("handler") or ""):
        notes.note("handler", manifest.get("handler"), DNS_LABEL)
    check_amounts((manifest.get("overhead") or {}).get("podFixed") or {}, notes, "overhead.podFixed")
    scheduling = manifest.get("scheduling") or {}
    check_labels(scheduling.get("nodeSelector") or {}, notes, "scheduling.nodeSelector")
    check_tolerations(scheduling.get("tolerations") or (), notes, "scheduling.tolerations", once=True)


def check_limit_range(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a LimitRange."""
    for number, item in enumerate((manifest.get("spec") or {}).get("limits") or ()):
        where, kind = f"spec.limits[{number}]", item.get("type") or ""
        if kind in {one.get("type") for one in (manifest.get("spec") or {})["limits"][:number]}:
            notes.note(f"{where}.type", kind, "another entry limits this already")
        if kind not in LIMITED and not ("/" in kind and is_key(kind)):
            notes.note(f"{where}.type", item.get("type"), refuse_value(kind, LIMITED))
        for side in ("default", "defaultRequest", "max", "min"):
            for name in item.get(side) or {}:
                if not (
                    name in COUNTED
                    or name.startswith(("hugepages-", "requests.", "limits."))
                    or ("/" in name and is_key(name))
                ):
                    notes.note(
                        f"{where}.{side}[{name}]", name, f"there is no such resource{suggest_nearest(name, COUNTED)}"
                    )
            check_amounts(item.get(side) or {}, notes, f"{where}.{side}", of_container=False)
        limits = item.get("default") or {}
        for name, asked in (item.get("defaultRequest") or {}).items():
            least, most = (
                parse_quantity(asked, name),
                parse_quantity(limits.get(name), name) if name in limits else None,
            )
            if least is not None and most is not None and least > most:
                notes.note(
                    f"{where}.defaultRequest[{name}]", asked, f"it must be at most the default, which is {limits[name]}"
                )


def check_service(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a Service."""
    spec = manifest.get("spec") or {}
    check_labels(spec.get("selector") or {}, notes, "spec.selector")
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        notes.missing("spec.ports", "give at least one port")
    for number, port in enumerate(ports):
        if not 1 <= (port.get("port") or 0) <= 65535:
            notes.note(f"spec.ports[{number}].port", port.get("port"), "give a port from 1 to 65535")
        if len(ports) > 1 and not port.get("name"):
            notes.missing(f"spec.ports[{number}].name", "each of several ports needs a name")
