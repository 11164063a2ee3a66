"""Values that pools name and the catalogue does not have: misspelt instance types, zones, families and sizes, and
limits on resources that no instance type has.

One manifest may serve several regions, so a pool may name values that this region does not have. Such a value has no
effect, and the problem is a warning.

>>> from joiner.catalogue import InstanceType
>>> from joiner.cluster import Requirements
>>> from joiner.pools import NodeClassRef
>>> misspelt = Requirements.from_labels({names.INSTANCE_TYPE: "m5.lrage"})
>>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=misspelt)
>>> catalogue = Catalogue.of([InstanceType("m5.large", labels={names.INSTANCE_TYPE: "m5.large"})])
>>> print(*find_unknown_values([pool], catalogue))
NodePool/web: spec.template.spec.requirements[node.kubernetes.io/instance-type] is m5.lrage: the catalogue has no \
such instance type; did you mean m5.large?
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Final

from joiner import names
from joiner.catalogue.allocatable import ADDED_DEVICES
from joiner.catalogue.ec2_instance_types import GPU_RESOURCES
from joiner.catalogue.instance_types import Catalogue, InstanceType
from joiner.cluster import Resources, ValueSet
from joiner.pools import InvalidManifest, NodePool
from joiner.pools.codecs.karpenter_v1alpha5 import CATEGORY, DEFAULT_CATEGORIES
from joiner.pools.codecs.manifest_fields import format_value
from joiner.pools.suggestions import is_one_mistake

MOST_SHOWN: Final = 5
NEAR: Final = 2  # the maximum number of suggested values
NOUNS: Final = {
    names.INSTANCE_TYPE: "instance type",
    names.ZONE: "zone",
    names.REGION: "region",
    names.CAPACITY_TYPE: "capacity type",
}
LIMITED: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods", "nodes"})
"""What every node counts against limits, whatever its instance type."""
FAMILY: Final = f"{names.INSTANCE_PREFIX}family"
SERIES: Final = re.compile(r"[a-z]+[0-9]+")
"""The series and the generation of an instance family, such as m6 of m6id."""
FIXED_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    names.CAPACITY_TYPE: names.CAPACITY_TYPES,
    names.OS: ("linux", "windows"),
}
"""Keys that have these values, whatever the catalogue lists."""
EXCLUDES_NOTHING: Final = "it excludes nothing"
DEVICE_NAMES: Final = frozenset(GPU_RESOURCES.values())
"""Resources of instance types that other catalogues have: they are not misspelt."""
OF_NODES: Final = frozenset({names.HOSTNAME, names.ZONE_ID, names.OS})
"""Keys whose values come from nodes or node classes. The catalogue does not list these values."""


def find_unknown_values(pools: Iterable[NodePool], catalogue: Catalogue) -> list[InvalidManifest]:
    """Return one problem for each key of each pool that requires a value which no instance type or zone has."""
    return [problem for pool in pools for problem in _of_pool(pool, catalogue)]


def _of_pool(pool: NodePool, catalogue: Catalogue) -> Iterator[InvalidManifest]:
    for key, values in sorted(pool.requirements.items()):
        if not values.finite or (pool.legacy and _is_default(key, values, catalogue)):
            continue
        if misspelt := [value for value in values if value not in FIXED_VALUES.get(key, values)]:
            yield describe_unknown_values(pool, key, misspelt, frozenset(FIXED_VALUES[key]))
            continue
        if key in OF_NODES:
            continue
        unknown = [value for value in values if value not in list_values(key, catalogue)]
        if not unknown or (
            key == names.CAPACITY_TYPE and (names.RESERVED in values or len(unknown) < len(list(values)))
        ):
            # Reservations are those of classes, and prices may be missing for a time: a pool with several capacity
            # types uses what exists
            continue
        if known := frozenset(list_values(key, catalogue)):
            yield describe_unknown_values(pool, key, unknown, known)


def describe_unknown_values(pool: NodePool, key: str, unknown: list[str], known: frozenset[str]) -> InvalidManifest:
    """Return the problem of a requirement with values that are none of the known ones, with what may be meant."""
    more = f" and {len(unknown) - MOST_SHOWN} more" if len(unknown) > MOST_SHOWN else ""
    listed = ", ".join(unknown[:MOST_SHOWN]) + more
    return InvalidManifest(
        pool.key, pool.requirement_field(key), format_value(listed), _remedy(key, unknown, known), "warning"
    )


def _is_default(key: str, values: ValueSet, catalogue: Catalogue) -> bool:
    """Return whether these are the default categories of a Provisioner, of which the catalogue has some."""
    if key != CATEGORY or {*values} != {*DEFAULT_CATEGORIES}:
        return False
    return any(one.labels.get(CATEGORY) in DEFAULT_CATEGORIES for one in catalogue.types.values())


def _quantity(name: str, amount: int) -> str:
    """Return the amount of a limit as a quantity, in binary units if it has no remainder in them, because a misspelt
    `memory` is written like memory.

    >>> _quantity("memroy", 2**30), _quantity("gpu", 8), _quantity("memroy", 1536 * 2**20)
    ('1Gi', '8', '1536Mi')
    """
    for suffix, unit in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20)):
        if amount and amount % unit == 0:
            return f"{amount // unit}{suffix}"
    return Resources({name: amount}).to_kube()[name]


def find_unknown_limits(
    pools: Iterable[NodePool], catalogue: Catalogue, added: Collection[str] = ()
) -> list[InvalidManifest]:
    """Return one problem for each limit of a pool on a resource that no node has: it limits nothing.

    ``added`` are the resources that NodeOverlays add to nodes.

    >>> from joiner.catalogue import InstanceType
    >>> from joiner.cluster import Resources
    >>> from joiner.pools import NodeClassRef
    >>> limits = Resources({"cpus": 100, "gpu": 8, "nodes": 3})
    >>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), limits=limits)
    >>> gpus = InstanceType("g5.xlarge", capacity=Resources({"cpu": 4000, "nvidia.com/gpu": 1}))
    >>> print(*find_unknown_limits([pool], Catalogue.of([gpus])), sep=chr(10))
    NodePool/web: spec.limits.cpus is 100: it limits nothing, because no instance type of the catalogue has this \
