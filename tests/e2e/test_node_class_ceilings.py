"""A node class outside the settings, or without a permission: it has a condition, and nothing is launched."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from joiner.item_keys import BACKOFF, OF_VALIDATIONS, item_key
from joiner.names import INSTANCE_TYPE
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


@pytest.mark.denied("a policy denies RunInstances for a tag of the class")
def test_a_class_whose_launches_a_policy_denies_is_not_ready_until_the_policy_is_gone(empty: Actor) -> None:
    iam, dynamodb = empty.world.client("iam"), empty.world.client("dynamodb")
    function = empty.world.client("lambda").get_function_configuration(FunctionName=empty.outputs["LaunchFunction"])
    role = function["Role"].rpartition("/")[2]
    tagged = {"StringEquals": {"aws:RequestTag/team": "web"}}
    denied = {"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*", "Condition": tagged}
    document = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
    iam.put_role_policy(RoleName=role, PolicyName="guardrail", PolicyDocument=document)
    try:
        one_type = node_pool("bounded", {INSTANCE_TYPE: ["m5.large"]})
        empty.create(bounded(tags={"team": "web"}), node_class("other"), one_type)
        assert empty.sweep() == "SUCCEEDED"
        refusal = refused(empty, "ValidationSucceeded")
        other = empty.world.kube.get("/apis/karpenter.k8s.aws/v1/ec2nodeclasses/other")
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="guardrail")

    assert refusal["reason"] == "RunInstancesAuthCheckFailed"
    assert "the role of launch_instances may not ec2:RunInstances on arn:aws:ec2:" in refusal["message"]
    assert "with an explicit deny in an identity-based policy" in refusal["message"]
    assert condition(other, "Ready") == "True"

    empty.create(deployment("patient"))
    until(lambda: any("EC2 refuses RunInstances" in each["note"] for each in empty.events()), what="the pod's event")
    dynamodb.update_item(  # as if five minutes had passed
        TableName=empty.outputs["TableName"],
        Key=item_key(BACKOFF, f"{OF_VALIDATIONS}EC2NodeClass/bounded"),
        UpdateExpression="SET #at = #at - :passed",
        ExpressionAttributeNames={"#at": "at"},
        ExpressionAttributeValues={":passed": {"N": "300"}},
    )
    empty.forget("DRIFT", "ANSWERED")
    assert empty.sweep() == "SUCCEEDED"
    until(lambda: condition(empty.world.kube.get(CLASS), "Ready") == "True", what="the class's Ready True")
    empty.forget("ANSWERED")
    assert empty.sweep() == "SUCCEEDED"
    empty.wait_running(1, "patient")


def test_the_deployment_reports_whether_the_doorbell_is_reachable(empty: Actor) -> None:
    assert (
        empty.outputs["ControlPlaneEgress"]
        == "AWS_MANAGED: the control plane reaches the doorbell without any setting of yours"
    )
