"""The objects that an acceptance run makes in the cluster: one NodePool and one pod that only belong to each other.

The pool's nodes have a taint that only this pod tolerates, and the pod wants a label that only this pool's nodes have. So no other pool
gets a node for the pod, and no other pod comes to the node, unless it tolerates every taint.
"""

from collections.abc import Mapping
from typing import Any, Final

from joiner.names import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND

KEY: Final = "joiner-accept"
"""Label and taint of the run's node; its value is the run's id. Pools may not define labels of the domain joiner.dev."""
TYPES: Final = ("t4g.small", "t3a.small", "t3.small", "t4g.medium", "t3a.medium", "t3.medium")
"""The cheapest that hold the pods of a node's own daemons; the most expensive costs about 4 US cents an hour."""
PAUSE: Final = "registry.k8s.io/pause:3.10"

Manifest = dict[str, Any]


def object_name(run: str) -> str:
    """The name of both objects."""
    return f"joiner-accept-{run}"


def node_pool(run: str, node_class: str) -> Manifest:
    """A pool of one small on-demand node, which expires by itself should everything else fail."""
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


def pod(run: str, image: str) -> Manifest:
    """A pod that only the run's node may run."""
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
    """Names of pools that might take the run's pod: those that name its label at all."""
    return [str(pool["metadata"]["name"]) for pool in pools if KEY in str(pool.get("spec", {}))]


def conditions(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Status and message of each condition, by type."""
    said = (manifest.get("status") or {}).get("conditions") or ()
    return {
        str(each["type"]): f"{each['status']} {each.get('reason', '')}: {each.get('message', '')}".rstrip(": ")
        for each in said
    }