resource; did you mean cpu?
    NodePool/web: spec.limits.gpu is 8: it limits nothing, because no instance type of the catalogue has this \
resource; did you mean nvidia.com/gpu?
    """
    known = {*LIMITED, *ADDED_DEVICES, *added}.union(*(one.capacity for one in catalogue.types.values()))
    return [
        InvalidManifest(
            pool.key,
            f"spec.limits.{'resources.' if pool.legacy else ''}{name}",
            format_value(_quantity(name, value)),
            f"it limits nothing, because no instance type of the catalogue has this resource{_meant(name, known)}",
            "warning",
        )
        for pool in pools
        for name, value in sorted(pool.limits.items())
        if name not in known
    ]


def _meant(name: str, known: Collection[str]) -> str:
    """Return the resources that a name may stand for, as a question; devices are often named without their domain."""
    if name in DEVICE_NAMES:
        return ""
    near = suggest_resources(name, known)
    return f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(sorted(LIMITED))} and devices"


def suggest_resources(name: str, known: Collection[str]) -> list[str]:
    """Return the resources that a name may stand for; devices are often named without their domain.

    >>> suggest_resources("gpu", ["cpu", "nvidia.com/gpu"]), suggest_resources("nvidia.com/gpus", ["nvidia.com/gpu"])
    (['nvidia.com/gpu'], ['nvidia.com/gpu'])
    """
    devices = [one for one in sorted(known) if one.rpartition("/")[2] == name.lower()]
    return devices[:NEAR] or _alike(name.lower(), known)[:1]


def explain_unknown_values(key: str, values: Iterable[str], catalogue: Catalogue) -> str:
    """Return what the catalogue has instead of these values of a label; empty if it has one of them, or no value of
    the label.
    """
    unknown = list(values)
    if key in OF_NODES:
        return ""
    # Prices of a capacity type may be missing for a time
    known = frozenset(names.CAPACITY_TYPES if key == names.CAPACITY_TYPE else list_values(key, catalogue))
    return _remedy(key, unknown, known) if known and known.isdisjoint(unknown) else ""


def find_unsatisfiable_requirements(pool: NodePool, catalogue: Catalogue) -> InvalidManifest | None:
    """Return the problem of a pool whose requirements no offering meets together, or None.

    >>> from joiner.catalogue import InstanceType, Offering
    >>> from joiner.cluster import Requirements
    >>> from joiner.pools import NodeClassRef
    >>> both = Requirements.from_labels({names.INSTANCE_TYPE: "m5.large", names.ARCH: "arm64"})
    >>> kinds = [("m5.large", "amd64"), ("m7g.large", "arm64"), ("m8g.large", "arm64")]
    >>> offerings = (Offering("us-east-1a", "on-demand", 0.1),)
    >>> types = [
    ...     InstanceType(name, labels={names.INSTANCE_TYPE: name, names.ARCH: arch}, offerings=offerings)
    ...     for name, arch in kinds
    ... ]
    >>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=both)
    >>> print(find_unsatisfiable_requirements(pool, Catalogue.of(types)))
    NodePool/web: spec.template.spec.requirements is kubernetes.io/arch In [arm64], \
