"""A node class outside the settings: it has a condition, and nothing is launched."""

from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import condition, until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

CLASS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/bounded"


@pytest.fixture
def empty(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.world.client("ec2").reset_ebs_default_kms_key_id()
    deployed.clean()


def bounded(**spec: Any) -> Object:
    made = node_class("bounded")
    made["spec"] |= spec
    return made


def refused(actor: Actor, kind: str) -> dict[str, Any]:
    """Return the class's condition once it is False; check that nothing was launched."""

    def look() -> dict[str, Any] | None:
        found = actor.world.kube.get(CLASS)
        return found if condition(found, kind) == "False" and condition(found, "Ready") == "False" else None

    found = until(look, what=f"the class's {kind} False", limit=90)
    assert actor.instances() == []
    return next(dict(each) for each in found["status"]["conditions"] if each["type"] == kind)


def works(actor: Actor) -> None:
    """Fix the class and wait until its pod runs."""
    actor.create(bounded())
    actor.wait_running(1, "patient")


def test_a_class_with_a_subnet_that_is_not_the_clusters_is_refused(empty: Actor) -> None:
    ec2 = empty.world.client("ec2")
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="172.31.252.0/24", AvailabilityZone="us-east-1a")["Subnet"][
        "SubnetId"
    ]
    try:
        empty.create(bounded(subnetSelectorTerms=[{"id": subnet}]), node_pool("bounded"), deployment("patient"))
        refusal = refused(empty, "SubnetsReady")
    finally:
        ec2.delete_subnet(SubnetId=subnet)

    assert refusal["reason"] == "SubnetNotAllowed"
    assert f"spec.subnetSelectorTerms: the settings do not allow the subnet {subnet}; they allow" in refusal["message"]
    works(empty)


def test_a_class_with_an_image_owner_outside_the_settings_is_refused(empty: Actor) -> None:
    terms = [{"owner": "099720109477", "name": "*"}]
    empty.create(bounded(amiFamily="AL2023", amiSelectorTerms=terms), node_pool("bounded"), deployment("patient"))

    refusal = refused(empty, "AMIsReady")

    assert refusal["reason"] == "ImageOwnerNotAllowed"
    assert "spec.amiSelectorTerms[0].owner: nodes may not boot images of 099720109477" in refusal["message"]


def test_a_default_kms_key_without_a_grant_is_refused_before_a_launch(empty: Actor) -> None:
    key = empty.world.client("kms").create_key()["KeyMetadata"]["Arn"]
    empty.world.client("ec2").modify_ebs_default_kms_key_id(KmsKeyId=key)
    empty.create(bounded(), node_pool("bounded"), deployment("patient"))

    refusal = refused(empty, "ValidationSucceeded")

    assert refusal["reason"] == "DefaultKMSKeyNotAllowed"
    assert key in refusal["message"]


def test_the_deployment_reports_whether_the_doorbell_is_reachable(empty: Actor) -> None:
    assert (
        empty.outputs["ControlPlaneEgress"]
        == "AWS_MANAGED: the control plane reaches the doorbell without any setting of yours"
    )
