"""A claim rebuilt from its node."""

from dataclasses import replace

from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.claim_rebuilding import rebuilt_claim
from joiner.pools import NodeClaim, NodeClassRef, NodePool, read_node_claim, write_claim_status, write_node_claim
from tests.unit.lifecycle.joining_nodes import NOON, node

LABELS = {
    "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "nodes",
    "karpenter.sh/registered": "true",
    "karpenter.sh/initialized": "true",
    "node.kubernetes.io/instance-type": "m5.large",
    "karpenter.sh/capacity-type": "spot",
    "team": "a",
}
POOL = NodePool("default", NodeClassRef("EC2NodeClass", "nodes"), expire_after=3600, uid="pool-1")


def rebuilt(labels: dict[str, str], pool: NodePool | None = POOL, name: str = "default-x") -> NodeClaim:
    claim = rebuilt_claim(node("node-1", labels=labels), pool, name, at=NOON)
    assert claim is not None
    return claim


def test_a_rebuilt_claim_is_the_claim_of_its_node_in_all_that_its_node_shows() -> None:
    claim = rebuilt(LABELS)

    assert (claim.name, claim.kind, claim.pool_key, claim.pool_uid) == (
        "default-x",
        "NodeClaim",
        "NodePool/default",
        "pool-1",
    )
    assert (claim.provider_id, claim.node_name) == ("aws:///us-east-1a/i-1", "node-1")
    assert (claim.instance_type, claim.capacity_type, claim.zone, claim.labels["team"]) == (
        "m5.large",
        "spot",
        "us-east-1a",
        "a",
    )
    assert (claim.launched, claim.registered, claim.initialized) == (True, True, True)
    assert (claim.expire_after, claim.class_ref) == (3600, NodeClassRef("EC2NodeClass", "nodes"))
    assert claim.finalizers == ("karpenter.sh/termination",)
    assert ClusterSurvey(now=NOON, nodes=(node("node-1"),), claims=(claim,)).node_of()[claim.key].name == "node-1"


def test_what_a_claim_writes_can_be_read_again() -> None:
    claim = rebuilt(LABELS)
    again = read_node_claim({**write_node_claim(claim), **write_claim_status(claim)})

    assert replace(again, capacity=claim.capacity, allocatable=claim.allocatable) == claim


def test_a_node_that_has_not_joined_fully_gets_a_claim_that_still_waits() -> None:
    claim = rebuilt(
        {
            key: value
            for key, value in LABELS.items()
            if key not in ("karpenter.sh/registered", "karpenter.sh/initialized")
        }
    )

    assert (claim.launched, claim.registered, claim.initialized) == (True, False, False)


def test_the_node_of_a_provisioner_gets_a_machine() -> None:
    labels = {**LABELS, "karpenter.sh/provisioner-name": "old"}
    del labels["karpenter.sh/nodepool"]

    claim = rebuilt(labels, None)
    assert (claim.kind, claim.pool_key, claim.labels["karpenter.sh/provisioner-name"]) == (
        "Machine",
        "Provisioner/old",
        "old",
    )


def test_without_its_pool_a_node_still_has_its_class() -> None:
    assert rebuilt(LABELS, None).class_ref == NodeClassRef("EC2NodeClass", "nodes")


def test_a_claim_whose_old_name_is_unknown_is_named_for_its_instance() -> None:
    assert rebuilt(LABELS, name="").name == "default-i-1"


def test_a_stranger_or_a_node_without_pool_and_class_gets_none() -> None:
    nameless = {key: value for key, value in LABELS.items() if key != "karpenter.k8s.aws/ec2nodeclass"}

    assert rebuilt_claim(node("node-1"), None, "a", at=NOON) is None
    assert rebuilt_claim(node("node-1", labels=nameless), None, "a", at=NOON) is None
    assert rebuilt_claim(node("node-1", labels=LABELS, provider_id=""), POOL, "a", at=NOON) is None
