"""EC2 prices: published on-demand prices of us-east-1, and simulated spot prices that change slowly.

On demand: the packaged table, with its date. Types that the table lacks get a price by a formula from their size. Spot:
a share of the on-demand price that depends on type and zone only, with a slow sine wave over time. A time always gives
the same price, so tests can compute it.

>>> prices = Ec2Prices.packaged()
>>> prices.on_demand("m5.large")
0.096
>>> a, b = prices.spot("m5.large", "us-east-1a", 0.0), prices.spot("m5.large", "us-east-1b", 0.0)
>>> a != b and 0 < max(a, b) < 0.096
True
"""

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import replace_attribute

TABLE: Final = Path(__file__).parents[2] / "data" / "on_demand_prices.json"

# Seconds for which a spot price is constant: EC2 changes prices "periodically", and two readers should agree
STEP: Final = 300.0
WAVE: Final = 21_600.0  # seconds for a radian of the wave
PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


@dataclass(frozen=True, slots=True)
class Ec2Prices:
    """Prices in US$ an hour."""

    published: Mapping[str, float]

    @classmethod
    def packaged(cls) -> "Ec2Prices":
        return _packaged()

    def on_demand(self, instance_type: str) -> float:
        return self.published.get(instance_type) or estimate(INSTANCE_TYPES[instance_type])

    def spot(self, instance_type: str, zone: str, when: float) -> float:
        """Return the spot price at `when`, in seconds since the epoch."""
        digest = hashlib.sha256(f"{instance_type}/{zone}".encode()).digest()
        share = 0.28 + 0.25 * digest[0] / 255
        drift = 0.04 * math.sin((when // STEP) * STEP / WAVE + digest[1])
        return round(self.on_demand(instance_type) * (share + drift), 6)

    def now(self, instance_type: str, zone: str, lifecycle: str) -> float:
        return self.spot(instance_type, zone, time.time()) if lifecycle == "spot" else self.on_demand(instance_type)


@cache
def _packaged() -> Ec2Prices:
    families: dict[str, dict[str, float]] = json.loads(TABLE.read_text())["prices"]
    return Ec2Prices({f"{family}.{size}": price for family, sizes in families.items() for size, price in sizes.items()})


def estimate(info: Mapping[str, Any]) -> float:
    """Return a plausible price for a type that the table lacks, from processors, memory and accelerators of
    DescribeInstanceTypes.

    >>> processor = {"SupportedArchitectures": ["x86_64"]}
    >>> estimate({"VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16384}, "ProcessorInfo": processor})
    0.192
    """
    price: float = 0.037 * info["VCpuInfo"]["DefaultVCpus"] + 0.00275 * info["MemoryInfo"]["SizeInMiB"] / 1024
    if "arm64" in info["ProcessorInfo"]["SupportedArchitectures"]:
        price *= 0.8
    for gpu in info.get("GpuInfo", {}).get("Gpus", []):
        price += gpu.get("Count", 1) * (0.35 + 0.00007 * gpu.get("MemoryInfo", {}).get("SizeInMiB", 16384))
    return round(price, 6)


def describe_spot_price_history(response: Any) -> ActionResult:
    """Return the current price of each offering, as EC2 answers when StartTime is now."""
    prices = Ec2Prices.packaged()
    products = response._get_param("ProductDescriptions", []) or PRODUCTS
    filters = response._filters_from_querystring()
    if zone := response._get_param("AvailabilityZone"):
        filters["availability-zone"] = [zone]
    offerings = response.ec2_backend.describe_spot_price_history(response._get_param("InstanceTypes", []), filters)
    now = datetime.now(UTC)
    offered = [
        (offering["InstanceType"], offering["Location"], product)
        for offering in offerings
        if "spot" in INSTANCE_TYPES.get(offering["InstanceType"], {}).get("SupportedUsageClasses", ())
        for product in products
    ]
    start = int(response._get_param("NextToken") or 0)
    end = start + int(response._get_param("MaxResults") or 1000)
    rows = [
        {
            "InstanceType": instance_type,
            "ProductDescription": product,
            "AvailabilityZone": zone,
            "SpotPrice": f"{prices.spot(instance_type, zone, now.timestamp()):.6f}",
            "Timestamp": now,
        }
        for instance_type, zone, product in offered[start:end]
    ]
    return ActionResult({"SpotPriceHistory": rows, "NextToken": str(end) if end < len(offered) else ""})


def install() -> None:
    replace_attribute(EC2Response, "describe_spot_price_history", describe_spot_price_history)
