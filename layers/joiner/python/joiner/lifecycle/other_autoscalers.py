"""Detect other autoscalers in the cluster, and decide whether Joiner may act beside them.

Karpenter would launch an instance for each claim that Joiner writes. So every acting path refuses beside a running
Karpenter, or if the definitions of the kinds are not Joiner's. Cluster Autoscaler owns other nodes; both would launch
nodes for the same pod, so Joiner warns. Sources: Karpenter, `LeaderElectionID`; Cluster Autoscaler,
`--leader-elect-resource-name`; Kubernetes, coordination.k8s.io/v1 Lease.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from joiner import names

KARPENTER_LEASE: Final = "karpenter-leader-election"
CLUSTER_AUTOSCALER_LEASE: Final = "cluster-autoscaler"
LEASES: Final = (KARPENTER_LEASE, CLUSTER_AUTOSCALER_LEASE)

DEFINITIONS: Final = (
    "awsnodetemplates.karpenter.k8s.aws",
    "ec2nodeclasses.karpenter.k8s.aws",
    "machines.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "nodeoverlays.karpenter.sh",
    "nodepools.karpenter.sh",
    "provisioners.karpenter.sh",
)
"""The definitions that a deployment of Joiner installs and labels."""

FRESH_FOR: Final = timedelta(seconds=60)
"""A leader renews its lease every few seconds and releases it at a regular end. Four times Karpenter's 15 s allow for a
slow clock.
"""


class AutoscalerSign(StrEnum):
    """The kinds of signs, as events and the console name them."""

    KARPENTER_RUNS = names.KARPENTER_RUNS
    FOREIGN_DEFINITIONS = names.FOREIGN_DEFINITIONS
    CLUSTER_AUTOSCALER_RUNS = names.CLUSTER_AUTOSCALER_RUNS

    @property
    def refuses(self) -> bool:
        """Return whether Joiner must not act at all."""
        return self is not AutoscalerSign.CLUSTER_AUTOSCALER_RUNS


@dataclass(frozen=True, slots=True)
class OtherAutoscaler:
    """Another autoscaler: the sign that was found, and the remedy."""

    guard: AutoscalerSign
    message: str


def find_other_autoscalers(
    leases: Iterable[Mapping[str, Any]], foreign_definitions: Iterable[str], now: datetime
) -> tuple[OtherAutoscaler, ...]:
    """Return the other autoscalers; those that keep Joiner from acting come first.

    `leases` are those named in LEASES, of any namespace; `foreign_definitions` are Joiner's definitions that have
    another manager.
    """
    held = {str(lease["metadata"]["name"]): lease for lease in leases if is_fresh(lease, now)}
    found = []
    if lease := held.get(KARPENTER_LEASE):
        found.append(
            OtherAutoscaler(
                AutoscalerSign.KARPENTER_RUNS,
                f"Karpenter is running: {_holder(lease)}. It would launch an instance for each claim that "
                f"Joiner writes, so Joiner does "
                "nothing. Scale Karpenter's deployment to 0 to let Joiner act",
            )
        )
    if foreign := sorted(foreign_definitions):
        found.append(
            OtherAutoscaler(
                AutoscalerSign.FOREIGN_DEFINITIONS,
                f"The definitions {', '.join(foreign)} are not managed by Joiner, so it does nothing. "
                f"If no other program needs them, hand them over: kubectl label crd {' '.join(foreign)} "
                f"app.kubernetes.io/managed-by=joiner --overwrite",
            )
        )
    if lease := held.get(CLUSTER_AUTOSCALER_LEASE):
        found.append(
            OtherAutoscaler(
                AutoscalerSign.CLUSTER_AUTOSCALER_RUNS,
                f"Cluster Autoscaler is running: {_holder(lease)}. Both may create a node for the same pod. Scale "
                f"Cluster Autoscaler's "
                "deployment to 0, or limit it to other pods",
            )
        )
    return tuple(found)


def refusal_reason(found: Iterable[OtherAutoscaler]) -> str:
    """Return the first reason why Joiner must not act; empty if it may."""
    return next((str(other.guard) for other in found if other.guard.refuses), "")


def is_fresh(lease: Mapping[str, Any], now: datetime) -> bool:
    """Return whether the lease has a holder that renewed it recently.

    >>> at = datetime.fromisoformat("2026-11-21T12:00:30+00:00")
    >>> is_fresh({"spec": {"holderIdentity": "karpenter-0", "renewTime": "2026-11-21T12:00:00.000000Z"}}, at)
    True
    >>> is_fresh({"spec": {"holderIdentity": "", "renewTime": "2026-11-21T12:00:29.000000Z"}}, at)
    False
    """
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    return now - datetime.fromisoformat(str(spec["renewTime"]).replace("Z", "+00:00")) < FRESH_FOR


def _holder(lease: Mapping[str, Any]) -> str:
    metadata = lease["metadata"]
    return f"{lease['spec']['holderIdentity']} holds the lease {metadata.get('namespace', '')}/{metadata['name']}"
