"""Values that pools exclude (`NotIn`) and the catalogue does not have.

A pool may exclude families and zones of other regions, or families to come: only a value that is surely misspelt is a
warning.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.catalogue.instance_types import Catalogue
from joiner.catalogue.unknown_values import (
    EXCLUDES_NOTHING,
    FAMILY,
    FIXED_VALUES,
    NEAR,
    OF_NODES,
    SERIES,
    describe_absence,
    describe_unknown_values,
    list_values,
    suggest_zones,
)
from joiner.pools import InvalidManifest, NodePool
from joiner.pools.suggestions import LEAST_LETTERS, is_one_mistake

EXCLUDABLE: Final[Mapping[str, tuple[str, ...]]] = {**FIXED_VALUES, names.ARCH: ("amd64", "arm64")}
"""Keys with values that are all known: a pool may exclude one that no instance type of this catalogue has."""
LONG_SERIES: Final = re.compile(r"[a-z]{3}")
"""The beginning of series such as trn. Shorter ones are too often one letter apart by intention, such as c5 and m5."""


def find_idle_exclusions(pools: Iterable[NodePool], catalogue: Catalogue) -> list[InvalidManifest]:
    """Return the problems of pools that exclude (`NotIn`) values which no instance type or zone has.

    Such a value may be one of another region, or of a family to come: that is a note. A warning is for what is surely
    misspelt: one mistake from a value of the catalogue, or a value of a key that has a few known ones.

    >>> from joiner.cluster import Requirements
    >>> from joiner.pools import NodeClassRef
    >>> no_spot = Requirements.from_kube([{"key": names.CAPACITY_TYPE, "operator": "NotIn", "values": ["spott"]}])
    >>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=no_spot)
    >>> print(*find_idle_exclusions([pool], Catalogue.of([])))
    NodePool/web: spec.template.spec.requirements[karpenter.sh/capacity-type] is spott: it excludes nothing: the \
catalogue has no such capacity type; did you mean spot?
    """
    return [
        replace(problem, remedy=f"{EXCLUDES_NOTHING}: {problem.remedy}")
        for pool in pools
        for key, values in sorted(pool.requirements.items())
        for problem in _of_key(pool, key, [one for one in sorted(values.exceptions) if one not in values], catalogue)
    ]


def _of_key(pool: NodePool, key: str, excluded: list[str], catalogue: Catalogue) -> Iterator[InvalidManifest]:
    known = frozenset(EXCLUDABLE.get(key, () if key in OF_NODES else list_values(key, catalogue)))
    unknown = [value for value in excluded if value not in known] if known else []
    if unknown and key in EXCLUDABLE:
        yield describe_unknown_values(pool, key, unknown, known)
        return
    meant = {value: near for value in unknown if (near := find_misspelt_values(key, value, known))}
    if meant:
        suggested = " or ".join(dict.fromkeys(one for found in meant.values() for one in found[:NEAR]))
        problem = describe_unknown_values(pool, key, list(meant), known)
        yield replace(problem, remedy=f"{describe_absence(key)}; did you mean {suggested}?")
    if others := [value for value in unknown if value not in meant]:
        yield replace(describe_unknown_values(pool, key, others, known), remedy=describe_absence(key), severity="info")


def find_misspelt_values(key: str, value: str, known: Iterable[str]) -> list[str]:
    """Return the values that were surely meant: the value differs from them by one mistake, or in upper and lower case.

    Another digit is another generation, zone or size, and other letters at the end of a family are another family, such
    as p4d and p4de: a mistake in a family is one in a series of several letters.

    >>> find_misspelt_values(FAMILY, "trn3", ["trn1", "trn1n"]), find_misspelt_values(FAMILY, "p4de", ["p4d"])
    ([], [])
    >>> find_misspelt_values(FAMILY, "tnr1", ["trn1", "trn1n"]), find_misspelt_values(FAMILY, "M6i", ["m6i"])
    (['trn1'], ['m6i'])
    >>> types = ["m5.large", "m5.xlarge", "trn1.2xlarge"]
    >>> [find_misspelt_values(names.INSTANCE_TYPE, name, types) for name in ("m5.lrage", "trnn1.2xlarge", "c5.large")]
    [['m5.large'], ['trn1.2xlarge'], []]
    >>> [find_misspelt_values(names.ZONE, zone, ["us-east-1a"]) for zone in ("us-esat-1a", "us-east-1f", "us-west-2a")]
    [['us-east-1a'], [], []]
    """
    lower, listed = value.lower(), {one.lower(): one for one in sorted(known)}
    if lower in listed:
        return [listed[lower]]
    family, _, size = lower.partition(".")
    if key == names.INSTANCE_TYPE and any(one.endswith(f".{size}") for one in listed):
        listed = {one: name for one, name in listed.items() if not one.startswith(f"{family}.")}  # the size is right
    return [name for one, name in listed.items() if _is_misspelt(key, lower, one)]


def _is_misspelt(key: str, value: str, meant: str) -> bool:
    if not is_one_mistake(value, meant):
        return False
    if key == names.ZONE:
        return bool(suggest_zones(value, [meant]))
    if key not in (names.INSTANCE_TYPE, FAMILY):
        return len(value) >= LEAST_LETTERS
    family, of_meant = value.partition(".")[0], meant.partition(".")[0]
    if family == of_meant:
        return True
    series, other = SERIES.match(family), SERIES.match(of_meant)
    return (
        series is not None and other is not None and series[0] != other[0] and LONG_SERIES.match(of_meant) is not None
    )
