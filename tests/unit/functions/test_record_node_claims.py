"""A recording does not change the assignments of a later execution, whose claims it did not list."""

from typing import Any

from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


def test_a_recording_that_outlived_its_lease_drops_no_assignment_of_its_successor(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.machine.assign("default-of-a-later-lease", {"x": 1}, lease_number=99)
    cluster.machine.assign("default-of-nobody", {"x": 1}, lease_number=1)

    def assign_meanwhile(method: str, path: str, do: Any) -> Any:
        answer = do()
        if "plan_capacity" in cluster.answers and method == "GET" and path.endswith("nodeclaims"):
            cluster.kube.fault = None
            cluster.machine.assign("default-written-meanwhile", {"x": 1}, lease_number=1)
        return answer

    cluster.kube.fault = assign_meanwhile
    cluster.stop_after = "record_node_claims"
    cluster.scale_up("up-1")

    (mine,) = (
        name
        for name in cluster.ledger.assignments()
        if name not in ("default-of-a-later-lease", "default-written-meanwhile")
    )
    assert {"default-of-a-later-lease", "default-written-meanwhile"} < set(cluster.ledger.assignments())
    assert mine != "default-of-nobody"
