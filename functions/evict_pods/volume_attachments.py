"""The volumes of a drained node that are not detached yet.

Source: Karpenter, core `pkg/controllers/node/termination` (awaitVolumeDetachment). A volume that is used by a pod that
stays, or that several nodes may mount, does not delay the termination.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.parallel_calls import call_all
from joiner.lifecycle.draining import DrainingPod

MANY_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class VolumeAttachments:
    """The attachments of the cluster as one pass sees them. They are listed when the first drained node asks, and once:
    the API server selects none by their node.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def list_awaited_volumes(self, node: str, pods: Sequence[DrainingPod]) -> list[str]:
        """Return the names of the persistent volumes that must be detached before the instance is terminated.

        Raises:
            KubeError: an object could not be read; if the list could not, the same error for each node.
        """
        listed = self._by_node
        if isinstance(listed, KubeError):
            raise listed
        attached = listed.get(node, set())
        if not attached:
            return []
        staying = self._volumes_of([pod for pod in pods if pod.stays and pod.phase not in ("Succeeded", "Failed")])
        asked = sorted(attached - staying)
        for_many = call_all(asked, self._is_for_many, KubeError)
        return [name for name, shared in zip(asked, for_many, strict=True) if not shared]

    @cached_property
    def _by_node(self) -> Mapping[str, set[str]] | KubeError:
        found: dict[str, set[str]] = {}
        try:
            for each in self._kube.list(kinds.VOLUME_ATTACHMENTS):
                spec = each.get("spec") or {}
                if name := (spec.get("source") or {}).get("persistentVolumeName"):
                    found.setdefault(str(spec.get("nodeName")), set()).add(str(name))
        except KubeError as reason:
            return reason
        return found

    def _volumes_of(self, pods: Sequence[DrainingPod]) -> set[str]:
        claims = [(pod.namespace, claim) for pod in pods for claim in pod.volume_claims]
        return set(call_all(claims, self._find_volume, KubeError))

    def _find_volume(self, claim: tuple[str, str]) -> str:
        namespace, name = claim
        try:
            manifest = self._kube.get(kinds.PERSISTENT_VOLUME_CLAIMS, name, namespace=namespace)
        except NotFound:
            return ""
        return str((manifest.get("spec") or {}).get("volumeName") or "")

    def _is_for_many(self, volume: str) -> bool:
        try:
            manifest = self._kube.get(kinds.PERSISTENT_VOLUMES, volume)
        except NotFound:
            return False
        return bool(MANY_NODES & set((manifest.get("spec") or {}).get("accessModes") or ()))
