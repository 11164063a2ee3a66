"""What is written for planned nodes: claims and assignments, and never those of a later execution."""

from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.planning import PlanPolicies
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NODEPOOL, pending

RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"


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


@pytest.mark.parametrize(("least", "relaxed"), [(1, "false"), (9, "true")])
def test_a_claim_whose_launch_has_fewer_values_than_min_values_says_so(
    least: int, relaxed: str, cluster: SimulatedCluster
) -> None:
    types = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": least}
    cluster.prepare(pending("web-1"))
    pool = {**NODEPOOL["spec"]["template"]["spec"]}
    pool["requirements"] = [*pool["requirements"], types]
    cluster.kube.put({**NODEPOOL, "spec": {"template": {"spec": pool}}})
    cluster.policies = PlanPolicies(best_effort=True)

    cluster.scale_up("up-1")

    claims = cluster.kube.all(kinds.NODECLAIMS)
    assert [claim["metadata"]["annotations"].get(RELAXED) for claim in claims] == [relaxed]