node.kubernetes.io/instance-type In [m5.large]: no instance type of the catalogue meets all of them; alone, 2 meet \
kubernetes.io/arch, 1 node.kubernetes.io/instance-type
    """
    met: Counter[str] = Counter()
    tenancies = names.TENANCIES if names.TENANCY in pool.requirements else (names.DEFAULT_TENANCY,)
    decided = {
        key for key in pool.requirements if key not in OF_NODES and any(True for _ in list_values(key, catalogue))
    }
    for kind in catalogue.types.values():
        of_kind: set[str] = set()
        for zone, capacity_type, tenancy in _list_places(kind, tenancies):
            place = {
                names.ZONE: zone,
                names.REGION: names.region_of(zone),
                names.CAPACITY_TYPE: capacity_type,
                names.TENANCY: tenancy,
            }
            unmet = {*pool.requirements.unmet({**kind.labels, **place})}
            if not unmet & decided:
                return None
            of_kind |= decided - unmet
        met.update(of_kind)
    alone = ", ".join(f"{met[key]} {'meet ' if not at else ''}{key}" for at, key in enumerate(sorted(decided)))
    labels = f"; {pool.labels_path} has {' and '.join(pool.instance_labels)}" if pool.instance_labels else ""
    remedy = f"no instance type of the catalogue meets all of them; alone, {alone}{labels}"
    return (
        InvalidManifest(
            pool.key, f"{pool.node_path}.requirements", format_value(str(pool.requirements)), remedy, "warning"
        )
        if decided
        else None
    )


def _list_places(kind: InstanceType, tenancies: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield zone, capacity type and tenancy of the nodes of a type. A class may have capacity reservations, on shared
    hardware, wherever the type is offered.
    """
    for offering, tenancy in product(kind.offerings, tenancies):
        yield offering.zone, offering.capacity_type, tenancy
    for zone in {one.zone for one in kind.offerings}:
        yield zone, names.RESERVED, names.DEFAULT_TENANCY


def close_unsatisfiable_pools(
    problems: Iterable[InvalidManifest], pools: Iterable[NodePool], catalogue: Catalogue
) -> tuple[InvalidManifest, ...]:
    """Return the problems; those with the requirements of a pool that no offering meets are errors.

    Such a pool launches nothing, so it is not ready. In an offline plan the same problem is a warning, because the
    catalogue of the cluster may have more types.
    """
    listed = list(problems)
    doubtful = {one.object for one in listed if _is_of_requirements(one) and one.severity == "warning"}
    closed = {
        pool.key
        for pool in pools
        if pool.key in doubtful and find_unsatisfiable_requirements(pool, catalogue) is not None
    }
    return tuple(
        replace(one, severity="error")
        if one.object in closed and _is_of_requirements(one) and not one.remedy.startswith(EXCLUDES_NOTHING)
        else one
        for one in listed
    )


def _is_of_requirements(one: InvalidManifest) -> bool:
    """Return whether a problem is in the requirements of a pool, or in a label of its template."""
    return ".requirements" in one.field or one.field.startswith(("spec.template.metadata.labels[", "spec.labels["))


def list_values(key: str, catalogue: Catalogue) -> Iterable[str]:
    """Yield the values of a label in this catalogue, without a search through all types first.

    Nothing for a label that instance types do not set.
    """
    types = catalogue.types.values()
    if key == names.TENANCY:
        return names.TENANCIES
    if key == names.INSTANCE_TYPE:
        return catalogue.types
    if key == names.ZONE:
        return (one.zone for known in types for one in known.offerings)
    if key == names.CAPACITY_TYPE:
        return (one.capacity_type for known in types for one in known.offerings)
    if key == names.REGION:
        return (region for known in types for one in known.offerings if (region := names.region_of(one.zone)))
    return (known.labels[key] for known in types if key in known.labels)


def describe_absence(key: str) -> str:
    """Return that the catalogue does not have a value of a label.

    >>> describe_absence(names.ZONE), describe_absence(names.ARCH)
    ('the catalogue has no such zone', 'no instance type of the catalogue has it')
    """
    noun = NOUNS.get(key)
    return f"the catalogue has no such {noun}" if noun else "no instance type of the catalogue has it"


def _remedy(key: str, unknown: list[str], known: frozenset[str]) -> str:
    message = describe_absence(key)
    spelt = [value for value in unknown[:MOST_SHOWN] if not value.isdecimal()]
    near = {one: None for value in spelt for one in suggest_values(key, value, known)}
    if key == names.ZONE:
        regions = {names.region_of(value) for value in unknown}
        known = frozenset(one for one in known if names.region_of(one) in regions) or known
    if near:
        return f"{message}; did you mean {' or '.join(list(near)[:MOST_SHOWN])}?"
    few = sorted(known, key=lambda one: (len(one), one))
    more = f" and {len(few) - MOST_SHOWN} more" if len(few) > MOST_SHOWN else ""
    return f"{message}; there {'is' if len(few) == 1 else 'are'} {', '.join(few[:MOST_SHOWN])}{more}"


