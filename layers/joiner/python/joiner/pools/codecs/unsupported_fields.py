"""Fields that the CRDs accept and Joiner does not act upon. Each use of one is reported on its object.

``UNSUPPORTED`` is the list; `docs/fields.md` is generated from it and from `docs/fields.toml`. When Joiner learns to
act upon a field, its row is removed here.

>>> notes = ManifestProblems("Provisioner/default")
>>> spec = {"taints": [{"key": "gpu", "effect": "NoSchedule", "timeAdded": "2026-11-23T12:00:00Z"}]}
>>> note_unsupported({"kind": "Provisioner", "spec": spec}, notes)
>>> [problem.field for problem in notes.problems]
['spec.taints[0].timeAdded']
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.invalid_manifests import Severity


@dataclass(frozen=True, slots=True)
class UnsupportedField:
    """One field of one kind: its path, as in ``spec.taints[].timeAdded``, and the remedy of the user."""

    kind: str
    path: str
    remedy: str
    severity: Severity = "warning"


_TIME_ADDED: Final = "it has no effect: remove it"
_TYPE_OF_PROVIDER: Final = "it has no effect: provider is always of the kind AWS"

UNSUPPORTED: Final[tuple[UnsupportedField, ...]] = (
    UnsupportedField("NodePool", "spec.template.spec.taints[].timeAdded", _TIME_ADDED, severity="info"),
    UnsupportedField("NodePool", "spec.template.spec.startupTaints[].timeAdded", _TIME_ADDED, severity="info"),
    UnsupportedField("Provisioner", "spec.provider.apiVersion", _TYPE_OF_PROVIDER, severity="info"),
    UnsupportedField("Provisioner", "spec.provider.kind", _TYPE_OF_PROVIDER, severity="info"),
    UnsupportedField("Provisioner", "spec.taints[].timeAdded", _TIME_ADDED, severity="info"),
    UnsupportedField("Provisioner", "spec.startupTaints[].timeAdded", _TIME_ADDED, severity="info"),
    UnsupportedField("NodeClaim", "spec.taints[].timeAdded", _TIME_ADDED),
    UnsupportedField("NodeClaim", "spec.startupTaints[].timeAdded", _TIME_ADDED),
    UnsupportedField("Machine", "spec.taints[].timeAdded", _TIME_ADDED),
    UnsupportedField("Machine", "spec.startupTaints[].timeAdded", _TIME_ADDED),
)
"""A claim has no condition for notes, so its notes are warnings, which are events."""


def note_unsupported(manifest: Mapping[str, Any], notes: ManifestProblems) -> None:
    """Note each use of an unsupported field in this manifest."""
    kind = manifest.get("kind")
    for row in UNSUPPORTED:
        if row.kind != kind:
            continue
        for where, value in _find(manifest, row.path.split("."), ""):
            notes.note(where, value, row.remedy, row.severity)


def _find(parent: object, path: Sequence[str], at: str) -> Iterator[tuple[str, object]]:
    """Yield each value at ``path``, with its place: ``spec.taints[0].timeAdded``."""
    if not path:
        if parent is not None:
            yield at, parent
        return
    name, items, _ = path[0].partition("[]")
    value = parent.get(name) if isinstance(parent, Mapping) else None
    place = f"{at}.{name}" if at else name
    if not items:
        yield from _find(value, path[1:], place)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from _find(item, path[1:], f"{place}[{index}]")
