"""EC2 has no capacity: the same execution uses the next offering, and the pod has an event if there is none."""

from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

PROVISIONER = "/apis/karpenter.sh/v1alpha5/provisioners/default"


@pytest.fixture
def short(deployed: Actor) -> Iterator[Actor]:
    """Scenario a's pool, with two types in two zones; EC2's capacity is restored afterwards."""
    deployed.clean()
    deployed.apply("a-inline-provider.yaml")
    deployed.rest()
    yield deployed
    deployed.knob("capacity", clear=True)
    deployed.clean()


def marks(actor: Actor) -> dict[str, int]:
    """Return the unavailable offerings, and until when they are unavailable."""
    items = actor.world.client("dynamodb").query(
        TableName=actor.outputs["TableName"],
        KeyConditionExpression="kind = :kind",
        ExpressionAttributeValues={":kind": {"S": "UNAVAILABLE"}},
        ConsistentRead=True,
    )["Items"]
    return {item["id"]["S"]: int(item["until"]["N"]) for item in items}


def let_three_minutes_pass(actor: Actor) -> None:
    """Delete the table's items of unavailable offerings."""
    client, table = actor.world.client("dynamodb"), actor.outputs["TableName"]
    for offering in marks(actor):
        client.delete_item(TableName=table, Key={"kind": {"S": "UNAVAILABLE"}, "id": {"S": offering}})


def planning(actor: Actor, known: list[dict[str, Any]]) -> list[list[str]]:
    """Return the states of the executions that planned."""
    entered = [actor.states_of(e["executionArn"]) for e in actor.since(known)]
    return [states for states in entered if "Plan capacity" in states]


def test_the_same_execution_launches_the_next_offering_and_the_first_is_unavailable_for_three_minutes(
    short: Actor,
) -> None:
    short.knob("capacity", instanceType="m5.large", available=0)
    known = short.executions()

    short.create(deployment("first"))
    short.wait_running(1, "first")
    short.rest()

    (states,) = planning(short, known)
    assert states.count("Plan around them") >= 1
    assert {instance["InstanceType"] for instance in short.instances()} == {"m5.2xlarge"}
    now = (
        short.world.client("stepfunctions")
        .describe_execution(executionArn=short.since(known)[0]["executionArn"])["startDate"]
        .timestamp()
    )
    remembered = marks(short)
    assert {offering.split("#")[1] for offering in remembered} == {"m5.large"}
    assert all(170 < until - now < 230 for until in remembered.values())

    known = short.executions()
    short.create(deployment("second", cpu="7"))
    short.wait_running(1, "second")
    short.rest()
    (states,) = planning(short, known)
    assert "Plan around them" not in states
    assert {instance["InstanceType"] for instance in short.instances()} == {"m5.2xlarge"}
    short.assert_at_rest()


def test_without_any_capacity_the_pod_has_an_event_the_execution_succeeds_and_later_sweeps_retry(
    short: Actor,
) -> None:
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    short.world.kube.merge(
        PROVISIONER, {"spec": {"requirements": requirements}}
    )  # few offerings are tried in few rounds
    short.knob("capacity", available=0)
    short.rest()
    known = short.executions()

    short.create(deployment("patient"))
    note = until(lambda: _note(short, "patient"), what="an event on the pod that says so", limit=60)
    short.rest()

    assert "short of capacity" in note
    assert "m5.large in us-east-1" in note
    assert {e["status"] for e in short.since(known)} == {"SUCCEEDED"}
    assert (short.claims(), short.instances()) == ([], [])

    # Nothing changed: neither a sweep nor a ring costs a plan
    known = short.executions()
    assert short.sweep() == "SUCCEEDED"
    short.rest()
    assert planning(short, known) == []

    # The offerings may be asked for again, and are short still: tried once more, and remembered once more
    known = short.executions()
    let_three_minutes_pass(short)
    for _ in range(3):  # a sweep ends at once while the one of the schedule has the turn
        assert short.sweep() == "SUCCEEDED"
        short.rest()
        if planning(short, known):
            break
    assert len(planning(short, known)) == 1
    assert marks(short)  # EC2 was asked, and refused

    short.knob("capacity", clear=True)
    let_three_minutes_pass(short)
    assert short.sweep() == "SUCCEEDED"
    short.wait_running(1, "patient")
    short.assert_at_rest()


def _note(actor: Actor, app: str) -> str:
    names = {pod["metadata"]["name"] for pod in actor.pods(app)}
    found = [
        event["note"]
        for event in actor.events()
        if event["reason"] == "NotTriggerScaleUp" and event["regarding"]["name"] in names
    ]
    return found[0] if found else ""
