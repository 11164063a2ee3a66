"""Where a pod's volumes let it run: a volume that exists is where it is, one that does not yet may only come where its class allows.

Sources: Kubernetes, "Persistent Volumes" (node affinity, access modes), "Storage Classes" (volume binding mode, allowed topologies),
"Ephemeral Volumes", "Node-specific Volume Limits".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from joiner.cluster.invalid import InvalidField
from joiner.cluster.quantities import parse
from joiner.cluster.requirements import Requirement, Requirements
from joiner.cluster.values import ValueSet

Manifest = Mapping[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
DRIVER_ZONE: Final = "topology.ebs.csi.aws.com/zone"
"""The EBS driver's own word for a zone. It labels a node only after it runs there, and always like Kubernetes' own label."""
ZONE_LABELS: Final = {
    ZONE: ZONE,
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    REGION: REGION,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
"""Labels of a volume that say where it is (Kubernetes, "Well-Known Labels"); several values are joined by two underscores."""

IN_TREE: Final = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
"""Provisioners and volume sources of old are served by these drivers, and count against their limits."""
BY_HAND: Final = "kubernetes.io/no-provisioner"
DEFAULT_CLASS: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
ONE_POD_ONLY: Final = "ReadWriteOncePod"

MOST_ALTERNATIVES: Final = 64


class VolumeUnusable(Exception):
    """A claim that no node could help now; the message says why."""


@dataclass(frozen=True, slots=True)
class Volumes:
    """Claims by ``namespace/name``, volumes and storage classes by name, as manifests. ``limits`` counts by node name and driver how many
    volumes can be attached there."""

    claims: Mapping[str, Manifest] = field(default_factory=dict)
    volumes: Mapping[str, Manifest] = field(default_factory=dict)
    classes: Mapping[str, Manifest] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    limiting: frozenset[str] = field(init=False)
    """Drivers that have told of some node how many volumes it can have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "limiting", frozenset(driver for each in self.limits.values() for driver in each))

    @classmethod
    def from_lists(
        cls, claims: Iterable[Manifest], volumes: Iterable[Manifest], classes: Iterable[Manifest], csi_nodes: Iterable[Manifest] = ()
    ) -> "Volumes":
        return cls(
            claims={f"{one['metadata'].get('namespace') or 'default'}/{one['metadata']['name']}": one for one in claims},
            volumes={one["metadata"]["name"]: one for one in volumes},
            classes={one["metadata"]["name"]: one for one in classes},
            limits={one["metadata"]["name"]: _limits(one) for one in csi_nodes},
        )

    def where(self, namespace: str, claims: Sequence[str]) -> tuple[Requirements, ...]:
        """Alternatives that a node must meet one of, for all these claims at once; VolumeUnusable if one cannot be used anywhere."""
        each = [self._where(namespace, claim) for claim in claims]
        found: list[Requirements] = []
        for combination in product(*each):
            together = Requirements()
            for requirements in combination:
                together &= requirements
            if not together.contradictions() and together not in found:
                found.append(together)
            if len(found) > MOST_ALTERNATIVES:
                raise VolumeUnusable("its volumes may be in more combinations of places than can be looked at")
        if not found:
            raise VolumeUnusable("its volumes are in places that exclude each other")
        return tuple(found)

    def attached(self, namespace: str, claims: Iterable[str]) -> frozenset[tuple[str, str]]:
        """The volumes, as (driver, volume), that these claims attach to a node; what cannot be told attaches nothing."""
        found = set()
        for name in claims:
            claim = self.claims.get(f"{namespace}/{name}") or {}
            spec: Manifest = claim.get("spec") or {}
            volume = self.volumes.get(spec.get("volumeName") or "")
            if volume is not None:
                driver, handle = _driver(volume.get("spec") or {})
                found.add((driver, handle or str(spec["volumeName"])))
            elif claim:
                provisioner = (self._class_of(spec) or {}).get("provisioner") or ""
                found.add((IN_TREE.get(provisioner, provisioner), f"{namespace}/{name}"))
        return frozenset((driver, volume) for driver, volume in found if driver)

    def limited(self, namespace: str, claims: Iterable[str]) -> frozenset[tuple[str, str]]:
        """Those of ``attached`` of which a node can have only so many."""
        return frozenset(one for one in self.attached(namespace, claims) if one[0] in self.limiting) if self.limiting else frozenset()

    def for_one_pod(self, namespace: str, claims: Iterable[str]) -> tuple[str, ...]:
        """Those of the claims that only one pod at a time may use."""
        known = ((name, self.claims.get(f"{namespace}/{name}") or {}) for name in claims)
        return tuple(name for name, claim in known if ONE_POD_ONLY in ((claim.get("spec") or {}).get("accessModes") or ()))

    def unbound(self, namespace: str, claims: Iterable[str]) -> tuple[str, ...]:
        """Those of the claims whose volume is made where their first pod goes: all other pods must follow."""
        known = ((name, self.claims.get(f"{namespace}/{name}") or {}) for name in claims)
        return tuple(name for name, claim in known if claim and not (claim.get("spec") or {}).get("volumeName"))

    def _class_of(self, spec: Manifest) -> Manifest | None:
        """The claim's storage class; the default one for a claim that leaves it open (which is not the same as naming none)."""
        name = spec.get("storageClassName")
        if name is not None:
            return self.classes.get(name)
        return next((one for _, one in sorted(self.classes.items()) if _is_default(one)), None)

    def _where(self, namespace: str, name: str) -> tuple[Requirements, ...]:
        claim = self.claims.get(f"{namespace}/{name}")
        if claim is None:
            raise VolumeUnusable(f"PersistentVolumeClaim {name} does not exist")
        if claim["metadata"].get("deletionTimestamp"):
            raise VolumeUnusable(f"PersistentVolumeClaim {name} is being deleted")
        spec: Manifest = claim.get("spec") or {}
        if (claim.get("status") or {}).get("phase") == "Lost":
            raise VolumeUnusable(f"PersistentVolumeClaim {name} has lost its volume")
        if spec.get("volumeName"):
            return self._of_volume(name, spec["volumeName"])
        return self._of_class(name, spec)

    def _of_volume(self, claim: str, name: str) -> tuple[Requirements, ...]:
        volume = self.volumes.get(name)
        if volume is None:
            raise VolumeUnusable(f"PersistentVolume {name} of claim {claim} does not exist")
        return _places(volume)

    def _of_class(self, claim: str, spec: Manifest) -> tuple[Requirements, ...]:
        name, storage = spec.get("storageClassName"), self._class_of(spec)
        if not name and storage is None:
            raise VolumeUnusable(f"PersistentVolumeClaim {claim} is not bound and has no storage class")
        if storage is None:
            raise VolumeUnusable(f"StorageClass {name} of claim {claim} does not exist")
        name = storage["metadata"]["name"]
        if storage.get("volumeBindingMode", "Immediate") != "WaitForFirstConsumer":
            raise VolumeUnusable(f"PersistentVolumeClaim {claim} is not bound yet (StorageClass {name} binds at once)")
        if storage.get("provisioner") == BY_HAND:
            found = [place for volume in self._made_by_hand(spec, name) for place in _places_if_any(volume)]
            if not found:
                raise VolumeUnusable(f"no PersistentVolume is free for claim {claim} (StorageClass {name} makes none)")
            return tuple(found)
        allowed = storage.get("allowedTopologies")
        if not allowed:
            return (Requirements(),)
        return tuple(
            _requirements({"key": one["key"], "operator": "In", "values": one["values"]} for one in term.get("matchLabelExpressions") or ())
            for term in allowed
        )

    def _made_by_hand(self, spec: Manifest, storage_class: str) -> list[Manifest]:
        """Volumes that nobody claims yet, large enough, with the access modes that are asked for."""
        wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage", 0)
        found = []
        for _, volume in sorted(self.volumes.items()):
            own: Manifest = volume.get("spec") or {}
            free = own.get("storageClassName") == storage_class and not own.get("claimRef")
            modes = set(spec.get("accessModes") or ()) <= set(own.get("accessModes") or ())
            if free and modes and parse((own.get("capacity") or {}).get("storage", 0)) >= parse(wanted):
                found.append(volume)
        return found


