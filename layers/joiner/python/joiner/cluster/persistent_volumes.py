"""The nodes on which the volumes of a pod can be used.

An existing volume has a fixed place. A volume that does not exist yet can be created only in the topology of its class.

Sources: Kubernetes, "Persistent Volumes" (node affinity, access modes), "Storage Classes" (volume binding mode, allowed
topologies), "Ephemeral Volumes", "Node-specific Volume Limits".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from joiner import names
from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_values import ValueSet
from joiner.cluster.requirements import Requirement, Requirements
from joiner.cluster.static_volumes import StaticVolumes, name_class

Manifest = Mapping[str, Any]

DRIVER_ZONE: Final = "topology.ebs.csi.aws.com/zone"
"""The zone label of the EBS driver. A node gets it only after the driver runs there; its value always equals the zone
label of Kubernetes.
"""
ZONE_LABELS: Final = {
    names.ZONE: names.ZONE,
    "failure-domain.beta.kubernetes.io/zone": names.ZONE,
    names.REGION: names.REGION,
    "failure-domain.beta.kubernetes.io/region": names.REGION,
}
"""Labels of a volume that name its place (Kubernetes, "Well-Known Labels"). Two underscores separate several values."""

IN_TREE: Final = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
"""In-tree provisioners and volume sources -> the CSI drivers that serve them. Their volumes count against the limits of
these drivers.
"""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
ONE_POD_ONLY: Final = "ReadWriteOncePod"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""An annotation: the scheduler chose this node, and the volume is being created for it. Until the volume exists, the
pod can use only this node.
"""
EVERYWHERE: Final = frozenset(
    {
        "efs.csi.aws.com",
        "fsx.csi.aws.com",
        "fsx.openzfs.csi.aws.com",
        "s3.csi.aws.com",
        "nfs.csi.k8s.io",
        "smb.csi.k8s.io",
    }
)
"""Drivers of network file systems. Their volumes belong to no zone. Topology keys that a driver reports on a node take
precedence.
"""

MOST_ALTERNATIVES: Final = 64


