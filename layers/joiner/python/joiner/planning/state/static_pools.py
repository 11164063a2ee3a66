"""Static pools: missing nodes of a pool with ``replicas`` are planned without pending pods, and pods may be placed on
them.

Source: Karpenter, "NodePools", static capacity: the number of nodes is ``replicas``, and at most ``limits.nodes``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from joiner.planning.model.node_offers import NodeOffer, OfferChoice, OfferSet, PoolOffers, meets_min_values
from joiner.planning.model.pod_groups import PodGroups
from joiner.planning.plan_policies import Ceilings
from joiner.planning.state.existing_nodes import ExistingCapacity
from joiner.planning.state.node_state import NodeState
from joiner.pools import InvalidManifest, NodePool

FIELD: Final = "spec.replicas"


def missing_static_nodes(
    offered_pools: Sequence[PoolOffers],
    groups: PodGroups,
    existing: ExistingCapacity,
    ceilings: Ceilings,
    *,
    strict: bool = True,
) -> tuple[list[NodeState], tuple[InvalidManifest, ...]]:
    """Return a node for each missing replica, of the cheapest offer that the pool allows, within its limits and the
    ceilings; and a warning for each pool that lacks nodes even so.

    A pool that stands for a standalone claim lacks one node. With ``strict``, the claim's minValues must be met.
    """
    found: list[NodeState] = []
    short: list[InvalidManifest] = []
    price, drawn = existing.price, Counter[tuple[str, ...]](existing.drawn)
    for pool_offers in offered_pools:
        pool = pool_offers.pool
        if pool_offers.fixed is None or pool.replicas is None:
            short.extend(_lacking(pool, 1, pool_offers.closed) if pool.claim else ())
            continue
        offers = pool_offers.fixed.offer_set.derived(_sort_by_price)
        allowed, wanted = _missing(pool, pool.replicas, existing)
        why = "its limits.nodes allows no more nodes: raise it, or lower replicas" if allowed < wanted else ""
        if pool.claim and strict and not meets_min_values(offers, pool.min_values):
            allowed, why = 0, _MIN_VALUES
        before = len(found)
        for _ in range(allowed):
            one = next(
                (one for one in offers if one.supply is None or drawn[one.supply_key] + one.units <= one.supply), None
            )
            if one is None:
                why = _no_offer(pool)
                break
            if _exceed(ceilings, existing.nodes + len(found) + 1, price + one.offer.price_per_hour):
                why = "the ceilings of the cluster's settings allow no more nodes: raise them, or lower replicas"
                break
            price += one.offer.price_per_hour
            drawn[one.supply_key] += one.units
            choice = OfferChoice(pool_offers.fixed, pool_offers.fixed.variants[0], one, 0)
            name, daemons = f"fixed-{len(found) + 1}", groups.daemons_at(one.daemons)
            found.append(NodeState.with_daemons(name, choice, daemons, always=True))
        if lacking := wanted - (len(found) - before):
            short.extend(_lacking(pool, lacking, why))
    return found, tuple(short)


def _sort_by_price(offers: OfferSet) -> list[NodeOffer]:
    return sorted(offers.launchable, key=lambda one: (one.offer, one.index))


def _exceed(ceilings: Ceilings, nodes: int, price_per_hour: float) -> bool:
    return (ceilings.nodes is not None and nodes > ceilings.nodes) or (
        ceilings.price_per_hour is not None and price_per_hour > ceilings.price_per_hour + 1e-9
    )


_MIN_VALUES: Final = "fewer values are available now than its minValues require: lower them, or allow more values"


def _no_offer(pool: NodePool) -> str:
    if not pool.claim:
        return "no instance type that the pool allows is available now: allow more types or zones"
    asked = ", ".join(f"{name}: {amount}" for name, amount in pool.requests.to_kube().items())
    holding = f" and holds its resources.requests ({asked})" if asked else ""
    return f"no instance type that it allows{holding} is available now: allow more types or zones"


def _lacking(pool: NodePool, lacking: int, why: str) -> Iterator[InvalidManifest]:
    """Yield the warning of a pool that lacks nodes, or of a standalone claim, which has no field for their number."""
    if pool.claim:
        yield InvalidManifest(pool.claim, "", "", f"no instance is launched for it: {why}", "warning")
    else:
        remedy = f"{lacking} of these nodes cannot be launched: {why}"
        yield InvalidManifest(pool.key, FIELD, str(pool.replicas), remedy, "warning")


def _missing(pool: NodePool, replicas: int, existing: ExistingCapacity) -> tuple[int, int]:
    """Return how many of the missing nodes the pool's limit allows, and how many are missing."""
    missing = allowed = max(0, replicas - existing.staying.get(pool.key, 0))
    if "nodes" in pool.limits:
        allowed = min(missing, pool.limits["nodes"] - existing.used.get(pool.key, {}).get("nodes", 0))
    return max(allowed, 0), missing
