"""Static pools: missing nodes of a pool with ``replicas`` are planned without pending pods, and pods may be placed on
them.

Source: Karpenter, "NodePools", static capacity: the number of nodes is ``replicas``, and at most ``limits.nodes``. Each
node takes an address of a subnet of its class; zones without one are left out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from joiner.catalogue.class_compatibility import explain_exclusions
from joiner.catalogue.missing_reservations import RESERVED_ONLY
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, OfferSet, PoolOffers, meets_min_values
from joiner.planning.model.pod_groups import PodGroups
from joiner.planning.plan_policies import Ceilings
from joiner.planning.state.address_use import AddressUse
from joiner.planning.state.existing_nodes import ExistingCapacity
from joiner.planning.state.limit_violations import AddressViolation
from joiner.planning.state.node_state import NodeState
from joiner.planning.unlaunched_nodes import UnlaunchedNodes
from joiner.pools import InvalidManifest, NodePool, ResolvedNodeClass

REPLICAS: Final = "spec.replicas"
"""The field that the warning of a static pool names."""

MOST_NODES: Final = 1000
"""Nodes of static pools that one plan adds, whatever their replicas say; the next plans add the others."""
_NEXT: Final = f"a plan adds at most {MOST_NODES:,} nodes of static pools, and the next one adds others"


def missing_static_nodes(
    offered_pools: Sequence[PoolOffers],
    groups: PodGroups,
    existing: ExistingCapacity,
    ceilings: Ceilings,
    *,
    classes: Mapping[str, ResolvedNodeClass],
    strict: bool = True,
) -> tuple[list[NodeState], tuple[UnlaunchedNodes, ...]]:
    """Return a node for each missing replica, of the cheapest offer that the pool allows, within its limits, the
    ceilings and the free addresses of the ``classes``; and what each pool lacks even so.

    A pool that stands for a standalone claim lacks one node. With ``strict``, the claim's minValues must be met.
    """
    draft, short = _Draft(groups, existing, ceilings, AddressUse(classes)), list[UnlaunchedNodes]()
    static = sum(one.pool.replicas is not None and not one.pool.claim for one in offered_pools)
    most = max(1, MOST_NODES // max(1, static))
    for pool_offers in offered_pools:
        pool = pool_offers.pool
        if pool.deleting:  # it lacks nothing: its nodes go, too
            continue
        if pool_offers.fixed is None or pool.replicas is None:
            lacking = 1 if pool.claim else _missing(pool, pool.replicas or 0, existing)[1]
            short += [UnlaunchedNodes(pool.key, lacking, pool_offers.closed)] if lacking else []
            continue
        variant = pool_offers.fixed.podless
        offers = variant.offer_set.derived(_sort_by_price)
        allowed, wanted = _missing(pool, pool.replicas, existing)
        why = "its limits.nodes allows no more nodes: raise it, or lower replicas" if allowed < wanted else ""
        if pool.claim and strict and not meets_min_values(offers, pool.min_values):
            allowed, why = 0, _MIN_VALUES
        if allowed > most:
            allowed, why = most, _NEXT
        made = 0
        open_offers = [one for one in offers if variant.openings.of_pool >> one.index & 1] if allowed else []
        while made < allowed and not (refused := draft.add_cheapest(pool_offers.fixed, open_offers)):
            made += 1
        if made < allowed:
            why = refused
        if wanted > made:
            short.append(UnlaunchedNodes(pool.key, wanted - made, why))
    return draft.found, tuple(short)


class _Draft:
    """The nodes so far, and what they use."""

    def __init__(
        self, groups: PodGroups, existing: ExistingCapacity, ceilings: Ceilings, addresses: AddressUse
    ) -> None:
        self.found: list[NodeState] = []
        self._groups = groups
        self._nodes = existing.nodes
        self._price = existing.price
        self._drawn = Counter[tuple[str, ...]](existing.drawn)
        self._ceilings = ceilings
        self._addresses = addresses

    def add_cheapest(self, fixed: PoolOffers, offers: Sequence[NodeOffer]) -> str:
        """Add a node of the first offer that is left; return the reason if there can be none, else an empty text."""
        left = (one for one in offers if one.supply is None or self._drawn[one.supply_key] + one.units <= one.supply)
        choice = _choose_cheapest(fixed, left, self._addresses)
        if isinstance(choice, str):
            return choice
        one, price = choice.one, self._price + choice.one.offer.price_per_hour
        if _exceed(self._ceilings, self._nodes + len(self.found) + 1, price):
            return "the ceilings of the cluster's settings allow no more nodes: raise them, or lower replicas"
        self._price = price
        self._drawn[one.supply_key] += one.units
        self._addresses.count(choice, 1)
        name, daemons = f"fixed-{len(self.found) + 1}", self._groups.daemons_at(one.daemons)
        self.found.append(NodeState.with_daemons(name, choice, daemons, always=True))
        return ""


def _choose_cheapest(fixed: PoolOffers, offers: Iterable[NodeOffer], addresses: AddressUse) -> OfferChoice | str:
    """Return the first offer in a zone with an address; the reason if there is none."""
    full, first = addresses.full_zones(fixed.pool.class_ref.key), None
    for one in offers:
        choice = OfferChoice(fixed, fixed.podless, one, 0)
        if one.offering.zone not in full:
            return choice
        first = first or choice
    return AddressViolation(addresses.describe(first)).text() if first else _no_offer(fixed)


def _sort_by_price(offers: OfferSet) -> list[NodeOffer]:
    return sorted(offers.launchable, key=lambda one: (one.offer, one.index))


def _exceed(ceilings: Ceilings, nodes: int, price_per_hour: float) -> bool:
    return (ceilings.nodes is not None and nodes > ceilings.nodes) or (
        ceilings.price_per_hour is not None and price_per_hour > ceilings.price_per_hour + 1e-9
    )


_MIN_VALUES: Final = "fewer values are available now than its minValues require: lower them, or allow more values"


NOT_LAUNCHED: Final = "no instance is launched for it: "
"""The beginning of the problem of a claim of a user."""
NONE_AVAILABLE: Final = "is available now: allow more types or zones"
"""The end of the reason of a pool or a claim that no instance type suits."""


def _no_offer(fixed: PoolOffers) -> str:
    pool = fixed.pool
    if fixed.exclusions:
        allowed_by = "it allows" if pool.claim else "the pool allows"
        return explain_exclusions(fixed.exclusions, f"its {pool.class_ref.described}", allowed_by)
    if fixed.closed.startswith(RESERVED_ONLY):
        return fixed.closed
    if not pool.claim:
        return f"no instance type that the pool allows {NONE_AVAILABLE}"
    asked = ", ".join(f"{name}: {amount}" for name, amount in pool.requests.to_kube().items())
    if fixed.too_small:
        return (
            f"no instance type that it allows holds its resources.requests ({asked}); the nearest, {fixed.too_small}: "
            "allow larger types, or request less"
        )
    holding = f" and holds its resources.requests ({asked})" if asked else ""
    return f"no instance type that it allows{holding} {NONE_AVAILABLE}"


def report_unlaunched(lacking: UnlaunchedNodes, pools: Iterable[NodePool]) -> InvalidManifest:
    """Return the warning of a pool that lacks nodes, or of a standalone claim, which has no field for their number."""
    pool = next(each for each in pools if each.key == lacking.owner)
    if pool.claim:
        return InvalidManifest(pool.claim, "", "", f"{NOT_LAUNCHED}{lacking.reason}", "warning")
    remedy = f"{lacking.nodes} of these nodes cannot be launched: {lacking.reason}"
    return InvalidManifest(pool.key, REPLICAS, str(pool.replicas), remedy, "warning")


def _missing(pool: NodePool, replicas: int, existing: ExistingCapacity) -> tuple[int, int]:
    """Return how many of the missing nodes the pool's limit allows, and how many are missing."""
    missing = allowed = max(0, replicas - existing.staying.get(pool.key, 0))
    if "nodes" in pool.limits:
        allowed = min(missing, pool.limits["nodes"] - existing.used.get(pool.key, {}).get("nodes", 0))
    return max(allowed, 0), missing
