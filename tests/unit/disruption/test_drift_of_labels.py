"""Drift of the nodes of a pool whose template has labels that the instance decides."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.disruption.drift import DesiredNodes, Drift, NotCompared, ObservedInstance, apply_drift, find_drift
from joiner.launching import PairedInstance
from joiner.lifecycle.launched_claims import launched_claim
from joiner.pools import Image, NodeClaim, NodeClass, NodePool, ResolvedNodeClass, SecurityGroup, Subnet, read_manifests
from joiner.pools.drift_hashes import build_hash_annotations

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
REGION = "topology.kubernetes.io/region"
ARCH = {"kubernetes.io/arch": "amd64"}
PLACES = ("us-east-1a", "eu-west-1a")
(POOL,) = read_manifests(
    [
        {
            "kind": "NodePool",
            "metadata": {"name": "web"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"team": "web", REGION: "us-east-1"}},
                    "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
                }
            },
        }
    ]
).pools
CLASS = NodeClass("default", generation=1)
DESIRED = DesiredNodes(
    {POOL.key: POOL},
    {CLASS.key: CLASS},
    {
        CLASS.key: ResolvedNodeClass(
            "default",
            "EC2NodeClass",
            subnets=(Subnet("subnet-a", "us-east-1a"),),
            security_groups=(SecurityGroup("sg-1"),),
            images=(Image("ami-1", "amd64"),),
            generation=1,
        )
    },
    Catalogue.of(
        [InstanceType("m5.large", labels=ARCH, offerings=tuple(Offering(one, "on-demand", 0.1) for one in PLACES))]
    ),
    {"i-1": ObservedInstance("ami-1", "subnet-a", frozenset({"sg-1"}))},
)


def launched(zone: str) -> NodeClaim:
    """Return a claim of POOL that was launched in a zone two hours ago."""
    planned = NodeClaim(
        "web-a",
        class_ref=POOL.class_ref,
        pool="web",
        labels={"team": "web"},
        annotations=build_hash_annotations(POOL, CLASS),
        created=NOON - timedelta(hours=2),
    )
    instance = PairedInstance("i-1", "web-a", "m5.large", zone, "on-demand", "ami-1", 0.1)
    return launched_claim(planned, instance, labels=ARCH, capacity=None, allocatable=None, at=NOON)


def test_a_node_in_the_region_that_a_label_of_the_template_names_is_not_drifted() -> None:
    assert find_drift(launched("us-east-1a"), DESIRED, NOON) is None


@pytest.mark.parametrize("pools", [{}, {POOL.key: replace(POOL, deleting=True)}], ids=["invalid", "being deleted"])
def test_a_node_of_a_pool_that_cannot_be_compared_keeps_its_condition(pools: dict[str, NodePool]) -> None:
    """The time since when it is drifted decides about canaries and the order of replacements."""
    drifted = launched("us-east-1a").with_condition("Drifted", "True", "AMIDrift", at=NOON - timedelta(hours=1))
    found = find_drift(drifted, replace(DESIRED, pools=pools), NOON)

    assert isinstance(found, NotCompared) and "NodePool/web" in found.message
    assert apply_drift(drifted, found, at=NOON) == drifted


def test_a_node_in_another_region_is_drifted() -> None:
    message = f"it no longer meets the requirements of NodePool/web: {REGION} is eu-west-1, wanted In [us-east-1]"

    assert find_drift(launched("eu-west-1a"), DESIRED, NOON) == Drift("RequirementsDrifted", message)


@pytest.mark.parametrize("label", [{REGION: "eu-west-1"}, {"team": "db"}])
def test_a_changed_label_of_the_template_drifts_its_nodes(label: dict[str, str]) -> None:
    own = {key: value for key, value in label.items() if key == "team"}
    changed = replace(POOL, labels={**POOL.labels, **own}, instance_labels=POOL.instance_labels if own else label)
    message = "the template of NodePool/web was changed after the launch"

    found = find_drift(launched("us-east-1a"), replace(DESIRED, pools={POOL.key: changed}), NOON)

    assert found == Drift("NodePoolDrifted", message)
