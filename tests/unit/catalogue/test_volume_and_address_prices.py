"""Prices of volumes, against examples computed by hand from AWS's price pages."""

import pytest

from joiner.catalogue.volume_and_address_prices import GP3_GIB_MONTH, HOURS_A_MONTH, MEDIAN_GIB_MONTH, price_volumes
from joiner.pools import BlockDevice


@pytest.mark.parametrize(
    ("device", "region", "a_month"),
    [
        (BlockDevice("a", 20, "gp3"), "us-east-1", 1.6),
        (BlockDevice("a", 20, "gp3"), "sa-east-1", 3.04),
        (BlockDevice("a", 100, "gp3", iops=5000, throughput=325), "us-east-1", 8 + 2000 * 0.005 + 200 * 0.04),
        (BlockDevice("a", 100, "gp2"), "us-west-2", 10.0),
        (BlockDevice("a", 100, "io1", iops=1000), "us-east-1", 12.5 + 65),
        (
            BlockDevice("a", 100, "io2", iops=70_000),
            "us-east-1",
            12.5 + 32_000 * 0.065 + 32_000 * 0.046 + 6_000 * 0.032,
        ),
        (BlockDevice("a"), "us-east-1", 2.0),
    ],
)
def test_a_volume_has_its_published_price(device: BlockDevice, region: str, a_month: float) -> None:
    assert price_volumes([device], region) * HOURS_A_MONTH == pytest.approx(a_month, abs=1e-3)


def test_a_region_without_a_price_has_the_median_of_all() -> None:
    prices = sorted(GP3_GIB_MONTH.values())

    assert prices[len(prices) // 2] == MEDIAN_GIB_MONTH
    assert price_volumes([BlockDevice("a", 100, "gp3")], "xx-new-1") * HOURS_A_MONTH == pytest.approx(9.6, rel=1e-3)
