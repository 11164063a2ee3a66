"""Creates the pods of Deployments, ReplicaSets, StatefulSets and Jobs, as their controllers would.

Pods of a workload that are among the manifests count; only the missing ones are created. Their names are the workload's
name and a number, because the hashes in the names of a Deployment's pods are not known beforehand.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from joiner.names import POD_TEMPLATE_HASH

Manifest = Mapping[str, Any]

UNSCHEDULABLE: Final[Mapping[str, Any]] = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "not scheduled yet"}
    ],
}
"""The status of a pod that is pending."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Pods of one template: ``pod`` is the first, ``names`` are the names of all; ``alike`` if only their names differ.

    ``claims`` maps each volumeClaimTemplate to the spec of its PersistentVolumeClaims; ``ephemeral`` says that the pods
    have generic ephemeral volumes.
    """

    workload: str
    namespace: str
    pod: Manifest
    names: tuple[str, ...]
    claims: Mapping[str, Manifest]
    ordinal_labels: tuple[str, ...] = ()
    ephemeral: bool = False

    @property
    def alike(self) -> bool:
        """Return whether all pods of the workload are equal except for their names."""
        return not self.claims and not self.ordinal_labels and not self.ephemeral

    def manifests(self) -> Iterator[dict[str, Any]]:
        """Yield the manifest of each pod."""
        for name in self.names:
            metadata = {**self.pod["metadata"], "name": name}
            ordinal = name.rpartition("-")[2]
            if self.ordinal_labels:
                own = {key: name if key.endswith("pod-name") else ordinal for key in self.ordinal_labels}
                metadata["labels"] = {**metadata["labels"], **own}
            yield {**self.pod, "metadata": metadata, "spec": _with_volume_claims(self.pod["spec"], name, self.claims)}

    def volume_claim_manifests(self) -> Iterator[dict[str, Any]]:
        """Yield the PersistentVolumeClaims of the pods' volumeClaimTemplates."""
        for name in self.names:
            for template, spec in self.claims.items():
                yield {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": f"{template}-{name}", "namespace": self.namespace},
                    "spec": spec,
                }


@dataclass(frozen=True, slots=True)
class PendingSpec:
    """The spec of pods without a node: ``path`` is its place in the object ``subject``."""

    subject: str
    path: str
    spec: Manifest


def _with_volume_claims(spec: Manifest, name: str, claims: Mapping[str, Manifest]) -> Manifest:
    if not claims:
        return spec
    mounted = [{"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{name}"}} for one in claims]
    others = [one for one in spec.get("volumes") or () if one.get("name") not in claims]
    return {**spec, "volumes": [*others, *mounted]}


def missing_replicas(by_kind: Mapping[str, Sequence[Manifest]]) -> Iterator[Replicas]:
    """Yield the missing pods of every workload, sorted by kind and then as given.

    ``by_kind`` may hold Pods and ReplicaSets of the workloads; they count as existing.
    """
    pods = [one for one in by_kind.get("Pod", ()) if _is_running(one)]
    owned = _count_by_owner(pods)
    taken = {(_namespace(one), one["metadata"].get("name")) for one in by_kind.get("Pod", ())}
    sets = by_kind.get("ReplicaSet", ())
    deployments = {(_namespace(one), one["metadata"]["name"]) for one in by_kind.get("Deployment", ())}
    for one in by_kind.get("Deployment", ()):
        mine = {each["metadata"]["name"] for each in sets if _owner(each) == ("Deployment", one["metadata"]["name"])}
        there = sum(
            number
            for (space, kind, name), number in owned.items()
            if space == _namespace(one) and kind == "ReplicaSet" and (name in mine or _is_replica_set_of(name, one))
        )
        yield from _missing_pods(one, _desired(one) - there, "ReplicaSet", taken)
    for kind in ("ReplicaSet", "ReplicationController"):
        for one in by_kind.get(kind, ()):
            owner = _owner(one)
            if owner and owner[0] == "Deployment" and (_namespace(one), owner[1]) in deployments:
                continue
            there = owned.get((_namespace(one), kind, one["metadata"]["name"]), 0)
            yield from _missing_pods(one, _desired(one) - there, kind, taken)
    for one in by_kind.get("StatefulSet", ()):
        yield from _missing_stateful_set_pods(one, taken)
    for one in by_kind.get("Job", ()):
        there = owned.get((_namespace(one), "Job", one["metadata"]["name"]), 0)
        yield from _missing_pods(one, _desired_of_job(one) - there, "Job", taken)


def desired_replicas(manifest: Manifest) -> int:
    """Return the desired number of pods of a workload."""
    return _desired_of_job(manifest) if manifest.get("kind") == "Job" else _desired(manifest)


