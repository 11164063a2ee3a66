"""NodeOverlays of equal weight that set the price of the same offerings."""

from collections.abc import Iterator
from dataclasses import replace

from joiner.catalogue import Catalogue
from joiner.catalogue.overlay_conflicts import find_overlay_conflicts, find_unmet_overlays
from joiner.catalogue.overlay_places import NodePlace
from joiner.cluster import Requirements
from joiner.pools import NodeOverlay, Overlays
from tests.unit.planning.drawn_clusters import CATALOGUE

TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
PLACES = [NodePlace({"team": team}, {ZONE: zone}) for team in ("web", "batch") for zone in ("a", "b")]


def overlay(name: str, **labels: str) -> NodeOverlay:
    keys = {"kind": TYPE, "zone": ZONE, "team": "team"}
    return NodeOverlay(name, Requirements.from_labels({keys[key]: value for key, value in labels.items()}), price=1.0)


def losers(*overlays: NodeOverlay) -> list[str]:
    found = find_overlay_conflicts(Overlays.of(overlays), Catalogue.from_json(CATALOGUE), PLACES)
    return [one.object for one in found]


def test_overlays_of_different_labels_contradict_each_other_where_both_apply() -> None:
    assert losers(overlay("a", kind="m.xlarge"), overlay("b", zone="b")) == ["NodeOverlay/a"]
    assert losers(overlay("a", kind="m.xlarge"), overlay("b", zone="elsewhere")) == []
    assert losers(overlay("a", team="web"), overlay("b", zone="a", kind="s.large")) == ["NodeOverlay/a"]


def unmet(*overlays: NodeOverlay) -> list[str]:
    return [str(one) for one in find_unmet_overlays(Overlays.of(overlays), Catalogue.from_json(CATALOGUE), PLACES)]


def test_an_overlay_that_no_offering_meets_names_the_requirement_and_a_similar_type() -> None:
    assert unmet(overlay("a", kind="m.xlarge"), overlay("b", zone="b"), overlay("c", team="web")) == []
    assert unmet(overlay("typo", kind="m.xlrge")) == [
        "NodeOverlay/typo: spec.requirements is node.kubernetes.io/instance-type In [m.xlrge]: no offering of any pool "
        "meets it, so the overlay changes nothing: none has node.kubernetes.io/instance-type as required; did you mean "
        "m.xlarge or m.2xlarge?"
    ]
    only = [replace(place, types=frozenset({"m.2xlarge"})) for place in PLACES]
    (typo,) = find_unmet_overlays(Overlays.of([overlay("typo", kind="s.lage")]), Catalogue.from_json(CATALOGUE), only)
    assert typo.remedy.endswith("as required; did you mean s.large?")  # though the pools allow m.2xlarge only
    assert unmet(overlay("elsewhere", team="web", zone="c")) == [
        "NodeOverlay/elsewhere: spec.requirements is team In [web], topology.kubernetes.io/zone In [c]: no offering of "
        "any pool meets it, so the overlay changes nothing: none has topology.kubernetes.io/zone as required; there "
        "are a, b"
    ]
    assert unmet(overlay("misspelt", team="bacth"))[0].endswith("none has team as required; did you mean batch?")


def test_reservations_and_zone_ids_of_an_overlay_are_not_doubted_because_only_the_account_has_them() -> None:
    reserved = Requirements.from_labels({"karpenter.sh/capacity-type": "reserved", ZONE: "a"})

    assert unmet(NodeOverlay("reserved", reserved, price=1.0)) == []


SPOT = "karpenter.sh/capacity-type"
SOLD = [NodePlace({"team": "web"}, {ZONE: "a", SPOT: "on-demand"})]


def without_spot_prices() -> Catalogue:
    types = Catalogue.from_json(CATALOGUE).types.values()
    return Catalogue.of(
        one.with_offerings(sold for sold in one.offerings if sold.capacity_type == "on-demand") for one in types
    )


def test_an_overlay_for_spot_nodes_is_undecided_without_spot_prices() -> None:
    spot = {SPOT: "spot", "team": "web"}
    overlays = Overlays.of(
        [
            NodeOverlay("spot", Requirements.from_labels(spot), adjustment="-10%"),
            NodeOverlay("typo", Requirements.from_labels({**spot, TYPE: "m.xlrge"}), adjustment="-10%"),
        ]
    )

    offline = find_unmet_overlays(overlays, without_spot_prices(), SOLD)
    in_a_cluster = find_unmet_overlays(overlays, Catalogue.from_json(CATALOGUE), SOLD)

    assert {one.object: (one.severity, one.remedy.rpartition(": ")[2]) for one in offline} == {
        "NodeOverlay/spot": (
            "info",
            "it is for spot nodes, and the catalogue has no spot prices, which a cluster has",
        ),
        "NodeOverlay/typo": (
            "warning",
            f"none has {TYPE} as required; did you mean m.xlarge or m.2xlarge?",
        ),
    }
    assert {one.severity for one in in_a_cluster} == {"warning"}


def test_overlays_that_contradict_each_other_on_spot_nodes_do_so_without_spot_prices() -> None:
    spot = Requirements.from_labels({SPOT: "spot"})
    overlays = Overlays.of(NodeOverlay(name, spot, price=price) for name, price in (("a", 0.1), ("b", 0.2)))

    (lost,) = find_overlay_conflicts(overlays, without_spot_prices(), SOLD)

    assert lost.object == "NodeOverlay/a"


def test_overlays_that_exclude_each_other_are_not_compared_on_every_offering() -> None:
    """Twenty overlays for a family each made 9 million comparisons a plan."""

    def unread() -> Iterator[NodePlace]:
        raise AssertionError("the offerings are read")
        yield NodePlace({}, {})

    overlays = Overlays.of(overlay(f"family-{number}", kind=f"m{number}.large") for number in range(20))

    assert find_overlay_conflicts(overlays, Catalogue.from_json(CATALOGUE), unread()) == ()
