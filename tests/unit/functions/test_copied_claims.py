"""A NodeClaim that a user copied from one of Joiner's is launched like any other claim of a user."""

from datetime import timedelta
from typing import Any

import pytest

from joiner import names
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import Unreachable
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import claims, looked, retired
from tests.unit.functions.test_standalone_claims import created, launched, notes, swept

OF_A_SCALE_UP = {names.LEASE: "1", names.EXECUTION: "up-1"}


@pytest.mark.parametrize("lease", ["1", "99"], ids=["an ended lease", "a lease of another cluster"])
def test_a_claim_with_the_annotations_of_a_scale_up_that_did_not_write_it_is_launched(
    cluster: SimulatedCluster, lease: str
) -> None:
    cluster.prepare(pending("web-1")).scale_up("up-1")
    created(cluster, annotations={**OF_A_SCALE_UP, names.LEASE: lease})

    assert swept(cluster, 1)["unlaunchedClaims"] == 1

    (copy,) = (claim for claim in claims(cluster) if claim.name == "mine")
    assert copy.initialized and not {names.LEASE, names.EXECUTION} & set(copy.annotations)
    assert (
        "AnnotationsRemoved",
        "Its annotations joiner.dev/lease and joiner.dev/execution are removed: no scale-up wrote this claim. "
        "It is launched as a claim that a user created",
    ) in notes(cluster)
    assert len(cluster.ec2.instances) == 2


def test_a_copied_claim_without_capacity_stays_with_the_reason(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(), annotations=OF_A_SCALE_UP, resources={"requests": {"cpu": "64", "memory": "1Gi"}})

    for number in range(3):
        swept(cluster, number)

    assert launched(cluster)[:2] == ("False", "NotLaunchable")


def test_a_copied_claim_that_is_deleted_before_its_launch_is_retired(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(), annotations={**OF_A_SCALE_UP, names.LEASE: "99"})
    cluster.kube.objects["nodeclaims", "", "mine"]["metadata"]["finalizers"] = [names.TERMINATION_FINALIZER]
    cluster.kube.delete(kinds.NODECLAIMS, "mine")

    assert retired(looked(cluster, 1)[0]) == [("mine", "deleted")]


def test_a_claim_whose_creation_had_no_response_is_not_taken_for_one_of_a_user(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    written: list[str] = []

    def lose_the_response(method: str, path: str, do: Any) -> Any:
        answer = do()
        if method == "POST" and path.endswith("nodeclaims") and not written:
            written.append(answer["metadata"]["name"])
            raise Unreachable("no response", status=504)
        return answer

    cluster.kube.fault = lose_the_response
    cluster.stop_after = "record_node_claims"
    swept(cluster, 1)
    cluster.stop_after = ""
    cluster.now += timedelta(minutes=5)

    swept(cluster, 2)

    assert written and written[0] not in [claim.name for claim in claims(cluster)]
    assert len(cluster.ec2.instances) == 1