def _is_default(storage: Manifest) -> bool:
    annotations = storage["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS)


def _limits(csi_node: Manifest) -> dict[str, int]:
    drivers = (csi_node.get("spec") or {}).get("drivers") or ()
    counts = {one.get("name") or "": (one.get("allocatable") or {}).get("count") for one in drivers}
    return {name: int(count) for name, count in counts.items() if count is not None}


def _driver(spec: Manifest) -> tuple[str, str]:
    """Driver and handle of a volume's source; empty for one that is not attached by a driver."""
    if spec.get("csi"):
        return spec["csi"].get("driver") or "", spec["csi"].get("volumeHandle") or ""
    if spec.get("awsElasticBlockStore"):
        return IN_TREE["kubernetes.io/aws-ebs"], (spec["awsElasticBlockStore"].get("volumeID") or "").rpartition("/")[2]
    return "", ""


def _places(volume: Manifest) -> tuple[Requirements, ...]:
    """Where a volume can be used: as its labels say, and in any of the terms of its node affinity."""
    labels = volume["metadata"].get("labels") or {}
    said = Requirements.of(Requirement(key, ValueSet.of(*labels[own].split("__"))) for own, key in ZONE_LABELS.items() if own in labels)
    terms = (((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    if terms is None:
        return (said,)
    found: list[Requirements] = []
    unread: InvalidField | None = None
    for term in terms:  # any of them will do: the scheduler passes over one that it cannot read
        try:
            found.append(said & _requirements(term.get("matchExpressions")))
        except InvalidField as invalid:
            unread = invalid
    if unread is not None and not found:
        raise VolumeUnusable(f"the node affinity of PersistentVolume {volume['metadata']['name']} cannot be read: {unread}") from unread
    return tuple(found)


def _places_if_any(volume: Manifest) -> tuple[Requirements, ...]:
    """Nowhere, if nobody can tell where: another volume may do."""
    try:
        return _places(volume)
    except VolumeUnusable:
        return ()


def _requirements(expressions: Iterable[Manifest] | None) -> Requirements:
    renamed = ({**one, "key": ZONE} if one.get("key") == DRIVER_ZONE else one for one in expressions or ())
    return Requirements.from_kube(renamed)
