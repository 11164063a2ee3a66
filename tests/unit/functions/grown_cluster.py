"""A cluster whose nodes a scale-up launched and that run pods: the start of a retirement, and what is left after it."""

from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.launching import PairedInstance
from joiner.names import TERMINATION_FINALIZER
from joiner.pools import NodeClaim, NodeClassRef, read_node_claim, write_claim_status, write_node_claim
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NOON


def grow(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with two nodes that run a pod each, as a scale-up leaves them."""
    cluster.prepare()
    for number in (1, 2):
        add_node(cluster, f"default-{number}", f"i-000{number}", f"node-{number}")
        owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}
        metadata = {"name": f"web-{number}", "namespace": "default", "ownerReferences": [owner]}
        cluster.kube.put(running(metadata, f"node-{number}"))
    return cluster


def add_node(cluster: SimulatedCluster, name: str, instance: str, node: str) -> None:
    made = NodeClaim(
        name,
        NodeClassRef("EC2NodeClass", "default"),
        pool="default",
        pool_uid="pool-1",
        labels={"karpenter.sh/nodepool": "default"},
    )
    launched = made.as_launched(
        PairedInstance(instance, made.name, "m5.large", "us-east-1a", "on-demand", "ami-1"), at=NOON
    )
    claim = launched.as_registered(node, at=NOON).as_initialized(at=NOON)
    cluster.kube.put({**write_node_claim(claim), **write_claim_status(claim)})
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}, "finalizers": [TERMINATION_FINALIZER]},
        "spec": {"providerID": claim.provider_id, "taints": []},
        "status": {
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    cluster.kube.put(manifest)
    tags = {"kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "demo", "karpenter.sh/nodepool": "default"}
    cluster.ec2.instances[instance] = {
        "InstanceId": instance,
        "InstanceType": "m5.large",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "State": {"Name": "running"},
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    cluster.ledger.pair(instance, name, "launch-1")


def running(metadata: dict[str, Any], node: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "1500m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def written(cluster: SimulatedCluster) -> NodeClaim:
    """Write a claim under lease 3 that is not launched."""
    claim = NodeClaim(
        "default-3", NodeClassRef("EC2NodeClass", "default"), pool="default", annotations={"joiner.dev/lease": "3"}
    )
    cluster.kube.put(write_node_claim(claim))
    return claim


def lease_values(cluster: SimulatedCluster) -> dict[str, Any]:
    return {":me": "arn:up", ":until": int(cluster.now.timestamp()) + 60, ":number": 3}


def claims(cluster: SimulatedCluster) -> list[NodeClaim]:
    return [read_node_claim(each) for each in cluster.kube.all(kinds.NODECLAIMS)]


def first(cluster: SimulatedCluster) -> NodeClaim:
    return claims(cluster)[0]


def node_of(cluster: SimulatedCluster, claim: NodeClaim) -> Any:
    return cluster.kube.objects["nodes", "", claim.node_name]


def pods_on(cluster: SimulatedCluster, node: str) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.kube.all(kinds.PODS) if each["spec"].get("nodeName") == node]


def evictions(cluster: SimulatedCluster) -> list[str]:
    """Return the eviction requests in their order."""
    return [asked for asked in cluster.kube.asked if asked.endswith("/eviction")]


def daemon(node: str) -> dict[str, Any]:
    owner = {"kind": "DaemonSet", "name": "agent", "uid": "ds-1", "controller": True}
    found = running({"name": f"agent-{node}", "ownerReferences": [owner]}, node)
    return {**found, "spec": {**found["spec"], "tolerations": [{"operator": "Exists"}]}}


def empty(cluster: SimulatedCluster, claim: NodeClaim) -> None:
    """Make the node empty: its pods have ended."""
    for name in pods_on(cluster, claim.node_name):
        del cluster.kube.objects["pods", "default", name]


def nothing_is_left_of(cluster: SimulatedCluster, claim: NodeClaim) -> None:
    assert claim.name not in [each.name for each in claims(cluster)]
    assert ("nodes", "", claim.node_name) not in cluster.kube.objects
    assert cluster.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"
    assert claim.instance_id not in cluster.ledger.pairings([claim.instance_id])
    assert claim.name not in RetirementExecution(cluster, "").retirements.all()
    assert claim.name not in cluster.ledger.assignments()
    assert pods_on(cluster, claim.node_name) == []
