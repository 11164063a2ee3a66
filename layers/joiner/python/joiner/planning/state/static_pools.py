"""Static pools: missing nodes of a pool with ``replicas`` are planned without pending pods, and pods may be placed on
them.

Source: Karpenter, "NodePools", static capacity: the number of nodes is ``replicas``, and at most ``limits.nodes``.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from joiner import names
from joiner.planning.model.node_offers import OfferChoice, PoolOffers
from joiner.planning.model.pod_groups import PodGroup, PodGroups
from joiner.planning.plan_policies import Ceilings
from joiner.planning.state.existing_nodes import ExistingCapacity
from joiner.planning.state.node_state import NodeState
from joiner.pools import InvalidManifest, NodePool

FIELD: Final = "spec.replicas"


def missing_static_nodes(
    offered_pools: Sequence[PoolOffers], groups: PodGroups, existing: ExistingCapacity, ceilings: Ceilings
) -> tuple[list[NodeState], tuple[InvalidManifest, ...]]:
    """Return a node for each missing replica, of the cheapest offer that the pool allows, within its limits and the
    ceilings; and a warning for each pool that lacks nodes even so."""
    found: list[NodeState] = []
    short: list[InvalidManifest] = []
    price, drawn = existing.price, Counter[tuple[str, ...]](existing.drawn)
    for pool_offers in offered_pools:
        if pool_offers.fixed is None or pool_offers.pool.replicas is None:
            continue
        offers = sorted(pool_offers.fixed.launchable, key=lambda one: (one.offer, one.index))
        allowed, wanted = _missing(pool_offers.pool, pool_offers.pool.replicas, existing)
        why = "its limits.nodes allows no more nodes: raise it, or lower replicas" if allowed < wanted else ""
        before = len(found)
        for _ in range(allowed):
            one = next(
                (one for one in offers if one.supply is None or drawn[one.supply_key] + one.units <= one.supply), None
            )
            if one is None:
                why = "no instance type that the pool allows is available now: allow more types or zones"
                break
            over = ceilings.nodes is not None and existing.nodes + len(found) + 1 > ceilings.nodes
            after = price + one.offer.price_per_hour
            if over or (ceilings.price_per_hour is not None and after > ceilings.price_per_hour + 1e-9):
                why = "the ceilings of the cluster's settings allow no more nodes: raise them, or lower replicas"
                break
            price = after
            drawn[one.supply_key] += one.units
            choice = OfferChoice(pool_offers.fixed, pool_offers.fixed.variants[0], one, 0)
            found.append(_planned_node(f"fixed-{len(found) + 1}", choice, groups.daemons_at(one.daemons)))
        if lacking := wanted - (len(found) - before):
            remedy = f"{lacking} of these nodes cannot be launched: {why}"
            short.append(
                InvalidManifest(pool_offers.pool.key, FIELD, str(pool_offers.pool.replicas), remedy, "warning")
            )
    return found, tuple(short)


def _missing(pool: NodePool, replicas: int, existing: ExistingCapacity) -> tuple[int, int]:
    """Return how many of the missing nodes the pool's limit allows, and how many are missing."""
    missing = allowed = max(0, replicas - existing.staying.get(pool.key, 0))
    if "nodes" in pool.limits:
        allowed = min(missing, pool.limits["nodes"] - existing.used.get(pool.key, {}).get("nodes", 0))
    return max(allowed, 0), missing


def _planned_node(name: str, choice: OfferChoice, daemons: Sequence[PodGroup]) -> NodeState:
    node = NodeState(
        name=name,
        labels={**choice.one.labels, **choice.variant.labels, names.HOSTNAME: name},
        taints=choice.pool_offers.pool.taints,
        free=list(choice.one.free),
        made=choice,
    )
    for daemon in daemons:
        node.held[daemon] = 1
        node.ports.extend(daemon.constraints.host_ports)
    return node
