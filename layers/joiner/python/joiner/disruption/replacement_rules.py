"""Which new nodes may replace which nodes.

Source: Karpenter, core `pkg/controllers/disruption/consolidation.go`, "Disruption" (spot consolidation). The same type
for the same type is never a gain; fewer nodes of a type than before are one. A spot node replaces spot nodes only if
the pool allows it. Spot nodes replace a single one only if the fleet can choose among enough cheaper types for each,
which ends the race to the cheapest type. An on-demand node of a pool with a capacity mix is removed, but not replaced.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from joiner import names
from joiner.disruption.disruption_candidates import Candidate
from joiner.planning.plan import Offer


def capacity_type_of(candidate: Candidate) -> str:
    """Return the capacity type of a candidate, from its node or else from its claim."""
    return candidate.node.labels.get(names.CAPACITY_TYPE) or candidate.claim.capacity_type


def instance_type_of(candidate: Candidate) -> str:
    """Return the instance type of a candidate, from its node or else from its claim."""
    return candidate.node.labels.get(names.INSTANCE_TYPE) or candidate.claim.instance_type


def forbids_replacement(removed: Sequence[Candidate]) -> str:
    """Return why no new node may replace these nodes, or an empty text."""
    mixed = next((one for one in removed if _keeps_mix(one)), None)
    if mixed is not None:
        return f"an on-demand node keeps the share of {mixed.pool.key} ({names.CAPACITY_MIX})"
    if any(capacity_type_of(one) != names.SPOT for one in removed):
        return ""
    pool = next((one.pool for one in removed if not one.pool.disruption.limits.spot_to_spot), None)
    return f"the replacement of spot nodes is disabled ({names.SPOT_TO_SPOT} of {pool.key})" if pool else ""


def _keeps_mix(one: Candidate) -> bool:
    """Return whether a cheaper node in its place would be one spot node more than its pool wants."""
    return one.pool.planning.spot_share is not None and capacity_type_of(one) == names.ON_DEMAND


def repeats_a_type(removed: Sequence[Candidate], launched: Iterable[Offer]) -> bool:
    """Return whether a new node has the type of a removed one and is not cheaper than each of those."""
    return any(
        offer.instance_type == instance_type_of(one) and offer.price_per_hour >= one.price - 1e-9
        for offer in launched
        for one in removed
    )


def repeated_types(removed: Sequence[Candidate], launched: Sequence[Offer]) -> frozenset[str]:
    """Return the types of which not fewer nodes are launched than removed, without being cheaper.

    Nodes of a type that are as many as before could stay. Fewer nodes of it are a gain.
    """
    repeating = Counter(offer.instance_type for offer in launched if repeats_a_type(removed, (offer,)))
    there = Counter(instance_type_of(one) for one in removed)
    return frozenset(type_ for type_, number in repeating.items() if number >= there[type_])


def too_few_spot_types(removed: Candidate, cheaper: Iterable[Offer]) -> str:
    """Return why a spot node may not replace this spot node, or an empty text. ``cheaper`` hold its pods."""
    if capacity_type_of(removed) != names.SPOT:
        return ""
    least = removed.pool.disruption.limits.spot_to_spot_least_types
    types = {one.instance_type for one in cheaper}
    if len(types) >= least:
        return ""
    return f"{len(types)} spot types are cheaper, and {least} are required ({names.SPOT_TO_SPOT_TYPES})"


def cheapest_types(removed: Candidate, cheaper: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return the offers among which the fleet chooses a spot node in place of this one: those of the cheapest types, as
    many as are required. Empty if the node is not a spot node."""
    if capacity_type_of(removed) != names.SPOT:
        return ()
    found = sorted(cheaper)
    types = list(dict.fromkeys(one.instance_type for one in found))
    most = set(types[: max(removed.pool.disruption.limits.spot_to_spot_least_types, 1)])
    return tuple(one for one in found if one.instance_type in most)
