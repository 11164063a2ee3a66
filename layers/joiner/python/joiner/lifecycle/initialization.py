"""Determine when a registered node may take pods, what is still missing, and which pods may be bound before.

Source: Karpenter, core `pkg/controllers/nodeclaim/lifecycle/initialization.go`. Here the check matters more: a kubelet
rejects a pod permanently (phase Failed) if the pod is bound before the kubelet itself sees that its startup taints are
gone and its devices are present.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Taint
from joiner.cluster.resources import KUBELET_RESOURCES
from joiner.lifecycle import node_deadlines
from joiner.pools import NodeClaim

LINGERING: Final = Taint("node.kubernetes.io/not-ready", "NoExecute")
"""The node controller checks all nodes every five seconds (--node-monitor-period).

A node that it found not ready keeps this taint until the next check, after the kubelet is ready. Scheduler and kubelet
ignore the taint for pods that tolerate it. Pods without a toleration of their own tolerate it, too: the API server adds
one of 300 s.
"""
EPHEMERAL: Final = (
    Taint("node.kubernetes.io/not-ready", "NoSchedule"),
    LINGERING,
    Taint("node.kubernetes.io/unreachable", "NoSchedule"),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule", "true"),
    Taint(names.UNREGISTERED, "NoExecute"),
)
"""Taints that every node has while it starts (core `pkg/scheduling/taints.go`)."""

DEVICE_REMEDIES: Final = {
    "amd.com/": "the AMD device plug-in must run on the node",
    "aws.amazon.com/neuron": "the Neuron device plug-in must run on the node, and its image must have its driver",
    "habana.ai/": "the Gaudi device plug-in must run on the node, and its image must have its driver",
    "nvidia.com/": "the NVIDIA device plug-in must run on the node, and its image must have its driver",
    "vpc.amazonaws.com/PrivateIPv4Address": "enable-windows-ipam must be true in the ConfigMap amazon-vpc-cni",
    "vpc.amazonaws.com/efa": "the EFA device plug-in must run on the node",
    "vpc.amazonaws.com/pod-eni": "ENABLE_POD_ENI must be true in the DaemonSet aws-node",
}
"""Prefix of a resource -> what registers it. Source: EKS user guide, "Manage hardware devices on Amazon EKS"."""

OTHER_PLUG_IN: Final = "the plug-in that registers it must run on the node"


def is_initialized(node: Node) -> bool:
    """Return whether it is already marked as initialized."""
    return node.labels.get(names.INITIALIZED) == "true"


def is_ephemeral(taint: Taint) -> bool:
    """Return whether it is a taint of a node that starts."""
    return taint.key.startswith(names.READINESS_PREFIX) or any(taint.matches(known) for known in EPHEMERAL)


def missing_for_initialization(claim: NodeClaim, node: Node) -> str:
    """Return what the node still waits for; empty if it may take pods."""
    if not node.ready:
        return "the node is not Ready"
    if taint := remaining_startup_taint(claim, node):
        return f"the startup taint {taint} is still on"
    if taint := next(filter(is_ephemeral, node.taints), None):
        return f"the taint {taint} is still on"
    if device := missing_device(claim, node):
        return f"{device} is not allocatable yet"
    return ""


def remaining_startup_taint(claim: NodeClaim, node: Node) -> Taint | None:
    """Return the first startup taint of the claim that its node still has."""
    return next((each for each in node.taints if any(map(each.matches, claim.startup_taints))), None)


def missing_device(claim: NodeClaim, node: Node) -> str:
    """Return the first extended resource that the claim's pods request and the node has not registered; or empty."""
    wanted = (name for name, amount in claim.requests.items() if name not in KUBELET_RESOURCES and amount > 0)
    return next((name for name in wanted if node.allocatable.get(name, 0) <= 0), "")


def find_device_remedy(resource: str) -> str:
    """Return what registers an extended resource on a node.

    >>> find_device_remedy("vpc.amazonaws.com/efa")
    'the EFA device plug-in must run on the node'
    >>> find_device_remedy("example.com/fpga")
    'the plug-in that registers it must run on the node'
    """
    return next((remedy for prefix, remedy in DEVICE_REMEDIES.items() if resource.startswith(prefix)), OTHER_PLUG_IN)


def may_be_filled(claim: NodeClaim, node: Node) -> bool:
    """Return whether planned pods that tolerate the last taint may be bound already.

    The node opens to other pods only when it is initialized.
    """
    settled = replace(node, taints=tuple(taint for taint in node.taints if not taint.matches(LINGERING)))
    return not missing_for_initialization(claim, settled)


def initialization_patch(node: Node) -> dict[str, Any]:
    """Return the merge patch that opens an initialized node: it sets the label and removes the filling taint."""
    patch = opening_patch(node)
    patch["metadata"]["labels"] = {names.INITIALIZED: "true"}
    return patch


def closed_too_long(node: Node, now: datetime) -> bool:
    """Return whether it is a node of this cluster that must open, regardless of its claim."""
    ours = any(key in node.labels for key in names.OURS)
    return ours and node.has_taint(names.FILLING) and node_deadlines.closed_too_long(node.created, now)


def opening_patch(node: Node) -> dict[str, Any]:
    """Return the merge patch that removes the filling taint, at the resourceVersion of the taints that were read."""
    kept = [taint.to_kube() for taint in node.taints if taint.key != names.FILLING]
    return {"metadata": {"resourceVersion": node.resource_version}, "spec": {"taints": kept}}