class VolumeUnusable(Exception):
    """A PersistentVolumeClaim that no node can use now. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Volumes:
    """Claims by ``namespace/name``, volumes and storage classes by name, all as manifests.

    ``limits``: the number of volumes that can be attached, by node name and driver. ``zonal``: whether the volumes of a
    driver belong to a zone. ``hosts``: the hostname labels of nodes. ``given``: the static volumes assigned to each
    claim; empty if none was left.
    """

    volume_claims: Mapping[str, Manifest] = field(default_factory=dict)
    volumes: Mapping[str, Manifest] = field(default_factory=dict)
    classes: Mapping[str, Manifest] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    zonal: Mapping[str, bool] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    limiting: frozenset[str] = field(init=False)
    """Drivers that report a volume limit for at least one node."""
    _static: StaticVolumes = field(init=False, repr=False)
    _found: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _places: dict[str, tuple[Requirements, ...]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limiting", frozenset(driver for each in self.limits.values() for driver in each))
        object.__setattr__(self, "_static", StaticVolumes.of(self.volumes.values() if self.volume_claims else ()))

    @classmethod
    def from_lists(
        cls,
        volume_claims: Iterable[Manifest],
        volumes: Iterable[Manifest],
        classes: Iterable[Manifest],
        csi_nodes: Sequence[Manifest] = (),
        nodes: Iterable[Manifest] = (),
    ) -> "Volumes":
        """Read the lists of the API server."""
        return cls(
            volume_claims={
                f"{one['metadata'].get('namespace') or 'default'}/{one['metadata']['name']}": one
                for one in volume_claims
            },
            volumes={one["metadata"]["name"]: one for one in volumes},
            classes={one["metadata"]["name"]: one for one in classes},
            limits={one["metadata"]["name"]: _limits(one) for one in csi_nodes},
            zonal=_zonal(csi_nodes),
            hosts={
                one["metadata"]["name"]: (one["metadata"].get("labels") or {}).get(
                    names.HOSTNAME, one["metadata"]["name"]
                )
                for one in nodes
            },
        )

    def list_static_volumes(self, namespace: str, name: str) -> tuple[str, ...] | None:
        """Return the static volumes that an unbound claim may use, the best first.

        None for a claim that is bound or whose volume is provisioned dynamically.
        """
        key = f"{namespace}/{name}"
        claim = self.volume_claims.get(key) or {}
        spec: Manifest = claim.get("spec") or {}
        storage = None if not claim or spec.get("volumeName") else self._class_of(claim)
        if storage is None or storage.get("provisioner") != NO_PROVISIONER:
            return None
        if key not in self._found:
            try:
                self._found[key] = self._static.for_volume_claim(key, claim, storage["metadata"]["name"])
            except InvalidField as invalid:
                raise VolumeUnusable(f"PersistentVolumeClaim {name} cannot be read: {invalid}") from invalid
        return self._found[key]

    def places_of(self, volume: str) -> tuple[Requirements, ...]:
        """Return alternatives of which a node must meet one to use a volume; empty if its place cannot be read."""
        if volume not in self._places:
            self._places[volume] = _places_if_any(self.volumes[volume])
        return self._places[volume]

    def where(self, namespace: str, volume_claims: Sequence[str]) -> tuple[Requirements, ...]:
        """Return alternatives of which a node must meet one to use all these claims.

        VolumeUnusable if no node can use one of the claims.
        """
        each = [self._where(namespace, claim) for claim in volume_claims]
        found: list[Requirements] = []
        for combination in product(*each):
            together = Requirements()
            for requirements in combination:
                together &= requirements
            if not together.contradictions() and together not in found:
                found.append(together)
            if len(found) > MOST_ALTERNATIVES:
                raise VolumeUnusable("its volumes may be in more combinations of places than can be checked")
        if not found:
            raise VolumeUnusable("its volumes are in places that exclude each other")
        return tuple(found)

    def attached(self, namespace: str, volume_claims: Iterable[str]) -> frozenset[tuple[str, str]]:
        """Return the volumes, as (driver, volume), that these claims attach to a node.

        A claim whose volume is not known attaches nothing.
        """
        found = set()
        for name in volume_claims:
            claim = self.volume_claims.get(f"{namespace}/{name}") or {}
            spec: Manifest = claim.get("spec") or {}
            volume = self.volumes.get(spec.get("volumeName") or "")
            if volume is not None:
                driver, handle = _driver(volume.get("spec") or {})
                found.add((driver, handle or str(spec["volumeName"])))
            elif claim:
                found.add((self._driver_to_come(claim), f"{namespace}/{name}"))
        return frozenset((driver, volume) for driver, volume in found if driver)

    def limited(self, namespace: str, volume_claims: Iterable[str]) -> frozenset[tuple[str, str]]:
        """Return the volumes of ``attached`` whose driver limits their number on a node."""
        return (
            frozenset(one for one in self.attached(namespace, volume_claims) if one[0] in self.limiting)
            if self.limiting
            else frozenset()
        )

    def for_one_pod(self, namespace: str, volume_claims: Iterable[str]) -> tuple[str, ...]:
        """Return the claims that only one pod at a time may use."""
        known = ((name, self.volume_claims.get(f"{namespace}/{name}") or {}) for name in volume_claims)
        return tuple(
            name for name, claim in known if ONE_POD_ONLY in ((claim.get("spec") or {}).get("accessModes") or ())
        )

    def unbound(self, namespace: str, volume_claims: Iterable[str]) -> tuple[str, ...]:
        """Return the claims whose volume is created in the zone of their first pod.

        All other pods must use that zone.
        """
        return tuple(
            name for name in volume_claims if self._follows(self.volume_claims.get(f"{namespace}/{name}") or {})
        )

    def _follows(self, claim: Manifest) -> bool:
        spec: Manifest = claim.get("spec") or {}
        if not claim or spec.get("volumeName"):
            return False
        driver = self._driver_to_come(claim)
        return driver != NO_PROVISIONER and self.zonal.get(driver, driver not in EVERYWHERE)

    def _driver_to_come(self, claim: Manifest) -> str:
        """Return the driver of the volume that the class of the claim will provision."""
        maker = (self._class_of(claim) or {}).get("provisioner") or ""
        return IN_TREE.get(maker, maker)

    def _class_of(self, claim: Manifest) -> Manifest | None:
        """Return the storage class of the claim.

        A claim without a name of a class gets the default class. A claim with an empty name has no class.
        """
        name = name_class(claim)
        if name is not None:
            return self.classes.get(name)
        return next((one for _, one in sorted(self.classes.items()) if _is_default(one)), None)

    def _where(self, namespace: str, name: str) -> tuple[Requirements, ...]:
        claim = self.volume_claims.get(f"{namespace}/{name}")
        if claim is None:
            raise VolumeUnusable(f"PersistentVolumeClaim {name} does not exist")
        if claim["metadata"].get("deletionTimestamp"):
            raise VolumeUnusable(f"PersistentVolumeClaim {name} is being deleted")
        spec: Manifest = claim.get("spec") or {}
        if (claim.get("status") or {}).get("phase") == "Lost":
            raise VolumeUnusable(f"PersistentVolumeClaim {name} has lost its volume")
        if spec.get("volumeName"):
            return self._of_volume(name, spec["volumeName"])
        return self._of_class(namespace, name, claim)

    def _of_volume(self, claim: str, name: str) -> tuple[Requirements, ...]:
        volume = self.volumes.get(name)
        if volume is None:
            raise VolumeUnusable(f"PersistentVolume {name} of claim {claim} does not exist")
        return _places(volume)

    def _of_class(self, namespace: str, name: str, claim: Manifest) -> tuple[Requirements, ...]:
        called, storage = name_class(claim), self._class_of(claim)
        if not called and storage is None:
            raise VolumeUnusable(f"PersistentVolumeClaim {name} is not bound and has no storage class")
        if storage is None:
            raise VolumeUnusable(f"StorageClass {called} of claim {name} does not exist")
        called = storage["metadata"]["name"]
        if storage.get("volumeBindingMode", "Immediate") != "WaitForFirstConsumer":
            raise VolumeUnusable(f"PersistentVolumeClaim {name} is not bound yet (StorageClass {called} binds at once)")
        host = self.hosts.get((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) or "")
        if host:
            return (Requirements.of([Requirement(names.HOSTNAME, ValueSet.of(host))]),)
        if storage.get("provisioner") == NO_PROVISIONER:
            return self._of_static_volumes(namespace, name, called)
        allowed = storage.get("allowedTopologies")
        if not allowed:
            return (Requirements(),)
        return tuple(
            _requirements(
                {"key": one["key"], "operator": "In", "values": one["values"]}
                for one in term.get("matchLabelExpressions") or ()
            )
            for term in allowed
        )

    def _of_static_volumes(self, namespace: str, name: str, storage_class: str) -> tuple[Requirements, ...]:
        free, mine = self.list_static_volumes(namespace, name) or (), self.given.get(f"{namespace}/{name}")
        found = [
            place for volume in (free if mine is None else filter(None, (mine,))) for place in self.places_of(volume)
        ]
        if not found and free and mine == "":
            raise VolumeUnusable(
                f"other claims that wait take all {len(free)} PersistentVolumes that claim {name} could have"
            )
        if not found:
            raise VolumeUnusable(
                f"no PersistentVolume is free for claim {name} (StorageClass {storage_class} makes none)"
            )
        return tuple(dict.fromkeys(found))


def _is_default(storage: Manifest) -> bool:
    annotations = storage["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def _drivers(csi_node: Manifest) -> Sequence[Manifest]:
    return (csi_node.get("spec") or {}).get("drivers") or ()


def _zonal(csi_nodes: Iterable[Manifest]) -> dict[str, bool]:
    """Return by driver whether it reports topology keys on any node.

    On a new node, a driver may not have reported them yet.
    """
    found: dict[str, bool] = {}
    for driver in (driver for one in csi_nodes for driver in _drivers(one)):
        name = driver.get("name") or ""
        found[name] = found.get(name, False) or bool(driver.get("topologyKeys"))
    return found


def _limits(csi_node: Manifest) -> dict[str, int]:
    counts = {one.get("name") or "": (one.get("allocatable") or {}).get("count") for one in _drivers(csi_node)}
    return {name: int(count) for name, count in counts.items() if count is not None}


def _driver(spec: Manifest) -> tuple[str, str]:
    """Return driver and handle of a volume's source; empty if no driver attaches it."""
    if spec.get("csi"):
        return spec["csi"].get("driver") or "", spec["csi"].get("volumeHandle") or ""
    if spec.get("awsElasticBlockStore"):
        return IN_TREE["kubernetes.io/aws-ebs"], (spec["awsElasticBlockStore"].get("volumeID") or "").rpartition("/")[2]
    return "", ""


