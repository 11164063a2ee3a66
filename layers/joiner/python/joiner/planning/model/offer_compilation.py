"""The offers of one pool: its types, zones and capacity types with their prices and the capacity that daemons leave.

They depend on the pool, its class, the catalogue and the daemons, not on pending pods. A later plan of the same planner
with the same inputs reuses them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from operator import sub
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering, compute_allocatable, compute_capacity, family_labels
from joiner.catalogue.allocatable import list_exhausted
from joiner.catalogue.burstable_types import names_burstable_types, plannable_resources
from joiner.catalogue.class_compatibility import find_exclusion
from joiner.catalogue.commitments import Commitment, runs_linux
from joiner.catalogue.instance_features import EFA
from joiner.catalogue.instance_tenancy import DedicatedPrices, list_tenancies
from joiner.catalogue.reserved_offerings import list_reserved_offerings
from joiner.catalogue.total_node_prices import node_costs
from joiner.catalogue.unavailable_offerings import zone_of_shortage
from joiner.cluster import ABSENT, DaemonSet, Requirements, Resources, ValueSet, sum_resources
from joiner.planning.model.node_labels import (
    INSTANCE_LABELS,
    NEW_HOST,
    open_keys,
    place_labels,
    pool_labels,
    type_labels,
)
from joiner.planning.model.node_offers import NodeOffer, OfferSet, PoolInstanceType, Unavailable
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.pod_groups import PodGroups
from joiner.planning.model.volume_constraints import node_amount
from joiner.pools import NodeClass, NodePool, Overlays, ResolvedNodeClass
from joiner.pools.additional_node_costs import NodeCosts
from joiner.pools.capacity_reservations import PRICE_SHARE, RESERVATION_LABELS

ANY_VALUE: Final = "*"
PLACE_KEYS: Final = (
    names.ZONE,
    names.CAPACITY_TYPE,
    names.REGION,
    names.ZONE_ID,
    names.TENANCY,
    *RESERVATION_LABELS,
)


@dataclass(frozen=True, slots=True, eq=False)
class OfferInputs:
    """The inputs that are the same for every pool. ``attachable`` counts volumes by instance type and driver, as far
    as a node of the type reports it. ``memory`` is what nodes that run now report, in bytes by instance type and image.
    ``burstable_named`` is whether a pending pod names burstable types, ``dedicated_required`` whether one requires
    dedicated hardware."""

    groups: PodGroups
    catalogue: Catalogue
    unavailable: Unavailable
    overlays: Overlays
    attachable: Mapping[str, Mapping[str, int]]
    memory: Mapping[str, Mapping[str, int]]
    burstable_named: bool = False
    dedicated_required: bool = False

    def free(self, name: str, can: Resources) -> tuple[int, ...]:
        """Return the amounts that pods can use on a type, in the order of the groups' resources."""
        if not self.attachable:
            amounts = can.amounts
            return tuple([amounts.get(resource, 0) for resource in self.groups.resources])
        attachable = self.attachable.get(name, {})
        return tuple(node_amount(resource, can, attachable) for resource in self.groups.resources)

    def in_pool(
        self,
        known: InstanceType,
        labels: Mapping[str, str],
        pool: NodePool,
        node_class: NodeClass | None,
        resolved: ResolvedNodeClass,
        *,
        full_burst: bool,
    ) -> PoolInstanceType:
        """Return the type as a node of the pool has it. ``full_burst`` as for `overlaid`."""
        actual, efa = self._with_observed_memory(known, resolved), _has_efa(pool, self.groups)
        can = compute_allocatable(actual, node_class, pool, efa=efa)
        has = compute_capacity(actual, node_class, pool, efa=efa)
        left_to_pods = can if full_burst else plannable_resources(known.name, has, can)
        return PoolInstanceType(known.name, labels, has, can, self.free(known.name, left_to_pods))

    def _with_observed_memory(self, known: InstanceType, resolved: ResolvedNodeClass) -> InstanceType:
        """Return the type with the least memory that nodes of it reported with the image that the class launches."""
        own, running = known.observed_memory, self.memory.get(known.name)
        image = resolved.image_for(known.labels) if own or running else None
        if image is None:
            return known
        return known.with_memory(
            min((each[image.id] for each in (own, running or {}) if image.id in each), default=None)
        )

    def overlaid(
        self, model: PoolInstanceType, offering: Offering, place: Mapping[str, str], *, full_burst: bool
    ) -> tuple[PoolInstanceType, Offering]:
        """Return both with NodeOverlays applied. Without ``full_burst``, burstable types have the CPU they sustain."""
        if not self.overlays:
            return model, offering
        labels = {**model.labels, **place}
        more = self.overlays.capacity(labels)
        price = self.overlays.price(labels, offering.price_per_hour)
        if more:
            can = Resources({**model.allocatable, **more})
            has = Resources({**model.capacity, **more})
            left_to_pods = can if full_burst else plannable_resources(model.name, has, can)
            model = PoolInstanceType(model.name, model.labels, has, can, self.free(model.name, left_to_pods))
        return model, (
            replace(offering, price_per_hour=price, overlaid=True) if price != offering.price_per_hour else offering
        )


