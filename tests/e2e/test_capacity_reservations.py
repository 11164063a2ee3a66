"""A pool with a capacity reservation: its instances are used first, others are on-demand, and no other pool uses it.

Capacity blocks and interruptible reservations are launched in their market, and their nodes are drained before EC2
terminates them.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
RESERVATION_TYPE = "karpenter.k8s.aws/capacity-reservation-type"
RESERVATION_INTERRUPTIBLE = "karpenter.k8s.aws/capacity-reservation-interruptible"
CLASS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/bounded"


@pytest.fixture
def reserving(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()
    deployed.knob("reservations", clear=True)


def pool(*allowed: str) -> Object:
    zone = {"topology.kubernetes.io/zone": ["us-east-1a"]}
    return node_pool("bounded", {CAPACITY_TYPE: allowed, INSTANCE_TYPE: ["m5.large"], **zone})


def selecting(reservation: str) -> Object:
    made = node_class("bounded")
    made["spec"]["capacityReservationSelectorTerms"] = [{"id": reservation}]
    return made


def held(actor: Actor) -> list[str]:
    return sorted(one.get("CapacityReservationId") or "" for one in actor.instances())


def labels(actor: Actor) -> list[tuple[str, str]]:
    node_labels: list[dict[str, Any]] = [one["metadata"].get("labels") or {} for one in actor.nodes()]
    return sorted((one.get(CAPACITY_TYPE, ""), one.get(RESERVATION, "")) for one in node_labels if CAPACITY_TYPE in one)


def test_a_reservation_is_used_first_and_the_other_nodes_are_on_demand(reserving: Actor) -> None:
    reservation = str(reserving.knob("reservations", instanceType="m5.large", zone="us-east-1a", count=1)["id"])
    reserving.create(selecting(reservation), pool("reserved", "on-demand"), deployment("web", replicas=2))

    reserving.wait_running(2, "web")
    reserving.rest()

    assert held(reserving) == ["", reservation]
    assert labels(reserving) == [("on-demand", ""), ("reserved", reservation)]
    (shown,) = reserving.world.kube.get(CLASS)["status"]["capacityReservations"]
    assert (shown["id"], shown["instanceType"], shown["state"]) == (reservation, "m5.large", "active")


def test_an_open_reservation_that_no_class_selects_is_not_used(reserving: Actor) -> None:
    reserving.knob("reservations", instanceType="m5.large", zone="us-east-1a", count=1, match="open")
    reserving.create(node_class("bounded"), pool("on-demand"), deployment("web"))

    reserving.wait_running(1, "web")
    reserving.rest()

    assert held(reserving) == [""]
    reserving.assert_at_rest()


def market_of(actor: Actor, reservation: str) -> tuple[str, str]:
    """Return the market type and the preference in the launch template for a reservation. The local EC2 refuses a fleet
    whose target capacity type is another."""
    ec2 = actor.world.client("ec2")
    for template in ec2.describe_launch_templates()["LaunchTemplates"]:
        name = template["LaunchTemplateName"]
        versions = ec2.describe_launch_template_versions(LaunchTemplateName=name, Versions=["1"])
        data = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        specification = data.get("CapacityReservationSpecification") or {}
        if (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId") == reservation:
            market = data.get("InstanceMarketOptions", {}).get("MarketType", "")
            return market, specification["CapacityReservationPreference"]
    raise AssertionError(f"no launch template names {reservation}")


@pytest.mark.parametrize(
    ("asked", "end", "market"),
    [
        ({"type": "capacity-block", "endsInSeconds": 7200}, "expire", "capacity-block"),
        ({"interruptible": True}, "reclaim", "interruptible-capacity-reservation"),
    ],
    ids=["capacity block", "interruptible"],
)
def test_a_node_in_capacity_that_ends_is_launched_in_its_market_and_drained_before_the_end(
    reserving: Actor, asked: dict[str, Any], end: str, market: str
) -> None:
    place = {"instanceType": "m5.large", "zone": "us-east-1a", "count": 1, "match": "targeted"}
    reservation = str(reserving.knob("reservations", **place, **asked)["id"])
    reserving.create(selecting(reservation), pool("reserved", "on-demand"), deployment("web"))
    reserving.wait_running(1, "web")
    reserving.rest()
    (instance,) = reserving.instances()
    assert instance["CapacityReservationId"] == reservation
    assert market_of(reserving, reservation) == (market, "capacity-reservations-only")
    (node,) = [one for one in reserving.nodes() if RESERVATION in one["metadata"]["labels"]]
    labels = node["metadata"]["labels"]
    assert labels[RESERVATION_TYPE] == asked.get("type", "default")
    assert labels[RESERVATION_INTERRUPTIBLE] == str(asked.get("interruptible", False)).lower()

    identity = instance["InstanceId"]
    if end == "expire":
        reserving.knob("reservations", expire=reservation, grace=120)
    else:
        reserving.knob("reclaim", instanceId=identity, grace=120)
    until(lambda: [each["InstanceId"] for each in reserving.instances()] != [identity], what="another node", limit=60)
    until(lambda: held(reserving) == [""], what="the end of the drained node", limit=90)
    reserving.wait_running(1, "web")

    (gone,) = reserving.world.client("ec2").describe_instances(InstanceIds=[identity])["Reservations"][0]["Instances"]
    assert gone["StateReason"]["Code"] == "Client.UserInitiatedShutdown", "EC2 ended it, not Joiner"
    notes = {event["note"] for event in reserving.events()}
    assert "Retiring: its capacity reservation is about to be reclaimed" in notes
