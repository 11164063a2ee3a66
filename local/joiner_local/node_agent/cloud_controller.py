"""EKS's cloud controller as far as nodes see it: initialize a registered node, and remove one whose instance is gone.

Source: cloud-provider, node controller and node lifecycle controller. A stopped instance keeps its node, with a taint.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.node_agent.node_objects import SHUTDOWN, UNINITIALIZED, Ec2Instance, Object, cloud_labels

log = logging.getLogger(__name__)

CONFLICT: Final = 409
ATTEMPTS: Final = 20


def initialize(kube: KubeApi, instance: Ec2Instance, zone_id: str, node: Object) -> None:
    """Add labels, remove the taint `uninitialized` from a node that was just read, or created."""

    def change(node: Object) -> Object:
        taints = [taint for taint in node["spec"].get("taints", []) if taint["key"] != UNINITIALIZED]
        return {
            "metadata": {"labels": cloud_labels(instance, zone_id)},
            "spec": {"taints": taints, "providerID": instance.provider_id},
        }

    _change(kube, instance.name, change, node)


def mark_stopped(kube: KubeApi, name: str) -> None:
    def change(node: Object) -> Object:
        others = [taint for taint in node["spec"].get("taints", []) if taint["key"] != SHUTDOWN]
        return {"spec": {"taints": [*others, {"key": SHUTDOWN, "effect": "NoSchedule"}]}}

    _change(kube, name, change)


def mark_started(kube: KubeApi, name: str) -> None:
    def change(node: Object) -> Object:
        return {"spec": {"taints": [taint for taint in node["spec"].get("taints", []) if taint["key"] != SHUTDOWN]}}

    _change(kube, name, change)


def _change(kube: KubeApi, name: str, change: Callable[[Object], Object], known: Object | None = None) -> None:
    """Change the taints. They are one list with many writers: read, change, write, and retry after a conflict. The
    first write needs no reading if the node is `known`."""
    for _ in range(ATTEMPTS):
        node, known = known or kube.find(f"/api/v1/nodes/{name}"), None
        if node is None:
            return
        patch = change(node)
        patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
        try:
            kube.merge(f"/api/v1/nodes/{name}", patch)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        else:
            return
    log.warning("node %s changes all the time: gave up", name)


def remove(kube: KubeApi, instance: Ec2Instance) -> bool:
    """Delete the node of a terminated instance. False if there is none, or if another instance has the name now."""
    node = kube.find(f"/api/v1/nodes/{instance.name}")
    if node is None or node["spec"].get("providerID") != instance.provider_id:
        return False
    kube.delete(f"/api/v1/nodes/{instance.name}", missing_ok=True)
    return True


def remove_pods(kube: KubeApi, node: str) -> None:
    """Delete the pods of a node at once, as the pod garbage collector does a minute after the node is gone.

    As that collector does, it first asks whether there is a node of this name again: then the pods are its own.
    """
    options: dict[str, Any] = {"gracePeriodSeconds": 0}
    pods = kube.items(f"/api/v1/pods?fieldSelector=spec.nodeName={node}")
    if kube.find(f"/api/v1/nodes/{node}") is not None:
        return
    for pod in pods:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        try:
            kube.call("DELETE", path, options)
        except ApiError as error:
            if error.status != 404:
                raise
