"""A recording does not change the assignments of a later execution, whose claims it did not list."""

from typing import Any

from tests.unit.functions.scale_up import SimulatedCluster, pending


def test_a_recording_that_outlived_its_lease_drops_no_assignment_of_its_successor(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"))
    world.machine.assign("default-of-a-later-lease", {"x": 1}, lease_number=99)
    world.machine.assign("default-of-nobody", {"x": 1}, lease_number=1)

    def assign_meanwhile(method: str, path: str, do: Any) -> Any:
        answer = do()
        if "plan_capacity" in world.answers and method == "GET" and path.endswith("nodeclaims"):
            world.kube.fault = None
            world.machine.assign("default-written-meanwhile", {"x": 1}, lease_number=1)
        return answer

    world.kube.fault = assign_meanwhile
    world.stop_after = "record_node_claims"
    world.scale_up("up-1")

    (mine,) = (
        name
        for name in world.ledger.assignments()
        if name not in ("default-of-a-later-lease", "default-written-meanwhile")
    )
    assert {"default-of-a-later-lease", "default-written-meanwhile"} < set(world.ledger.assignments())
    assert mine != "default-of-nobody"
