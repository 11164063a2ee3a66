"""Volumes that somebody made beforehand: which of them a claim may have, and who gets which where there are too few.

The scheduler takes, on the node at hand, the one that is kept for the claim, or else the smallest free one that does. Sources: Kubernetes,
"Persistent Volumes" (binding, reserving a volume, volume mode, selector) and "Storage Classes".
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joiner.cluster.invalid import InvalidField
from joiner.cluster.quantities import parse
from joiner.cluster.selectors import LabelSelector

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """A volume that waits for its claim. ``size`` is in bytes, ``kept`` the uid of the only claim that may have it, empty for any."""

    name: str
    size: int
    storage_class: str
    access: frozenset[str]
    mode: str
    labels: Mapping[str, str]
    kept: str = ""


@dataclass(frozen=True, slots=True)
class MadeByHand:
    """Volumes without a claim by storage class, and those that are kept for one by that (``namespace/name``); the smallest first."""

    free: Mapping[str, Sequence[Made]]
    kept: Mapping[str, Sequence[Made]]

    @classmethod
    def of(cls, volumes: Iterable[Manifest]) -> "MadeByHand":
        """What is bound, used up or going is nobody's, nor what cannot be read."""
        free: dict[str, list[Made]] = {}
        kept: dict[str, list[Made]] = {}
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
        """Names of those that this claim (``namespace/name``) may have, the best first. InvalidField if its size or its selector cannot be
        read."""
        own, others = self.kept.get(key, ()), self.free.get(storage_class, ())
        if not own and not others:
            return ()
        spec: Manifest = claim.get("spec") or {}
        wanted = parse(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
        selector = LabelSelector.from_kube(spec["selector"]) if spec.get("selector") else None
        access, mode, uid = set(spec.get("accessModes") or ()), spec.get("volumeMode") or "Filesystem", claim["metadata"].get("uid")
        fits = [
            one
            for one in (*own, *others)
            if one.size >= wanted and one.mode == mode and one.storage_class == storage_class and access <= one.access
        ]
        mine = [one for one in fits if one in own and uid in (None, one.kept or uid)]
        chosen = mine or [one for one in fits if one not in own and (selector is None or selector.selects(one.labels))]
        return tuple(one.name for one in chosen)


def dealt(wanting: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """A volume of its own for as many of the claims as can have one, the first of them at any rate. ``wanting``: by claim, the volumes
    that it may have, the best first.

    >>> dealt({"a": ["small", "large"], "b": ["small"], "c": ["small"]})
    {'a': 'large', 'b': 'small'}
    """
    owner: dict[str, str] = {}
    has: dict[str, str] = {}
    lost: set[str] = set()  # none of those who have these could take another one, now or later
    for claim in wanting:
        asked_by: dict[str, str] = {}
        free = _nearest(claim, wanting, owner, lost, asked_by)
        if not free:
            lost |= asked_by.keys()
        while free:  # each on the way takes what the next one leaves
            taker = asked_by[free]
            left = has.get(taker, "")
            owner[free], has[taker] = taker, free
            free = left
    return {claim: has[claim] for claim in wanting if claim in has}


def _nearest(
    claim: str, wanting: Mapping[str, Sequence[str]], owner: Mapping[str, str], lost: Collection[str], asked_by: dict[str, str]
) -> str:
    """The free volume that the fewest owners have to change theirs for; empty if there is none. ``asked_by`` tells who would take what."""
    queue = deque([claim])
    while queue:
        asking = queue.popleft()
        for volume in wanting[asking]:
            if volume not in asked_by and volume not in lost:
                asked_by[volume] = asking
                if volume not in owner:
                    return volume
                queue.append(owner[volume])
    return ""


def _made(volume: Manifest) -> Made:
    spec: Manifest = volume.get("spec") or {}
    return Made(
        name=volume["metadata"]["name"],
        size=parse((spec.get("capacity") or {}).get("storage", 0)),
        storage_class=spec.get("storageClassName") or "",
        access=frozenset(spec.get("accessModes") or ()),
        mode=spec.get("volumeMode") or "Filesystem",
        labels=volume["metadata"].get("labels") or {},
        kept=(spec.get("claimRef") or {}).get("uid") or "",
    )