def suggest_zones(unknown: str, known: Iterable[str]) -> list[str]:
    """Return the zones that may have been meant: of the same region and kind (availability zone, Local Zone, Wavelength
    Zone), with the same letter at the end, because one letter is as near as another. Zones of a region that is surely
    misspelt differ by one mistake other than a wrong letter, which no two regions do.

    >>> zones = ["us-east-1a", "us-west-2b", "us-west-2-lax-1a", "us-west-2-lax-1b"]
    >>> [suggest_zones(one, zones) for one in ("us-east-1A", "us-esat-1a", "useast-1a", "us-west-2-lxa-1a")]
    [['us-east-1a'], ['us-east-1a'], ['us-east-1a'], ['us-west-2-lax-1a']]
    >>> [suggest_zones(one, zones) for one in ("us-west-1a", "us-east-2a", "us-west-2a", "us-west-2-las-1c")]
    [[], [], [], []]
    """
    unknown = unknown.lower()
    region = names.region_of(unknown)

    def may_be_meant(zone: str) -> bool:
        if zone[-1] != unknown[-1:]:
            return False
        if names.region_of(zone) == region:
            return zone.count("-") == unknown.count("-")
        return is_one_mistake(unknown, zone) and (len(unknown) != len(zone) or sorted(unknown) == sorted(zone))

    return _alike(unknown, filter(may_be_meant, known))


def suggest_instance_types(unknown: str, known: Collection[str]) -> list[str]:
    """Return at most two instance types that may have been meant.

    They are of the same family if the catalogue has it, else of families with a similar name.

    >>> types = ["m5.large", "m5.metal", "m5d.large", "t4g.large"]
    >>> [suggest_instance_types(name, types) for name in ("m5.lrage", "m55.large", "m5.gigantic", "nothing.large")]
    [['m5.large'], ['m5.large', 'm5d.large'], ['m5.large', 'm5.metal'], []]
    >>> [suggest_instance_types(name, types) for name in ("M5.large", "m55.lrage", "m5large")]
    [['m5.large'], ['m5.large', 'm5d.large'], ['m5.large', 'm5d.large']]
    """
    unknown = unknown.lower()
    if unknown.count(".") != 1:
        return _alike(unknown, known)
    family, _, size = unknown.partition(".")
    families: dict[str, list[str]] = {}
    for one in sorted(known, key=lambda one: (len(one), one)):
        families.setdefault(one.partition(".")[0], []).append(one)
    if family in families:
        return _alike(unknown, families[family]) or families[family][:NEAR]
    near = _suggest_families(family, families)
    of_the_size = [f"{one}.{size}" for one in near if f"{one}.{size}" in families[one]]
    return of_the_size or _alike(unknown, [one for name in near for one in families[name]])


def _suggest_families(unknown: str, known: Collection[str]) -> list[str]:
    """Return the families with a similar name, else the shortest names of the same series and generation.

    >>> families = ["m6gd", "m6i", "m6a", "m5", "c6a", "u-6tb1", "r7iz"]
    >>> [_suggest_families(name, families) for name in ("m6zz", "M6zz-flex", "r7zi", "zz9")]
    [['m6a', 'm6i'], ['m6a', 'm6i'], ['r7iz'], []]
    """
    if near := _alike(unknown, known):
        return near
    series = SERIES.match(unknown.lower())
    same = [one for one in known if series and SERIES.match(one) and one.startswith(series[0])]
    return sorted(same, key=lambda one: (len(one), one))[:NEAR]


def _alike(unknown: str, known: Iterable[str]) -> list[str]:
    """Return the values that differ only in upper and lower case, else the nearest ones.

    >>> _alike("us-east-1A", ["us-east-1a", "us-east-1b", "us-east-1d"]), _alike("C", ["c", "m"])
    (['us-east-1a'], ['c'])
    """
    lower = {one.lower(): one for one in sorted(known)}
    same = lower.get(unknown.lower())
    return [same] if same else [lower[one] for one in difflib.get_close_matches(unknown.lower(), lower, n=NEAR)]


SUGGESTIONS: Final[Mapping[str, Callable[[str, Collection[str]], list[str]]]] = {
    names.INSTANCE_TYPE: suggest_instance_types,
    FAMILY: _suggest_families,
    names.ZONE: suggest_zones,
}
"""How nearest values are found for labels whose values have a structure."""


def suggest_values(key: str, unknown: str, known: Collection[str]) -> list[str]:
    """Return the known values of a label that may have been meant.

    >>> suggest_values(names.NODEPOOL, "defualt", ["default", "gpu"]), suggest_values(names.ZONE, "b", ["a"])
    (['default'], [])
    """
    return SUGGESTIONS.get(key, _alike)(unknown, known)
