"""The volumes of a drained node that are not detached yet.

Source: Karpenter, core `pkg/controllers/node/termination` (awaitVolumeDetachment). A volume that is used by a pod that
stays, or that several nodes may mount, does not delay the termination.
"""

from collections.abc import Sequence

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import NotFound
from joiner.lifecycle.draining import DrainingPod

MANY_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def list_awaited_volumes(kube: Kube, node: str, pods: Sequence[DrainingPod]) -> list[str]:
    """Return the names of the persistent volumes that must be detached before the instance is terminated."""
    attachments = [
        each for each in kube.list(kinds.VOLUME_ATTACHMENTS) if (each.get("spec") or {}).get("nodeName") == node
    ]
    attached = {
        str(name) for each in attachments if (name := (each["spec"].get("source") or {}).get("persistentVolumeName"))
    }
    if not attached:
        return []
    staying = _volumes_of(kube, [pod for pod in pods if pod.stays and pod.phase not in ("Succeeded", "Failed")])
    return sorted(name for name in attached - staying if not _is_for_many(kube, name))


def _volumes_of(kube: Kube, pods: Sequence[DrainingPod]) -> set[str]:
    found = set()
    for pod in pods:
        for claim in pod.volume_claims:
            try:
                manifest = kube.get(kinds.PERSISTENT_VOLUME_CLAIMS, claim, namespace=pod.namespace)
            except NotFound:
                continue
            found.add(str((manifest.get("spec") or {}).get("volumeName") or ""))
    return found


def _is_for_many(kube: Kube, volume: str) -> bool:
    try:
        manifest = kube.get(kinds.PERSISTENT_VOLUMES, volume)
    except NotFound:
        return False
    return bool(MANY_NODES & set((manifest.get("spec") or {}).get("accessModes") or ()))
