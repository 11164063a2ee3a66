"""Where the offerings of a cluster are, for the comparison of its NodeOverlays."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.class_compatibility import find_exclusion
from joiner.catalogue.family_capacity import family_labels
from joiner.catalogue.instance_tenancy import find_allowed_tenancies
from joiner.catalogue.overlay_conflicts import depends_on_account, find_overlay_conflicts, find_unmet_overlays
from joiner.catalogue.overlay_effects import find_idle_overlays
from joiner.catalogue.overlay_places import Labels, NodePlace
from joiner.cluster import Requirements, ValueSet
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_labels import place_labels, pool_labels
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.offer_compilation import NO_PLACE_LABELS, match_types, requirements_of_places
from joiner.pools import InvalidManifest, NodeClass, NodePool, ResolvedNodeClass


def drop_conflicts(
    snapshot: Snapshot, catalogue: Catalogue, classes: Mapping[str, ResolvedNodeClass], cache: OfferCache
) -> tuple[Snapshot, tuple[InvalidManifest, ...]]:
    """Return the snapshot without the NodeOverlays that contradict others, and an error for each of them; and a warning
    for each overlay that changes no offering that the pools allow.

    New and running nodes must have the prices of the same overlays: consolidation compares them.
    """
    if not snapshot.overlays:
        return snapshot, ()

    def find() -> tuple[InvalidManifest, ...]:
        places = list(_list_places(snapshot, catalogue, classes))
        conflicts = find_overlay_conflicts(snapshot.overlays, catalogue, places)
        found = (*conflicts, *find_unmet_overlays(snapshot.overlays, catalogue, places))
        doubted = {one.object.partition("/")[2] for one in found}
        return (*found, *find_idle_overlays(snapshot.overlays, catalogue, places, doubted))

    problems = cache.overlay_conflicts((snapshot.overlays, snapshot.pools, snapshot.classes, classes, catalogue), find)
    unused = {one.object.partition("/")[2] for one in problems if one.severity == "error"}
    return replace(snapshot, overlays=snapshot.overlays.without(unused)) if unused else snapshot, problems


def _list_places(
    snapshot: Snapshot, catalogue: Catalogue, classes: Mapping[str, ResolvedNodeClass]
) -> Iterator[NodePlace]:
    sold = {(one.zone, one.capacity_type) for known in catalogue.types.values() for one in known.offerings}
    declared = {one.key: one for one in snapshot.classes}
    named = any(names.TENANCY in overlay.requirements for overlay in snapshot.overlays.ordered)
    types_of = _PoolTypes(catalogue)
    for pool in snapshot.pools:
        node_class, resolved = declared.get(pool.class_ref.key), classes.get(pool.class_ref.key)
        zone_ids = {subnet.zone: subnet.zone_id for subnet in resolved.subnets} if resolved else {}
        placement = resolved.placement_labels(pool.requirements) if resolved else {}
        of_pool = {**pool_labels(pool), **family_labels(node_class), **placement}
        required, types = _require_places(pool), types_of.find(pool, of_pool, node_class, resolved)
        tenancies = find_allowed_tenancies(pool) if named else [names.DEFAULT_TENANCY]
        for (zone, capacity_type), tenancy in product(sorted(sold), tenancies):
            if resolved is None or zone in resolved.zones:
                place = place_labels(zone, capacity_type, zone_id=zone_ids.get(zone, ""), tenancy=tenancy)
                yield NodePlace(of_pool, place, required, types)


def _require_places(pool: NodePool) -> Requirements:
    """Return the pool's requirements on places, except those that only the account decides. An on-demand offering
    counts for a reserved one: the catalogue has none."""
    found = {}
    for key, values in requirements_of_places(pool).items():
        if key == names.CAPACITY_TYPE and names.RESERVED in values:
            found[key] = values | ValueSet.of(names.ON_DEMAND)
        elif key != names.TENANCY and not depends_on_account(key, values):
            found[key] = values
    return Requirements(found)


class _PoolTypes:
    """The instance types that pools and their classes allow; computed once for pools that are alike in this."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._launchable: dict[str, frozenset[str]] = {}
        self._known: dict[object, frozenset[str]] = {}

    def find(
        self, pool: NodePool, of_pool: Labels, node_class: NodeClass | None, resolved: ResolvedNodeClass | None
    ) -> frozenset[str]:
        """Return the names of the types. ``of_pool`` are the labels of the pool's nodes."""
        decided, key, types = match_types(pool), pool.class_ref.key, self._catalogue.types
        if key not in self._launchable:
            launchable = (name for name, one in types.items() if not find_exclusion(one, node_class, resolved))
            self._launchable[key] = frozenset(launchable)
        asked = (
            key,
            pool.requirements,
            *sorted((each, of_pool[each]) for each in pool.requirements if each in of_pool),
        )
        if asked not in self._known:
            own = {**of_pool, **NO_PLACE_LABELS} if decided.of_places else of_pool
            allowed = (name for name in self._launchable[key] if decided.allows({**types[name].labels, **own}))
            self._known[asked] = frozenset(allowed)
        return self._known[asked]
