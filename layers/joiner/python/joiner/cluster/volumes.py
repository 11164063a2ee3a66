"""Where a pod's volumes let it run: a volume that exists is where it is, one that does not yet may only come where its class allows.

Sources: Kubernetes, "Persistent Volumes" (node affinity), "Storage Classes" (volume binding mode, allowed topologies).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from joiner.cluster.requirements import Requirement, Requirements
from joiner.cluster.values import ValueSet

Manifest = Mapping[str, Any]

ZONE = "topology.kubernetes.io/zone"
DRIVER_ZONE = "topology.ebs.csi.aws.com/zone"
"""The EBS driver's own word for a zone. It labels a node only after it runs there, and always like Kubernetes' own label."""

MOST_ALTERNATIVES = 64


class VolumeUnusable(Exception):
    """A claim that no node could help now; the message says why."""


@dataclass(frozen=True, slots=True)
class Volumes:
    """Claims by ``namespace/name``, volumes and storage classes by name, as manifests."""

    claims: Mapping[str, Manifest] = field(default_factory=dict)
    volumes: Mapping[str, Manifest] = field(default_factory=dict)
    classes: Mapping[str, Manifest] = field(default_factory=dict)

    @classmethod
    def from_lists(cls, claims: Iterable[Manifest], volumes: Iterable[Manifest], classes: Iterable[Manifest]) -> "Volumes":
        return cls(
            claims={f"{one['metadata'].get('namespace') or 'default'}/{one['metadata']['name']}": one for one in claims},
            volumes={one["metadata"]["name"]: one for one in volumes},
            classes={one["metadata"]["name"]: one for one in classes},
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

    def _where(self, namespace: str, name: str) -> tuple[Requirements, ...]:
        claim = self.claims.get(f"{namespace}/{name}")
        if claim is None:
            raise VolumeUnusable(f"PersistentVolumeClaim {name} does not exist")
        if claim["metadata"].get("deletionTimestamp"):
            raise VolumeUnusable(f"PersistentVolumeClaim {name} is being deleted")
        spec: Manifest = claim.get("spec") or {}
        if (claim.get("status") or {}).get("phase") == "Lost":
            raise VolumeUnusable(f"PersistentVolumeClaim {name} has lost its volume")
        if "ReadWriteOncePod" in (spec.get("accessModes") or ()):
            raise VolumeUnusable(f"PersistentVolumeClaim {name} is ReadWriteOncePod, which is left to the scheduler")
        if spec.get("volumeName"):
            return self._of_volume(name, spec["volumeName"])
        return self._of_class(name, spec.get("storageClassName"))

    def _of_volume(self, claim: str, name: str) -> tuple[Requirements, ...]:
        volume = self.volumes.get(name)
        if volume is None:
            raise VolumeUnusable(f"PersistentVolume {name} of claim {claim} does not exist")
        labels = volume["metadata"].get("labels") or {}
        zone = Requirements.of([Requirement(ZONE, ValueSet.of(*labels[ZONE].split("__")))] if ZONE in labels else [])
        terms = (((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
        if terms is None:
            return (zone,)
        return tuple(zone & _requirements(term.get("matchExpressions")) for term in terms)

    def _of_class(self, claim: str, name: str | None) -> tuple[Requirements, ...]:
        if not name:
            raise VolumeUnusable(f"PersistentVolumeClaim {claim} is not bound and has no storage class")
        storage = self.classes.get(name)
        if storage is None:
            raise VolumeUnusable(f"StorageClass {name} of claim {claim} does not exist")
        if storage.get("volumeBindingMode", "Immediate") != "WaitForFirstConsumer":
            raise VolumeUnusable(f"PersistentVolumeClaim {claim} is not bound yet (StorageClass {name} binds at once)")
        allowed = storage.get("allowedTopologies")
        if not allowed:
            return (Requirements(),)
        return tuple(
            _requirements({"key": one["key"], "operator": "In", "values": one["values"]} for one in term.get("matchLabelExpressions") or ())
            for term in allowed
        )


def _requirements(expressions: Iterable[Manifest] | None) -> Requirements:
    renamed = ({**one, "key": ZONE} if one.get("key") == DRIVER_ZONE else one for one in expressions or ())
    return Requirements.from_kube(renamed)
