"""Prices of instances in $/h: the Price List API for on-demand, the spot price history for spot.

An unknown price is left out. An offering without a price is not used, because it cannot be compared.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

LINUX: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")

LINUX_ON_DEMAND: Final = {
    "capacitystatus": "Used",  # unused reserved capacity is a product, too
    "marketoption": "OnDemand",  # capacity blocks have another price, or none
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",  # no SQL Server
}
"""Filters of all requests. An additional matching product could give a type a wrong price: products have no order."""

# Dedicated hardware has another product family and tenancy: without the second request, bare metal would be missing.
QUESTIONS: Final = (
    {"tenancy": "Shared", "productFamily": "Compute Instance"},
    {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"},
)


WITHOUT_PRICE_LIST: Final = ("us-gov-", "us-iso", "eu-isoe-", "eusc-")
"""Beginnings of the regions whose partition has no Price List API."""


def price_list_region(region: str) -> str | None:
    """Return the region of the Price List API's endpoint for a region (it has four endpoints); None in a partition
    without that API.

    >>> price_list_region("eu-west-1"), price_list_region("us-west-2"), price_list_region("ap-south-2")
    ('eu-central-1', 'us-east-1', 'ap-south-1')
    >>> price_list_region("us-gov-west-1")
    """
    if region.startswith(WITHOUT_PRICE_LIST):
        return None
    for start, endpoint in (("ap-", "ap-south-1"), ("eu-", "eu-central-1"), ("cn-", "cn-northwest-1")):
        if region.startswith(start):
            return endpoint
    return "us-east-1"


DEDICATED_QUESTIONS: Final = tuple({**each, "tenancy": "Dedicated"} for each in QUESTIONS)


def on_demand_prices(
    pricing: Any, location: str, questions: Iterable[Mapping[str, str]] = QUESTIONS
) -> dict[str, float]:
    """Return Linux on-demand prices of a region or of a group of Local Zones, by instance type.

    ``questions`` are filters of product families; with ``DEDICATED_QUESTIONS``, the prices are those of Dedicated
    Instances.
    """
    found: dict[str, float] = {}
    for question in questions:
        asked = {"regionCode": location, **LINUX_ON_DEMAND, **question}
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in asked.items()]
        for page in pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters):
            for text in page["PriceList"]:
                product = json.loads(text)
                for price in _hourly(product):
                    found.setdefault(product["product"]["attributes"]["instanceType"], price)
    return found


def _hourly(product: Mapping[str, Any]) -> Iterator[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = float(dimension["pricePerUnit"].get("USD") or dimension["pricePerUnit"].get("CNY") or 0)
            if dimension.get("unit") == "Hrs" and price > 0:
                yield price


def spot_prices(ec2: Any, now: datetime) -> dict[str, dict[str, float]]:
    """Return the current spot prices, by instance type and zone."""
    found: dict[str, dict[str, float]] = {}
    newest: dict[tuple[str, str], datetime] = {}
    pages = ec2.get_paginator("describe_spot_price_history").paginate(StartTime=now, ProductDescriptions=list(LINUX))
    for page in pages:
        for quote in page["SpotPriceHistory"]:
            offering = quote["InstanceType"], quote["AvailabilityZone"]
            if offering not in newest or quote["Timestamp"] > newest[offering]:
                newest[offering] = quote["Timestamp"]
                found.setdefault(offering[0], {})[offering[1]] = float(quote["SpotPrice"])
    return found