def _missing_pods(manifest: Manifest, number: int, owner_kind: str, taken: set[tuple[str, str]]) -> Iterator[Replicas]:
    metadata, spec = manifest["metadata"], manifest["spec"]
    namespace, name = _namespace(manifest), metadata["name"]
    free = (f"{name}-{ordinal}" for ordinal in count() if (namespace, f"{name}-{ordinal}") not in taken)
    names = tuple(next(free) for _ in range(max(number, 0)))
    if not names:
        return
    taken.update((namespace, one) for one in names)
    labels = dict(((spec.get("template") or {}).get("metadata") or {}).get("labels") or {})
    if owner_kind == "ReplicaSet":
        labels.setdefault(POD_TEMPLATE_HASH, name[-63:])
    if owner_kind == "Job":
        labels = {**labels, "batch.kubernetes.io/job-name": name, "job-name": name}
    indexed = owner_kind == "Job" and spec.get("completionMode") == "Indexed"
    pod = _pod(manifest, names[0], labels, owner_kind)
    yield Replicas(
        workload=f"{manifest['kind']}/{namespace}/{name}",
        namespace=namespace,
        pod=pod,
        names=names,
        claims={},
        ephemeral=any(one.get("ephemeral") for one in pod["spec"].get("volumes") or ()),
        ordinal_labels=("batch.kubernetes.io/job-completion-index",) if indexed else (),
    )


def _missing_stateful_set_pods(manifest: Manifest, taken: set[tuple[str, str]]) -> Iterator[Replicas]:
    """Yield the missing pods of a StatefulSet; a pod exists if its name is taken."""
    spec, name, namespace = manifest["spec"], manifest["metadata"]["name"], _namespace(manifest)
    start = (spec.get("ordinals") or {}).get("start") or 0
    names = tuple(
        f"{name}-{one}" for one in range(start, start + _desired(manifest)) if (namespace, f"{name}-{one}") not in taken
    )
    if not names:
        return
    taken.update((namespace, one) for one in names)
    labels = dict(((spec.get("template") or {}).get("metadata") or {}).get("labels") or {})
    pod = _pod(manifest, names[0], {**labels, "controller-revision-hash": name[-63:]}, "StatefulSet")
    claims = {one["metadata"]["name"]: one.get("spec") or {} for one in spec.get("volumeClaimTemplates") or ()}
    yield Replicas(
        workload=f"StatefulSet/{namespace}/{name}",
        namespace=namespace,
        pod=pod,
        names=names,
        claims=claims,
        ordinal_labels=("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"),
    )


def _pod(manifest: Manifest, name: str, labels: Mapping[str, str], owner_kind: str) -> dict[str, Any]:
    template = manifest["spec"].get("template") or {}
    owner = {
        "apiVersion": manifest["apiVersion"],
        "kind": owner_kind,
        "name": manifest["metadata"]["name"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": _namespace(manifest), "labels": labels, "ownerReferences": [owner]},
        "spec": template.get("spec") or {},
        "status": {} if (template.get("spec") or {}).get("schedulingGates") else UNSCHEDULABLE,
    }


def _desired(manifest: Manifest) -> int:
    replicas = (manifest.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _desired_of_job(manifest: Manifest) -> int:
    """Return the number of pods that a Job runs now: its parallelism, at most the completions that are left."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    if spec.get("suspend") or status.get("completionTime"):
        return 0
    parallel = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
    completions = spec.get("completions")
    return (
        parallel if completions is None else max(min(parallel, int(completions) - int(status.get("succeeded") or 0)), 0)
    )


def _is_running(pod: Manifest) -> bool:
    done = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not done and not pod["metadata"].get("deletionTimestamp")


def _owner(manifest: Manifest) -> tuple[str, str] | None:
    found = next((one for one in manifest["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    return (found.get("kind") or "", found.get("name") or "") if found else None


def _count_by_owner(pods: Iterable[Manifest]) -> dict[tuple[str, str, str], int]:
    """Count pods by the namespace, kind and name of their controller."""
    found: dict[tuple[str, str, str], int] = {}
    for pod in pods:
        if owner := _owner(pod):
            found[(_namespace(pod), *owner)] = found.get((_namespace(pod), *owner), 0) + 1
    return found


def _is_replica_set_of(name: str, deployment: Manifest) -> bool:
    """Return whether a ReplicaSet's name is one of the Deployment's: ``<deployment>-<hash>``.

    >>> web = {"metadata": {"name": "web"}}
    >>> _is_replica_set_of("web-5d8f7c", web), _is_replica_set_of("web-api-5d8", web)
    (True, False)
    """
    prefix, _, last = name.rpartition("-")
    return prefix == deployment["metadata"]["name"] and last.isalnum()


def _namespace(manifest: Manifest) -> str:
    return (manifest.get("metadata") or {}).get("namespace") or "default"
