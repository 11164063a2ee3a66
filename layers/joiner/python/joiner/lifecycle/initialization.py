"""When a registered node may take pods, what is still missing, and who may come before.

Source: Karpenter, core `pkg/controllers/nodeclaim/lifecycle/initialization.go`. It matters more here than there: a real
kubelet rejects a pod for good (phase Failed) if it is bound before the kubelet itself sees its start-up taints gone and
its devices present.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Taint
from joiner.lifecycle import deadlines
from joiner.pools import NodeClaim

READINESS_PREFIX: Final = "readiness.k8s.io/"
LINGERING: Final = Taint("node.kubernetes.io/not-ready", "NoExecute")
"""The node controller looks at all nodes every five seconds (--node-monitor-period). One that it found not ready keeps
this taint until it looks again, long after the kubelet is ready. Neither scheduler nor kubelet minds it for a pod that
tolerates it, as pods do that say nothing of it: the API server lets them for 300 s.
"""
EPHEMERAL: Final = (
    Taint("node.kubernetes.io/not-ready", "NoSchedule"),
    LINGERING,
    Taint("node.kubernetes.io/unreachable", "NoSchedule"),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule", "true"),
    Taint(names.UNREGISTERED, "NoExecute"),
)
"""Taints that every node has while it starts (core `pkg/scheduling/taints.go`)."""

COUNTED_BY_EVERY_KUBELET: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def is_initialized(node: Node) -> bool:
    """Has it been found ready for pods already?"""
    return node.labels.get(names.INITIALIZED) == "true"


def is_ephemeral(taint: Taint) -> bool:
    """Is it one of the taints of a node that starts?"""
    return taint.key.startswith(READINESS_PREFIX) or any(taint.matches(known) for known in EPHEMERAL)


def missing_for_initialization(claim: NodeClaim, node: Node) -> str:
    """What the node still waits for; empty when it may take pods."""
    if not node.ready:
        return "the node is not Ready"
    for taint in node.taints:
        if any(taint.matches(startup) for startup in claim.startup_taints):
            return f"the start-up taint {taint} is still on"
        if is_ephemeral(taint):
            return f"the taint {taint} is still on"
    for name, amount in claim.requests.items():
        if name not in COUNTED_BY_EVERY_KUBELET and amount > 0 and node.allocatable.get(name, 0) <= 0:
            return f"{name} is not allocatable yet"
    return ""


def may_be_filled(claim: NodeClaim, node: Node) -> bool:
    """May the planned pods that tolerate what lingers be bound already? It does not open to others before it is
    initialized.
    """
    settled = replace(node, taints=tuple(taint for taint in node.taints if not taint.matches(LINGERING)))
    return not missing_for_initialization(claim, settled)


def initialization_patch(node: Node) -> dict[str, Any]:
    """The merge patch that opens an initialized node: its label on, the filling taint off."""
    patch = opening_patch(node)
    patch["metadata"]["labels"] = {names.INITIALIZED: "true"}
    return patch


def closed_too_long(node: Node, now: datetime) -> bool:
    """Is it a node of ours that must open, whatever became of its claim?"""
    ours = names.NODEPOOL in node.labels or names.PROVISIONER in node.labels
    return ours and node.has_taint(names.FILLING) and deadlines.closed_too_long(node.created, now)


def opening_patch(node: Node) -> dict[str, Any]:
    """The merge patch that takes the filling taint off, at the resourceVersion that its taints were read at."""
    kept = [taint.to_kube() for taint in node.taints if taint.key != names.FILLING]
    return {"metadata": {"resourceVersion": node.resource_version}, "spec": {"taints": kept}}
