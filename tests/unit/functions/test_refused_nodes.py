"""Nodes and pods that the cluster does not let Joiner change: their instances and claims are deleted anyway."""

from collections.abc import Callable
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import Forbidden
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import DISRUPTED, NODEPOOL
from joiner.pools import NodeClaim
from tests.unit.functions.grown_cluster import claims, first, grow, node_of, nothing_is_left_of, pods_on
from tests.unit.functions.retirement_execution import RetirementExecution, retire
from tests.unit.functions.simulated_cluster import SimulatedCluster

NOT_OURS = (
    "node node-1 is not Joiner's: it has none of the labels karpenter.sh/nodepool, karpenter.sh/provisioner-name and "
    "karpenter.k8s.aws/ec2nodeclass"
)
SUFFIX = "ValidatingAdmissionPolicy 'joiner-nodes' with binding 'joiner-nodes' denied request: "


def enforced(cluster: SimulatedCluster) -> None:
    """Make the API server refuse what `manifests/policies` refuse: changes of nodes without a pool label, and pod
    deletions from open nodes.
    """

    def fault(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        parts = path.strip("/").split("/")
        if method in ("PATCH", "DELETE") and parts[:3] == ["api", "v1", "nodes"]:
            node = cluster.kube.objects.get(("nodes", "", parts[3]))
            if node is not None and NODEPOOL not in node["metadata"].get("labels", {}):
                raise Forbidden(SUFFIX + NOT_OURS, status=403)
        if method in ("PATCH", "DELETE") and "/pods/" in path:
            pod = cluster.kube.objects[("pods", parts[3], parts[5])]
            node = cluster.kube.objects.get(("nodes", "", pod["spec"]["nodeName"]))
            if node is not None and DISRUPTED not in [taint["key"] for taint in node["spec"].get("taints") or ()]:
                raise Forbidden(f"pod {parts[5]} may not be deleted", status=403)
        return answer()

    cluster.kube.fault = fault


def unregistered(cluster: SimulatedCluster, **labels: str) -> NodeClaim:
    """Return a claim whose node exists and has not registered: it has no pool label, no owner and no finalizer."""
    grow(cluster)
    claim = first(cluster)
    node = node_of(cluster, claim)
    node["metadata"] |= {"labels": labels, "finalizers": []}
    stored = cluster.kube.objects["nodeclaims", "", claim.name]
    stored["status"]["conditions"] = [each for each in stored["status"]["conditions"] if each["type"] == "Launched"]
    del stored["status"]["nodeName"]
    enforced(cluster)
    assert not first(cluster).registered
    return claim


@pytest.mark.parametrize("labels", [{}, {"eks.amazonaws.com/nodegroup": "system"}])
@pytest.mark.parametrize("reason", ["deleted", "never-joined", "lost", "spot"])
def test_an_instance_whose_node_never_registered_is_terminated_without_a_drain(
    cluster: SimulatedCluster, reason: str, labels: dict[str, str]
) -> None:
    claim = unregistered(cluster, **labels)

    done = retire(cluster, (claim.name, reason))

    assert done.left_out == {}
    assert [each["stage"] for each in done.entries] == ["forgotten"]
    assert cluster.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"
    assert claim.name not in [each.name for each in claims(cluster)]
    assert claim.name not in done.retirements.all()
    assert ("nodes", "", "node-1") in cluster.kube.objects  # the cloud controller manager deletes it


def test_the_refusal_stands_on_the_node_and_on_its_claim(cluster: SimulatedCluster) -> None:
    claim = unregistered(cluster)

    retire(cluster, (claim.name, "deleted"))

    events = [each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "FailedDraining"]
    assert {each["regarding"]["kind"] for each in events} == {"Node", "NodeClaim"}
    assert all("is terminated without a drain" in each["note"] and NOT_OURS in each["note"] for each in events)


def test_a_registered_node_that_may_not_be_closed_keeps_its_instance_and_its_claim(cluster: SimulatedCluster) -> None:
    """Its pods were never evicted. A user removed the node's pool label, and the execution reports that."""
    grow(cluster)
    claim = first(cluster)
    enforced(cluster)

    done = retire(cluster, (claim.name, "deleted"))

    assert NOT_OURS in done.left_out[claim.name]
    assert cluster.ec2.instances[claim.instance_id]["State"]["Name"] == "running"


def test_pods_that_may_not_be_deleted_do_not_keep_a_node_whose_instance_is_gone(cluster: SimulatedCluster) -> None:
    grow(cluster)
    claim = first(cluster)
    [refused] = pods_on(cluster, claim.node_name)
    other = cluster.kube.objects["pods", "default", refused]
    cluster.kube.put({**other, "metadata": {"name": "web-1b"}})
    cluster.ec2.instances[claim.instance_id]["State"] = {"Name": "stopped"}

    def fault(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if method == "PATCH" and path.endswith(f"/pods/{refused}"):
            raise Forbidden("admission webhook denied the request", status=403)
        return answer()

    cluster.kube.fault = fault

    done = RetirementExecution(cluster, "refused").run(RetirementRequest(claim.name, RetirementReason.LOST), passes=1)

    assert [each["stage"] for each in done.entries] == ["forgotten"]
    assert pods_on(cluster, claim.node_name) == [refused]  # the pod garbage collector deletes it later
    cluster.kube.objects.pop(("pods", "default", refused))
    nothing_is_left_of(cluster, claim)
