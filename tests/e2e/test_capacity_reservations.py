"""A pool with a capacity reservation: its instances are used first, others are on-demand, and no other pool uses it."""

from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
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
