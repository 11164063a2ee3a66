"""The objects that an acceptance run creates in the cluster: one NodePool and one pod, which match only each other.

Nodes of the pool have a taint that only this pod tolerates; the pod selects a label that only this pool's nodes have.
So no other pool launches a node for the pod, and no other pod runs on the node, unless it tolerates every taint.
"""

from collections.abc import Mapping
from typing import Any, Final

from joiner.names import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND

KEY: Final = "joiner-accept"
"""Key of the label and the taint of the run's node; the value is the run's id. NodePools may not set labels under
joiner.dev.
"""
TYPES: Final = ("t4g.small", "t3a.small", "t3.small", "t4g.medium", "t3a.medium", "t3.medium")
"""The cheapest instance types that can hold the usual DaemonSets; the most expensive costs about 4 US cents an hour."""
PAUSE: Final = "registry.k8s.io/pause:3.10"

Manifest = dict[str, Any]


def object_name(run: str) -> str:
    """Return the name of the NodePool and the pod."""
    return f"joiner-accept-{run}"


def build_node_pool(run: str, node_class: str) -> Manifest:
    """Return a NodePool for one small on-demand node. The node expires after 30 minutes if the run cannot remove it."""
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class},
        "requirements": [
            {"key": INSTANCE_TYPE, "operator": "In", "values": list(TYPES)},
            {"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]},
        ],
        "taints": [{"key": KEY, "value": run, "effect": "NoSchedule"}],
        "expireAfter": "30m",
        "terminationGracePeriod": "1m",
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": object_name(run), "labels": {KEY: run}},
        "spec": {
            "template": {"metadata": {"labels": {KEY: run}}, "spec": spec},
            "limits": {"cpu": "2"},  # one node of these types
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        },
    }


def build_pod(run: str, image: str) -> Manifest:
    """Return a pod that only the run's node can run."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": object_name(run), "namespace": "default", "labels": {KEY: run}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "nodeSelector": {KEY: run},
            "tolerations": [{"key": KEY, "operator": "Equal", "value": run, "effect": "NoSchedule"}],
            "containers": [container],
        },
    }


def pools_naming_label(pools: list[Manifest]) -> list[str]:
    """Return the names of pools that might launch a node for the run's pod: pools that mention its label."""
    return [str(pool["metadata"]["name"]) for pool in pools if KEY in str(pool.get("spec", {}))]


def conditions(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the status, reason and message of each condition, by type."""
    listed = (manifest.get("status") or {}).get("conditions") or ()
    return {
        str(each["type"]): f"{each['status']} {each.get('reason', '')}: {each.get('message', '')}".rstrip(": ")
        for each in listed
    }
