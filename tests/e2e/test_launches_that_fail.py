"""Launches that EC2 refuses or terminates: the reason is on the objects, and launches have a back-off."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e


@pytest.fixture
def failing(pool: Actor) -> Iterator[Actor]:
    """Scenario c's pool; EC2 is restored afterwards."""
    yield pool
    pool.knob("early-terminations", clear=True)
    pool.knob("visibility", seconds=0)
    pool.knob("spot-role", exists=True)
    forget(pool, "BACKOFF", "ANSWERED", "UNAVAILABLE")


def items(actor: Actor, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = actor.world.client("dynamodb").query(
        TableName=actor.outputs["TableName"],
        KeyConditionExpression="kind = :kind",
        ExpressionAttributeValues={":kind": {"S": kind}},
        ConsistentRead=True,
    )["Items"]
    return found


def forget(actor: Actor, *kinds: str) -> None:
    """End the back-off: delete the table's items of these kinds."""
    client = actor.world.client("dynamodb")
    for kind in kinds:
        for item in items(actor, kind):
            client.delete_item(TableName=actor.outputs["TableName"], Key={"kind": item["kind"], "id": item["id"]})


def notes(actor: Actor, kind: str, reason: str) -> list[str]:
    """Return the notes of events with this reason on objects of this kind."""
    return [each["note"] for each in actor.events() if each["regarding"]["kind"] == kind and each["reason"] == reason]


@pytest.mark.long("deaths at launch in unit tests")
def test_instances_that_end_after_launch_are_reported_and_launched_with_a_back_off(failing: Actor) -> None:
    failing.knob("early-terminations", code="Client.VolumeLimitExceeded", afterSeconds=0.2)
    before = failing.instances_ever()

    failing.create(deployment("doomed"))
    until(lambda: items(failing, "BACKOFF"), what="a wait", limit=90)
    until(lambda: notes(failing, "Pod", "NotTriggerScaleUp"), what="the event of the pod", limit=60)
    failing.rest()
    for _ in range(3):
        failing.sweep()
        failing.rest()

    assert len(failing.instances_ever() - before) <= 3  # the retry, and one that was on its way when it died
    message = "Client.VolumeLimitExceeded: Volume limit exceeded"
    assert any(
        message in each and "Service Quotas" in each
        for each in notes(failing, "NodeClaim", "InstanceEndedAtLaunch")
        + notes(failing, "Machine", "InstanceEndedAtLaunch")
    )
    assert any(message in each for each in notes(failing, "Provisioner", "InstanceEndedAtLaunch"))
    assert any(message in each for each in notes(failing, "Pod", "NotTriggerScaleUp"))
    template = failing.world.kube.items("/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates")[0]
    assert message in json.dumps(template["status"])
    assert failing.claims() == []

    failing.knob("early-terminations", clear=True)
    forget(failing, "BACKOFF", "ANSWERED")
    failing.sweep()
    failing.wait_running(1, "doomed")
    failing.end("doomed")