def compile_offers(
    pool: NodePool, node_class: NodeClass | None, resolved: ResolvedNodeClass, inputs: OfferInputs, cache: OfferCache
) -> OfferSet:
    """Return all offers of this pool for these inputs, from the cache if it has them."""
    daemons = tuple(daemon for daemon, _ in inputs.groups.daemons)
    facts = (
        inputs.groups.resources,
        inputs.unavailable,
        inputs.overlays,
        inputs.attachable,
        inputs.memory,
        inputs.burstable_named,
        inputs.dedicated_required,
    )
    asked = (pool, node_class, resolved, daemons, *facts, inputs.catalogue)  # Comparing the catalogue takes longest.
    return cache.offer_set(asked, lambda: OfferSet(_launchable(pool, node_class, resolved, inputs)))


NO_PLACE_LABELS: Final = place_labels("", "")


class LabelMatcher:
    """Evaluates requirements on labels, and caches the results for repeated label values."""

    def __init__(self, requirements: Requirements) -> None:
        self._known: list[tuple[str, ValueSet, dict[str, bool], bool]] = [
            (key, values, {}, ABSENT in values) for key, values in requirements.items()
        ]
        self.of_places = not NO_PLACE_LABELS.keys().isdisjoint(requirements)

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels meets the requirements."""
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


def match_types(pool: NodePool) -> LabelMatcher:
    """Return the requirements that the labels of instance types and the pool's own labels decide."""
    return LabelMatcher(
        Requirements(
            {
                key: values
                for key, values in pool.requirements.items()
                if key not in PLACE_KEYS and (INSTANCE_LABELS.fullmatch(key) or key in pool.labels)
            }
        )
    )


def requirements_of_places(pool: NodePool) -> Requirements:
    """Return the requirements that zone, capacity type, tenancy and reservation decide."""
    return Requirements({key: values for key, values in pool.requirements.items() if key in PLACE_KEYS})


