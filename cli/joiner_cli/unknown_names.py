"""Finds names in pods that no node of a plan has: label keys and values, and resources, which are often misspelt.

The API server accepts any name. Such a pod stays pending, or its rule has no effect: an anti-affinity over a label that
no node has keeps nothing apart.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from joiner import names
from joiner.catalogue import ADDED_DEVICES, Catalogue, explain_unknown_values, suggest_resources
from joiner.cluster.requirements import RENAMED
from joiner.planning import Snapshot
from joiner.pools import InvalidManifest
from joiner.pools.label_rules import WELL_KNOWN
from joiner.pools.suggestions import suggest_nearest
from joiner_cli.manifests import PendingSpec
from joiner_cli.manifests.validation.quantity_validation import HUGE, NATIVE

Manifest = Mapping[str, Any]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class KnownNames:
    """What nodes of a plan can have: the labels and resources of its pools, nodes, and instance types."""

    snapshot: Snapshot
    catalogue: Catalogue

    @cached_property
    def keys(self) -> frozenset[str]:
        """Return the keys of all labels."""
        pools, nodes = self.snapshot.pools, self.snapshot.nodes
        of_pools = (key for pool in pools for key in (*pool.labels, *pool.requirements))
        of_nodes = (key for node in nodes for key in node.labels)
        own = (names.HOSTNAME, names.NODEPOOL, names.PROVISIONER, names.NODECLASS)
        return frozenset({*WELL_KNOWN, *RENAMED, *own, *of_pools, *of_nodes})

    @cached_property
    def values(self) -> frozenset[tuple[str, str]]:
        """Return the labels of nodes and pools, with every value that a requirement of a pool lists."""
        pools, nodes = self.snapshot.pools, self.snapshot.nodes
        of_both = (*(pool.labels for pool in pools), *(node.labels for node in nodes))
        labels = (label for labels in of_both for label in labels.items())
        required = ((key, values) for pool in pools for key, values in pool.requirements.items() if values.finite)
        listed = ((key, value) for key, values in required for value in values)
        return frozenset((RENAMED.get(key, key), value) for key, value in (*labels, *listed))

    @cached_property
    def resources(self) -> frozenset[str]:
        """Return the names of all resources."""
        of_types = (name for known in self.catalogue.types.values() for name in known.capacity)
        of_nodes = (name for node in self.snapshot.nodes for name in node.allocatable)
        return frozenset({*NATIVE, *ADDED_DEVICES, *self.snapshot.overlays.resources, *of_types, *of_nodes})


def find_unknown_names(
    specs: Iterable[PendingSpec], snapshot: Snapshot, catalogue: Catalogue
) -> Iterator[InvalidManifest]:
    """Yield a warning for each name in these pod specs that no node has: misspelt names of resources and of labels that
    select nodes, values that the catalogue lacks, and topology keys."""
    if not snapshot.pools:
        return
    known = KnownNames(snapshot, catalogue)
    for one in specs:
        for field, value, remedy in _find(one.spec, known):
            yield InvalidManifest(one.subject, f"{one.path}.{field}", value, remedy, "warning")


def _find(spec: Manifest, known: KnownNames) -> Iterator[tuple[str, str, str]]:
    """Yield field, value and remedy of each unknown name."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield from _label("nodeSelector", key, [value], known)
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}
    for number, term in enumerate(required.get("nodeSelectorTerms") or ()):
        for position, one in enumerate(term.get("matchExpressions") or ()):
            if one.get("operator") == "In" and one.get("key"):  # a pod with errors may lack it
                where = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{number}].matchExpressions[{position}]"
                yield from _label(where, one["key"], one.get("values") or (), known)
    for side in ("podAffinity", "podAntiAffinity"):
        for number, term in enumerate((affinity.get(side) or {}).get(REQUIRED) or ()):
            yield from _topology_key(f"affinity.{side}.{REQUIRED}[{number}]", term, known)
    for number, one in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _topology_key(f"topologySpreadConstraints[{number}]", one, known)
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            for side in ("limits", "requests"):
                amounts = (container.get("resources") or {}).get(side) or {}
                yield from _resources(f"{kind}[{number}].resources.{side}", amounts, known)


def _label(where: str, key: str, values: Sequence[str], known: KnownNames) -> Iterator[tuple[str, str, str]]:
    if key not in known.keys:
        if near := suggest_nearest(key, sorted(known.keys), cutoff=0.75):
            yield f"{where}[{key}]", ", ".join(values), f"no node of the plan has this label{near}"
        return
    key_now = RENAMED.get(key, key)
    if any((key_now, value) in known.values for value in values):
        return
    if remedy := explain_unknown_values(key_now, values, known.catalogue):
        yield f"{where}[{key}]", ", ".join(values), remedy


def _topology_key(where: str, term: Manifest, known: KnownNames) -> Iterator[tuple[str, str, str]]:
    key = term.get("topologyKey") or ""
    if key not in known.keys:
        near = suggest_nearest(key, sorted(known.keys), cutoff=0.75)
        yield f"{where}.topologyKey", key, f"no node of the plan has this label, so that there are no domains{near}"


def _resources(where: str, amounts: Manifest, known: KnownNames) -> Iterator[tuple[str, str, str]]:
    for name, quantity in amounts.items():
        if name in known.resources or name.startswith(HUGE):
            continue
        if near := suggest_resources(name, known.resources):
            remedy = f"no instance type of the catalogue has this resource; did you mean {' or '.join(near)}?"
            yield f"{where}[{name}]", str(quantity), remedy
