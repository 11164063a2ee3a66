"""Constraints of volumes on the nodes of their pods: topology domains, and the number of volumes that a node can
attach.

A claim that several pods mount before its volume is provisioned keeps these pods in one zone: the volume is
provisioned in the zone of the first of them, which may be an in-flight node. A ReadWriteOncePod claim is assigned
to the placeable pod of the highest priority. Source: Kubernetes, "Persistent Volumes".
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner import names
from joiner.cluster import Node, Pod, Requirements, Resources, Volumes, VolumeUnusable
from joiner.planning.model.volume_binding import ClaimName, VolumeSet, bind_static_volumes

UNLIMITED: Final = 1 << 60
MOST_SHARED_VOLUMES: Final = 32
"""The maximum number of volumes that are counted once for all their pods on a node; the volumes with the most pods are
chosen. More of them, each with few pods, would create as many groups. The other volumes are counted for each pod,
which is stricter."""
ATTACHMENT_PREFIX: Final = "attachable-volumes-csi-"
"""The prefix of the resource by which Kubernetes counts a driver's attachments on a node."""


def attachment_resource(driver: str) -> str:
    """Return the resource that counts the volumes of a driver on a node.

    >>> attachment_resource("ebs.csi.aws.com")
    'attachable-volumes-csi-ebs.csi.aws.com'
    """
    return ATTACHMENT_PREFIX + driver


def attachable_by_type(nodes: Iterable[Node], volumes: Volumes) -> dict[str, dict[str, int]]:
    """Return, by instance type and driver, the lowest volume limit of any node of the type."""
    found: dict[str, dict[str, int]] = {}
    for node in nodes if volumes.limits else ():
        own = found.setdefault(node.labels.get(names.INSTANCE_TYPE, ""), {})
        for driver, count in volumes.limits.get(node.name, {}).items():
            own[driver] = min(own.get(driver, count), count)
    return found


def node_amount(name: str, known: Resources, attachable: Mapping[str, int]) -> int:
    """Return how much of a resource a node has before its pods; for volumes, the limit of their driver
    (``attachable``, by driver)."""
    return (
        attachable.get(name.removeprefix(ATTACHMENT_PREFIX), UNLIMITED)
        if name.startswith(ATTACHMENT_PREFIX)
        else known.get(name, 0)
    )


@dataclass(frozen=True, slots=True)
class VolumeConstraints:
    """The volume constraints of a pod.

    ``places`` are alternatives of node labels. ``volumes`` counts attachments by driver, except those in ``common``
    (driver, volume): other pods use these as well, and a node attaches each of them once. ``shared`` are claims
    (``namespace/name``) that keep all their pods in one zone. ``alone`` are claims that only one of several pending
    pods can have. ``families`` are sets of static volumes that are too few in some domain. ``key`` is equal for
    equal constraints.
    """

    key: str = ""
    places: tuple[Requirements, ...] = (Requirements(),)
    volumes: tuple[tuple[str, int], ...] = ()
    common: tuple[tuple[str, str], ...] = ()
    shared: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    families: tuple[VolumeSet, ...] = ()
    refused: str = ""


NO_VOLUME_CONSTRAINTS: Final = VolumeConstraints()


def find_volume_constraints(
    pending: Sequence[Pod], placed: Iterable[Pod], volumes: Volumes
) -> Mapping[str, VolumeConstraints]:
    """Return the constraints by pod key, for pending pods that mount claims, and for placed pods that they must
    follow. ``pending`` is sorted by priority, highest first."""
    wanting = [pod for pod in pending if pod.constraints.volume_claims]
    if not wanting:
        return {}
    having = [pod for pod in placed if pod.constraints.volume_claims]
    users = {
        (pod.namespace, claim): pod.key
        for pod in having
        for claim in volumes.for_one_pod(pod.namespace, pod.constraints.volume_claims)
    }
    wanted = Counter((pod.namespace, claim) for pod in wanting for claim in pod.constraints.volume_claims)
    held = Counter((pod.namespace, claim) for pod in having for claim in pod.constraints.volume_claims)
    common = _common({pod.key: pod for pod in (*wanting, *having)}.values(), volumes)
    volumes, families = bind_static_volumes(having, wanting, volumes)
    alike: dict[tuple[str, tuple[str, ...]], VolumeConstraints] = {}
    found = _constraints_of_placed(having, volumes, wanted, families)
    for pod in wanting:
        same = (pod.namespace, pod.constraints.volume_claims)
        if same not in alike:
            own = _families_of(pod, families)
            each = _mounted(pod, volumes, wanted, held, common)
            alike[same] = (
                replace(each, key=f"{each.key} {_names(own)}", families=own) if own and not each.refused else each
            )
        taken = [(pod.namespace, claim) for claim in volumes.for_one_pod(*same)]
        # A pod of a blocked drain has its claim where it runs, and takes it along
        who = next((users[claim] for claim in taken if users.get(claim, pod.key) != pod.key), "")
        if who:
            why = f"its PersistentVolumeClaim is for one pod at a time, and {who} has it"
            found[pod.key] = VolumeConstraints(key=why, refused=why)
            continue
        found[pod.key] = alike[same]
    return found


