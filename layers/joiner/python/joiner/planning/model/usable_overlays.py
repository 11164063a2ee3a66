"""Where the offerings of a cluster are, for the comparison of its NodeOverlays."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.family_capacity import family_labels
from joiner.catalogue.instance_tenancy import find_allowed_tenancies
from joiner.catalogue.overlay_conflicts import find_overlay_conflicts, find_unmet_overlays
from joiner.catalogue.overlay_effects import find_idle_overlays
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_offers import place_labels, pool_labels
from joiner.planning.model.offer_cache import OfferCache
from joiner.pools import InvalidManifest, ResolvedNodeClass

PlaceLabels = tuple[Mapping[str, str], Mapping[str, str]]


def drop_conflicts(
    snapshot: Snapshot, catalogue: Catalogue, classes: Mapping[str, ResolvedNodeClass], cache: OfferCache
) -> tuple[Snapshot, tuple[InvalidManifest, ...]]:
    """Return the snapshot without the NodeOverlays that contradict others, and an error for each of them; and a warning
    for each overlay that changes no offering.

    New and running nodes must have the prices of the same overlays: consolidation compares them.
    """
    if not snapshot.overlays:
        return snapshot, ()

    def find() -> tuple[InvalidManifest, ...]:
        places = list(_places(snapshot, catalogue, classes))
        conflicts = find_overlay_conflicts(snapshot.overlays, catalogue, places)
        found = (*conflicts, *find_unmet_overlays(snapshot.overlays, catalogue, places))
        doubted = {one.object.partition("/")[2] for one in found}
        return (*found, *find_idle_overlays(snapshot.overlays, catalogue, places, doubted))

    problems = cache.overlay_conflicts((snapshot.overlays, snapshot.pools, snapshot.classes, classes, catalogue), find)
    unused = {one.object.partition("/")[2] for one in problems if one.severity == "error"}
    return replace(snapshot, overlays=snapshot.overlays.without(unused)) if unused else snapshot, problems


def _places(
    snapshot: Snapshot, catalogue: Catalogue, classes: Mapping[str, ResolvedNodeClass]
) -> Iterator[PlaceLabels]:
    sold = {(one.zone, one.capacity_type) for known in catalogue.types.values() for one in known.offerings}
    declared = {one.key: one for one in snapshot.classes}
    named = any(names.TENANCY in overlay.requirements for overlay in snapshot.overlays.ordered)
    for pool in snapshot.pools:
        resolved = classes.get(pool.class_ref.key)
        zone_ids = {subnet.zone: subnet.zone_id for subnet in resolved.subnets} if resolved else {}
        placement = resolved.placement_labels(pool.requirements) if resolved else {}
        of_pool = {**pool_labels(pool), **family_labels(declared.get(pool.class_ref.key)), **placement}
        tenancies = find_allowed_tenancies(pool) if named else [names.DEFAULT_TENANCY]
        for (zone, capacity_type), tenancy in product(sorted(sold), tenancies):
            if resolved is None or zone in resolved.zones:
                yield of_pool, place_labels(zone, capacity_type, zone_id=zone_ids.get(zone, ""), tenancy=tenancy)
