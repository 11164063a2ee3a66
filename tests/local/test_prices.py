"""Prices of offerings in the local AWS, from the APIs that a catalogue reads."""

import json
from collections import Counter
from typing import Any

import pytest

from joiner.adapters.instance_prices import DEDICATED_QUESTIONS, on_demand_prices
from joiner.catalogue.instance_tenancy import find_surcharges
from joiner_local.aws.account_setup.cluster_network import seed_network
from joiner_local.aws.ec2.ec2_prices import Ec2Prices
from tests.local.launch_fixtures import LaunchPad, chosen
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

ON_DEMAND = {
    "regionCode": "us-east-1",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "tenancy": "Shared",
    "marketoption": "OnDemand",
}


def price_list(aws: RunningAws, **filters: str) -> dict[str, float]:
    """Return the on-demand price by type, in dollars an hour."""
    wanted = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()]
    found = {}
    for page in aws.client("pricing").get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=wanted):
        for product in map(json.loads, page["PriceList"]):
            (term,) = product["terms"]["OnDemand"].values()
            (dimension,) = term["priceDimensions"].values()
            found[product["product"]["attributes"]["instanceType"]] = float(dimension["pricePerUnit"]["USD"])
    return found


def spot_prices(aws: RunningAws, **asked: Any) -> dict[tuple[str, str], float]:
    pages = (
        aws.client("ec2")
        .get_paginator("describe_spot_price_history")
        .paginate(ProductDescriptions=["Linux/UNIX"], **asked)
    )
    rows = [row for page in pages for row in page["SpotPriceHistory"]]
    assert not [
        offering
        for offering, count in Counter((row["InstanceType"], row["AvailabilityZone"]) for row in rows).items()
        if count > 1
    ]
    return {(row["InstanceType"], row["AvailabilityZone"]): float(row["SpotPrice"]) for row in rows}


def test_on_demand_prices_are_those_that_aws_publishes(local_aws: RunningAws) -> None:
    prices = price_list(local_aws, **ON_DEMAND, productFamily="Compute Instance")

    assert (prices["m5.large"], prices["c6g.xlarge"], prices["p4d.24xlarge"]) == (0.096, 0.136, 21.957642)
    assert "m5.metal" not in prices


def test_the_catalogue_reads_the_price_of_linux_on_demand_and_of_no_other_product(local_aws: RunningAws) -> None:
    published = Ec2Prices.packaged()

    found = on_demand_prices(local_aws.client("pricing"), "us-east-1")

    assert len(found) > 700
    assert {name: price for name, price in found.items() if abs(price - published.on_demand(name)) > 1e-6} == {}


def test_dedicated_instances_have_prices_of_their_own_and_bare_metal_has_no_other(local_aws: RunningAws) -> None:
    pricing = local_aws.client("pricing")

    shared = on_demand_prices(pricing, "us-east-1")
    dedicated = on_demand_prices(pricing, "us-east-1", DEDICATED_QUESTIONS)

    assert dedicated.keys() == shared.keys()
    surcharges = find_surcharges(shared, dedicated)
    assert surcharges["m5.large"] == pytest.approx(0.0096)
    assert surcharges["m5.metal"] == 0.0
    assert "m5.metal" not in price_list(local_aws, **ON_DEMAND)


def test_products_that_are_not_on_demand_have_other_prices(local_aws: RunningAws) -> None:
    """These prices differ, so that a test notices a reader without that filter."""
    shared = {field: value for field, value in ON_DEMAND.items() if field != "marketoption"}

    assert price_list(local_aws, **shared, marketoption="CapacityBlock")["m5.large"] == 0.024


def test_every_type_has_a_price(local_aws: RunningAws) -> None:
    pages = local_aws.client("ec2").get_paginator("describe_instance_type_offerings").paginate(LocationType="region")
    types = {each["InstanceType"] for page in pages for each in page["InstanceTypeOfferings"]}

    prices = on_demand_prices(local_aws.client("pricing"), "us-east-1")

    assert types - prices.keys() == set()
    assert min(prices.values()) > 0


def test_spot_is_cheaper_than_on_demand_everywhere_and_differs_by_zone(local_aws: RunningAws) -> None:
    spot, on_demand = spot_prices(local_aws), on_demand_prices(local_aws.client("pricing"), "us-east-1")

    assert [offering for offering, price in spot.items() if not 0 < price < on_demand[offering[0]]] == []
    assert len({spot["m5.large", f"us-east-1{zone}"] for zone in "abc"}) == 3


def test_spot_prices_are_listed_for_the_requested_types_and_zones(local_aws: RunningAws) -> None:
    zone = [{"Name": "availability-zone", "Values": ["us-east-1a"]}]

    assert spot_prices(local_aws, InstanceTypes=["m5.large"], Filters=zone).keys() == {("m5.large", "us-east-1a")}
    assert spot_prices(local_aws, InstanceTypes=["m5.large"], AvailabilityZone="us-east-1a").keys() == {
        ("m5.large", "us-east-1a")
    }


def test_a_spot_fleet_launches_what_the_history_calls_cheapest(local_aws: RunningAws) -> None:
    network = seed_network(local_aws.endpoint, "prices")
    pad = LaunchPad.build(local_aws.client("ec2"), local_aws.client("ssm"), network, local_aws.fresh("template"))
    types, zones = ("m5.large", "c5.large", "r5.large"), ("a", "b", "c")
    prices = {
        offering: price
        for offering, price in spot_prices(local_aws, InstanceTypes=list(types)).items()
        if offering[1][-1] in zones
    }

    answer = pad.fleet(
        [pad.override(kind, zone) for kind in types for zone in zones], spot=True, strategy="lowest-price"
    )

    assert [offering[:2] for offering in chosen(answer)] == [min(prices, key=lambda offering: prices[offering])]
