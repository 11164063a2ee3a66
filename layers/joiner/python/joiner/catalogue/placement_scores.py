"""Spot placement scores of EC2: what is expected of a spot offering before the cluster has a history of its own.

A score from 1 to 10 says how likely EC2 is to fulfil a request for several instance types in one zone. It says nothing
about one type, and nothing about interruptions. So it decides little: it stands for at most one warning in the hundred
node-hours that every type and zone is assumed to have had (``interruption_history``), and the cluster's own history
outweighs it with time.

    expected warnings = (10 - score) / 9

A type and zone without a score (its family is not asked for, EC2 refused, or the answer lacks the zone) counts as the
mean of the known scores. An unknown score is no good news: with the best one, every other family would be a little
cheaper than the families that the cluster uses, only because it has no score. Without any score nothing is expected.

EC2 limits how many different requests an account makes in a day, and scores of one or two types are always low. So the
types of one family are asked for together, for the families of which the cluster had most spot nodes. Source: EC2 user
guide, "Spot placement score".

>>> from joiner.catalogue.instance_types import Offering
>>> spot = tuple(Offering(zone, SPOT, 0.03) for zone in ("z-1a", "z-1b", "z-1c"))
>>> expect_warnings({"m5": {"z-1a": 10, "z-1b": 1}}, [InstanceType("m5.large", offerings=spot)])
{('m5.large', 'z-1b'): 1.0, ('m5.large', 'z-1c'): 0.5}
"""

from collections.abc import Iterable, Mapping
from typing import Final

from joiner.catalogue.instance_types import InstanceType
from joiner.catalogue.interruption_history import SpotHours, SpotPlace
from joiner.names import SPOT

FAMILIES_ASKED: Final = 10
"""Families of one refresh. Their requests are the same each hour, as long as the cluster uses the same families."""
LEAST_TYPES: Final = 3
"""EC2 returns a low score for fewer types."""
ASKED_CAPACITY: Final = 10
"""Instances that a request is about. Another number would be another request."""
BEST, WORST = 10, 1

PlacementScores = Mapping[str, Mapping[str, int]]
"""Scores by instance family and zone."""


def family_of(instance_type: str) -> str:
    """Return the family of an instance type.

    >>> family_of("m5.large")
    'm5'
    """
    return instance_type.partition(".")[0]


def choose_families(types: Iterable[InstanceType], hours: SpotHours, now: int) -> dict[str, tuple[str, ...]]:
    """Return the spot types of the families to ask for: those with the most hours of spot nodes, by name."""
    used: dict[str, float] = {}
    for name, zones in hours.hours.items():
        spent = sum(hours.of((name, zone), now) for zone in zones)
        used[family_of(name)] = used.get(family_of(name), 0.0) + spent
    members: dict[str, list[str]] = {}
    for each in types:
        if any(one.capacity_type == SPOT for one in each.offerings):
            members.setdefault(family_of(each.name), []).append(each.name)
    usable = [family for family in used if len(members.get(family, ())) >= LEAST_TYPES]
    chosen = sorted(usable, key=lambda family: (-used[family], family))[:FAMILIES_ASKED]
    return {family: tuple(sorted(members[family])) for family in sorted(chosen)}


def expect_warnings(scores: PlacementScores, types: Iterable[InstanceType]) -> dict[SpotPlace, float]:
    """Return the warnings that the scores stand for, by type and zone of the spot offerings; those of the best score
    are left out, and so are all without any score.
    """
    known = [score for zones in scores.values() for score in zones.values()]
    if not known:
        return {}
    mean = sum(known) / len(known)
    found = {
        (each.name, one.zone): round(
            (BEST - scores.get(family_of(each.name), {}).get(one.zone, mean)) / (BEST - WORST), 4
        )
        for each in types
        for one in each.offerings
        if one.capacity_type == SPOT
    }
    return {place: warnings for place, warnings in found.items() if warnings}
