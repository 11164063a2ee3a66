"""NodeOverlays that contradict each other: two of equal weight that set the price, or the same resource, of one
offering.

The last by name counts. The other one is not used, as in Karpenter, until its weight or its requirements differ.
Source: Karpenter, "NodeOverlays".
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    keys = {key for pair in pairs for one in pair for key in one.requirements}
    known = list(_distinct((("", {**of_pool, **of_place}) for of_pool, of_place in places), keys).values())
    kinds = list(_distinct(((name, catalogue.types[name].labels) for name in sorted(catalogue.types)), keys).values())
    lost = dict[str, InvalidManifest]()
    for winner, loser in pairs:  # the order is that of precedence
        shared = "" if {winner.name, loser.name} & lost.keys() else _find_shared(winner, loser, kinds, known)
        if shared:
            what = "the price" if winner.prices and loser.prices else "a resource"
            remedy = (
                f"NodeOverlay/{winner.name} has the same weight {winner.weight} and also sets {what} of {shared}: give "
                "one of them another weight, or other requirements"
            )
            lost[loser.name] = InvalidManifest(f"NodeOverlay/{loser.name}", "", "", remedy)
    return tuple(lost.values())


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
    both = one.requirements & other.requirements
    return next((name for _, place in places for name, labels in kinds if both.allow({**labels, **place})), "")
