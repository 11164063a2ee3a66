"""Bare metal and instance types with accelerators: types that a plan launches only where something asks for them.

They are scarce, bare metal takes minutes longer to boot, and pods without a device would occupy the devices that other
pods need; as spot, they are sometimes cheaper than common types even so. Karpenter drops them from a launch while
another type remains. Source: karpenter-provider-aws, ``pkg/providers/instance/filter/filter.go`` (exotic types). Types
with FPGAs and media accelerators are added here, for the same reason.
"""

from collections.abc import Mapping
from typing import Final

from joiner import names
from joiner.catalogue.burstable_types import CATEGORY, FAMILY
from joiner.cluster import ABSENT, Requirements

METAL: Final = "bare metal"
ACCELERATORS: Final = "accelerators"

COMMON: Final[frozenset[str]] = frozenset()
"""The kinds of a type that is not exotic."""
SIZE: Final = f"{names.INSTANCE_PREFIX}size"
DEVICE_COUNTS: Final = (f"{names.INSTANCE_PREFIX}gpu-count", f"{names.INSTANCE_PREFIX}accelerator-count")
DEVICE_LABELS: Final = (f"{names.INSTANCE_PREFIX}gpu-", f"{names.INSTANCE_PREFIX}accelerator-")
DEVICE_CATEGORIES: Final = frozenset({"f", "vt"})
"""Categories of FPGAs and of media accelerators, which no label of Karpenter counts."""
NAMING: Final[Mapping[str, frozenset[str]]] = {
    names.INSTANCE_TYPE: frozenset({METAL, ACCELERATORS}),
    SIZE: frozenset({METAL}),
    FAMILY: frozenset({ACCELERATORS}),
    CATEGORY: frozenset({ACCELERATORS}),
}
"""The kinds that a list of values of a label names. A family has common sizes beside its bare metal, so it does not
name the latter."""


def exotic_kinds(name: str, labels: Mapping[str, str]) -> frozenset[str]:
    """Return which of bare metal and accelerators an instance type is or has, by its name and labels.

    >>> sorted(exotic_kinds("g4dn.metal", {DEVICE_COUNTS[0]: "8"})), sorted(exotic_kinds("m5.large", {}))
    (['accelerators', 'bare metal'], [])
    """
    metal = labels.get(SIZE, name.partition(".")[2]).startswith("metal")
    devices = any(labels.get(key) for key in DEVICE_COUNTS) or labels.get(CATEGORY) in DEVICE_CATEGORIES
    return COMMON | ({METAL} if metal else COMMON) | ({ACCELERATORS} if devices else COMMON)


def named_kinds(labels: Mapping[str, str], requirements: Requirements) -> frozenset[str]:
    """Return which kinds of an instance type these requirements of a pool or of a pod name, by its labels.

    A list names a type if the type's value is in it; a requirement on a device names accelerators unless types without
    the device meet it.

    >>> g5 = {CATEGORY: "g", SIZE: "metal"}
    >>> [sorted(named_kinds(g5, Requirements.from_labels(one))) for one in ({CATEGORY: "g"}, {SIZE: "metal"}, {})]
    [['accelerators'], ['bare metal'], []]
    """
    named = COMMON
    for key, values in requirements.items():
        if key in NAMING and values.finite and labels.get(key) in values:
            named |= NAMING[key]
        elif key.startswith(DEVICE_LABELS) and ABSENT not in values:
            named |= {ACCELERATORS}
    return named


def names_kinds(requirements: Requirements) -> bool:
    """Return whether the requirements may name bare metal or accelerators of some type."""
    return any(key in NAMING or key.startswith(DEVICE_LABELS) for key in requirements)
