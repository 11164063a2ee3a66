"""Prices of a type by zone, and what stands in for spot prices that EC2 does not return."""

from joiner.catalogue import Catalogue
from joiner.catalogue.price_lists import choose_spot_prices, find_zone_prices
from tests.unit.planning.drawn_clusters import instance_type

LISTS = {"": {"m5.large": 0.1, "m7i.large": 0.2}, "us-west-2-lax-1": {"m5.large": 0.15}}
ZONES = ("us-west-2a", "us-west-2-lax-1a", "us-west-2-phx-1a")


def test_a_zone_has_the_prices_of_its_region_or_of_its_local_zone_group() -> None:
    assert find_zone_prices("m5.large", ZONES, LISTS) == {
        "us-west-2a": 0.1,
        "us-west-2-lax-1a": 0.15,
        "us-west-2-phx-1a": 0.1,  # its group has no price list
    }


def test_a_type_without_a_price_in_the_list_of_a_zone_is_not_offered_there() -> None:
    assert find_zone_prices("m7i.large", ZONES, LISTS) == {"us-west-2a": 0.2, "us-west-2-phx-1a": 0.2}


def test_spot_prices_are_those_of_ec2_then_of_the_last_catalogue_then_of_on_demand() -> None:
    former = Catalogue.from_json({"m5.large": instance_type("m5.large", 2, 8, 0.1)})
    spot = {one.zone: one.price_per_hour for one in former.types["m5.large"].offerings if one.capacity_type == "spot"}
    found = {"m5.large": {"us-west-2a": 0.03}}

    assert spot
    assert choose_spot_prices(found, former) == (found, "EC2")
    assert choose_spot_prices({}, former) == ({"m5.large": spot}, "the last catalogue")
    assert choose_spot_prices({}, None) == (None, "on-demand prices")
    assert choose_spot_prices({}, Catalogue.from_json({})) == (None, "on-demand prices")
