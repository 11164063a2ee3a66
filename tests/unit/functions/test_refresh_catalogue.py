"""Refresh of the catalogue: where prices come from, in every partition, and what a cluster's settings change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from functions.refresh_catalogue.handler import CatalogueRefresh, NoPrices
from joiner.adapters import documents, sweep_documents
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.store import Store
from joiner.catalogue import CapacityEstimate, Offering, load_published_prices
from joiner.catalogue.commitments import Commitment
from joiner.catalogue.observed_memory import ObservedMemory
from joiner.catalogue.published_prices import PublishedPrices
from joiner.catalogue.reserved_instances_and_savings_plans import commitments_of_settings
from joiner.cluster.resources import MEMORY, PODS
from tests.unit.functions.simulated_cluster import SimulatedCluster

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
NOON_OF_LAST_MONTH = NOW - timedelta(days=31)
M5 = {
    "InstanceType": "m5.large",
    "SupportedUsageClasses": ["on-demand", "spot"],
    "SupportedVirtualizationTypes": ["hvm"],
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "VCpuInfo": {"DefaultVCpus": 2},
    "MemoryInfo": {"SizeInMiB": 8192},
    "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10},
}
PRODUCT = (
    '{"product": {"attributes": {"instanceType": "m5.large"}}, "terms": {"OnDemand": {"t": {"priceDimensions": '
    '{"d": {"unit": "Hrs", "pricePerUnit": {"USD": "0.096"}}}}}}}'
)


@dataclass
class FakeRegion:
    """The paginators of EC2 and of the Price List API, for one type in one zone and in `local_zones`, with the price
    lists of their groups (`local_prices`)."""

    zone: str
    spot: list[Mapping[str, Any]] = field(default_factory=list)
    reachable: bool = True
    dedicated: str | None = None
    """The price of a Dedicated Instance; the price list does not answer about them without it."""
    local_zones: tuple[str, ...] = ()
    local_prices: Mapping[str, str] = field(default_factory=dict)

    def get_paginator(self, operation: str) -> "FakeRegionPages":
        return FakeRegionPages(self, operation)

    def pages_of(self, operation: str, location: str) -> Sequence[Mapping[str, Any]]:
        if operation == "get_products" and not self.reachable:
            raise EndpointConnectionError(endpoint_url="https://api.pricing.example.com")
        pages: dict[str, Sequence[Mapping[str, Any]]] = {
            "describe_instance_types": [{"InstanceTypes": [M5]}],
            "describe_instance_type_offerings": [
                {"InstanceTypeOfferings": [{"InstanceType": "m5.large", "Location": zone}]}
                for zone in (self.zone, *self.local_zones)
            ],
            "describe_spot_price_history": [{"SpotPriceHistory": self.spot}],
            "get_products": [{"PriceList": self._products(location)}],
        }
        return pages[operation]

    def _products(self, location: str) -> list[str]:
        if location in ("", self.zone[:-1]):
            return [PRODUCT]
        return [PRODUCT.replace("0.096", self.local_prices[location])] if location in self.local_prices else []

    def quote(self, price: str) -> None:
        self.spot = [{"InstanceType": "m5.large", "AvailabilityZone": self.zone, "SpotPrice": price, "Timestamp": NOW}]


@dataclass
class FakeRegionPages:
    region: FakeRegion
    operation: str

    def paginate(self, Filters: Sequence[Mapping[str, str]] = (), **_asked: Any) -> Iterator[Mapping[str, Any]]:
        location = next((each["Value"] for each in Filters if each.get("Field") == "regionCode"), "")
        asked = {each["Value"] for each in Filters if each.get("Field") in ("tenancy", "productFamily")}
        if asked == {"Dedicated", "Compute Instance"} and self.region.reachable:
            if self.region.dedicated is None:
                raise EndpointConnectionError(endpoint_url="https://api.pricing.example.com")
            yield {"PriceList": [PRODUCT.replace("0.096", self.region.dedicated)]}
            return
        yield from self.region.pages_of(self.operation, location)


@pytest.fixture
def store(cluster: SimulatedCluster) -> Store:
    return cluster.store


def refresh(store: Store, region: FakeRegion, *, price_list: bool = True, **special: Any) -> dict[str, Any]:
    pricing = region if price_list else None
    return CatalogueRefresh(Ec2(region), region, pricing, store, region.zone[:-1], **special).run(NOW)


def offerings(store: Store) -> list[Offering]:
    return list(documents.get_catalogue(store).types["m5.large"].offerings)


def test_a_region_of_govcloud_has_the_published_prices_and_names_their_date(store: Store) -> None:
    gov = load_published_prices("us-gov-west-1")
    assert gov is not None
    price = gov.prices["m5.large"]
    region = FakeRegion("us-gov-west-1a")
    region.quote("0.05")

    answer = refresh(store, region, price_list=False)

    assert (answer["onDemandPrices"], answer["spotPrices"]) == ("published on 2026-07-20", "EC2")
    assert offerings(store) == [
        Offering("us-gov-west-1a", "on-demand", price),
        Offering("us-gov-west-1a", "spot", 0.05),
    ]


def test_the_price_file_of_the_settings_stands_for_the_price_list(store: Store) -> None:
    region = FakeRegion("us-iso-east-1a")

    answer = refresh(store, region, price_list=False, table=PublishedPrices("2026-07-20", {"m5.large": 0.15}))

    assert (answer["onDemandPrices"], answer["spotPrices"]) == ("published on 2026-07-20", "on-demand prices")
    assert offerings(store) == [
        Offering("us-iso-east-1a", "on-demand", 0.15),
        Offering("us-iso-east-1a", "spot", 0.15),
    ]


def test_a_region_without_any_source_of_prices_is_refused_with_the_reason(store: Store) -> None:
    with pytest.raises(NoPrices, match="us-iso-east-1 has no Price List API, and no prices of it are packaged"):
        refresh(store, FakeRegion("us-iso-east-1a"), price_list=False)


def test_spot_costs_as_much_as_on_demand_until_the_first_answer_and_then_keeps_the_last(store: Store) -> None:
    region = FakeRegion("eu-west-1a")

    first = refresh(store, region)
    assert first["spotPrices"] == "on-demand prices"
    assert offerings(store) == [Offering("eu-west-1a", "on-demand", 0.096), Offering("eu-west-1a", "spot", 0.096)]

    region.quote("0.03")
    assert refresh(store, region)["spotPrices"] == "EC2"
    region.spot = []
    assert refresh(store, region)["spotPrices"] == "the last catalogue"
    assert offerings(store)[1] == Offering("eu-west-1a", "spot", 0.03)


def test_a_price_list_that_does_not_answer_keeps_the_last_catalogue(store: Store) -> None:
    region = FakeRegion("cn-north-1a", reachable=False)

    assert refresh(store, region)["onDemandPrices"] == "published on 2024-11-06"
    before = offerings(store)

    with pytest.raises(EndpointConnectionError):
        refresh(store, region)
    assert offerings(store) == before


def test_local_zones_have_the_prices_of_their_group_and_else_those_of_the_region(store: Store) -> None:
    zones = ("us-west-2-lax-1a", "us-west-2-phx-2a")
    region = FakeRegion("us-west-2a", local_zones=zones, local_prices={"us-west-2-lax-1": "0.115"})

    refresh(store, region)

    on_demand = {one.zone: one.price_per_hour for one in offerings(store) if one.capacity_type == "on-demand"}
    assert on_demand == {"us-west-2a": 0.096, "us-west-2-lax-1a": 0.115, "us-west-2-phx-2a": 0.096}


def test_a_region_without_published_prices_waits_for_the_price_list(store: Store) -> None:
    with pytest.raises(EndpointConnectionError):
        refresh(store, FakeRegion("eu-west-1a", reachable=False))


def test_settings_change_the_memory_and_the_pods_of_nodes(store: Store) -> None:
    refresh(store, FakeRegion("eu-west-1a"), estimate=CapacityEstimate(0.05, reserved_interfaces=1))

    has = documents.get_catalogue(store).types["m5.large"]
    assert (has.capacity[MEMORY] // 2**20, has.capacity[PODS]) == (7782, 20)
    # The kubelet reserves memory for the pods of all interfaces, whatever the settings
    assert has.capacity[MEMORY] - has.allocatable[MEMORY] == (11 * 29 + 255 + 100) * 2**20


def test_the_memory_that_nodes_reported_is_in_the_catalogue_for_sixty_days(store: Store) -> None:
    seen, old = int(NOON_OF_LAST_MONTH.timestamp()), int((NOW - timedelta(days=60)).timestamp())
    observed = {"m5.large": {"ami-1": ObservedMemory(8_000_000_000, seen), "ami-2": ObservedMemory(1, old)}}
    sweep_documents.put_observed_memory(store, observed)

    refresh(store, FakeRegion("eu-west-1a"))

    assert documents.get_catalogue(store).types["m5.large"].observed_memory == {"ami-1": 8_000_000_000}
    assert sweep_documents.get_observed_memory(store) == observed


def test_commitments_of_the_settings_are_in_the_catalogue(store: Store) -> None:
    declared = commitments_of_settings(
        {
            "reservedInstances": [{"instanceType": "m5.large", "count": 2, "zone": "eu-west-1a"}],
            "savingsPlans": [{"pricePerHour": 0.5, "discountPercent": 50}],
        }
    )

    assert refresh(store, FakeRegion("eu-west-1a"), commitments=declared)["commitments"] == 2
    assert documents.get_catalogue(store).commitments == (
        Commitment("reserved-instances/m5.large/eu-west-1a", 2, {"m5.large": 1}, "eu-west-1a"),
        Commitment("savings-plan/settings-1", 500_000, {"m5.large": 48_000}),
    )
    assert refresh(store, FakeRegion("eu-west-1a"))["commitments"] == 0
    assert documents.get_catalogue(store).commitments == ()


def test_the_surcharge_of_dedicated_instances_stays_while_the_price_list_does_not_answer_about_them(
    store: Store,
) -> None:
    region = FakeRegion("us-west-2a", dedicated="0.106")

    refresh(store, region)
    first = documents.get_catalogue(store).types["m5.large"].dedicated_surcharge
    region.dedicated = None
    answer = refresh(store, region)

    assert first == pytest.approx(0.01)
    assert answer["onDemandPrices"] == "Price List API"
    assert documents.get_catalogue(store).types["m5.large"].dedicated_surcharge == first
