"""NodeOverlays that contradict each other (two of equal weight that set the price, or the same resource, of one
offering), and those that no offering meets.

Of two that contradict each other, the last by name counts. The other one is not used, as in Karpenter, until its weight
or its requirements differ. Source: Karpenter, "NodeOverlays".
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

from joiner import names
from joiner.catalogue.assumed_spot_offerings import assume_spot_places, lacks_spot_prices
from joiner.catalogue.instance_types import Catalogue
from joiner.catalogue.unknown_values import suggest_values
from joiner.cluster import Requirements, ValueSet
from joiner.pools import InvalidManifest, NodeOverlay, Overlays
from joiner.pools.codecs.manifest_fields import format_value

Labels = Mapping[str, str]

OF_THE_ACCOUNT: Final = frozenset(
    {names.RESERVATION, names.RESERVATION_TYPE, names.RESERVATION_INTERRUPTIBLE, names.ZONE_ID}
)
"""Labels that only the account decides: capacity reservations, and the ids of zones."""
MOST_LISTED: Final = 3
NO_SPOT_PRICES: Final = (
    "what it changes is not known here: it is for spot nodes, and the catalogue has no spot prices, which a cluster has"
)


def find_overlay_conflicts(
    overlays: Overlays, catalogue: Catalogue, places: Iterable[tuple[Labels, Labels]]
) -> tuple[InvalidManifest, ...]:
    """Return an error for each overlay that is not used.

    ``places`` are the labels that nodes can have beside those of their instance type: those of the pool, and those of
    zone and capacity type.
    """
    pairs = [(one, other) for one, other in combinations(overlays.ordered, 2) if _contradict(one, other)]
    if not pairs:
        return ()
    keys = {key for pair in pairs for one in pair for key in one.requirements}
    listed = list(places)
    assumed = assume_spot_places(listed) if lacks_spot_prices(catalogue) else ()
    known = list(_distinct((("", {**of_pool, **of_place}) for of_pool, of_place in (*listed, *assumed)), keys).values())
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
    overlays: Overlays, catalogue: Catalogue, places: Iterable[tuple[Labels, Labels]]
) -> tuple[InvalidManifest, ...]:
    """Return a warning for each overlay whose requirements no offering of a pool meets: it changes nothing. If the
    catalogue has no spot prices, an overlay that only spot offerings could meet gets a note.

    ``places`` are those of ``find_overlay_conflicts``. Without a pool there is nothing to compare.
    """
    sold = list(places)
    assumed = assume_spot_places(sold) if lacks_spot_prices(catalogue) else ()
    listed = [("", {**of_pool, **of_place}) for of_pool, of_place in sold]
    with_spot = [*listed, *(("", {**of_pool, **of_place}) for of_pool, of_place in assumed)]
    types = [(name, catalogue.types[name].labels) for name in sorted(catalogue.types)]
    found = []
    for overlay in overlays.ordered if listed else ():
        asked = Requirements(
            {key: one for key, one in overlay.requirements.items() if not depends_on_account(key, one)}
        )
        known = list(_distinct(listed, asked).values())
        kinds = list(_distinct(types, asked).values())
        if _find_match(asked, kinds, known):
            continue
        known = list(_distinct(with_spot, asked).values())
        if _find_match(asked, kinds, known):
            found.append(InvalidManifest(f"NodeOverlay/{overlay.name}", "", "", NO_SPOT_PRICES, "info"))
            continue
        unmet = [key for key in sorted(asked) if not _find_match(Requirements({key: asked[key]}), kinds, known)]
        why = _explain(asked, unmet, [labels for _, labels in (*kinds, *known)])
        remedy = f"no offering of any pool meets it, so the overlay changes nothing{why}"
        value = format_value(str(overlay.requirements))
        found.append(InvalidManifest(f"NodeOverlay/{overlay.name}", "spec.requirements", value, remedy, "warning"))
    return tuple(found)


def depends_on_account(key: str, values: ValueSet) -> bool:
    """Return whether only the account shows which nodes meet it."""
    return key in OF_THE_ACCOUNT or (key == names.CAPACITY_TYPE and names.RESERVED in values)


def _explain(asked: Requirements, unmet: Sequence[str], nodes: Sequence[Labels]) -> str:
    """Return which of the requirements no offering meets alone, with similar values that ``nodes`` have, or else with
    all if they are few."""
    if not unmet:
        return ": each requirement is met, but by no offering are all of them"
    near = dict[str, None]()
    for key in unmet:
        known = {labels[key] for labels in nodes if key in labels}
        near.update(
            (each, None)
            for one in (asked[key] if asked[key].finite else ())
            for each in suggest_values(key, one, known)
        )
    meant = f"; did you mean {' or '.join(list(near)[:2])}?" if near else ""
    if not near and len(unmet) == 1 and 0 < len(known) <= MOST_LISTED:
        meant = f"; there {'is' if len(known) == 1 else 'are'} {', '.join(sorted(known))}"
    return f": none has {', '.join(unmet)} as required{meant}"


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
