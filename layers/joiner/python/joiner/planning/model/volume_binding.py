"""Bind claims to statically provisioned volumes, where there are too few for all claims in every topology domain.

If all claims of a set can have the same volumes, and each volume is in one zone or on one node, only their number
matters: a rule limits the pods in each domain. Otherwise each claim is bound to a volume that its pods can use, and
its pods must go to the domain of that volume. Source: Kubernetes, "Persistent Volumes" (binding).
"""

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from joiner import names
from joiner.cluster import Pod, Requirements, Volumes, VolumeUnusable

Key = TypeVar("Key", bound=Hashable)
ClaimName = tuple[str, str]
"""Namespace and name of a claim."""

MOST_PLACES: Final = 64
"""A pod whose volume could be in more domains is bound to one volume."""


@dataclass(frozen=True, slots=True)
class VolumeSet:
    """Interchangeable volumes. ``name`` is that of its first volume, which is in no other set. ``there`` counts the
    volumes by the value of the label ``key``."""

    name: str
    key: str
    there: tuple[tuple[str, int], ...]


def bind_static_volumes(
    having: Sequence[Pod], waiting: Sequence[Pod], volumes: Volumes
) -> tuple[Volumes, Mapping[ClaimName, VolumeSet]]:
    """Return the volumes with the bound claims (in ``given``), and the volume sets that the other claims share.
    ``waiting`` is sorted by priority, highest first."""
    users: dict[ClaimName, list[Pod]] = {}
    for pod in (*having, *waiting):
        for name in pod.constraints.volume_claims:
            users.setdefault((pod.namespace, name), []).append(pod)
    wanted: dict[ClaimName, tuple[str, ...]] = {}
    for claim in users:
        with suppress(VolumeUnusable):  # The pods of this claim get that reason elsewhere.
            found = volumes.list_static_volumes(*claim)
            if found is not None:
                wanted[claim] = found
    if not wanted:
        return volumes, {}
    alike: dict[tuple[str, ...], list[ClaimName]] = {}
    for claim, found in wanted.items():
        alike.setdefault(found, []).append(claim)
    families: dict[ClaimName, VolumeSet] = {}
    handed: set[ClaimName] = set()
    shared = Counter(volume for found in alike for volume in found)
    for found, claims in alike.items():
        apart = all(len(users[claim]) == 1 for claim in claims)
        if apart and _enough(found, len(wanted), volumes):
            continue
        key = _one_key(found, volumes) if apart and all(shared[volume] == 1 for volume in found) else ""
        if key and len({users[claim][0].key for claim in claims}) == len(claims):  # No pod uses two of them.
            there = Counter(next(iter(volumes.places_of(volume)[0].fixed().values())) for volume in found)
            families |= dict.fromkeys(claims, VolumeSet(found[0], key, tuple(sorted(there.items()))))
        else:
            handed.update(claims)
    if not handed:
        return volumes, families
    given = _handed({claim: found for claim, found in wanted.items() if claim in handed}, users, volumes)
    return replace(volumes, given={"/".join(claim): volume for claim, volume in given.items()}), families


def _enough(found: Collection[str], claims: int, volumes: Volumes) -> bool:
    """Return whether each of ``claims`` claims finds one of these volumes in every possible domain, even if all other
    claims are bound first."""
    there = Counter(map(volumes.places_of, found))
    return len(there) <= MOST_PLACES and min(there.values(), default=claims) >= claims


def _one_key(found: Iterable[str], volumes: Volumes) -> str:
    """Return the label whose value alone identifies the domain of each volume; empty if no such label exists."""
    keys = set()
    for volume in found:
        places = volumes.places_of(volume)
        if len(places) != 1 or len(places[0]) != 1 or len(places[0].fixed()) != 1:
            return ""
        keys |= set(places[0])
    return keys.pop() if len(keys) == 1 and keys <= {names.ZONE, names.HOSTNAME} else ""


def _handed(
    wanted: Mapping[ClaimName, Sequence[str]], users: Mapping[ClaimName, Sequence[Pod]], volumes: Volumes
) -> dict[ClaimName, str]:
    """Return a volume for as many of the claims as possible, of the volumes that all their pods can reach; empty for
    the others.

    Pods with several claims come first, because they need all volumes in one domain.
    """
    known: dict[object, bool] = {}
    left = {
        claim: [volume for volume in found if _suits(users[claim], volumes.places_of(volume), known)]
        for claim, found in wanted.items()
    }
    given: dict[ClaimName, str] = {}
    several = Counter(pod.key for claim in wanted for pod in users[claim])
    for pod in {pod.key: pod for claim in wanted for pod in users[claim] if several[pod.key] > 1}.values():
        claims = [(pod.namespace, name) for name in pod.constraints.volume_claims if (pod.namespace, name) in left]
        given |= _in_one_place([claim for claim in claims if claim not in given], left, set(given.values()), volumes)
    taken = set(given.values())
    rest = {
        claim: [volume for volume in found if volume not in taken]
        for claim, found in left.items()
        if claim not in given
    }
    return {**dict.fromkeys(wanted, ""), **given, **match_volumes(rest)}


def _in_one_place(
    claims: Sequence[ClaimName], left: Mapping[ClaimName, Sequence[str]], taken: set[str], volumes: Volumes
) -> dict[ClaimName, str]:
    """Return a volume for each claim of one pod, all in the same domain; empty if no such domain exists."""
    for place in dict.fromkeys(volumes.places_of(volume) for claim in claims for volume in left[claim]):
        here = {
            claim: [one for one in left[claim] if one not in taken and volumes.places_of(one) == place]
            for claim in claims
        }
        found = match_volumes(here)
        if len(found) == len(claims):
            return found
    return {}


def _suits(pods: Iterable[Pod], places: Sequence[Requirements], known: dict[object, bool]) -> bool:
    """Return whether the node rules of each pod allow a node that can use the volume and one of these ``places``."""
    for pod in pods:
        asked = (id(pod.constraints), places)
        if asked not in known:
            own = pod.constraints.on_new_nodes()
            known[asked] = any(not (one & place).contradictions() for one in own for place in places)
        if not known[asked]:
            return False
    return True


def match_volumes(wanting: Mapping[Key, Sequence[str]]) -> dict[Key, str]:
    """Return a different volume for as many of the claims as possible; the first claim always gets one if it can.

    ``wanting`` lists, by claim, the usable volumes, the best first.

    >>> match_volumes({"a": ["small", "large"], "b": ["small"], "c": ["small"]})
    {'a': 'large', 'b': 'small'}
    """
    owner: dict[str, Key] = {}
    has: dict[Key, str] = {}
    lost: set[str] = set()  # The owners of these volumes can never change to another volume.
    for claim in wanting:
        asked_by: dict[str, Key] = {}
        free = _nearest(claim, wanting, owner, lost, asked_by)
        if not free:
            lost |= asked_by.keys()
        while free:  # Each claim on the path takes the volume that the next one leaves.
            taker = asked_by[free]
            left = has.get(taker, "")
            owner[free], has[taker] = taker, free
            free = left
    return {claim: has[claim] for claim in wanting if claim in has}


def _nearest(
    claim: Key,
    wanting: Mapping[Key, Sequence[str]],
    owner: Mapping[str, Key],
    lost: Collection[str],
    asked_by: dict[str, Key],
) -> str:
    """Return the free volume for which the fewest owners must change theirs; empty if none exists. ``asked_by``
    records the claim that would take each volume."""
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
