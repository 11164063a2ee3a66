"""What can be launched: every pool's types, zones and capacity types at their price, with the room that daemons leave.

Compiled once a plan. Against each offer stands the set of groups whose node rules it meets, as bits, so that the placer never
looks at a label again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import sub
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering, allocatable, capacity
from joiner.cluster import ABSENT, Requirements, Resources, ValueSet, total
from joiner.planning.groups import Group, Groups
from joiner.planning.mounting import PREFIX, UNLIMITED
from joiner.planning.plan import Offer
from joiner.planning.snapshot import Snapshot
from joiner.pools import NodeClass, NodePool, Overlays, ResolvedNodeClass

Unavailable = frozenset[tuple[str, str, str]]
"""Capacity type, instance type and zone of offerings that are short now; ``*`` for type or zone means all of them."""

EVERY: Final = "*"

NEW_HOST: Final = "\0new"
"""Stands for the name of a node that has none yet: it equals no name that anybody asks for."""

DECIDED: Final = re.compile(r"(kubernetes\.io/(arch|os|hostname)|node\.kubernetes\.io/.*|topology\..*|karpenter\.(sh|k8s\.aws)/.*)")
"""Labels that the instance or Joiner decides; whatever else a pool's requirements name is the pool's to choose."""

REGION: Final = re.compile(r"[a-z]+(-[a-z]+)+-\d+")
OF_PLACES: Final = (names.ZONE, names.CAPACITY_TYPE, names.REGION, names.ZONE_ID, names.RESERVATION)
MOST_VARIANTS: Final = 64
"""How many ways to decide what a pool leaves open are looked at in one plan."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What one pool makes of one instance type, whichever zone and capacity type it is had in.

    ``room`` is what its pods can request before daemons, in the order of the plan's resources. ``labels`` lack those of the place.
    """

    name: str
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    room: tuple[int, ...]


class Launchable:
    """One offer of one pool: ``room`` is what its pods can request (daemons taken off), in the order of the plan's resources.

    There are thousands of them and a plan looks closely at few: labels and sums are made when somebody asks.
    """

    __slots__ = ("_labels", "_offer", "_overhead", "daemons", "index", "model", "offering", "place", "room")

    def __init__(
        self, index: int, model: Model, offering: Offering, *, room: tuple[int, ...], daemons: tuple[Group, ...], place: Mapping[str, str]
    ) -> None:
        self.index = index
        self.model = model
        self.offering = offering
        self.room = room
        self.daemons = daemons
        self.place = place
        self._offer: Offer | None = None
        self._labels: dict[str, str] | None = None
        self._overhead: Resources | None = None

    @property
    def offer(self) -> Offer:
        if self._offer is None:
            said = self.offering
            self._offer = Offer(said.price_per_hour, self.model.name, said.zone, said.capacity_type)
        return self._offer

    @property
    def capacity(self) -> Resources:
        return self.model.capacity

    @property
    def allocatable(self) -> Resources:
        return self.model.allocatable

    @property
    def labels(self) -> Mapping[str, str]:
        """Of its nodes, but for those that the pool leaves open."""
        if self._labels is None:
            self._labels = {**self.model.labels, **self.place}
        return self._labels

    @property
    def supply(self) -> int | None:
        """How many such nodes can be had at all (what is left of a reservation); None = as many as one likes."""
        return self.offering.count

    @property
    def supply_key(self) -> tuple[str, ...]:
        """The same for offers that draw on one supply, in whichever pool they are."""
        said = self.offering
        return ("reservation", said.reservation) if said.reservation else (self.model.name, said.zone, said.capacity_type)

    @property
    def overhead(self) -> Resources:
        """What the daemons request."""
        if self._overhead is None:
            self._overhead = total(daemon.constraints.requests for daemon in self.daemons)
        return self._overhead

    def label(self, key: str) -> str | None:
        """One label, without making the others."""
        found = self.place.get(key)
        return self.model.labels.get(key) if found is None else found


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A pool with the labels that it leaves open decided (``labels``). ``bits`` of a group are the offers that it may use."""

    pool: NodePool
    labels: Mapping[str, str]
    bits: Mapping[int, int] = field(default_factory=dict)


