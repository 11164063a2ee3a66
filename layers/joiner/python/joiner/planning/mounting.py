"""What volumes ask of the nodes that their pods run on: places, attachments that are limited, company or none.

A claim that several pods mount before its volume exists keeps them in one zone: the volume is made where the first of them goes.
A claim for one pod at a time goes to the most important pod that wants it; the others wait. Source: Kubernetes, "Persistent Volumes".
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joiner.cluster import Pod, Requirements, Volumes, VolumeUnusable

UNLIMITED: Final = 1 << 60
PREFIX: Final = "attachable-volumes-csi-"
"""As Kubernetes names the resource that a driver's attachments on a node are."""


def volume_resource(driver: str) -> str:
    """
    >>> volume_resource("ebs.csi.aws.com")
    'attachable-volumes-csi-ebs.csi.aws.com'
    """
    return PREFIX + driver


@dataclass(frozen=True, slots=True)
class Mounted:
    """``places`` are alternatives of node labels; ``volumes`` counts attachments by driver, but for those in ``common`` (driver, volume):
    others have these as well, and a node attaches each once for all of them. ``shared`` names claims (``namespace/name``) that must bring
    all their pods into one zone. ``key`` is equal for what asks the same."""

    key: str = ""
    places: tuple[Requirements, ...] = (Requirements(),)
    volumes: tuple[tuple[str, int], ...] = ()
    common: tuple[tuple[str, str], ...] = ()
    shared: tuple[str, ...] = ()
    refused: str = ""


NOTHING_MOUNTED: Final = Mounted()


def mounted(pending: Sequence[Pod], placed: Iterable[Pod], volumes: Volumes) -> Mapping[str, Mounted]:
    """By pod key, for the pending pods that mount claims; ``pending`` must come in order of importance."""
    wanting = [pod for pod in pending if pod.constraints.claims]
    if not wanting:
        return {}
    having = [pod for pod in placed if pod.constraints.claims]
    users = {(pod.namespace, claim): pod.key for pod in having for claim in volumes.for_one_pod(pod.namespace, pod.constraints.claims)}
    mounts = Counter(volume for pod in (*wanting, *having) for volume in volumes.limited(pod.namespace, pod.constraints.claims))
    shared = Counter((pod.namespace, claim) for pod in wanting for claim in volumes.unbound(pod.namespace, pod.constraints.claims))
    alike: dict[tuple[str, tuple[str, ...]], Mounted] = {}
    found: dict[str, Mounted] = {}
    for pod in wanting:
        same = (pod.namespace, pod.constraints.claims)
        if same not in alike:
            alike[same] = _mounted(pod, volumes, shared, mounts)
        taken = [(pod.namespace, claim) for claim in volumes.for_one_pod(*same)]
        who = next((users[claim] for claim in taken if claim in users), "")
        if who:
            why = f"its PersistentVolumeClaim is for one pod at a time, and {who} has it"
            found[pod.key] = Mounted(key=why, refused=why)
            continue
        if not alike[same].refused:
            users.update(dict.fromkeys(taken, pod.key))
        found[pod.key] = alike[same]
    return found


def _mounted(pod: Pod, volumes: Volumes, shared: Mapping[tuple[str, str], int], mounts: Mapping[tuple[str, str], int]) -> Mounted:
    namespace, claims = pod.namespace, pod.constraints.claims
    try:
        places = tuple(sorted(volumes.where(namespace, claims), key=str))
    except VolumeUnusable as unusable:
        return Mounted(key=str(unusable), refused=str(unusable))
    limited = sorted(volumes.limited(namespace, claims))
    common = tuple(volume for volume in limited if mounts[volume] > 1)
    own = Counter(volume[0] for volume in limited if volume not in common)
    together = tuple(f"{namespace}/{claim}" for claim in volumes.unbound(namespace, claims) if shared[namespace, claim] > 1)
    asked = tuple(sorted(own.items()))
    return Mounted(f"{' or '.join(map(str, places))} {asked} {common} {together}", places, asked, common, together)
