"""What pools require and nothing in the catalogue has: instance types, zones, families and sizes that are most often misspelt.

A pool may well name what this region does not have (the same manifest stands in several), so it is a warning: that value has no effect.

>>> from joiner.catalogue import InstanceType
>>> from joiner.cluster import Requirements
>>> from joiner.pools import ClassRef
>>> pool = NodePool("web", ClassRef("EC2NodeClass", "default"), requirements=Requirements.from_labels({names.INSTANCE_TYPE: "m5.lrage"}))
>>> catalogue = Catalogue.of([InstanceType("m5.large", labels={names.INSTANCE_TYPE: "m5.large"})])
>>> print(*unknown_values([pool], catalogue))
NodePool/web: spec.template.spec.requirements[node.kubernetes.io/instance-type] is m5.lrage: the catalogue has no such instance type; \
did you mean m5.large?
"""

import difflib
from collections.abc import Iterable, Iterator
from typing import Final

from joiner import names
from joiner.catalogue.types import Catalogue
from joiner.pools import InvalidManifest, NodePool
from joiner.pools.reading import shown

MOST_SHOWN: Final = 5
NOUNS: Final = {
    names.INSTANCE_TYPE: "instance type",
    names.ZONE: "zone",
    names.REGION: "region",
    names.CAPACITY_TYPE: "capacity type",
}
OF_NODES: Final = frozenset({names.HOSTNAME, names.ZONE_ID, names.OS})
"""Keys that nodes or node classes decide: what the catalogue lacks of them says nothing."""


def unknown_values(pools: Iterable[NodePool], catalogue: Catalogue) -> list[InvalidManifest]:
    """One problem for each key of each pool that is required to be what no instance type is, and no zone is called."""
    return [problem for pool in pools for problem in _of_pool(pool, catalogue)]


def _of_pool(pool: NodePool, catalogue: Catalogue) -> Iterator[InvalidManifest]:
    for key, values in sorted(pool.requirements.items()):
        if key in OF_NODES or not values.finite:
            continue
        strange = [value for value in values if value not in _values(key, catalogue)]
        if not strange or (key == names.CAPACITY_TYPE and len(strange) < len(list(values))):
            continue  # prices of one kind, and reservations, come and go; a pool that names several means whatever there is
        if known := frozenset(_values(key, catalogue)):
            field = f"{'spec' if pool.legacy else 'spec.template.spec'}.requirements[{key}]"
            told = ", ".join(strange[:MOST_SHOWN]) + (f" and {len(strange) - MOST_SHOWN} more" if len(strange) > MOST_SHOWN else "")
            yield InvalidManifest(pool.key, field, shown(told), _remedy(key, strange, known), "warning")


def _values(key: str, catalogue: Catalogue) -> Iterable[str]:
    """All that a label can be in this catalogue, one after another: what there is is found soon. None for one that types do not decide."""
    types = catalogue.types.values()
    if key == names.INSTANCE_TYPE:
        return catalogue.types
    if key == names.ZONE:
        return (one.zone for known in types for one in known.offerings)
    if key == names.CAPACITY_TYPE:
        return (one.capacity_type for known in types for one in known.offerings)
    if key == names.REGION:
        return (region for known in types for one in known.offerings if (region := names.region_of(one.zone)))
    return (known.labels[key] for known in types if key in known.labels)


def _remedy(key: str, strange: list[str], known: frozenset[str]) -> str:
    noun = NOUNS.get(key)
    said = f"the catalogue has no such {noun}" if noun else "no instance type of the catalogue has it"
    spelt = [value for value in strange[:MOST_SHOWN] if not value.isdecimal()]
    near = {one: None for value in spelt for one in difflib.get_close_matches(value, sorted(known), n=2)}
    if near:
        return f"{said}; did you mean {' or '.join(list(near)[:MOST_SHOWN])}?"
    few = sorted(known, key=lambda one: (len(one), one))
    more = f" and {len(few) - MOST_SHOWN} more" if len(few) > MOST_SHOWN else ""
    return f"{said}; there {'is' if len(few) == 1 else 'are'} {', '.join(few[:MOST_SHOWN])}{more}"