NOTHING_AVAILABLE: Final = "no instance type that is available meets the pool's requirements"
"""Why a market without a single offering is closed; the explanation can tell whether that is for want of capacity."""


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """What one pool offers. ``closed`` says why it offers nothing, or is empty; ``fixed`` is what a static pool makes its nodes from."""

    pool: NodePool
    node_class: NodeClass | None
    launchable: tuple[Launchable, ...] = ()
    variants: tuple[Variant, ...] = ()
    closed: str = ""
    fixed: "Market | None" = None
    memory: dict[str, dict[str, int]] = field(default_factory=dict, repr=False)

    def domains(self, key: str) -> Mapping[str, int]:
        """Value of a label that offers decide -> the offers that carry it, as bits."""
        if key not in self.memory:
            self.memory[key] = _positions(key, self.launchable)[0]
        return self.memory[key]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One offer of one pool, with the pool's open labels decided. ``groups`` are the indices of those that may use it, as bits."""

    market: Market
    variant: Variant
    one: Launchable
    groups: int


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What offers are compiled from, the same for every pool. ``attachable`` counts volumes by instance type and driver, as far as a
    node of the type has told."""

    groups: Groups
    catalogue: Catalogue
    unavailable: Unavailable
    overlays: Overlays
    attachable: Mapping[str, Mapping[str, int]]

    def room(self, name: str, can: Resources) -> tuple[int, ...]:
        if not self.attachable:
            amounts = can.amounts
            return tuple([amounts.get(resource, 0) for resource in self.groups.resources])
        told = self.attachable.get(name, {})
        return tuple(
            told.get(resource.removeprefix(PREFIX), UNLIMITED) if resource.startswith(PREFIX) else can.get(resource, 0)
            for resource in self.groups.resources
        )

    def overlaid(self, model: Model, offering: Offering, place: Mapping[str, str]) -> tuple[Model, Offering]:
        """Both as NodeOverlays have them."""
        if not self.overlays:
            return model, offering
        labels = {**model.labels, **place}
        more = self.overlays.capacity(labels)
        price = self.overlays.price(labels, offering.price_per_hour)
        if more:
            can = Resources({**model.allocatable, **more})
            model = Model(model.name, model.labels, Resources({**model.capacity, **more}), can, self.room(model.name, can))
        return model, (replace(offering, price_per_hour=price) if price != offering.price_per_hour else offering)


def markets(
    snapshot: Snapshot,
    groups: Groups,
    catalogue: Catalogue,
    unavailable: Unavailable,
    classes: Mapping[str, ResolvedNodeClass],
) -> tuple[Market, ...]:
    """One a pool, the heaviest first, then by key."""
    scene = Scene(groups, catalogue, unavailable, snapshot.overlays, _attachable(snapshot))
    return tuple(_market(pool, snapshot, scene, classes) for pool in sorted(snapshot.pools, key=lambda one: (-one.weight, one.key)))


def _market(pool: NodePool, snapshot: Snapshot, scene: Scene, classes: Mapping[str, ResolvedNodeClass]) -> Market:
    node_class, resolved = snapshot.node_class(pool), classes.get(pool.class_ref.key)
    closed = _closed(pool, resolved)
    if closed or resolved is None:
        return Market(pool, node_class, closed=closed)
    launchable = tuple(_launchable(pool, node_class, resolved, scene))
    variants = _variants(pool, launchable, scene.groups)
    if pool.replicas is not None:
        made = Market(pool, node_class, launchable, variants)
        return Market(pool, node_class, closed="the pool is static: it has as many nodes as its replicas say", fixed=made)
    return Market(pool, node_class, launchable, variants, "" if launchable else NOTHING_AVAILABLE)


def _attachable(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """By instance type and driver: the fewest volumes that any node of the type can have."""
    found: dict[str, dict[str, int]] = {}
    for node in snapshot.nodes:
        own = found.setdefault(node.labels.get(names.INSTANCE_TYPE, ""), {})
        for driver, count in snapshot.volumes.limits.get(node.name, {}).items():
            own[driver] = min(own.get(driver, count), count)
    return found if snapshot.volumes.limits else {}


def _closed(pool: NodePool, resolved: ResolvedNodeClass | None) -> str:
    if pool.deleting:
        return "the pool is being deleted"
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
    return {**_type_labels(instance_type, pool_labels(pool)), **place_labels(zone, capacity_type)}


def _type_labels(instance_type: InstanceType, of_pool: Mapping[str, str]) -> dict[str, str]:
    return {f"{names.INSTANCE_PREFIX}tenancy": "default", **instance_type.labels, **of_pool}


def place_labels(zone: str, capacity_type: str, *, zone_id: str = "", reservation: str = "") -> dict[str, str]:
    """Labels that depend on where and how a node is had, and those of any node that is new."""
    region = REGION.match(zone)
    return {
        **({names.ZONE_ID: zone_id} if zone_id else {}),
        **({names.RESERVATION: reservation} if reservation else {}),
        names.ZONE: zone,
        names.CAPACITY_TYPE: capacity_type,
        names.HOSTNAME: NEW_HOST,
        names.REGISTERED: "true",
        names.INITIALIZED: "true",
        **({names.REGION: region.group()} if region else {}),
    }


PLACELESS: Final = place_labels("", "")


class Judge:
    """Whether labels meet requirements, where the same few label values are asked about again and again."""

    def __init__(self, requirements: Requirements) -> None:
        self._known: list[tuple[str, ValueSet, dict[str, bool], bool]] = [
            (key, values, {}, ABSENT in values) for key, values in requirements.items()
        ]
        self.of_places = not PLACELESS.keys().isdisjoint(requirements)

    def allows(self, labels: Mapping[str, str]) -> bool:
        for key, values, known, absent in self._known:
            value = labels.get(key)
            if value is None:
                if not absent:
                    return False
                continue
            meets = known.get(value)
            if meets is None:
                meets = known[value] = value in values
            if not meets:
                return False
        return True


def _launchable(pool: NodePool, node_class: NodeClass | None, resolved: ResolvedNodeClass, scene: Scene) -> Iterable[Launchable]:
    of_type = Requirements({key: values for key, values in pool.requirements.items() if key not in OF_PLACES})
    decided = Judge(Requirements({key: values for key, values in of_type.items() if DECIDED.fullmatch(key) or key in pool.labels}))
    places = Places(Requirements({key: values for key, values in pool.requirements.items() if key not in of_type}), resolved)
    of_pool, daemons = pool_labels(pool), Daemons(pool, scene.groups)
    number = 0
    for name in sorted(scene.catalogue.types):
        known = scene.catalogue.types[name]
        labels = _type_labels(known, of_pool)
        if not decided.allows(labels | PLACELESS if decided.of_places else labels) or not _has_image(resolved, known):
            continue
        model: Model | None = None
        for sold in known.offerings:
            place = places.of(sold)
            if place is None or not sold.available or _is_short(sold, known, scene.unavailable):
                continue
            if model is None:
                can, has = allocatable(known, node_class, pool), capacity(known, node_class, pool)
                model = Model(name, labels, has, can, scene.room(name, can))
            own, offering = scene.overlaid(model, sold, place)
            here, overhead = daemons.on(labels, place)
            left = tuple(map(sub, own.room, overhead))
            if min(left, default=0) >= 0:
                yield Launchable(number, own, offering, room=left, daemons=here, place=place)
                number += 1


class Places:
    """Zones and capacity types that a pool and its class allow, with the labels of nodes there: worked out once for each."""

    def __init__(self, requirements: Requirements, resolved: ResolvedNodeClass) -> None:
        self._judge = Judge(requirements)
        self._zones = {subnet.zone: subnet.zone_id for subnet in resolved.subnets}
        self._known: dict[tuple[str, str, str], dict[str, str] | None] = {}

    def of(self, offering: Offering) -> dict[str, str] | None:
        """The labels, or None where no node of the pool may be."""
        asked = (offering.zone, offering.capacity_type, offering.reservation)
        if asked not in self._known:
            zone_id = self._zones.get(offering.zone, "")
            labels = place_labels(offering.zone, offering.capacity_type, zone_id=zone_id, reservation=offering.reservation)
            allowed = offering.zone in self._zones and self._judge.allows(labels)
            self._known[asked] = labels if allowed else None
        return self._known[asked]


class Daemons:
    """Which daemons come with a node of a pool, and what they take of it: asked once for each set of labels that some daemon reads."""

    def __init__(self, pool: NodePool, groups: Groups) -> None:
        self._taints = pool.taints
        self._groups = groups
        willing = [daemon for daemon, _ in groups.daemons if daemon.constraints.untolerated(pool.taints) is None]
        said = [one.constraints for one in willing]
        read = {key for one in said for key in one.selector}
        read |= {key for one in said for term in one.terms or () for key in term.labels}
        self._keys = tuple(sorted(read))
        self._known: dict[tuple[str | None, ...], tuple[tuple[Group, ...], tuple[int, ...]]] = {}

    def on(self, labels: Mapping[str, str], place: Mapping[str, str]) -> tuple[tuple[Group, ...], tuple[int, ...]]:
        asked: tuple[str | None, ...] = ()
        if self._keys:
            asked = (*map(labels.get, self._keys), *map(place.get, self._keys))
        found = self._known.get(asked)
        if found is None:
            carried = {**labels, **place}
            here = tuple(own for daemon, own in self._groups.daemons if daemon.runs_on(carried, self._taints, NEW_HOST))
            taken = tuple(sum(own.vector[position] for own in here) for position in range(len(self._groups.resources)))
            found = self._known[asked] = (here, taken)
        return found


def _is_short(offering: Offering, known: InstanceType, unavailable: Unavailable) -> bool:
    if not unavailable:
        return False
    kind, zone = offering.capacity_type, offering.zone
    return not unavailable.isdisjoint({(kind, known.name, zone), (kind, EVERY, zone), (kind, known.name, EVERY), (kind, EVERY, EVERY)})


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


def flexible(offers: Iterable[Launchable], minimums: Mapping[str, int]) -> bool:
    """Whether these offers show as many values of each label as minValues asks for."""
    seen: dict[str, set[str]] = {key: set() for key in minimums}
    for one in offers:
        for key, values in seen.items():
            value = one.label(key)
            if value is not None:
                values.add(value)
        if all(len(values) >= minimums[key] for key, values in seen.items()):
            return True
    return not minimums


def _positions(key: str, launchable: Sequence[Launchable]) -> tuple[dict[str, int], int]:
    """Label value -> the offers that carry it, and the offers that carry none."""
    carried: dict[str, list[int]] = {}
    lacking: list[int] = []
    for one in launchable:
        value = one.label(key)
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
