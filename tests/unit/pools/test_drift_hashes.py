"""The hashes of pool and class in a claim change with everything that determines a node, and with nothing else."""

from dataclasses import replace

import pytest

from joiner.cluster import Requirements, Resources, Taint
from joiner.pools import BlockDevice, NodeClass, NodeClassRef, NodePool, SubnetTerm
from joiner.pools.drift_hashes import OF_CLASS, OF_POOL, build_hash_annotations, hash_fields

POOL = NodePool(
    "default",
    NodeClassRef("EC2NodeClass", "default"),
    labels={"team": "a"},
    taints=(Taint("x", "NoSchedule"), Taint("y", "NoSchedule")),
)
CLASS = NodeClass("default", role="nodes", tags={"a": "1", "b": "2"})


def test_the_order_in_a_manifest_does_not_change_the_hash() -> None:
    turned = replace(POOL, taints=tuple(reversed(POOL.taints)))
    assert hash_fields(turned, OF_POOL) == hash_fields(POOL, OF_POOL)
    assert hash_fields(replace(CLASS, tags={"b": "2", "a": "1"}), OF_CLASS) == hash_fields(CLASS, OF_CLASS)


@pytest.mark.parametrize(
    "other",
    [replace(POOL, labels={"team": "b"}), replace(POOL, taints=POOL.taints[:1]), replace(POOL, expire_after=None)],
    ids=["labels", "taints", "expireAfter"],
)
def test_each_property_of_a_node_changes_the_hash(other: NodePool) -> None:
    assert hash_fields(other, OF_POOL) != hash_fields(POOL, OF_POOL)


def test_selectors_do_not_change_the_hash() -> None:
    chosen = Requirements.from_kube([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}])
    assert hash_fields(
        replace(POOL, requirements=chosen, limits=Resources.from_kube({"cpu": "5"}), weight=7), OF_POOL
    ) == hash_fields(POOL, OF_POOL)
    assert hash_fields(replace(CLASS, subnet_terms=(SubnetTerm(id="subnet-1"),)), OF_CLASS) == hash_fields(
        CLASS, OF_CLASS
    )
    assert hash_fields(replace(CLASS, block_devices=(BlockDevice("/dev/xvda", 40),)), OF_CLASS) != hash_fields(
        CLASS, OF_CLASS
    )


def test_a_claim_has_both_hashes_under_the_names_of_karpenter() -> None:
    found = build_hash_annotations(POOL, CLASS)
    assert found["karpenter.sh/nodepool-hash"] == hash_fields(POOL, OF_POOL)
    assert found["karpenter.k8s.aws/ec2nodeclass-hash"] == hash_fields(CLASS, OF_CLASS)
    assert set(build_hash_annotations(replace(POOL, kind="Provisioner"), None)) == {
        "karpenter.sh/provisioner-hash",
        "karpenter.sh/provisioner-hash-version",
    }
