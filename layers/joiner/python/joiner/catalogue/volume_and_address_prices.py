"""Prices of EBS volumes and public IPv4 addresses, as a table of facts.

Source: the public price pages of Amazon EBS and Amazon VPC, as of November 2025. AWS has changed these prices about
once in five years. The prices of gp3 are those of each region. Other types have the price of us-east-1, multiplied by
the region's ratio for gp3; this is exact in us-east-1 and within a few percent elsewhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from joiner.pools import BlockDevice

HOURS_A_MONTH: Final = 730
PUBLIC_IPV4_PER_HOUR: Final = 0.005
"""A public IPv4 address, in every region."""
UNNAMED_TYPE: Final = "gp2"
"""The type that EC2 creates if a block device mapping names none."""
UNNAMED_SIZE_GIB: Final = 20
"""The size assumed for a volume whose snapshot decides: that of the root volumes of EKS's images."""

GP3_GIB_MONTH: Final[Mapping[str, float]] = {
    "af-south-1": 0.1047,
    "ap-east-1": 0.1056,
    "ap-northeast-1": 0.096,
    "ap-northeast-2": 0.0912,
    "ap-northeast-3": 0.096,
    "ap-south-1": 0.0912,
    "ap-southeast-1": 0.096,
    "ap-southeast-2": 0.096,
    "ap-southeast-3": 0.096,
    "ca-central-1": 0.088,
    "eu-central-1": 0.0952,
    "eu-north-1": 0.0836,
    "eu-south-1": 0.0924,
    "eu-west-1": 0.088,
    "eu-west-2": 0.0928,
    "eu-west-3": 0.0928,
    "me-south-1": 0.0968,
    "sa-east-1": 0.152,
    "us-east-1": 0.08,
    "us-east-2": 0.08,
    "us-gov-east-1": 0.096,
    "us-gov-west-1": 0.096,
    "us-west-1": 0.096,
    "us-west-2": 0.08,
}
"""$ a GiB and month of gp3 by region. Other regions are taken to cost as much as the median of these."""
MEDIAN_GIB_MONTH: Final = 0.096


@dataclass(frozen=True, slots=True)
class VolumePrice:
    """Prices a month in us-east-1. ``free_iops`` and ``free_throughput`` (MiB/s) are included in ``gib``. ``tiers`` are
    the IOPS above which each cheaper price holds."""

    gib: float
    iops: float = 0.0
    free_iops: int = 0
    throughput: float = 0.0
    free_throughput: int = 0
    tiers: tuple[tuple[int, float], ...] = ()


VOLUME_PRICES: Final[Mapping[str, VolumePrice]] = {
    "gp3": VolumePrice(0.08, iops=0.005, free_iops=3000, throughput=0.04, free_throughput=125),
    "gp2": VolumePrice(0.10),
    "io1": VolumePrice(0.125, iops=0.065),
    "io2": VolumePrice(0.125, iops=0.065, tiers=((32_000, 0.046), (64_000, 0.032))),
    "st1": VolumePrice(0.045),
    "sc1": VolumePrice(0.015),
    "standard": VolumePrice(0.05),
}


def price_volume(device: BlockDevice, region: str) -> float:
    """Return the price of one volume in $/h, without I/O requests and snapshots.

    >>> round(price_volume(BlockDevice("/dev/xvda", 20, "gp3"), "us-east-1") * HOURS_A_MONTH, 6)
    1.6
    """
    known = VOLUME_PRICES.get(device.volume_type or UNNAMED_TYPE, VOLUME_PRICES[UNNAMED_TYPE])
    a_month = known.gib * (device.size_gib or UNNAMED_SIZE_GIB)
    a_month += _price_iops(known, max((device.iops or 0) - known.free_iops, 0))
    a_month += known.throughput * max((device.throughput or 0) - known.free_throughput, 0)
    ratio = GP3_GIB_MONTH.get(region, MEDIAN_GIB_MONTH) / GP3_GIB_MONTH["us-east-1"]
    return a_month * ratio / HOURS_A_MONTH


def price_volumes(devices: Iterable[BlockDevice], region: str) -> float:
    """Return the price of all volumes of a node in $/h."""
    return round(sum(price_volume(device, region) for device in devices), 6)


def _price_iops(known: VolumePrice, iops: int) -> float:
    """Return the price of provisioned IOPS a month: each tier's price holds for the IOPS above its start."""
    price, starts = 0.0, [(0, known.iops), *known.tiers]
    for position, (start, each) in enumerate(starts):
        end = starts[position + 1][0] if position + 1 < len(starts) else iops
        price += max(min(iops, end) - start, 0) * each
    return price
