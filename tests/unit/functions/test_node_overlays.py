"""NodeOverlays: their conditions, conflicts, and launches for which EC2 follows the planner's order."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Conditions
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import claims

LARGE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
XLARGE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}


def put_overlay(cluster: SimulatedCluster, name: str, *requirements: dict[str, Any], **spec: Any) -> None:
    cluster.kube.put(
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": name, "generation": 1},
            "spec": {"requirements": list(requirements), **spec},
        }
    )


def conditions(cluster: SimulatedCluster) -> dict[str, str]:
    """Return the Ready condition of each overlay, with its message."""
    found = {}
    for overlay in cluster.kube.all(kinds.NODE_OVERLAYS):
        ready = Conditions.from_kube((overlay.get("status") or {}).get("conditions"))["Ready"]
        found[overlay["metadata"]["name"]] = f"{ready.status} {ready.reason}: {ready.message}"
    return found


def strategies(cluster: SimulatedCluster) -> list[Any]:
    return [one["OnDemandOptions"]["AllocationStrategy"] for one in cluster.ec2.fleet_requests]


def test_an_overlay_is_ready_without_a_pending_pod(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_overlay(cluster, "savings", LARGE, priceAdjustment="-30%")

    cluster.scale_up("up-1")

    assert conditions(cluster) == {"savings": "True Ready: "}


def test_an_invalid_overlay_reports_the_field_and_the_remedy(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_overlay(cluster, "low", LARGE, price="cheap")

    cluster.scale_up("up-1")

    assert conditions(cluster) == {
        "low": 'False RuntimeValidation: ValidationSucceeded: spec.price is cheap: give $/h as a text, such as "0.25"'
    }


def test_an_overlay_that_no_offering_meets_is_reported_in_its_condition(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_overlay(cluster, "typo", LARGE | {"values": ["m5.lrage"]}, priceAdjustment="-30%")

    cluster.scale_up("up-1")

    (overlay,) = cluster.kube.all(kinds.NODE_OVERLAYS)
    valid = Conditions.from_kube(overlay["status"]["conditions"])["ValidationSucceeded"]
    assert (valid.status, valid.message) == (
        "True",
        "spec.requirements is node.kubernetes.io/instance-type In [m5.lrage]: no offering of any pool meets it, so the "
        "overlay changes nothing: none has node.kubernetes.io/instance-type as required; did you mean m5.large or "
        "m5.xlarge?",
    )


def test_of_two_contradicting_overlays_the_last_by_name_is_used_until_it_is_deleted(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_overlay(cluster, "a", LARGE, price="0.5")
    put_overlay(cluster, "b", LARGE, XLARGE | {"values": ["m5.large", "m5.xlarge"]}, price="0.01")
    put_overlay(cluster, "elsewhere", XLARGE, price="0.02")

    cluster.scale_up("up-1")
    assert conditions(cluster) == {
        "a": "False Conflict: ValidationSucceeded: it is not applied, and NodeOverlay/b is, the last of the two by "
        "name: both have the weight 0 and set the price of m5.large: give one of them another weight, or "
        "other requirements",
        "b": "True Ready: ",
        "elsewhere": "True Ready: ",
    }

    del cluster.kube.objects["nodeoverlays", "", "b"]
    cluster.now += timedelta(minutes=1)
    cluster.scale_up("up-2")
    assert conditions(cluster) == {"a": "True Ready: ", "elsewhere": "True Ready: "}


def test_ec2_follows_the_order_of_the_planner_where_an_overlay_changed_a_price(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    put_overlay(cluster, "savings", XLARGE, priceAdjustment="-80%")

    cluster.scale_up("up-1")

    assert strategies(cluster) == ["prioritized"]
    assert [claim.instance_type for claim in claims(cluster)] == ["m5.xlarge"]


def test_ec2_chooses_by_its_own_price_where_no_overlay_counts(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    elsewhere = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1f"]}
    put_overlay(cluster, "elsewhere", elsewhere, priceAdjustment="-80%")

    cluster.scale_up("up-1")

    assert strategies(cluster) == ["lowest-price"]
    assert [claim.instance_type for claim in claims(cluster)] == ["m5.large"]
