"""NodeOverlays that contradict each other (two of equal weight that set the price, or the same resource, of one
offering), and those that no offering meets.

Of two that contradict each other, the last by name counts. The other one is not used, as in Karpenter, until its weight
or its requirements differ. Source: Karpenter, "NodeOverlays".
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Final

from joiner import names
from joiner.catalogue.assumed_spot_offerings import lacks_spot_prices
from joiner.catalogue.instance_types import Catalogue
from joiner.catalogue.overlay_places import Labels, NodePlace, assume_spot_places, find_nodes, list_distinct_places
from joiner.catalogue.unknown_values import suggest_values
from joiner.cluster import Requirements, ValueSet
from joiner.pools import InvalidManifest, NodeOverlay, Overlays
from joiner.pools.codecs.manifest_fields import format_value

OF_THE_ACCOUNT: Final = frozenset(
    {names.RESERVATION, names.RESERVATION_TYPE, names.RESERVATION_INTERRUPTIBLE, names.ZONE_ID}
)
"""Labels that only the account decides: capacity reservations, and the ids of zones."""
MOST_LISTED: Final = 3
NO_SPOT_PRICES: Final = (
    "what it changes is not known here: it is for spot nodes, and the catalogue has no spot prices, which a cluster has"
)


def find_overlay_conflicts(
    overlays: Overlays, catalogue: Catalogue, places: Iterable[NodePlace]
) -> tuple[InvalidManifest, ...]:
    """Return an error for each overlay that is not used.

    ``places`` are those of all pools. What a pool requires of them does not matter here, as in Karpenter: its running
    nodes may be others.
    """
    pairs = [(one, other) for one, other in combinations(overlays.ordered, 2) if _contradict(one, other)]
    if not pairs:
        return ()
    keys = {key for pair in pairs for one in pair for key in one.requirements}
    listed = list(places)
    assumed = assume_spot_places(listed) if lacks_spot_prices(catalogue) else ()
    known = list(_distinct((("", one.labels) for one in (*listed, *assumed)), keys).values())
    kinds = list(_distinct(((name, catalogue.types[name].labels) for name in sorted(catalogue.types)), keys).values())
    lost = dict[str, InvalidManifest]()
    for winner, loser in pairs:  # the order is that of precedence
        shared = "" if {winner.name, loser.name} & lost.keys() else _find_shared(winner, loser, kinds, known)
        if shared:
            what = "the price" if winner.prices and loser.prices else "a resource"
            remedy = (
                f"it is not applied, and NodeOverlay/{winner.name} is, the last of the two by name: both have the "
                f"weight {winner.weight} and set {what} of {shared}: give one of them another weight, or other "
                "requirements"
            )
            lost[loser.name] = InvalidManifest(f"NodeOverlay/{loser.name}", "", "", remedy)
    return tuple(lost.values())


def find_unmet_overlays(
    overlays: Overlays, catalogue: Catalogue, places: Iterable[NodePlace]
) -> tuple[InvalidManifest, ...]:
    """Return a warning for each overlay whose requirements no offering of a pool meets: it changes nothing. If the
    catalogue has no spot prices, an overlay that only spot offerings could meet gets a note.

    ``places`` are those of ``find_overlay_conflicts``. Without a pool that can have nodes there is nothing to compare.
    """
    keys = {key for overlay in overlays.ordered for key in overlay.requirements}
    sold = list(places)
    spot = list(assume_spot_places(sold)) if lacks_spot_prices(catalogue) else []
    known, with_spot = list_distinct_places(sold, keys), list_distinct_places((*sold, *spot), keys)
    beyond = list_distinct_places((NodePlace(one.of_pool, one.of_place) for one in (*sold, *spot)), keys)
    found = []
    for overlay in overlays.ordered if with_spot else ():
        asked = Requirements(
            {key: one for key, one in overlay.requirements.items() if not depends_on_account(key, one)}
        )
        if _is_met(asked, catalogue, known):
            continue
        if _is_met(asked, catalogue, with_spot):
            found.append(InvalidManifest(f"NodeOverlay/{overlay.name}", "", "", NO_SPOT_PRICES, "info"))
            continue
        why = _explain(asked, catalogue, with_spot, beyond)
        remedy = f"no offering of any pool meets it, so the overlay changes nothing{why}"
        value = format_value(str(overlay.requirements))
        found.append(InvalidManifest(f"NodeOverlay/{overlay.name}", "spec.requirements", value, remedy, "warning"))
    return tuple(found)


def _is_met(asked: Requirements, catalogue: Catalogue, places: Iterable[NodePlace]) -> bool:
    return next(find_nodes(asked, catalogue, places), None) is not None


def depends_on_account(key: str, values: ValueSet) -> bool:
    """Return whether only the account shows which nodes meet it."""
    return key in OF_THE_ACCOUNT or (key == names.CAPACITY_TYPE and names.RESERVED in values)


def _explain(
    asked: Requirements, catalogue: Catalogue, places: Sequence[NodePlace], beyond: Sequence[NodePlace]
) -> str:
    """Return which of the requirements no offering meets alone, with similar values of offerings, or else with all if
    they are few. ``beyond`` are the places if pools and classes allowed all of the catalogue."""
    alone = {key: Requirements({key: asked[key]}) for key in sorted(asked)}
    unmet = [key for key, one in alone.items() if not _is_met(one, catalogue, places)]
    if not unmet:
        return ": each requirement is met, but by no offering are all of them"
    missing = [key for key in unmet if not _is_met(alone[key], catalogue, beyond)]
    subject, has = ("", "none has") if missing else ("they allow ", "no pool allows")
    near = dict[str, None]()
    for key in missing or unmet:
        # What no offering has is probably misspelt, and the right name need not be one that a pool allows
        known = _list_values(key, catalogue, beyond if missing else places)
        wanted = asked[key] if missing and asked[key].finite else ()
        near.update((each, None) for one in wanted for each in suggest_values(key, one, known))
    meant = f"; did you mean {' or '.join(list(near)[:2])}?" if near else ""
    if not near and len(missing or unmet) == 1 and 0 < len(known) <= MOST_LISTED:
        meant = f"; {subject or ('there is ' if len(known) == 1 else 'there are ')}{', '.join(sorted(known))}"
    return f": {has} {', '.join(missing or unmet)} as required{meant}"


def _list_values(key: str, catalogue: Catalogue, places: Iterable[NodePlace]) -> set[str]:
    """Return the values that a label of nodes in these places has."""
    found = set[str]()
    for place in places:
        if key in place.of_place:
            found.add(place.of_place[key])
        else:
            types = catalogue.types if place.types is None else place.types
            found.update(labels[key] for name in types if key in (labels := catalogue.types[name].labels))
    return found


def _distinct(named: Iterable[tuple[str, Labels]], keys: Collection[str]) -> dict[tuple[str, ...], tuple[str, Labels]]:
    """Return the labels with these keys, each set once, with the first name that has it: overlays name few labels, and
    hundreds of instance types and pools are alike in them."""
    ordered, found = sorted(keys), dict[tuple[str, ...], tuple[str, Labels]]()
    for name, labels in named:
        few = {key: labels[key] for key in ordered if key in labels}
        found.setdefault(tuple(map(str, few.items())), (name, few))
    return found


def _contradict(one: NodeOverlay, other: NodeOverlay) -> bool:
    if one.weight != other.weight or (one.requirements & other.requirements).contradictions():
        return False
    return (one.prices and other.prices) or any(
        name in other.capacity and other.capacity[name] != amount for name, amount in one.capacity.items()
    )


def _find_shared(
    one: NodeOverlay, other: NodeOverlay, kinds: Sequence[tuple[str, Labels]], places: Sequence[tuple[str, Labels]]
) -> str:
    """Return an instance type that both are for; empty if there is none."""
    return _find_match(one.requirements & other.requirements, kinds, places)


def _find_match(asked: Requirements, kinds: Sequence[tuple[str, Labels]], places: Sequence[tuple[str, Labels]]) -> str:
    """Return an instance type that meets the requirements in one of the places; empty if there is none."""
    return next((name for _, place in places for name, labels in kinds if asked.allow({**labels, **place})), "")
