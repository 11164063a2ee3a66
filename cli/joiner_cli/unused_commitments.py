"""Finds commitments that no instance of a catalogue can use: their type, family or zone is misspelt, or of another
region. AWS charges for them whether they are used or not, so a plan that ignores them is as cheap as without them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, explain_unknown_values
from joiner.catalogue.commitments import Commitment
from joiner.catalogue.reserved_instances_and_savings_plans import (
    DeclaredCommitments,
    ReservedInstances,
    SavingsPlan,
    list_commitments,
)
from joiner.pools import InvalidManifest
from joiner.pools.suggestions import suggest_nearest
from joiner_cli.settings_limits import SETTINGS

UNUSED: Final = "nothing uses it"


def find_unused_commitments(declared: DeclaredCommitments, catalogue: Catalogue) -> Iterator[InvalidManifest]:
    """Yield a warning for each commitment of the settings that no instance of the catalogue uses, with its field."""
    reserved, plans = declared
    for path, one in zip(_paths("reservedInstances", reserved), reserved, strict=True):
        known = catalogue.types.get(one.instance_type)
        if known is None:
            why = explain_unknown_values(names.INSTANCE_TYPE, [one.instance_type], catalogue)
            yield _warning(f"{path}.instanceType", one.instance_type, why)
        elif why := one.zone and explain_unused_zone(one.zone, [one.instance_type], catalogue):
            yield _warning(f"{path}.zone", one.zone, why)
    families = sorted({one.partition(".")[0] for one in catalogue.types})
    for path, plan in zip(_paths("savingsPlans", plans), plans, strict=True):
        if plan.family and plan.family not in families:
            near = suggest_nearest(plan.family, families)
            yield _warning(f"{path}.family", plan.family, f"the catalogue has no such family{near}")


def explain_unused_zone(zone: str, types: Iterable[str], catalogue: Catalogue) -> str:
    """Return why no on-demand instance of these types can run in a zone; empty if one can.

    >>> from joiner.catalogue import InstanceType, Offering
    >>> m5 = InstanceType("m5.large", offerings=(Offering("us-east-1a", "on-demand", 0.1),))
    >>> c5 = InstanceType("c5.large", offerings=(Offering("us-east-1b", "on-demand", 0.1),))
    >>> both = Catalogue.of([m5, c5])
    >>> explain_unused_zone("us-east-1c", ["m5.large"], both)
    'the catalogue has no such zone; there are us-east-1a, us-east-1b'
    >>> explain_unused_zone("us-east-1b", ["m5.large"], both), explain_unused_zone("us-east-1b", ["c5.large"], both)
    ('m5.large is not offered there on demand: it is in us-east-1a', '')
    """
    listed = [one for one in types if one in catalogue.types]
    sold = {
        one.zone for name in listed for one in catalogue.types[name].offerings if one.capacity_type == names.ON_DEMAND
    }
    if zone in sold:
        return ""
    if unknown := explain_unknown_values(names.ZONE, [zone], catalogue):
        return unknown
    there = f": it is in {', '.join(sorted(sold))}" if sold and len(listed) == 1 else ""
    return f"{' or '.join(listed[:3])} is not offered there on demand{there}" if listed else ""


def name_commitments(missing: Sequence[Commitment], declared: DeclaredCommitments, catalogue: Catalogue) -> list[str]:
    """Return the fields of the settings that declare these commitments."""
    wanted = {one.id for one in missing}
    reserved, plans = declared
    singles: list[tuple[str, ReservedInstances | SavingsPlan]] = [
        *zip(_paths("reservedInstances", reserved), reserved, strict=True),
        *zip(_paths("savingsPlans", plans), plans, strict=True),
    ]
    return [
        path
        for path, one in singles
        for made in list_commitments(
            [one] if isinstance(one, ReservedInstances) else (),
            [one] if isinstance(one, SavingsPlan) else (),
            catalogue,
        )
        if made.id in wanted
    ]


def _paths(field: str, listed: Sequence[object]) -> list[str]:
    return [f"commitments.{field}[{number}]" for number in range(len(listed))]


def _warning(field: str, value: str, why: str) -> InvalidManifest:
    return InvalidManifest(SETTINGS, field, value, f"{UNUSED}: {why}", "warning")