def _launchable(
    pool: NodePool, node_class: NodeClass | None, resolved: ResolvedNodeClass, inputs: OfferInputs
) -> Iterable[NodeOffer]:
    decided, places = match_types(pool), PoolPlaces(requirements_of_places(pool), resolved)
    of_pool, daemons = pool_labels(pool), DaemonOverhead(pool, inputs.groups, of_open_labels=False)
    beside = {zone: node_costs(pool, resolved, zone) for zone in resolved.zones}
    full_burst = pool.planning.full_burst or inputs.burstable_named or names_burstable_types([pool.requirements])
    number = 0
    of_class = {**family_labels(node_class), **resolved.placement_labels(pool.requirements)}
    group = resolved.placement_group.id if resolved.placement_group else ""
    tenancies = list_tenancies(pool, resolved.placement_group, dedicated_required=inputs.dedicated_required)
    dedicated = DedicatedPrices(inputs.catalogue)
    for name in sorted(inputs.catalogue.types):
        known = inputs.catalogue.types[name]
        labels = {**type_labels(known, of_pool), **of_class}
        allowed = decided.allows(labels | NO_PLACE_LABELS if decided.of_places else labels)
        if not allowed or find_exclusion(known, node_class, resolved):
            continue
        model: PoolInstanceType | None = None
        limited = _list_limited(known, labels, places, inputs.catalogue)
        for sold in dedicated.offerings(known, tenancies, limited):
            place = places.of(sold)
            if place is None or not sold.available or _is_short(sold, known, inputs.unavailable, group):
                continue
            if model is None:
                model = inputs.in_pool(known, labels, pool, node_class, resolved, full_burst=full_burst)
                if list_exhausted(model.capacity, model.allocatable):
                    break
            if sold.commitment and inputs.overlays.fixes_price({**labels, **place}):
                continue  # The overlay's price is that of every node, covered or not.
            own, offering = inputs.overlaid(model, sold, place, full_burst=full_burst)
            costs = replace(beside[sold.zone], interruptions=sold.interruptions)
            offering = _with_costs(offering, costs)
            here, taken, overhead = daemons.on(labels, place)
            left = tuple(map(sub, own.free, taken))
            if min(left, default=0) >= 0 and pool.requests.fits(own.allocatable):
                yield NodeOffer(
                    number, own, offering, free=left, daemons=here, overhead=overhead, place=place, costs=costs
                )
                number += 1


def _list_limited(
    known: InstanceType, labels: Mapping[str, str], places: "PoolPlaces", catalogue: Catalogue
) -> Iterable[Offering]:
    """Return the offerings of which there is a limited number: in capacity reservations, and covered by commitments.
    They are on shared hardware."""
    committed = _committed(known, catalogue.commitments) if runs_linux(labels) else ()
    return (*places.reserved(known), *committed)


def _has_efa(pool: NodePool, groups: PodGroups) -> bool:
    """Return whether new nodes of the pool get interfaces with EFA: for their pods, or for what a claim requests."""
    return bool(pool.requests.get(EFA, 0)) if pool.claim else EFA in groups.resources


def _committed(known: InstanceType, commitments: Iterable[Commitment]) -> Iterable[Offering]:
    """Return an offering for each commitment and zone: an on-demand instance that the commitment covers."""
    for one in commitments:
        for sold in known.offerings:
            units = one.use_of(known.name, sold.zone)
            if sold.capacity_type == names.ON_DEMAND and 0 < units <= one.amount:
                price = sold.price_per_hour * PRICE_SHARE
                yield replace(
                    sold,
                    price_per_hour=price,
                    count=one.amount,
                    commitment=one.id,
                    committed=round(sold.price_per_hour - price, 10),
                    units=units,
                )


def _with_costs(offering: Offering, costs: NodeCosts) -> Offering:
    """Return the offering at the price of the whole node."""
    more = costs.total
    return replace(offering, price_per_hour=round(offering.price_per_hour + more, 10)) if more else offering


