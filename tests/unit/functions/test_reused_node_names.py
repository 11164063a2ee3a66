"""Node names come from private IP addresses, which are reused: a retirement or an opening never changes another node of
the same name.
"""

from collections.abc import Callable
from typing import Any

import pytest

from functions.check_registration.node_joining_steps import ClaimProgress
from functions.check_registration.node_opening import BindingTimes, NodeOpening
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.joining_records import JoiningRecords
from joiner.adapters.kube_errors import Unreachable
from joiner.adapters.kube_nodes import read_node
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import DISRUPTED, FILLING, INITIALIZED
from tests.unit.functions.grown_cluster import first, grow, pods_on, running
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NOON

OTHER = "i-0099"


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    return grow(cluster)


def take_the_name(cluster: SimulatedCluster, name: str, **metadata: Any) -> None:
    """Delete the node, give its address to another instance, and run a pod there."""
    spec = dict(cluster.kube.objects["nodes", "", name]["spec"]) if ("nodes", "", name) in cluster.kube.objects else {}
    for key in [
        key for key, pod in cluster.kube.objects.items() if key[0] == "pods" and pod["spec"].get("nodeName") == name
    ]:
        del cluster.kube.objects[key]
    cluster.kube.objects.pop(("nodes", "", name), None)
    cluster.kube.put(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, **metadata},
            "spec": {**spec, "providerID": f"aws:///us-east-1a/{OTHER}", "taints": []},
            "status": {
                "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )
    cluster.kube.put(running({"name": "stranger", "namespace": "default"}, name))
    attached = {"attacher": "ebs.csi.aws.com", "nodeName": name, "source": {"persistentVolumeName": "pv-1"}}
    cluster.kube.put(
        {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va-1"}, "spec": attached}
    )


def before(state: str, act: Callable[[], None]) -> Callable[[str], None]:
    """Do this once, before the first run of a state."""
    done: list[str] = []

    def hook(name: str) -> None:
        if name == state and not done:
            done.append(name)
            act()

    return hook


def retired(cluster: SimulatedCluster, state: str, act: Callable[[], None]) -> RetirementExecution:
    claim = first(cluster)
    retirement = RetirementExecution(cluster, "retire-1", before_state=before(state, act))
    return retirement.run(RetirementRequest(claim.name, RetirementReason.DELETED, claim.instance_id))


def test_pods_of_a_node_that_took_the_name_are_neither_evicted_nor_awaited(grown: SimulatedCluster) -> None:
    claim = first(grown)
    done = retired(grown, "evict_pods", lambda: take_the_name(grown, claim.node_name))

    assert pods_on(grown, claim.node_name) == ["stranger"]
    assert grown.kube.objects["nodes", "", claim.node_name]["spec"]["taints"] == []
    assert [each["stage"] for each in done.entries] == ["forgotten"]
    assert grown.ec2.instances[claim.instance_id]["State"] == {"Name": "terminated"}
    assert ("nodeclaims", "", claim.name) not in grown.kube.objects


def test_a_name_that_is_taken_after_the_pods_were_listed_costs_the_other_node_nothing(grown: SimulatedCluster) -> None:
    claim = first(grown)
    name, listed = claim.node_name, list[str]()

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        answer = do()
        if method == "GET" and path.split("?", maxsplit=1)[0].endswith("/pods") and not listed:
            listed.append(path)
            take_the_name(grown, name)
        return answer

    retired(grown, "evict_pods", lambda: setattr(grown.kube, "fault", fault))

    assert listed
    assert pods_on(grown, name) == ["stranger"]
    assert grown.kube.objects["nodes", "", name]["spec"]["taints"] == []


def test_no_pod_is_evicted_while_the_owner_of_the_node_is_unknown(grown: SimulatedCluster) -> None:
    claim = first(grown)

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        if method == "GET" and path.split("?", maxsplit=1)[0].endswith(f"/nodes/{claim.node_name}"):
            raise Unreachable("no answer")
        return do()

    retirement = RetirementExecution(
        grown, "retire-1", before_state=before("evict_pods", lambda: setattr(grown.kube, "fault", fault))
    )
    retirement.run(RetirementRequest(claim.name, RetirementReason.DELETED, claim.instance_id), passes=2)

    assert "web-1" in pods_on(grown, claim.node_name)
    assert [(each["stage"], each["why"]) for each in retirement.entries] == [("draining", "no answer")]


def test_a_node_that_does_not_name_its_instance_is_drained_if_the_claim_owns_it(grown: SimulatedCluster) -> None:
    claim = first(grown)
    node = grown.kube.objects["nodes", "", claim.node_name]
    node["metadata"]["ownerReferences"] = [
        {"kind": "NodeClaim", "name": claim.name, "uid": claim.uid, "apiVersion": "karpenter.sh/v1"}
    ]

    retired(grown, "evict_pods", lambda: node["spec"].pop("providerID"))

    assert "web-1" not in pods_on(grown, claim.node_name)


def test_pods_of_a_node_that_takes_the_name_while_its_claim_is_forgotten_stay(grown: SimulatedCluster) -> None:
    claim = first(grown)
    name, taken = claim.node_name, list[str]()

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        if method == "GET" and path.split("?", maxsplit=1)[0].endswith("/pods") and not taken:
            taken.append(path)
            take_the_name(grown, name)
        return do()

    def delete_the_node() -> None:
        grown.kube.objects.pop(("nodes", "", name))
        grown.kube.fault = fault

    retired(grown, "forget_nodes", delete_the_node)

    assert taken
    assert pods_on(grown, name) == ["stranger"]


def test_a_retirement_that_is_undone_removes_no_taint_of_another_node_of_the_name(grown: SimulatedCluster) -> None:
    claim = first(grown)
    name, taken = claim.node_name, list[str]()

    def fault(method: str, path: str, do: Callable[[], Any]) -> Any:
        answer = do()
        if method == "GET" and path.split("?", maxsplit=1)[0].endswith("/nodes") and not taken:
            taken.append(path)
            take_the_name(grown, name)
            grown.kube.objects["nodes", "", name]["spec"]["taints"] = [{"key": DISRUPTED, "effect": "NoSchedule"}]
        return answer

    grown.kube.fault = fault
    done = RetirementExecution(grown, "retire-1").run(
        RetirementRequest(claim.name, RetirementReason.EMPTY, claim.instance_id)
    )

    assert taken
    assert done.left_out == {claim.name: "its node is not empty"}
    assert [each["key"] for each in grown.kube.objects["nodes", "", name]["spec"]["taints"]] == [DISRUPTED]


def test_a_node_that_took_the_name_since_is_neither_filled_nor_opened(grown: SimulatedCluster) -> None:
    claim = first(grown)
    step = ClaimProgress(claim, "ready", "may take pods", node=read_node(grown.kube.get(kinds.NODES, claim.node_name)))
    take_the_name(grown, claim.node_name)
    grown.kube.objects["nodes", "", claim.node_name]["spec"]["taints"] = [{"key": FILLING, "effect": "NoSchedule"}]

    records = JoiningRecords(grown.kube, grown.ledger, int(NOON.timestamp()))
    (after,) = NodeOpening(grown.kube, grown.ledger, records, NOON, BindingTimes()).open("up-1", [step])

    assert after.stage == "ready"
    node = grown.kube.objects["nodes", "", claim.node_name]
    assert [each["key"] for each in node["spec"]["taints"]] == [FILLING]
    assert INITIALIZED not in node["metadata"]["labels"]
