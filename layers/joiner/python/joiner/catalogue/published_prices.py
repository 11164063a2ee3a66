"""On-demand prices as AWS published them on a date, for regions whose partition has no Price List API.

``published_prices.json`` has the Linux prices of two regions of GovCloud, and of cn-north-1, whose Price List API may
be unreachable ($/h, in China CNY/h). The isolated regions of AWS publish no prices:
there the settings name a file (`prices.file`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class PublishedPrices:
    """The prices of a region by instance type, and the date (ISO 8601) of their publication."""

    published: str
    prices: Mapping[str, float]

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "PublishedPrices":
        """Read the price file of the settings, which their reader has checked."""
        return cls(content["published"], {name: float(price) for name, price in content["prices"].items()})

    def age_days(self, today: date) -> int:
        """Return the days since the publication.

        >>> PublishedPrices("2026-07-20", {}).age_days(date(2026, 8, 1))
        12
        """
        return (today - date.fromisoformat(self.published)).days


@cache
def load_published_prices(region: str) -> PublishedPrices | None:
    """Return the packaged prices of a region; None if there are none.

    >>> gov = load_published_prices("us-gov-west-1")
    >>> gov.published, gov.prices["m5.large"]
    ('2026-07-20', 0.121)
    >>> load_published_prices("us-iso-east-1")
    """
    table = json.loads(files("joiner.catalogue").joinpath("published_prices.json").read_text(encoding="utf-8"))
    found = table.get(region)
    return PublishedPrices(found["published"], found["prices"]) if found else None
