"""What must hold when no execution runs any more."""

from joiner.adapters import kube_kinds as kinds
from joiner.names import FILLING, UNREGISTERED
from joiner.pools import read_node_claim
from tests.pairings import recorded_pairings
from tests.unit.functions.simulated_cluster import SimulatedCluster


def nothing_is_left(cluster: SimulatedCluster) -> None:
    """Assert one instance a claim, one claim an instance, all pods running, and no lease, wave, launch, assignment or
    taint of ours.
    """
    claims = [read_node_claim(manifest) for manifest in cluster.kube.all(kinds.NODECLAIMS)]
    assert [claim.name for claim in claims if not claim.initialized] == []
    assert sorted(claim.instance_id for claim in claims) == sorted(cluster.ec2.instances)
    paired = recorded_pairings(cluster.ledger._client, cluster.ledger._table)
    assert {pairing.instance: pairing.claim for pairing in paired} == {c.instance_id: c.name for c in claims}
    assert [pod["metadata"]["name"] for pod in cluster.kube.all(kinds.PODS) if not pod["spec"].get("nodeName")] == []
    taints = [taint["key"] for node in cluster.kube.all(kinds.NODES) for taint in node["spec"]["taints"]]
    assert set(taints) & {FILLING, UNREGISTERED} == set()
    assert cluster.ledger.lease().holder == ""
    assert cluster.ledger.waves() == []
    assert cluster.ledger.unrecorded_launches() == []
    assert cluster.ledger.assignments() == {}