def _constraints_of_placed(
    having: Iterable[Pod],
    volumes: Volumes,
    wanted: Mapping[ClaimName, int],
    families: Mapping[ClaimName, VolumeSet],
) -> dict[str, VolumeConstraints]:
    """Return the constraints of placed pods that share an unbound claim with pending pods or hold a static volume."""
    found: dict[str, VolumeConstraints] = {}
    for pod in having:
        leads = tuple(
            f"{pod.namespace}/{name}"
            for name in volumes.unbound(pod.namespace, pod.constraints.volume_claims)
            if wanted[pod.namespace, name]
        )
        own = _families_of(pod, families)
        if leads or own:
            found[pod.key] = VolumeConstraints(key=f"leads {leads} {_names(own)}", shared=leads, families=own)
    return found


def _names(families: Iterable[VolumeSet]) -> list[str]:
    return [one.name for one in families]


def _families_of(pod: Pod, families: Mapping[ClaimName, VolumeSet]) -> tuple[VolumeSet, ...]:
    if not families:
        return ()
    return tuple(
        families[claim] for name in pod.constraints.volume_claims if (claim := (pod.namespace, name)) in families
    )


def _common(pods: Iterable[Pod], volumes: Volumes) -> frozenset[tuple[str, str]]:
    """Return the volumes that several pods use, of drivers with limits."""
    if not volumes.limiting:
        return frozenset()
    claims = Counter((pod.namespace, pod.constraints.volume_claims) for pod in pods)
    users: Counter[tuple[str, str]] = Counter()
    for (namespace, names_of), number in claims.items():
        users.update(dict.fromkeys(volumes.limited(namespace, names_of), number))
    several = sorted((volume for volume, number in users.items() if number > 1), key=lambda one: (-users[one], one))
    return frozenset(several[:MOST_SHARED_VOLUMES])


def _mounted(
    pod: Pod,
    volumes: Volumes,
    wanted: Counter[ClaimName],
    held: Counter[ClaimName],
    several: Collection[tuple[str, str]],
) -> VolumeConstraints:
    """Return the constraints of one pod.

    ``wanted`` counts the pending pods that want a claim, ``held`` the placed pods that have it. ``several`` are
    volumes that are counted once for all their pods.
    """
    namespace, claims = pod.namespace, pod.constraints.volume_claims
    try:
        places = tuple(sorted(volumes.where(namespace, claims), key=str))
    except VolumeUnusable as unusable:
        return VolumeConstraints(key=str(unusable), refused=str(unusable))
    limited = sorted(volumes.limited(namespace, claims))
    common = tuple(volume for volume in limited if volume in several)
    own = Counter(volume[0] for volume in limited if volume not in common)
    to_come = [(namespace, claim) for claim in volumes.unbound(namespace, claims)]
    together = tuple("/".join(claim) for claim in to_come if wanted[claim] + held[claim] > 1)
    asked = tuple(sorted(own.items()))
    alone = tuple(
        f"{namespace}/{claim}" for claim in volumes.for_one_pod(namespace, claims) if wanted[namespace, claim] > 1
    )
    key = f"{' or '.join(map(str, places))} {asked} {common} {together} {alone}"
    return VolumeConstraints(key, places, asked, common, together, alone)
