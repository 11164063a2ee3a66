"""What can be launched: every pool's types, zones and capacity types at their price, with the room that daemons leave.

Compiled once a plan. Against each offer stands the set of groups whose node rules it meets, as bits, so that the placer never
looks at a label again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering, allocatable, capacity
from joiner.cluster import ABSENT, Requirements, Resources, ValueSet
from joiner.planning.groups import Group, Groups
from joiner.planning.plan import Offer
from joiner.planning.snapshot import Snapshot
from joiner.pools import NodeClass, NodePool, ResolvedNodeClass

Unavailable = frozenset[tuple[str, str, str]]
"""Capacity type, instance type and zone of offerings that are short now; ``*`` for type or zone means all of them."""

EVERY: Final = "*"

NEW_HOST: Final = "\0new"
"""Stands for the name of a node that has none yet: it equals no name that anybody asks for."""

DECIDED: Final = re.compile(r"(kubernetes\.io/(arch|os|hostname)|node\.kubernetes\.io/.*|topology\..*|karpenter\.(sh|k8s\.aws)/.*)")
"""Labels that the instance or Joiner decides; whatever else a pool's requirements name is the pool's to choose."""

REGION: Final = re.compile(r"[a-z]+(-[a-z]+)+-\d+")
MOST_VARIANTS: Final = 64
"""How many ways to decide what a pool leaves open are looked at in one plan."""


@dataclass(frozen=True, slots=True, eq=False)
class Launchable:
    """One offer of one pool: ``room`` is what its pods can request (daemons taken off), in the order of the plan's resources."""

    index: int
    offer: Offer
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    overhead: Resources
    room: tuple[int, ...]
    daemons: tuple[Group, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A pool with the labels that it leaves open decided (``labels``). ``bits`` of a group are the offers that it may use."""

    pool: NodePool
    labels: Mapping[str, str]
    bits: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """What one pool offers. ``closed`` says why it offers nothing, or is empty."""

    pool: NodePool
    node_class: NodeClass | None
    launchable: tuple[Launchable, ...] = ()
    variants: tuple[Variant, ...] = ()
    closed: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One offer of one pool, with the pool's open labels decided. ``groups`` are the indices of those that may use it, as bits."""

    market: Market
    variant: Variant
    one: Launchable
    groups: int


def markets(
    snapshot: Snapshot,
    groups: Groups,
    catalogue: Catalogue,
    unavailable: Unavailable,
    classes: Mapping[str, ResolvedNodeClass],
) -> tuple[Market, ...]:
    """One a pool, the heaviest first, then by key."""
    found = []
    for pool in sorted(snapshot.pools, key=lambda one: (-one.weight, one.key)):
        node_class = snapshot.node_class(pool)
        resolved = classes.get(pool.class_ref.key)
        closed = _closed(pool, resolved)
        if closed or resolved is None:
            found.append(Market(pool, node_class, closed=closed))
            continue
        launchable = tuple(_launchable(pool, node_class, resolved, groups=groups, catalogue=catalogue, unavailable=unavailable))
        found.append(
            Market(
                pool,
                node_class,
                launchable,
                _variants(pool, launchable, groups),
                "" if launchable else "no instance type that is available meets the pool's requirements",
            )
        )
    return tuple(found)


def _closed(pool: NodePool, resolved: ResolvedNodeClass | None) -> str:
    if pool.deleting:
        return "the pool is being deleted"
    if pool.replicas is not None:
        return "the pool is static: it has as many nodes as its replicas say"
    if resolved is None:
        return f"its class {pool.class_ref.key} has not been resolved"
    if not resolved.ready:
        wrong = next(problem for problem in resolved.problems if problem.severity == "error")
        return f"its class {pool.class_ref.key} is not ready: {wrong.message}"
    if keys := pool.requirements.contradictions():
        return f"its requirements exclude each other on {', '.join(keys)}"
    return ""


def pool_labels(pool: NodePool) -> dict[str, str]:
    """The labels that every node of the pool carries, whatever its type."""
    own = {**pool.labels, names.NODEPOOL: pool.name}
    if pool.legacy:
        own[names.PROVISIONER] = pool.name
    if pool.class_ref.kind == "EC2NodeClass":
        own[names.NODECLASS] = pool.class_ref.name
    return own


def node_labels(pool: NodePool, instance_type: InstanceType, zone: str, capacity_type: str) -> dict[str, str]:
    """The labels that a node of this type will have there, but for those that the pool leaves open."""
    region = REGION.match(zone)
    return {
        f"{names.INSTANCE_PREFIX}tenancy": "default",
        **instance_type.labels,
        **pool_labels(pool),
        names.ZONE: zone,
        names.CAPACITY_TYPE: capacity_type,
        names.HOSTNAME: NEW_HOST,
        names.REGISTERED: "true",
        names.INITIALIZED: "true",
        **({names.REGION: region.group()} if region else {}),
    }


def _launchable(
    pool: NodePool,
    node_class: NodeClass | None,
    resolved: ResolvedNodeClass,
    *,
    groups: Groups,
    catalogue: Catalogue,
    unavailable: Unavailable,
) -> Iterable[Launchable]:
    of_type = Requirements(
        {key: values for key, values in pool.requirements.items() if key not in (names.ZONE, names.CAPACITY_TYPE, names.REGION)}
    )
    decided = Requirements({key: values for key, values in of_type.items() if DECIDED.fullmatch(key) or key in pool.labels})
    place = Requirements({key: values for key, values in pool.requirements.items() if key not in of_type})
    number = 0
    for name in sorted(catalogue.types):
        known = catalogue.types[name]
        if not decided.allow(node_labels(pool, known, "", "")) or not _has_image(resolved, known):
            continue
        has, can = capacity(known, node_class, pool), allocatable(known, node_class, pool)
        for offering in known.offerings:
            labels = node_labels(pool, known, offering.zone, offering.capacity_type)
            if not _for_sale(offering, known, resolved, unavailable) or not place.allow(labels):
                continue
            daemons = tuple((daemon, own) for daemon, own in groups.daemons if daemon.runs_on(labels, pool.taints, NEW_HOST))
            overhead = Resources()
            for daemon, _ in daemons:
                overhead += daemon.requests
            left = can - overhead
            offer = Offer(offering.price_per_hour, name, offering.zone, offering.capacity_type)
            room = tuple(left.get(resource, 0) for resource in groups.resources)
            if min(room, default=0) >= 0:
                yield Launchable(number, offer, labels, has, can, overhead, room, tuple(own for _, own in daemons))
                number += 1


def _for_sale(offering: Offering, known: InstanceType, resolved: ResolvedNodeClass, unavailable: Unavailable) -> bool:
    kind, zone = offering.capacity_type, offering.zone
    short = not unavailable.isdisjoint({(kind, known.name, zone), (kind, EVERY, zone), (kind, known.name, EVERY), (kind, EVERY, EVERY)})
    return offering.available and not short and offering.zone in resolved.zones


def _has_image(resolved: ResolvedNodeClass, known: InstanceType) -> bool:
    """A class that names no images is one that was not resolved by EC2: a plan on paper."""
    return not resolved.images or any(image.requirements.allow(known.labels) for image in resolved.images)


def _variants(pool: NodePool, launchable: Sequence[Launchable], groups: Groups) -> tuple[Variant, ...]:
    """The ways to decide what the pool leaves open, and for each the offers that every pending group may use."""
    asked = asked_values(groups)
    choices: list[list[tuple[str, str | None]]] = []
    for key, values in sorted(pool.requirements.items()):
        if DECIDED.fullmatch(key) or key in pool.labels:
            continue
        wanted = [value for value in sorted(asked.get(key, ())) if value in values]
        if values.finite and key in asked:
            wanted = sorted({*wanted, *values})
        neutral = None if values.absent else str((values - ValueSet.of(*wanted) or values).any_value())
        choices.append([(key, value) for value in dict.fromkeys([neutral, *wanted])])
    found = []
    for number, combination in enumerate(product(*choices)):
        if number >= MOST_VARIANTS:
            break
        labels = {key: value for key, value in combination if value is not None}
        found.append(Variant(pool, labels, _bits(labels, launchable, groups)))
    return tuple(found)


def asked_values(groups: Groups) -> dict[str, set[str]]:
    """Label keys that pending pods or daemons name in rules about nodes or domains, with the values that they name."""
    found: dict[str, set[str]] = {}
    for group in groups.pending:
        for requirements in (*group.where, *(one.term.labels for one in group.constraints.preferences)):
            for key, values in requirements.items():
                found.setdefault(key, set()).update(values.exceptions)
        for spread in group.constraints.spreads:
            found.setdefault(spread.topology_key, set())
        for term in (*group.constraints.affinity, *group.constraints.anti_affinity):
            found.setdefault(term.topology_key, set())
    return found


def _bits(labels: Mapping[str, str], launchable: Sequence[Launchable], groups: Groups) -> dict[int, int]:
    """Group index -> the offers whose labels it accepts, as bits. Taints are looked at elsewhere: they are the pool's, not the offer's."""
    values: dict[str, dict[str, int]] = {}
    missing: dict[str, int] = {}
    every = (1 << len(launchable)) - 1
    found: dict[int, int] = {}
    memory: dict[tuple[str, ValueSet], int] = {}
    for group in groups.pending:
        accepted = 0
        for requirements in group.where:
            bits = every
            for key, allowed in requirements.items():
                if not bits:
                    break
                if key in labels:
                    bits &= every if labels[key] in allowed else 0
                    continue
                if (key, allowed) not in memory:
                    if key not in values:
                        values[key], missing[key] = _positions(key, launchable)
                    mine = missing[key] if ABSENT in allowed else 0
                    for value, positions in values[key].items():
                        mine |= positions if value in allowed else 0
                    memory[key, allowed] = mine
                bits &= memory[key, allowed]
            accepted |= bits
        found[group.index] = accepted
    return found


def _positions(key: str, launchable: Sequence[Launchable]) -> tuple[dict[str, int], int]:
    """Label value -> the offers that carry it, and the offers that carry none."""
    carried: dict[str, list[int]] = {}
    lacking: list[int] = []
    for one in launchable:
        value = one.labels.get(key)
        (lacking if value is None else carried.setdefault(value, [])).append(one.index)
    return {value: _as_bits(positions) for value, positions in carried.items()}, _as_bits(lacking)


def _as_bits(positions: Sequence[int]) -> int:
    if not positions:
        return 0
    marks = bytearray(positions[-1] // 8 + 1)
    for position in positions:
        marks[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(marks, "little")


def positions(bits: int) -> list[int]:
    """The positions of the bits that are set, ascending.

    >>> positions(0b10110)
    [1, 2, 4]
    """
    text = bin(bits)[:1:-1]
    found, start = [], text.find("1")
    while start >= 0:
        found.append(start)
        start = text.find("1", start + 1)
    return found
