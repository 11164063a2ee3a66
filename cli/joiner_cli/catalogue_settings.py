"""What the settings of a cluster change in the catalogue of a plan from files: what the next refresh of a deployed
catalogue would change, by the same functions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.catalogue.allocatable import CapacityEstimate
from joiner.catalogue.ec2_instance_types import has_estimate, with_estimate
from joiner.catalogue.published_prices import PublishedPrices
from joiner.catalogue.reserved_instances_and_savings_plans import DeclaredCommitments, list_commitments
from joiner.pools import InvalidManifest
from joiner_cli.settings_limits import SETTINGS, SettingsLimits
from joiner_cli.unused_commitments import find_unused_commitments, name_commitments

MOST_NAMED: Final = 3


def apply_settings(catalogue: Catalogue, limits: SettingsLimits) -> tuple[Catalogue, tuple[InvalidManifest, ...]]:
    """Return the catalogue as the settings make it, with notes about prices and about what they do not change.

    Without settings, the catalogue is returned unchanged. Prices come first: savings plans are divided by them.
    """
    if limits.policy is None:
        return catalogue, ()
    types, notes = list(catalogue.types.values()), list[InvalidManifest]()
    if limits.prices is not None:
        types = [_with_prices(one, limits.prices, limits.region) for one in types]
        notes.append(_describe_prices(limits.prices, types, limits.region))
    types = [with_estimate(one, limits.estimate) for one in types]
    notes.extend(_describe_estimate(types, limits.estimate))
    if not limits.weighs_interruptions:
        types = [_without_interruptions(one) for one in types]
    changed = Catalogue.of(types, catalogue.commitments)
    notes.extend(find_unused_commitments(limits.commitments, changed))
    if not catalogue.commitments:
        return replace(changed, commitments=list_commitments(*limits.commitments, changed)), tuple(notes)
    return changed, (*notes, *_describe_commitments(limits.commitments, changed))


def _with_prices(known: InstanceType, table: PublishedPrices, region: str) -> InstanceType:
    """Return the type with the on-demand prices of the table in the zones of its region, Local Zones included. A table
    has no surcharges of dedicated hardware."""
    there = [one for one in known.offerings if names.region_of(one.zone) == region]
    if not there:
        return known
    sold = {one.zone: one for one in there if one.capacity_type == names.ON_DEMAND}
    price = table.prices.get(known.name)
    priced = [
        replace(sold[zone], price_per_hour=price) if zone in sold else Offering(zone, names.ON_DEMAND, price)
        for zone in sorted({one.zone for one in there if one.capacity_type in (names.ON_DEMAND, names.SPOT)})
        if price is not None
    ]
    others = [one for one in known.offerings if one not in sold.values()]
    return replace(known.with_offerings([*others, *priced]), dedicated_surcharge=None)


def _describe_prices(table: PublishedPrices, types: Sequence[InstanceType], region: str) -> InvalidManifest:
    unsold = [
        one.name
        for one in types
        if one.name not in table.prices and any(names.region_of(each.zone) == region for each in one.offerings)
    ]
    without = f"; types without a price there are not launched on demand: {_name(unsold)}" if unsold else ""
    remedy = f"on-demand prices are those of the price file, published on {table.published}{without}"
    return InvalidManifest(SETTINGS, "prices.file", "", remedy, "info")


def _describe_estimate(types: Sequence[InstanceType], estimate: CapacityEstimate) -> Iterator[InvalidManifest]:
    """Yield a note if types have other amounts than the estimate: they were measured or edited, or they are those
    of a deployment with other settings."""
    if others := [one.name for one in types if not has_estimate(one, estimate)]:
        remedy = (
            f"memory and pods of {_name(others)} are those of the catalogue, which has neither the defaults of `joiner "
            "catalogue -o json` nor what nodes.memoryOverheadPercent and nodes.reservedInterfaces make of them"
        )
        yield InvalidManifest(SETTINGS, "nodes", "", remedy, "info")


def _without_interruptions(known: InstanceType) -> InstanceType:
    if not any(one.interruptions for one in known.offerings):
        return known
    return known.with_offerings(replace(one, interruptions=0.0) for one in known.offerings)


def _describe_commitments(declared: DeclaredCommitments, catalogue: Catalogue) -> Iterator[InvalidManifest]:
    """Yield a note if the settings declare commitments that the catalogue does not have."""
    there = {one.id: one.amount for one in catalogue.commitments}
    wanted = list_commitments(*declared, catalogue)
    if missing := [one for one in wanted if there.get(one.id, -1) < one.amount]:
        fields = name_commitments(missing, declared, catalogue)
        remedy = (
            f"{_name(fields)} of the settings {'is' if len(fields) == 1 else 'are'} not added to the commitments of "
            "the catalogue, which a deployment refreshes with its settings: remove the list commitments from the "
            "catalogue to plan with those of this file"
        )
        yield InvalidManifest(SETTINGS, "commitments", "", remedy, "info")


def _name(all_names: Sequence[str]) -> str:
    more = f" and {len(all_names) - MOST_NAMED} more" if len(all_names) > MOST_NAMED else ""
    return f"{', '.join(all_names[:MOST_NAMED])}{more}"
