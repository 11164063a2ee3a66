"""Instances in trouble: scheduled changes, failing status checks, reservations that end, and recommendations of EC2.

Read from outside: what becomes of the node, its claim and its pods, and which events give the reason.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

LIMIT = 60.0
CHECKED_FOR = 130  # seconds; failing status checks count after 120
POOL = "/apis/karpenter.sh/v1/nodepools/trouble"


def trouble_pool(capacity_type: str) -> Object:
    requirements = {CAPACITY_TYPE: [capacity_type], INSTANCE_TYPE: ["m5.large"]}
    return node_pool("trouble", requirements, disruption=NEVER_DISRUPTED, expireAfter="Never")


@pytest.fixture
def standing(deployed: Actor) -> Iterator[Callable[[str], tuple[str, str]]]:
    """Create a node with a pod; return the names of its instance and its claim."""

    def make(capacity_type: str) -> tuple[str, str]:
        deployed.create(node_class("trouble"), trouble_pool(capacity_type))
        deployed.rest()
        deployed.create(deployment("web", cpu="1500m"))
        deployed.wait_running(1)
        deployed.rest()
        ((instance,), (claim,)) = deployed.instances(), deployed.claims()
        return instance["InstanceId"], str(claim["metadata"]["name"])

    deployed.clean()
    yield make
    deployed.clean()


def replaced(actor: Actor, instance: str) -> None:
    """Wait until the instance is gone and the pod runs on another node."""
    until(lambda: instance not in [each["InstanceId"] for each in actor.instances()], what="it gone", limit=LIMIT)
    actor.wait_running(1)


def notes(actor: Actor, claim: str) -> set[str]:
    return {each["note"] for each in actor.events() if each["regarding"]["name"] == claim}


def age_impairment(actor: Actor, instance: str) -> None:
    """Let `CHECKED_FOR` seconds pass for the recorded start of failing checks."""
    key = {"kind": {"S": "IMPAIRED"}, "id": {"S": instance}}
    values: dict[str, Any] = {":passed": {"N": str(CHECKED_FOR)}}
    actor.world.client("dynamodb").update_item(
        TableName=actor.outputs["TableName"],
        Key=key,
        UpdateExpression="SET since = since - :passed",
        ExpressionAttributeValues=values,
    )


def test_a_scheduled_change_of_aws_health_drains_the_node(
    deployed: Actor, standing: Callable[[str], tuple[str, str]]
) -> None:
    instance, claim = standing("on-demand")

    deployed.knob("health", instanceIds=[instance], startsIn=86_400)

    replaced(deployed, instance)
    assert "Retiring: AWS has scheduled maintenance, a stop or the retirement of its instance" in notes(deployed, claim)


def test_the_sweep_finds_scheduled_events_and_failing_checks(
    deployed: Actor, standing: Callable[[str], tuple[str, str]]
) -> None:
    instance, claim = standing("on-demand")
    deployed.knob("schedule-event", instanceId=instance, code="system-reboot", description="[Completed] done")
    deployed.knob("impair", instanceId=instance, check="system")
    assert deployed.sweep() == "SUCCEEDED"
    deployed.rest()
    assert [each["InstanceId"] for each in deployed.instances()] == [instance]

    age_impairment(deployed, instance)
    assert deployed.sweep() == "SUCCEEDED"
    replaced(deployed, instance)
    assert "Retiring: EC2's status checks of its instance have failed for two minutes" in notes(deployed, claim)

    deployed.rest()
    (second,) = deployed.instances()
    deployed.knob("schedule-event", instanceId=second["InstanceId"], code="instance-stop", startsIn=7200)
    assert deployed.sweep() == "SUCCEEDED"
    replaced(deployed, second["InstanceId"])


@pytest.mark.long("events of AWS Health; the others in unit tests")
def test_the_end_of_a_reservation_drains_and_a_recommendation_only_by_annotation(
    deployed: Actor, standing: Callable[[str], tuple[str, str]]
) -> None:
    instance, _ = standing("spot")
    deployed.knob("rebalance", instanceId=instance)
    until(lambda: deployed.item("RECOMMENDED", deployed.claims()[0]["metadata"]["name"]) != {}, what="its record")
    assert deployed.sweep() == "SUCCEEDED"
    deployed.rest()
    assert [each["InstanceId"] for each in deployed.instances()] == [instance]

    deployed.world.kube.merge(POOL, {"metadata": {"annotations": {"joiner.dev/rebalance": "drain"}}})
    deployed.rest()
    assert deployed.sweep() == "SUCCEEDED"
    replaced(deployed, instance)

    deployed.world.kube.merge(POOL, {"metadata": {"annotations": {"joiner.dev/rebalance": None}}})
    deployed.clean()
    reserved, claim = standing("on-demand")
    deployed.knob("reclaim", instanceId=reserved, grace=60)
    replaced(deployed, reserved)
    assert "Retiring: its capacity reservation is about to be reclaimed" in notes(deployed, claim)
