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
from tests.unit.functions.retire import RetirementExecution, retire
from tests.unit.functions.scale_up import SimulatedCluster

NOT_OURS = (
    "node node-1 is not Joiner's: it has neither the label karpenter.sh/nodepool nor karpenter.sh/provisioner-name"
)
SUFFIX = "ValidatingAdmissionPolicy 'joiner-nodes' with binding 'joiner-nodes' denied request: "


def enforced(world: SimulatedCluster) -> None:
    """Make the API server refuse what `manifests/policies` refuse: changes of nodes without a pool label, and pod
    deletions from open nodes.
    """

    def fault(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        parts = path.strip("/").split("/")
        if method in ("PATCH", "DELETE") and parts[:3] == ["api", "v1", "nodes"]:
            node = world.kube.objects.get(("nodes", "", parts[3]))
            if node is not None and NODEPOOL not in node["metadata"].get("labels", {}):
                raise Forbidden(SUFFIX + NOT_OURS, status=403)
        if method in ("PATCH", "DELETE") and "/pods/" in path:
            pod = world.kube.objects[("pods", parts[3], parts[5])]
            node = world.kube.objects.get(("nodes", "", pod["spec"]["nodeName"]))
            if node is not None and DISRUPTED not in [taint["key"] for taint in node["spec"].get("taints") or ()]:
                raise Forbidden(f"pod {parts[5]} may not be deleted", status=403)
        return answer()

    world.kube.fault = fault


def unregistered(world: SimulatedCluster, **labels: str) -> NodeClaim:
    """Return a claim whose node exists and has not registered: it has no pool label, no owner and no finalizer."""
    grow(world)
    claim = first(world)
    node = node_of(world, claim)
    node["metadata"] |= {"labels": labels, "finalizers": []}
    stored = world.kube.objects["nodeclaims", "", claim.name]
    stored["status"]["conditions"] = [each for each in stored["status"]["conditions"] if each["type"] == "Launched"]
    del stored["status"]["nodeName"]
    enforced(world)
    assert not first(world).registered
    return claim


@pytest.mark.parametrize("labels", [{}, {"eks.amazonaws.com/nodegroup": "system"}])
@pytest.mark.parametrize("reason", ["deleted", "never-joined", "lost", "spot"])
def test_an_instance_whose_node_never_registered_is_terminated_without_a_drain(
    world: SimulatedCluster, reason: str, labels: dict[str, str]
) -> None:
    claim = unregistered(world, **labels)

    done = retire(world, (claim.name, reason))

    assert done.left_out == {}
    assert [each["stage"] for each in done.entries] == ["forgotten"]
    assert world.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"
    assert claim.name not in [each.name for each in claims(world)]
    assert claim.name not in done.retirements.all()
    assert ("nodes", "", "node-1") in world.kube.objects  # the cloud controller manager deletes it


def test_the_refusal_stands_on_the_node_and_on_its_claim(world: SimulatedCluster) -> None:
    claim = unregistered(world)

    retire(world, (claim.name, "deleted"))

    events = [each for each in world.kube.all(kinds.EVENTS) if each["reason"] == "FailedDraining"]
    assert {each["regarding"]["kind"] for each in events} == {"Node", "NodeClaim"}
    assert all("is terminated without a drain" in each["note"] and NOT_OURS in each["note"] for each in events)


def test_a_registered_node_that_may_not_be_closed_keeps_its_instance_and_its_claim(world: SimulatedCluster) -> None:
    """Its pods were never evicted. A user removed the node's pool label, and the execution reports that."""
    grow(world)
    claim = first(world)
    enforced(world)

    done = retire(world, (claim.name, "deleted"))

    assert NOT_OURS in done.left_out[claim.name]
    assert world.ec2.instances[claim.instance_id]["State"]["Name"] == "running"


def test_pods_that_may_not_be_deleted_do_not_keep_a_node_whose_instance_is_gone(world: SimulatedCluster) -> None:
    grow(world)
    claim = first(world)
    [refused] = pods_on(world, claim.node_name)
    other = world.kube.objects["pods", "default", refused]
    world.kube.put({**other, "metadata": {"name": "web-1b"}})
    world.ec2.instances[claim.instance_id]["State"] = {"Name": "stopped"}

    def fault(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if method == "PATCH" and path.endswith(f"/pods/{refused}"):
            raise Forbidden("admission webhook denied the request", status=403)
        return answer()

    world.kube.fault = fault

    done = RetirementExecution(world, "refused").run(RetirementRequest(claim.name, RetirementReason.LOST), passes=1)

    assert [each["stage"] for each in done.entries] == ["forgotten"]
    assert pods_on(world, claim.node_name) == [refused]  # the pod garbage collector deletes it later
    world.kube.objects.pop(("pods", "default", refused))
    nothing_is_left_of(world, claim)
