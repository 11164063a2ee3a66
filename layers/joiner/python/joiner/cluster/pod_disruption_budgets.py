"""PodDisruptionBudgets: how many pods of a set may be evicted now.

Source: Kubernetes, "Specifying a Disruption Budget for your Application", "API-initiated Eviction". The disruption
controller counts in ``status.disruptionsAllowed``. The eviction API refuses a pod that several budgets select. A
running pod that is not ready may be evicted without the budget's consent if its policy is ``AlwaysAllow``; with
``IfHealthyBudget`` (the default) only if the budget's set is healthy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_selectors import LabelSelector
from joiner.cluster.pods import Pod

NONE: Final = (0, "0%")


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """One budget. ``allowed`` is the number of pods that may be evicted now.

    ``healthy_enough`` is whether as many pods are ready as the budget wants. ``never_allows`` is whether its numbers
    allow no eviction of a ready pod, however many there are.
    """

    namespace: str
    name: str
    selector: LabelSelector = field(default_factory=LabelSelector)
    allowed: int = 0
    always_allows_unhealthy: bool = False
    healthy_enough: bool = False
    never_allows: bool = False

    @classmethod
    def from_kube(cls, manifest: Mapping[str, Any]) -> "PodDisruptionBudget":
        """Read a budget. InvalidField for an invalid selector."""
        metadata, spec, status = (manifest.get(part) or {} for part in ("metadata", "spec", "status"))
        try:
            selector = LabelSelector.from_kube(spec.get("selector"))
        except InvalidField as invalid:
            raise invalid.within("spec.selector") from invalid
        return cls(
            namespace=metadata.get("namespace") or "default",
            name=metadata.get("name") or "",
            selector=selector,
            allowed=int(status.get("disruptionsAllowed") or 0),
            always_allows_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
            healthy_enough=int(status.get("currentHealthy") or 0) >= int(status.get("desiredHealthy") or 0) > 0,
            never_allows=spec.get("maxUnavailable") in NONE or spec.get("minAvailable") == "100%",
        )

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def selects(self, pod: Pod) -> bool:
        """Return whether the budget counts the pod.

        >>> web = LabelSelector.from_kube({"matchLabels": {"app": "web"}})
        >>> budget = PodDisruptionBudget("shop", "web", web)
        >>> budget.selects(Pod("shop", "web-0", labels={"app": "web"})), budget.selects(Pod("shop", "db-0"))
        (True, False)
        """
        return pod.namespace == self.namespace and self.selector.selects(pod.labels)

    def exempts(self, pod: Pod) -> bool:
        """Return whether the pod may be evicted without being counted, because it is not ready."""
        return not pod.ready and pod.phase == "Running" and (self.always_allows_unhealthy or self.healthy_enough)
