"""NodeOverlays that offerings meet and that change nothing."""

from typing import Any

from joiner.catalogue import Catalogue
from joiner.catalogue.overlay_effects import find_idle_overlays
from joiner.catalogue.overlay_places import NodePlace
from joiner.cluster import Requirements, Resources
from joiner.pools import NodeOverlay, Overlays
from tests.unit.cli.small_catalogue import small

KIND = {"node.kubernetes.io/instance-type": "m5.large"}
PLACES = [
    NodePlace({"team": team}, {"topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": "on-demand"})
    for team in ("web", "data")
    for zone in ("us-east-1a", "us-east-1b")
]
PRICE = small().price("m5.large", "us-east-1a", "on-demand")


def overlay(name: str, labels: dict[str, str] | None = None, /, **sets: Any) -> NodeOverlay:
    return NodeOverlay(name, Requirements.from_labels(KIND if labels is None else labels), **sets)


def idle(*overlays: NodeOverlay, catalogue: Catalogue | None = None) -> dict[str, str]:
    found = find_idle_overlays(Overlays.of(overlays), catalogue or small(), PLACES)
    assert {one.severity for one in found} <= {"warning"}
    return {one.object.removeprefix("NodeOverlay/"): one.message for one in found}


def test_an_overlay_that_changes_an_offering_is_not_reported() -> None:
    assert (
        idle(
            overlay("price", price=0.01),
            overlay("change", {"team": "web"}, adjustment="-10%", weight=2),
            overlay("device", capacity=Resources({"example.com/fuse": 1})),
        )
        == {}
    )


def test_an_overlay_that_sets_nothing_says_what_to_set() -> None:
    assert idle(overlay("empty")) == {
        "empty": "it sets neither price, priceAdjustment nor capacity: set one of them, or delete the overlay"
    }


def test_an_overlay_that_sets_what_is_there_is_reported() -> None:
    already = "it changes no offering that meets it, because they have what it sets already: change what it sets, or "

    m6i, gpu = ({"node.kubernetes.io/instance-type": name} for name in ("m6i.2xlarge", "g4dn.xlarge"))
    found = idle(
        overlay("same", {**KIND, "karpenter.sh/capacity-type": "on-demand"}, price=PRICE),
        overlay("zero", {**m6i, "team": "web"}, adjustment="+0%"),
        overlay("gpu", gpu, capacity=Resources({"nvidia.com/gpu": 1})),
    )

    assert found == dict.fromkeys(("same", "zero", "gpu"), f"{already}delete the overlay")


def test_an_overlay_behind_others_of_more_weight_names_one_of_them() -> None:
    found = idle(overlay("behind", price=0.01), overlay("before", {}, price=0.02, weight=5))

    assert found == {
        "behind": "it changes no offering that meets it, because NodeOverlay/before takes precedence: change what it "
        "sets, or delete the overlay"
    }


def test_an_overlay_for_a_type_that_is_not_sold_in_its_zone_changes_nothing() -> None:
    known = small().types["m5.large"]
    only_a = Catalogue.of([known.with_offerings(one for one in known.offerings if one.zone == "us-east-1a")])
    there = overlay("there", {**KIND, "topology.kubernetes.io/zone": "us-east-1b"}, price=0.01)

    assert idle(there, catalogue=only_a) == {
        "there": "no offering of any pool meets it, so the overlay changes nothing"
    }


def test_without_a_pool_only_an_overlay_that_sets_nothing_is_reported() -> None:
    overlays = Overlays.of([overlay("there", price=0.01), overlay("empty")])

    assert [one.object for one in find_idle_overlays(overlays, small(), [])] == ["NodeOverlay/empty"]


def test_an_overlay_that_may_change_spot_prices_is_not_idle_without_spot_prices() -> None:
    """It sets the on-demand price, and a cluster also has spot nodes."""
    offerings = [one for one in small().types["m5.large"].offerings if one.capacity_type == "on-demand"]
    without = Catalogue.of([small().types["m5.large"].with_offerings(offerings)])
    on_demand = {**KIND, "karpenter.sh/capacity-type": "on-demand"}

    found = idle(overlay("both", price=PRICE), overlay("on-demand", on_demand, price=PRICE), catalogue=without)

    assert list(found) == ["on-demand"]
    assert idle(overlay("nothing", adjustment="+0%"), catalogue=without).keys() == {"nothing"}