def _places(volume: Manifest) -> tuple[Requirements, ...]:
    """Return where a volume can be used: it must match its labels and one of the terms of its node affinity."""
    labels = volume["metadata"].get("labels") or {}
    by_labels = Requirements.of(
        Requirement(key, ValueSet.of(*labels[own].split("__"))) for own, key in ZONE_LABELS.items() if own in labels
    )
    terms = (((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    if terms is None:
        return (by_labels,)
    found: list[Requirements] = []
    unread: InvalidField | None = None
    for term in terms:  # one term is sufficient: the scheduler skips a term that it cannot read
        try:
            found.append(by_labels & _requirements(term.get("matchExpressions")))
        except InvalidField as invalid:
            unread = invalid
    if unread is not None and not found:
        raise VolumeUnusable(
            f"the node affinity of PersistentVolume {volume['metadata']['name']} cannot be read: {unread}"
        ) from unread
    return tuple(found)


def _places_if_any(volume: Manifest) -> tuple[Requirements, ...]:
    """Return no place if it cannot be read, because another volume may fit."""
    try:
        return _places(volume)
    except VolumeUnusable:
        return ()


def _requirements(expressions: Iterable[Manifest] | None) -> Requirements:
    renamed = ({**one, "key": names.ZONE} if one.get("key") == DRIVER_ZONE else one for one in expressions or ())
    return Requirements.from_kube(renamed)
