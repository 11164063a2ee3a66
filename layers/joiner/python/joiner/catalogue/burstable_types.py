"""Burstable instance types: the vCPUs that they sustain.

A burstable type earns CPU credits at a fixed rate, and one credit is one minute of one vCPU. In the long run it can use
no more than it earns, or each further vCPU-hour is billed (mode unlimited). Source: Amazon EC2 user guide, "Key
concepts for burstable performance instances", table of credits earned per hour.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from joiner import names
from joiner.cluster import Requirements, Resources
from joiner.cluster.resources import CPU

_T3: Final[Mapping[str, float]] = {
    "nano": 6,
    "micro": 12,
    "small": 24,
    "medium": 24,
    "large": 36,
    "xlarge": 96,
    "2xlarge": 192,
}
CREDITS_AN_HOUR: Final[Mapping[str, Mapping[str, float]]] = {
    "t2": {"nano": 3, "micro": 6, "small": 12, "medium": 24, "large": 36, "xlarge": 54, "2xlarge": 81.6},
    "t3": _T3,
    "t3a": _T3,
    "t4g": _T3,
}
"""CPU credits that an instance earns in an hour, by family and size."""
CATEGORY: Final = f"{names.INSTANCE_PREFIX}category"
FAMILY: Final = f"{names.INSTANCE_PREFIX}family"


def sustained_millicores(instance_type: str) -> int | None:
    """Return what a burstable type sustains; None for all other types.

    >>> sustained_millicores("t3.medium"), sustained_millicores("t2.2xlarge"), sustained_millicores("m5.large")
    (400, 1360, None)
    """
    family, _, size = instance_type.partition(".")
    credits_an_hour = CREDITS_AN_HOUR.get(family, {}).get(size)
    return None if credits_an_hour is None else round(credits_an_hour * 1000 / 60)


def names_burstable_types(requirements: Iterable[Requirements]) -> bool:
    """Return whether some of these requirements names a burstable type, family, or the category t.

    >>> names_burstable_types([Requirements.from_labels({FAMILY: "t3"})])
    True
    """
    return any(
        values.finite and any(_is_burstable(key, value) for value in values)
        for one in requirements
        for key, values in one.items()
        if key in (CATEGORY, FAMILY, names.INSTANCE_TYPE)
    )


def _is_burstable(key: str, value: str) -> bool:
    if key == CATEGORY:
        return value == "t"
    return value.partition(".")[0] in CREDITS_AN_HOUR


def plannable_resources(instance_type: str, capacity: Resources, allocatable: Resources) -> Resources:
    """Return the allocatable resources with the CPU that a burstable type sustains, less the same reserves."""
    sustained = sustained_millicores(instance_type)
    if sustained is None:
        return allocatable
    reserved = capacity.get(CPU, 0) - allocatable.get(CPU, 0)
    return Resources({**allocatable, CPU: max(min(sustained - reserved, allocatable.get(CPU, 0)), 0)})
