"""The Role that names the pods whose events do not ring the doorbell (`joiner.lifecycle.listed_pods`).

A condition of the webhook asks the API server's own authorizer whether the caller may `skip` the pod with this uid. The
Role grants that to all users for the uids in its `resourceNames`. The installer creates it without rules; functions
write its rules.
"""

from collections.abc import Collection, Sequence
from typing import Final

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.cluster import Pod
from joiner.lifecycle.listed_pods import RECORDED_FROM, choose_listed_pods
from joiner.names import API_GROUP, LISTED_PODS_NAMESPACE, LISTED_PODS_ROLE, SKIPPED_PODS

ANSWER_SECONDS: Final = 2.0
"""How long a request waits: the record is optional, and its writers hold the lease."""


class ListedPodsRole:
    """The Role in one cluster."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube.within(ANSWER_SECONDS)

    def record(self, pending: Collection[Pod]) -> int:
        """Name these pods if enough of them are not named yet; return how many are named now, 0 if nothing was written.

        No request for few pods. Raises KubeError.
        """
        if len(pending) < RECORDED_FROM:
            return 0
        chosen = choose_listed_pods(pending, self._named())
        if chosen:
            self._write(chosen)
        return len(chosen)

    def clear(self) -> bool:
        """Name no pod any more; return whether any was named. Raises KubeError, NotFound if the Role is missing."""
        if not self._named():
            return False
        self._write(())
        return True

    def _named(self) -> set[str]:
        role = self._kube.get(kinds.ROLES, LISTED_PODS_ROLE, namespace=LISTED_PODS_NAMESPACE)
        return {name for rule in role.get("rules") or () for name in rule.get("resourceNames") or ()}

    def _write(self, uids: Sequence[str]) -> None:
        rule = {"apiGroups": [API_GROUP], "resources": [SKIPPED_PODS], "verbs": ["skip"], "resourceNames": list(uids)}
        changes = {"rules": [rule] if uids else []}
        self._kube.patch(kinds.ROLES, LISTED_PODS_ROLE, changes, namespace=LISTED_PODS_NAMESPACE)
