"""What admission writes into a pod before the scheduler sees it: for manifests that no API server has processed yet.

Priority and RuntimeClass are resolved, and the claims of ephemeral volumes are created, as the API server and the
controllers do. A manifest that has passed admission already contains these fields and does not change. Sources:
Kubernetes, "Pod Priority and Preemption", "Runtime Class" (scheduling, pod overhead), "Ephemeral Volumes".
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Manifest = Mapping[str, Any]
Lists = Mapping[str, Sequence[Manifest]]

SYSTEM_PRIORITIES: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


class Admission:
    """The cluster's rules for new pods, read once."""

    def __init__(self, lists: Lists) -> None:
        classes = lists.get("priorityclasses") or ()
        self._priorities = {**SYSTEM_PRIORITIES, **{one["metadata"]["name"]: one.get("value") or 0 for one in classes}}
        self._default = next((one["metadata"]["name"] for one in classes if one.get("globalDefault")), "")
        self._runtimes = {one["metadata"]["name"]: one for one in lists.get("runtimeclasses") or ()}

    def admit(self, pod: Manifest) -> Manifest:
        """Return the pod as the scheduler sees it."""
        spec = pod.get("spec") or {}
        written = self.spec(spec)
        return pod if written is spec else {**pod, "spec": written}

    def priority(self, spec: Manifest) -> int | None:
        """Return the priority that a pod with this spec gets from its class, or else from the default class; None if
        its class is not known.
        """
        name = spec.get("priorityClassName") or self._default
        return self._priorities.get(name) if name else 0

    def spec(self, spec: Manifest) -> Manifest:
        """Return the spec of a pod template with the same changes."""
        added: dict[str, Any] = {}
        if spec.get("priority") is None and (spec.get("priorityClassName") or self._default):
            added["priority"] = self.priority(spec) or 0
        runtime = self._runtimes.get(spec.get("runtimeClassName") or "")
        if runtime is not None:
            added |= _of_runtime(spec, runtime)
        return {**spec, **added} if added else spec


def _of_runtime(spec: Manifest, runtime: Manifest) -> dict[str, Any]:
    added: dict[str, Any] = {}
    overhead = (runtime.get("overhead") or {}).get("podFixed")
    if overhead and not spec.get("overhead"):
        added["overhead"] = overhead
    scheduling = runtime.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        added["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    there = list(spec.get("tolerations") or ())
    new = [one for one in scheduling.get("tolerations") or () if one not in there]
    if new:
        added["tolerations"] = [*there, *new]
    return added


def claims_of_ephemeral_volumes(pods: Iterable[Manifest], known: Iterable[Manifest]) -> list[Manifest]:
    """Return the claims of the ephemeral volumes of these pods that their controller has not created yet."""
    there = {_key(one) for one in known}
    found: list[Manifest] = []
    for pod in pods:
        metadata = pod.get("metadata") or {}
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            if template is None:
                continue
            name = f"{metadata.get('name')}-{volume.get('name')}"
            claim = {
                "metadata": {"name": name, "namespace": metadata.get("namespace") or "default"},
                "spec": template.get("spec") or {},
            }
            if _key(claim) not in there:
                found.append(claim)
    return found


def _key(claim: Manifest) -> tuple[str, str]:
    return claim["metadata"].get("namespace") or "default", claim["metadata"]["name"]
