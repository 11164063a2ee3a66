"""AWS Price List, GetProducts for Amazon EC2: a small web application of our own, because moto does not have the
service.

Source: Price List API reference. Attributes and terms of products have the form of the real ones, as far as readers of
prices need it: `terms.OnDemand.*.priceDimensions.*.pricePerUnit.USD`. Beside Linux on demand each type has products
that differ in one attribute and in price, as on AWS (capacity blocks, unused reservations, Windows, SQL Server,
dedicated hosts, Dedicated Instances): a reader that does not filter them takes a wrong price. Bare metal has the
tenancy Dedicated only.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moto.ec2.models.instance_types import INSTANCE_TYPES

from joiner_local.aws.ec2.ec2_prices import Ec2Prices
from joiner_local.aws.local_aws import REGION, LocalAws

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PAGE: Final = 100
OFFER_TERM: Final = "JRTCKXETXF"  # Amazon's code for "on demand"
RATE: Final = "6YS6EN2CT7"  # Amazon's code for "an hour"
OPERATION: Final = "AWSPriceListService.GetProducts"


OTHERS: Final = (
    (("marketoption", "CapacityBlock"), 0.25),
    (("capacitystatus", "UnusedCapacityReservation"), 0.5),
    (("operatingSystem", "Windows"), 2.0),
    (("preInstalledSw", "SQL Std"), 3.0),
    (("tenancy", "Host"), 4.0),
)
"""In what the other products of a type differ from Linux on demand, and their price as a multiple of that."""

DEDICATED: Final = 1.1
"""The price of a Dedicated Instance as a multiple of that on shared hardware. Real ones differ by type."""


class PriceListRefused(Exception):
    """An error that the API returns."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def get_products(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the API's response to a request, both as JSON values."""
    if asked.get("ServiceCode") != "AmazonEC2":
        raise PriceListRefused(
            "NotFoundException", f"the local price list has AmazonEC2 only, not {asked.get('ServiceCode')}"
        )
    filters = frozenset((each["Field"], each["Value"]) for each in asked.get("Filters", []))
    matching = _matching(filters)
    start = int(asked.get("NextToken") or 0)
    end = start + int(asked.get("MaxResults") or PAGE)
    answer = {"FormatVersion": "aws_v1", "PriceList": matching[start:end]}
    return answer | ({"NextToken": str(end)} if end < len(matching) else {})


@cache
def _matching(filters: frozenset[tuple[str, str]]) -> list[str]:
    """Return the products that match, the same for every page."""
    wanted = dict(filters)
    products = (product for instance_type in sorted(INSTANCE_TYPES) for product in products_of(instance_type))
    return [json.dumps(product) for product in products if _matches(product, wanted)]


def _matches(product: Mapping[str, Any], filters: Mapping[str, str]) -> bool:
    facts = {
        **product["product"]["attributes"],
        "productFamily": product["product"]["productFamily"],
        "ServiceCode": "AmazonEC2",
    }
    return all(facts.get(field, "").lower() == value.lower() for field, value in filters.items())


def products_of(instance_type: str) -> Iterable[dict[str, Any]]:
    """Return all products of a type; a reader that takes the first match must not depend on the order."""
    for different, factor in OTHERS:
        yield product_of(instance_type, different, factor)
    if _is_bare_metal(instance_type):
        yield product_of(instance_type, ("tenancy", "Dedicated"))
        return
    yield product_of(instance_type, ("tenancy", "Dedicated"), DEDICATED)
    yield product_of(instance_type)


def _is_bare_metal(instance_type: str) -> bool:
    return bool(INSTANCE_TYPES[instance_type].get("BareMetal"))


def _attributes(instance_type: str) -> dict[str, str]:
    info = INSTANCE_TYPES[instance_type]
    return {
        "servicecode": "AmazonEC2",
        "servicename": "Amazon Elastic Compute Cloud",
        "instanceType": instance_type,
        "regionCode": REGION,
        "locationType": "AWS Region",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "licenseModel": "No License required",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "vcpu": str(info["VCpuInfo"]["DefaultVCpus"]),
        "memory": f"{info['MemoryInfo']['SizeInMiB'] / 1024:g} GiB",
    }


def product_of(instance_type: str, different: tuple[str, str] = ("", ""), factor: float = 1.0) -> dict[str, Any]:
    sku = hashlib.sha256(f"{instance_type}{''.join(different)}".encode()).hexdigest()[:16].upper()
    term = f"{sku}.{OFFER_TERM}"
    price = f"{Ec2Prices.packaged().on_demand(instance_type) * factor:.10f}"
    dimension = {
        "unit": "Hrs",
        "rateCode": f"{term}.{RATE}",
        "beginRange": "0",
        "endRange": "Inf",
        "pricePerUnit": {"USD": price},
    }
    return {
        "product": {
            "productFamily": f"Compute Instance{' (bare metal)' if _is_bare_metal(instance_type) else ''}",
            "sku": sku,
            "attributes": _attributes(instance_type) | ({different[0]: different[1]} if different[0] else {}),
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                term: {"sku": sku, "offerTermCode": OFFER_TERM, "priceDimensions": {f"{term}.{RATE}": dimension}}
            }
        },
    }


def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Answer requests that are signed for `pricing`, as a WSGI application."""
    asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
    status, answer = "200 OK", {}
    try:
        if environ.get("HTTP_X_AMZ_TARGET") != OPERATION:
            raise PriceListRefused(
                "InvalidParameterException",
                f"the local price list has GetProducts only, not {environ.get('HTTP_X_AMZ_TARGET')}",
            )
        answer = get_products(asked)
    except PriceListRefused as error:
        status, answer = "400 Bad Request", {"__type": error.code, "message": str(error)}
    body = json.dumps(answer).encode()
    start_response(status, [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(body)))])
    return [body]


def install(aws: LocalAws) -> None:
    aws.add_service("pricing", application)