class PoolPlaces:
    """Zones and capacity types that a pool and its class allow, with the labels of nodes there; computed once for
    each."""

    def __init__(self, requirements: Requirements, resolved: ResolvedNodeClass) -> None:
        self._judge = LabelMatcher(requirements)
        self._zones = {subnet.zone: subnet.zone_id for subnet in resolved.subnets if subnet.zone in resolved.zones}
        self._known: dict[tuple[str, ...], dict[str, str] | None] = {}
        self._reservations = resolved.reservations
        self._of_reservation = {one.id: one.labels for one in resolved.reservations if one.id}

    def reserved(self, known: InstanceType) -> Iterable[Offering]:
        """Return the offerings of the class's capacity reservations for an instance type, as many as are free."""
        return list_reserved_offerings(self._reservations, known)

    def of(self, offering: Offering) -> dict[str, str] | None:
        """Return the labels, or None if the pool allows no node of this offering."""
        asked = (offering.zone, offering.capacity_type, offering.reservation, offering.tenancy)
        if asked not in self._known:
            zone_id = self._zones.get(offering.zone, "")
            labels = place_labels(
                offering.zone,
                offering.capacity_type,
                zone_id=zone_id,
                reservation=offering.reservation,
                tenancy=offering.tenancy,
            )
            labels |= self._of_reservation.get(offering.reservation, {})
            allowed = offering.zone in self._zones and self._judge.allows(labels)
            self._known[asked] = labels if allowed else None
        return self._known[asked]


def rules_of_daemon(daemon: DaemonSet) -> Iterator[Requirements]:
    """Yield everything that a daemon requires of the labels of a node."""
    constraints = daemon.constraints
    yield from (constraints.selector, constraints.nodes_of_system)
    yield from (term.labels for term in constraints.terms or ())


class DaemonOverhead:
    """The daemons on a node of a pool, and their requests; computed once for each set of labels that daemons select
    by."""

    def __init__(self, pool: NodePool, groups: PodGroups, *, of_open_labels: bool | None = None) -> None:
        """``of_open_labels``: whether to count the daemons only that have rules about labels that the pool leaves open,
        or only the others; by default all."""
        self._taints = pool.taints
        self._groups = groups
        undecided, read = set(open_keys(pool)), set[str]()
        self.positions: list[int] = []
        for at, (daemon, _) in enumerate(groups.daemons):
            own = {key for rule in rules_of_daemon(daemon) for key in rule}
            counts = of_open_labels is None or of_open_labels != undecided.isdisjoint(own)
            if counts and daemon.constraints.untolerated(pool.taints) is None:
                self.positions.append(at)
                read |= own
        self._keys = tuple(sorted(read))
        self._known: dict[tuple[str | None, ...], tuple[tuple[int, ...], tuple[int, ...], Resources]] = {}

    def on(
        self, labels: Mapping[str, str], place: Mapping[str, str]
    ) -> tuple[tuple[int, ...], tuple[int, ...], Resources]:
        """Return the positions of the daemons on such a node, their requests in the order of the plan's resources, and
        their requests as resources."""
        asked: tuple[str | None, ...] = ()
        if self._keys:
            asked = (*map(labels.get, self._keys), *map(place.get, self._keys))
        found = self._known.get(asked)
        if found is None:
            node_labels = {**labels, **place}
            daemons = self._groups.daemons
            here = tuple(at for at in self.positions if daemons[at][0].runs_on(node_labels, self._taints, NEW_HOST))
            taken = tuple(
                sum(daemons[at][1].vector[position] for at in here) for position in range(len(self._groups.resources))
            )
            found = self._known[asked] = (
                here,
                taken,
                sum_resources(daemons[at][0].constraints.requests for at in here),
            )
        return found


def _is_short(offering: Offering, known: InstanceType, unavailable: Unavailable, placement_group: str) -> bool:
    """Return whether an offering is unavailable to a pool whose nodes are in this placement group (an id, or empty)."""
    if not unavailable:
        return False
    kind = offering.capacity_type
    zones: tuple[str, ...] = (offering.zone, ANY_VALUE)
    if placement_group or offering.tenancy != names.DEFAULT_TENANCY:
        parts = product(zones, {"", placement_group}, {names.DEFAULT_TENANCY, offering.tenancy})
        zones += tuple(zone_of_shortage(zone, group, tenancy) for zone, group, tenancy in parts)
    if offering.reservation:
        zones += (zone_of_shortage(offering.zone, placement_group, reservation=offering.reservation),)
    return any((kind, name, zone) in unavailable for name in (known.name, ANY_VALUE) for zone in zones)
