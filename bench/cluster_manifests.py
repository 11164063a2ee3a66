"""Manifests as long as those of a real cluster: pods, nodes and their NodeClaims, and the few other objects.

NUMBER, NODE and ZONE in them are placeholders. Pods are about 4.8 kB of JSON: managed fields, environment variables,
statuses of containers, as `kubectl get -o json` shows them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner.lifecycle.other_autoscalers import DEFINITIONS

POD_BYTES: Final = 4800
STARTED: Final = "2026-11-21T10:00:00Z"
POD_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod(kind: int, phase: str = "Running") -> dict[str, Any]:
    """Return a pod of one workload; that of workload 0 belongs to a daemon set."""
    daemon = kind == 0
    requests = {"cpu": f"{(100, 250, 500)[kind % 3]}m", "memory": f"{(128, 256, 512)[kind % 3]}Mi"}
    spec = _pod_spec(f"app-{kind:03d}", requests)
    if phase == "Pending":
        status = _pending_status()
    else:
        spec["nodeName"] = "NODE"
        status = _running_status(phase, requests)
    if daemon:
        field = [{"key": "metadata.name", "operator": "In", "values": ["NODE"]}]
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": field}]}
            }
        }
    return _as_long_as_real({"metadata": _pod_metadata(kind, daemon=daemon), "spec": spec, "status": status})


def _pod_metadata(kind: int, *, daemon: bool) -> dict[str, Any]:
    app = f"app-{kind:03d}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet" if daemon else "ReplicaSet",
        "name": app,
        "uid": f"owner-{kind:030d}",
    }
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": app,
        "pod-template-hash": f"{kind:010d}",
        "team": f"t{kind % 9}",
    }
    return {
        "name": f"{app}-{kind:010d}-NUMBER",
        "namespace": f"team-{kind % 9}",
        "uid": "8f2c1d34-5a6b-4c7d-8e9f-0000NUMBER",
        "resourceVersion": "NUMBER",
        "creationTimestamp": "2026-11-21T09:59:00Z",
        "labels": labels,
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "managedFields": [],
    }


def _pod_spec(app: str, requests: Mapping[str, str]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": f"registry.example/{app}:1.0",
        "env": [{"name": f"SETTING_{n}", "value": "x" * 24} for n in range(14)],
        "resources": {"requests": requests, "limits": {"memory": requests["memory"]}},
        "volumeMounts": [
            {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        ],
    }
    return {
        "containers": [container],
        "volumes": [
            {
                "name": "kube-api-access",
                "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607}}]},
            }
        ],
        "tolerations": [
            {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute"}
            for k in ("not-ready", "unreachable")
        ],
        "schedulerName": "default-scheduler",
        "priority": 0,
        "terminationGracePeriodSeconds": 30,
        "serviceAccountName": app,
    }


def _pending_status() -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/9 nodes are available",
        "lastProbeTime": None,
        "lastTransitionTime": STARTED,
    }
    return {"phase": "Pending", "conditions": [condition]}


def _running_status(phase: str, requests: Mapping[str, str]) -> dict[str, Any]:
    times = {"lastProbeTime": None, "lastTransitionTime": STARTED}
    container = {
        "name": "main",
        "ready": True,
        "resources": {"requests": requests},
        "allocatedResources": requests,
        "restartCount": 0,
        "state": {"running": {"startedAt": STARTED}},
    }
    return {
        "phase": phase,
        "startTime": STARTED,
        "conditions": [{"type": each, "status": "True", **times} for each in POD_CONDITIONS],
        "containerStatuses": [container],
    }


def _as_long_as_real(manifest: dict[str, Any]) -> dict[str, Any]:
    """Add managed fields until the pod has POD_BYTES."""
    fields: dict[str, Any] = {}
    manager = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}
    manifest["metadata"]["managedFields"] = [manager]
    while len(json.dumps(manifest)) < POD_BYTES - 40:
        fields[f"f:field-{len(fields)}"] = {"f:name": {}, "f:value": {}}
    return manifest


def node(*, closed: bool, created: str) -> dict[str, Any]:
    """Return a node of about 10 kB, half of it the list of its images. With `closed`, it has the taint
    joiner.dev/filling and is not initialized."""
    labels = {
        "karpenter.sh/nodepool": "default",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": "node-NUMBER",
        "node.kubernetes.io/instance-type": "m5.2xlarge",
        "karpenter.sh/capacity-type": "on-demand",
        "topology.kubernetes.io/zone": "ZONE",
        **({} if closed else {"karpenter.sh/initialized": "true"}),
        "karpenter.sh/registered": "true",
    }
    return {
        "metadata": {
            "name": "node-NUMBER",
            "uid": "8f2c1d34-5a6b-4c7d-8e9f-0001NUMBER",
            "resourceVersion": "NUMBER",
            "creationTimestamp": created,
            "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [
                {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "default-NUMBER", "uid": "claim-NUMBER"}
            ],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{n}": {"f:x": {}} for n in range(100)}}],
        },
        "spec": {
            "providerID": "aws:///ZONE/i-0NUMBER",
            "taints": [{"key": "joiner.dev/filling", "effect": "NoSchedule"}] if closed else [],
        },
        "status": _node_status(created),
    }


def _node_status(created: str) -> dict[str, Any]:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "58", "ephemeral-storage": "20Gi"}
    since = {"lastHeartbeatTime": created, "lastTransitionTime": created}
    return {
        "capacity": allocatable,
        "allocatable": allocatable,
        "conditions": [
            {"type": kind, "status": "True" if kind == "Ready" else "False", **since}
            for kind in ("Ready", "DiskPressure")
        ],
        "images": [{"names": [f"registry.example/image-{n}@sha256:{'a' * 64}"], "sizeBytes": 1} for n in range(50)],
    }


def claim(*, closed: bool, since: str) -> dict[str, Any]:
    """Return the NodeClaim of a node; the claim of a closed node is registered and not initialized."""
    known = [("Launched", "True"), ("Registered", "True"), ("Initialized", "Unknown" if closed else "True")]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "default-NUMBER",
            "uid": "claim-NUMBER",
            "resourceVersion": "NUMBER",
            "creationTimestamp": since,
            "labels": {
                "karpenter.sh/nodepool": "default",
                "node.kubernetes.io/instance-type": "m5.2xlarge",
                "topology.kubernetes.io/zone": "ZONE",
                "karpenter.sh/capacity-type": "on-demand",
            },
            "annotations": {"joiner.dev/lease": "1", "joiner.dev/price-per-hour": "0.384"},
            "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [
                {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "pool-1"}
            ],
            "managedFields": [{"manager": "joiner", "fieldsV1": {f"f:{n}": {"f:x": {}} for n in range(60)}}],
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
        },
        "status": {
            "providerID": "aws:///ZONE/i-0NUMBER",
            "nodeName": "node-NUMBER",
            "conditions": [
                {"type": kind, "status": status, "reason": kind, "lastTransitionTime": since} for kind, status in known
            ],
        },
    }


POOL: Final[Mapping[str, Any]] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default", "uid": "pool-1", "generation": 1},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            }
        },
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"},
    },
}
CLASS: Final[Mapping[str, Any]] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default", "uid": "class-1", "generation": 1},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
    },
}


FEW: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "nodepools": [POOL],
    "ec2nodeclasses": [CLASS],
    "namespaces": [{"metadata": {"name": f"team-{n}"}} for n in range(9)],
    "customresourcedefinitions": [{"metadata": {"name": name}} for name in DEFINITIONS],
}
