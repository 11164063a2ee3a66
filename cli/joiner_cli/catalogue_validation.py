"""Reads the instance types and commitments of a catalogue file field by field: people write catalogues by hand.

A field that is not known is refused: a misspelt one would count as missing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, suggest_instance_types
from joiner.catalogue.commitments import Commitment
from joiner.cluster import InvalidField
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner_cli.unused_commitments import UNUSED, explain_unused_zone

MOST_SUGGESTED: Final = 2
MOST_UNITS: Final = 10**12
"""More instances or units than this are a mistake, and no number of the planner."""


def read_type(name: str, raw: object, notes: ManifestProblems) -> InstanceType:
    """Return one instance type, and note every mistake in it. After a mistake in the file it is empty."""
    fields = ManifestFields(raw, name, notes)
    labels = fields.texts("labels")
    sides = {side: fields.resources(side) for side in ("capacity", "allocatable")}
    for side, amounts in sides.items():
        if any(amount < 0 for amount in amounts.values()):
            fields.wrong(side, "give quantities of at least zero")
    _check_offerings(fields)
    network = fields.sub("network")
    for one in ("interfaces", "addressesEach"):
        if network.integer(one, minimum=0) is None and "network" in fields:
            network.wrong(one, "give a whole number")
    _check_features(fields.sub("features"))
    observed = fields.sub("observedMemory")
    for image in observed.value:
        observed.integer(image, minimum=0)
    _check_price(fields, "dedicatedSurchargePerHour", required=False)
    for each in (fields, network):
        each.close()
    for side, amounts in sides.items():
        if not amounts and not notes.errors:  # report other errors first
            fields.wrong(side, "give cpu, memory and pods, as `joiner catalogue -o json` does")
    if notes.errors or not isinstance(raw, Mapping):
        return InstanceType(name)
    try:
        return InstanceType.from_json(name, {**raw, "labels": {names.INSTANCE_TYPE: name, **labels}})
    except (InvalidField, ValueError, TypeError, KeyError) as error:
        notes.missing(name, str(error))
        return InstanceType(name)


def _check_features(fields: ManifestFields) -> None:
    cards = fields.raw("cards")
    if cards is not None and not (isinstance(cards, list) and all(type(one) is int and one >= 0 for one in cards)):
        fields.wrong("cards", "give the list of the numbers of interfaces of the network cards")
    for number in ("efa", "efaCard"):
        fields.integer(number, minimum=0)
    for flag in ("nestedVirtualization", "clusterGroups"):
        fields.boolean(flag)
    fields.close()


def _check_offerings(fields: ManifestFields) -> None:
    seen: set[tuple[str | None, ...]] = set()
    for offering in fields.many("offerings"):
        key = _check_offering(offering)
        if key in seen:
            fields.notes.note(offering.path, " ".join(filter(None, key)), "it is there twice: remove one of them")
        seen.add(key)


def _check_offering(fields: ManifestFields) -> tuple[str | None, ...]:
    """Note the mistakes of an offering; return its zone, capacity type and reservation."""
    zone, capacity_type = fields.text("zone"), fields.text("capacityType")
    if not zone:
        fields.wrong("zone", "give the zone that it is offered in, such as us-east-1a")
    if capacity_type not in names.CAPACITY_TYPES:
        fields.wrong("capacityType", f"write one of {', '.join(names.CAPACITY_TYPES)}")
    _check_price(fields, "pricePerHour", required=True)
    _check_price(fields, "interruptionsPerHour", required=False)
    fields.boolean("available")
    reservation = fields.text("reservation")
    fields.integer("count", minimum=0, maximum=MOST_UNITS)
    for only in ("reservation", "count"):
        if only in fields and capacity_type in names.CAPACITY_TYPES and capacity_type != names.RESERVED:
            fields.wrong(only, f"only an offering of the capacityType {names.RESERVED} has it: remove it")
    fields.close()
    return zone, capacity_type, reservation


def _check_price(fields: ManifestFields, name: str, *, required: bool) -> None:
    price = fields.raw(name)
    if price is None and not required:
        return
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
        fields.wrong(name, "give a price in $/h, such as 0.096")


def read_commitments(listed: Sequence[ManifestFields], catalogue: Catalogue) -> list[Commitment]:
    """Return the reserved instances and savings plans of a deployed catalogue. One that none of its instance types
    uses, or none in the zone of the commitment, gives a warning.
    """
    found = [_read_commitment(one) for one in listed]
    ids = Counter(one.id for one in found)
    for fields, commitment in zip(listed, found, strict=True):
        if ids[commitment.id] > 1:
            fields.wrong("id", "another commitment has this id, too: give each its own")
        elif not commitment.uses.keys() & catalogue.types.keys():
            near = dict.fromkeys(
                each for one in commitment.uses for each in suggest_instance_types(one, catalogue.types)
            )
            meant = f"; did you mean {' or '.join([*near][:MOST_SUGGESTED])}?" if near else ""
            remedy = f"the catalogue has none of these instance types, so that nothing uses it{meant}"
            fields.wrong("uses", remedy, "warning")
        elif commitment.zone and (why := explain_unused_zone(commitment.zone, commitment.uses, catalogue)):
            fields.wrong("zone", f"{UNUSED}: {why}", "warning")
    return found


def _read_commitment(fields: ManifestFields) -> Commitment:
    name, amount = fields.text("id"), fields.integer("amount", minimum=0, maximum=MOST_UNITS)
    uses, zone = fields.sub("uses"), fields.text("zone")
    if not name:
        fields.wrong("id", "give a name that no other commitment has")
    if amount is None and "amount" not in fields:
        fields.wrong("amount", "give the units that there are in each hour, a whole number")
    units = {known: uses.integer(known, minimum=0, maximum=MOST_UNITS) or 0 for known in uses.value}
    fields.close()
    return Commitment(name or "", amount or 0, units, zone or "")
