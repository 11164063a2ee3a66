"""The admission policies let Joiner drain and delete closed nodes only, so a node that is open again at the end is
closed first.
"""

from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import DISRUPTED
from tests.unit.functions.grown_cluster import first, grow, nothing_is_left_of, pods_on
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster


def test_a_node_that_was_opened_again_is_closed_before_its_pods_and_it_are_deleted(cluster: SimulatedCluster) -> None:
    claim = first(grow(cluster))
    [pod] = pods_on(cluster, claim.node_name)
    cluster.ec2.instances[claim.instance_id]["State"] = {"Name": "stopped"}

    def open_again(state: str) -> None:
        if state == "forget_nodes":
            taints = cluster.kube.objects["nodes", "", claim.node_name]["spec"]["taints"]
            assert [taint["key"] for taint in taints] == [DISRUPTED]
            taints.clear()
            cluster.kube.asked.clear()

    done = RetirementExecution(cluster, "opened", before_state=open_again).run(
        RetirementRequest(claim.name, RetirementReason.LOST), passes=1
    )

    assert done.entries[0]["stage"] == "forgotten"
    nothing_is_left_of(cluster, claim)
    node, its_pod = f"/api/v1/nodes/{claim.node_name}", f"/api/v1/namespaces/default/pods/{pod}"
    acts = [
        call
        for call in cluster.kube.asked
        if call.startswith(("PATCH", "DELETE")) and call.split()[1] in (node, its_pod)
    ]
    assert acts[:4] == [f"PATCH {node}", f"PATCH {its_pod}", f"DELETE {its_pod}", f"DELETE {node}"]
