"""How often spot instances of the cluster are interrupted, by type and zone, and what that is worth.

    interruptions an hour  =  warnings / (node-hours + 100)
    price of interruptions =  interruptions an hour x hours of work that one loses x the on-demand price

Warnings and node-hours fade: what is a week old counts half. The hundred hours keep one warning from deciding much: a
type that was used for an hour and interrupted once is not interrupted once an hour. Types without a warning have no
price of interruptions, whether they were used or not, so a cluster without warnings plans as if there were no history.

>>> hours = SpotHours(at=86400).note({("m5.large", "z-1a"): 10}, 90000)
>>> hours.hours
{'m5.large': {'z-1a': 10.0}}
>>> warnings = (Interruptions("m5.large", "z-1a", 90000, 11),)
>>> interruption_rates(warnings, hours, 90000)
{('m5.large', 'z-1a'): 0.1}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from joiner.catalogue.instance_types import InstanceType
from joiner.names import ON_DEMAND, SPOT

DAY: Final = 24 * 3600
HALF_LIFE: Final = 7 * DAY
"""Seconds after which a warning and a node-hour count half. Spot capacity of a type changes within days."""
ASSUMED_HOURS: Final = 100.0
"""Node-hours without a warning that every type and zone is assumed to have had."""
NOTED_EVERY: Final = 3600
"""Seconds between two additions to the node-hours."""
MOST_BETWEEN: Final = 2 * NOTED_EVERY
"""Seconds that one addition may stand for: sweeps may have been missing, and the nodes are not known meanwhile."""
LEAST_HOURS: Final = 0.01
"""Node-hours below this are forgotten."""

SpotPlace = tuple[str, str]
"""Instance type and zone."""
NOTHING_EXPECTED: Final[Mapping[SpotPlace, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Interruptions:
    """``count`` instances of one type in one zone got a warning on the day that begins at ``day`` (epoch seconds)."""

    instance_type: str
    zone: str
    day: int
    count: int


@dataclass(frozen=True, slots=True)
class SpotHours:
    """Hours that spot nodes of each type and zone were there, faded as of ``at`` (epoch seconds)."""

    hours: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    at: int = 0

    def note(self, running: Mapping[SpotPlace, int], now: int) -> "SpotHours":
        """Return the hours with those of the nodes that run now; the value itself if the last addition is less than an
        hour old, or if there is nothing to note.
        """
        elapsed = now - self.at
        if elapsed < NOTED_EVERY or not (running or self.hours):
            return self
        since = min(elapsed, MOST_BETWEEN) / 3600 if self.at else 0.0
        found = {place: number * since for place, number in running.items()}
        for name, zones in self.hours.items():
            for zone, hours in zones.items():
                found[name, zone] = found.get((name, zone), 0.0) + hours * fade(elapsed)
        kept: dict[str, dict[str, float]] = {}
        for (name, zone), hours in sorted(found.items()):
            if hours >= LEAST_HOURS:
                kept.setdefault(name, {})[zone] = round(hours, 4)
        return SpotHours(kept, now)

    def of(self, place: SpotPlace, now: int) -> float:
        """Return the hours of one type and zone as of now."""
        return self.hours.get(place[0], {}).get(place[1], 0.0) * fade(now - self.at)


def fade(seconds: int) -> float:
    """Return the weight of something that is so old."""
    return float(0.5 ** (max(seconds, 0) / HALF_LIFE))


def interruption_rates(
    found: Iterable[Interruptions],
    hours: SpotHours,
    now: int,
    expected: Mapping[SpotPlace, float] = NOTHING_EXPECTED,
) -> dict[SpotPlace, float]:
    """Return how many interruptions an hour a node of each type and zone has; those without any are left out.

    ``expected`` are warnings in the assumed hours (``placement_scores``).
    """
    counted: dict[SpotPlace, float] = dict(expected)
    for one in found:
        place = one.instance_type, one.zone
        counted[place] = counted.get(place, 0.0) + one.count * fade(now - one.day)
    return {place: count / (hours.of(place, now) + ASSUMED_HOURS) for place, count in sorted(counted.items())}


def price_interruptions(
    types: Iterable[InstanceType], rates: Mapping[SpotPlace, float], lost_hours: float
) -> list[InstanceType]:
    """Return the types with the price of interruptions in their spot offerings.

    ``lost_hours`` are the hours of a node's work that an interruption loses. The work is worth the on-demand price, for
    which it could be done without interruptions.
    """
    return [_with_price(each, rates, lost_hours) for each in types]


def _with_price(known: InstanceType, rates: Mapping[SpotPlace, float], lost_hours: float) -> InstanceType:
    if lost_hours <= 0 or not any((known.name, one.zone) in rates for one in known.offerings):
        return known
    return known.with_offerings(
        replace(
            one,
            interruptions=round(
                rates.get((known.name, one.zone), 0.0)
                * lost_hours
                * (known.price(one.zone, ON_DEMAND) or one.price_per_hour),
                10,
            ),
        )
        if one.capacity_type == SPOT
        else one
        for one in known.offerings
    )
