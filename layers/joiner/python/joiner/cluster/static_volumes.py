"""Statically provisioned volumes: which of them a PersistentVolumeClaim may be bound to.

The scheduler takes, on the node at hand, the one that is kept for the claim, or else the smallest free one that does.
Sources: Kubernetes, "Persistent Volumes" (binding, reserving a volume, volume mode, selector) and "Storage Classes".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_selectors import LabelSelector
from joiner.cluster.quantities import parse_amount

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StaticVolume:
    """A volume that waits for its claim. ``size`` is in bytes, ``kept`` the uid of the only claim that may have it,
    empty for any.
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
    """Volumes without a claim by storage class, and those that are kept for one by that (``namespace/name``); the
    smallest first.
    """

    free: Mapping[str, Sequence[StaticVolume]]
    kept: Mapping[str, Sequence[StaticVolume]]

    @classmethod
    def of(cls, volumes: Iterable[Manifest]) -> "StaticVolumes":
        """Sort the available volumes. Bound, released and deleted volumes are left out, and those that cannot be
        read.
        """
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

    def for_claim(self, key: str, claim: Manifest, storage_class: str) -> tuple[str, ...]:
        """Names of those that this claim (``namespace/name``) may have, the best first. InvalidField if its size or its
        selector cannot be read.
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


def _made(volume: Manifest) -> StaticVolume:
    spec: Manifest = volume.get("spec") or {}
    return StaticVolume(
        name=volume["metadata"]["name"],
        size=parse_amount((spec.get("capacity") or {}).get("storage", 0)),
        storage_class=spec.get("storageClassName") or "",
        access=frozenset(spec.get("accessModes") or ()),
        mode=spec.get("volumeMode") or "Filesystem",
        labels=volume["metadata"].get("labels") or {},
        kept=(spec.get("claimRef") or {}).get("uid") or "",
    )
