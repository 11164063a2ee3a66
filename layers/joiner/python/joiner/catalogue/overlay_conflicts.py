"""NodeOverlays that contradict each other: two of equal weight that set the price, or the same resource, of one
offering.

The last by name counts. The other one is not used, as in Karpenter, until its weight or its requirements differ.
Source: Karpenter, "NodeOverlays".
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from joiner.catalogue.instance_types import Catalogue
from joiner.pools import InvalidManifest, NodeOverlay, Overlays

Labels = Mapping[str, str]


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
    known, lost = list(places), dict[str, InvalidManifest]()
    for winner, loser in pairs:  # the order is that of precedence
        shared = "" if {winner.name, loser.name} & lost.keys() else _find_shared(winner, loser, catalogue, known)
        if shared:
            what = "the price" if winner.prices and loser.prices else "a resource"
            remedy = (
                f"NodeOverlay/{winner.name} has the same weight {winner.weight} and also sets {what} of {shared}: give "
                "one of them another weight, or other requirements"
            )
            lost[loser.name] = InvalidManifest(f"NodeOverlay/{loser.name}", "", "", remedy)
    return tuple(lost.values())


def _contradict(one: NodeOverlay, other: NodeOverlay) -> bool:
    if one.weight != other.weight:
        return False
    return (one.prices and other.prices) or any(
        name in other.capacity and other.capacity[name] != amount for name, amount in one.capacity.items()
    )


def _find_shared(
    one: NodeOverlay, other: NodeOverlay, catalogue: Catalogue, places: Iterable[tuple[Labels, Labels]]
) -> str:
    """Return an instance type that both are for; empty if there is none."""
    return next(_shared_types(one, other, catalogue, places), "")


def _shared_types(
    one: NodeOverlay, other: NodeOverlay, catalogue: Catalogue, places: Iterable[tuple[Labels, Labels]]
) -> Iterator[str]:
    for of_pool, of_place in places:
        for name in sorted(catalogue.types):
            labels = {**catalogue.types[name].labels, **of_pool, **of_place}
            if one.requirements.allow(labels) and other.requirements.allow(labels):
                yield name
