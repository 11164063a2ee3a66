"""NodeOverlays: their conditions, conflicts, and launches for which EC2 follows the planner's order."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Conditions
from tests.unit.functions.scale_up import SimulatedCluster, pending
from tests.unit.functions.sweeping import claims

LARGE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
XLARGE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}


def put_overlay(world: SimulatedCluster, name: str, *requirements: dict[str, Any], **spec: Any) -> None:
    world.kube.put(
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": name, "generation": 1},
            "spec": {"requirements": list(requirements), **spec},
        }
    )


def conditions(world: SimulatedCluster) -> dict[str, str]:
    """Return the Ready condition of each overlay, with its message."""
    found = {}
    for overlay in world.kube.all(kinds.NODE_OVERLAYS):
        ready = Conditions.from_kube((overlay.get("status") or {}).get("conditions"))["Ready"]
        found[overlay["metadata"]["name"]] = f"{ready.status} {ready.reason}: {ready.message}"
    return found


def strategies(world: SimulatedCluster) -> list[Any]:
    return [one["OnDemandOptions"]["AllocationStrategy"] for one in world.ec2.fleet_requests]


def test_an_overlay_is_ready_without_a_pending_pod(world: SimulatedCluster) -> None:
    world.prepare()
    put_overlay(world, "savings", LARGE, priceAdjustment="-30%")

    world.scale_up("up-1")

    assert conditions(world) == {"savings": "True Ready: "}


def test_an_invalid_overlay_reports_the_field_and_the_remedy(world: SimulatedCluster) -> None:
    world.prepare()
    put_overlay(world, "low", LARGE, price="cheap")

    world.scale_up("up-1")

    assert conditions(world) == {
        "low": 'False RuntimeValidation: ValidationSucceeded: spec.price is cheap: give $/h as a text, such as "0.25"'
    }


def test_of_two_contradicting_overlays_the_last_by_name_is_used_until_it_is_deleted(world: SimulatedCluster) -> None:
    world.prepare()
    put_overlay(world, "a", LARGE, price="0.5")
    put_overlay(world, "b", LARGE, XLARGE | {"values": ["m5.large", "m5.xlarge"]}, price="0.01")
    put_overlay(world, "elsewhere", XLARGE, price="0.02")

    world.scale_up("up-1")
    assert conditions(world) == {
        "a": "False Conflict: ValidationSucceeded: NodeOverlay/b has the same weight 0 and also sets the price of "
        "m5.large: give one of them another weight, or other requirements",
        "b": "True Ready: ",
        "elsewhere": "True Ready: ",
    }

    del world.kube.objects["nodeoverlays", "", "b"]
    world.now += timedelta(minutes=1)
    world.scale_up("up-2")
    assert conditions(world) == {"a": "True Ready: ", "elsewhere": "True Ready: "}


def test_ec2_follows_the_order_of_the_planner_where_an_overlay_changed_a_price(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"))
    put_overlay(world, "savings", XLARGE, priceAdjustment="-80%")

    world.scale_up("up-1")

    assert strategies(world) == ["prioritized"]
    assert [claim.instance_type for claim in claims(world)] == ["m5.xlarge"]


def test_ec2_chooses_by_its_own_price_where_no_overlay_counts(world: SimulatedCluster) -> None:
    world.prepare(pending("web-1"))
    elsewhere = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1f"]}
    put_overlay(world, "elsewhere", elsewhere, priceAdjustment="-80%")

    world.scale_up("up-1")

    assert strategies(world) == ["lowest-price"]
    assert [claim.instance_type for claim in claims(world)] == ["m5.large"]
