"""Validates PersistentVolumes, PersistentVolumeClaims and StorageClasses. Source: Kubernetes,
``ValidatePersistentVolume``, ``ValidatePersistentVolumeClaimSpec``.
"""

from collections.abc import Mapping
from typing import Any, Final

from joiner.cluster.quantities import LARGEST
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.suggestions import refuse_value
from joiner_cli.manifests.validation.metadata_validation import (
    DNS_SUBDOMAIN,
    QUALIFIED_NAME,
    check_selector,
    is_key,
    is_subdomain,
)
from joiner_cli.manifests.validation.node_selector_validation import check_node_term
from joiner_cli.manifests.validation.quantity_validation import parse_quantity

Manifest = Mapping[str, Any]

LONGEST_DRIVER_NAME: Final = 63
MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
NOT_SOURCES: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def check_volume_claim(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a PersistentVolumeClaim."""
    check_volume_claim_spec(manifest.get("spec") or {}, notes, "spec")


def check_volume_claim_spec(spec: Manifest, notes: ManifestProblems, path: str) -> None:
    """Note mistakes in the spec of a volume claim."""
    _check_modes(spec, notes, path)
    _check_class(spec, notes, path)
    check_selector(spec.get("selector"), notes, f"{path}.selector")
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        notes.missing(f"{path}.resources.requests[storage]", "it is missing: set the size of the volume")
    elif not _positive(storage):
        notes.note(f"{path}.resources.requests[storage]", storage, "give a quantity above zero")


def check_volume(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a PersistentVolume."""
    spec = manifest.get("spec") or {}
    _check_modes(spec, notes, "spec")
    _check_class(spec, notes, "spec")
    driver = (spec.get("csi") or {}).get("driver")
    if driver is not None and not is_subdomain(driver.lower()):
        notes.note("spec.csi.driver", driver, DNS_SUBDOMAIN)
    elif len((driver or "").encode()) > LONGEST_DRIVER_NAME:
        notes.note(
            "spec.csi.driver", driver, f"give the name of a CSI driver, which has {LONGEST_DRIVER_NAME} bytes at most"
        )
    capacity = spec.get("capacity") or {}
    if set(capacity) != {"storage"}:
        notes.note("spec.capacity", capacity or None, "give its storage, and nothing else")
    elif not _positive(capacity["storage"]):
        notes.note("spec.capacity[storage]", capacity["storage"], "give a quantity above zero")
    elif parse_quantity(capacity["storage"]) == LARGEST:  # the API server reads such an amount as any number of bytes
        notes.note("spec.capacity[storage]", capacity["storage"], "give a quantity below 8Ei")
    sources = [field for field in spec if field not in NOT_SOURCES]
    if len(sources) != 1:
        notes.note("spec", ", ".join(sources) or None, "a volume has exactly one source, such as csi")
    if "nodeAffinity" in spec:
        terms = (spec["nodeAffinity"].get("required") or {}).get("nodeSelectorTerms") or ()
        if not terms:
            notes.missing("spec.nodeAffinity.required", "give at least one term, or remove nodeAffinity")
        for number, term in enumerate(terms):
            check_node_term(term, notes, f"spec.nodeAffinity.required.nodeSelectorTerms[{number}]")


def check_storage_class(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a StorageClass."""
    provisioner = manifest.get("provisioner") or ""
    if not is_key(provisioner.lower()):
        notes.note(
            "provisioner",
            manifest.get("provisioner"),
            QUALIFIED_NAME if provisioner else "it is missing: name the driver, such as ebs.csi.aws.com",
        )
    topologies = manifest.get("allowedTopologies") or ()
    for number, term in enumerate(topologies):
        if term in topologies[:number]:
            notes.note(f"allowedTopologies[{number}]", term, "it is duplicated; remove one")
        if not term.get("matchLabelExpressions"):
            notes.missing(f"allowedTopologies[{number}].matchLabelExpressions", "give at least one expression")
        keys: set[str] = set()
        for position, one in enumerate(term.get("matchLabelExpressions") or ()):
            where = f"allowedTopologies[{number}].matchLabelExpressions[{position}]"
            key, values = one.get("key") or "", one.get("values")
            if not is_key(key):
                notes.note(f"{where}.key", one.get("key"), QUALIFIED_NAME)
            elif key in keys:
                notes.note(f"{where}.key", key, "another expression of the term names this key")
            keys.add(key)
            if not values or len(set(values)) < len(values):
                notes.note(f"{where}.values", values, "give at least one value, and each once")


def _check_class(spec: Manifest, notes: ManifestProblems, path: str) -> None:
    name = spec.get("storageClassName")
    if name and not is_subdomain(name):
        notes.note(f"{path}.storageClassName", name, DNS_SUBDOMAIN)


def _check_modes(spec: Manifest, notes: ManifestProblems, path: str) -> None:
    modes = spec.get("accessModes") or ()
    if not modes:
        notes.missing(f"{path}.accessModes", f"give at least one of {', '.join(MODES)}")
    for number, mode in enumerate(modes):
        if mode not in MODES:
            notes.note(f"{path}.accessModes[{number}]", mode, refuse_value(mode, MODES))
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        notes.note(f"{path}.accessModes", modes, "ReadWriteOncePod must be alone")


def _positive(quantity: Any) -> bool:
    amount = parse_quantity(quantity)
    return amount is None or amount > 0  # the schema has noted what is no quantity
