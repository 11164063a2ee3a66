"""Statically provisioned volumes, and the PersistentVolumeClaims to which they may be bound.

For a node, the scheduler takes the volume that is reserved for the claim, or else the smallest free volume that fits.
Sources: Kubernetes, "Persistent Volumes" (binding, reserving a volume, volume mode, selector) and "Storage Classes".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_selectors import LabelSelector
from joiner.cluster.quantities import parse_amount

Manifest = Mapping[str, Any]

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


@dataclass(frozen=True, slots=True)
class StaticVolume:
    """A volume without a claim.

    ``size`` is in bytes. ``kept`` is the uid of the only claim that may use it; empty for any claim.
    """

    name: str
    size: int
    storage_class: str
    access: frozenset[str]
    mode: str
    labels: Mapping[str, str]
    kept: str = ""


@dataclass(frozen=True, slots=True)
class StaticVolumes:
    """Volumes without a claim by storage class, and reserved volumes by their claim, the smallest first.

    The key of a claim is ``namespace/name``.
    """

    free: Mapping[str, Sequence[StaticVolume]]
    kept: Mapping[str, Sequence[StaticVolume]]

    @classmethod
    def of(cls, volumes: Iterable[Manifest]) -> "StaticVolumes":
        """Sort the available volumes. Bound, released, deleted and invalid volumes are omitted."""
        free: dict[str, list[StaticVolume]] = {}
        kept: dict[str, list[StaticVolume]] = {}
        for volume in volumes:
            phase = (volume.get("status") or {}).get("phase") or "Available"
            if phase == "Available" and not volume["metadata"].get("deletionTimestamp"):
                try:
                    made = _made(volume)
                except InvalidField:
                    continue
                owner = (volume.get("spec") or {}).get("claimRef")
                if owner:
                    kept.setdefault(f"{owner.get('namespace') or 'default'}/{owner.get('name')}", []).append(made)
                else:
                    free.setdefault(made.storage_class, []).append(made)
        for each in (*free.values(), *kept.values()):
            each.sort(key=lambda one: (one.size, one.name))
        return cls(free, kept)

    def for_volume_claim(self, key: str, claim: Manifest, storage_class: str) -> tuple[str, ...]:
        """Return the names of the volumes that this claim (``namespace/name``) may use, the best first.

        InvalidField if the claim's size or selector is not valid.
        """
        own, others = self.kept.get(key, ()), self.free.get(storage_class, ())
        if not own and not others:
            return ()
        spec: Manifest = claim.get("spec") or {}
        wanted = parse_amount(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
        selector = LabelSelector.from_kube(spec["selector"]) if spec.get("selector") else None
        access, mode, uid = (
            set(spec.get("accessModes") or ()),
            spec.get("volumeMode") or "Filesystem",
            claim["metadata"].get("uid"),
        )
        fits = [
            one
            for one in (*own, *others)
            if one.size >= wanted and one.mode == mode and one.storage_class == storage_class and access <= one.access
        ]
        mine = [one for one in fits if one in own and uid in (None, one.kept or uid)]
        chosen = mine or [one for one in fits if one not in own and (selector is None or selector.selects(one.labels))]
        return tuple(one.name for one in chosen)


def name_class(manifest: Manifest) -> str | None:
    """Return the name of the storage class of a PersistentVolumeClaim or a PersistentVolume; None without one.

    Kubernetes reads the annotation of its early versions before the field. Source: its component helpers,
    `storage/volume` (`GetPersistentVolumeClaimClass`).

    >>> spec = {"storageClassName": "gp3"}
    >>> name_class({"spec": spec}), name_class({"metadata": {"annotations": {CLASS_ANNOTATION: "io2"}}, "spec": spec})
    ('gp3', 'io2')
    """
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    name: str | None = annotations.get(CLASS_ANNOTATION, (manifest.get("spec") or {}).get("storageClassName"))
    return name


def _made(volume: Manifest) -> StaticVolume:
    spec: Manifest = volume.get("spec") or {}
    return StaticVolume(
        name=volume["metadata"]["name"],
        size=parse_amount((spec.get("capacity") or {}).get("storage", 0)),
        storage_class=name_class(volume) or "",
        access=frozenset(spec.get("accessModes") or ()),
        mode=spec.get("volumeMode") or "Filesystem",
        labels=volume["metadata"].get("labels") or {},
        kept=(spec.get("claimRef") or {}).get("uid") or "",
    )
