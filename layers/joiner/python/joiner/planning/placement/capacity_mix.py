"""Keep the share of spot nodes that a pool allows (``joiner.dev/capacity-mix``), over its running and its new nodes.

Spot is the cheapest, so the search plans spot nodes wherever pods and pools allow them. This step moves new nodes to
on-demand offers until the pool has its share of them, those whose price rises least first, in zones whose subnets have
addresses. Nodes of pods that require spot stay. Running nodes are never moved.
"""

from collections.abc import Sequence

from joiner import names
from joiner.planning.model.node_offers import NodeOffer, OfferChoice
from joiner.planning.placement.node_exchange import NodeExchange, offers_for
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.pools import NodePool


def keep_capacity_mix(state: PlanState) -> tuple[str, ...]:
    """Move new nodes to on-demand offers; return a sentence for each pool with a mix and new nodes."""
    notes = []
    for offers in state.offered_pools:
        share = offers.pool.planning.spot_share
        new = [node for node in state.new if node.choice and node.choice.pool_offers is offers]
        if share is None or not new:
            continue
        before = state.price
        staying = (node for node in state.existing if not node.closing)
        running = [_capacity_type(node) for node in staying if _is_of(node, offers.pool)]
        total = len(running) + len(new)
        spare = running.count(names.SPOT) + sum(map(_is_spot, new)) - count_spot_nodes(total, share)
        moved = _move(state, new, spare)
        spot = running.count(names.SPOT) + sum(map(_is_spot, new)) - moved
        rise = f", which costs ${state.price - before:.4f}/h more and is no part of the lower bound"
        more = rise if moved else ""
        short = ": its pods, or its offerings, allow no more on-demand nodes" if moved < spare else ""
        notes.append(
            f"{offers.pool.key} has {spot} of {total} nodes on spot with this plan ({names.CAPACITY_MIX} "
            f"{offers.pool.own_annotations.get(names.CAPACITY_MIX, '')}){more}{short}"
        )
    return tuple(notes)


def count_spot_nodes(total: int, share: float) -> int:
    """Return how many of a pool's nodes may be spot nodes: the share, to the nearest node.

    >>> [count_spot_nodes(total, 0.7) for total in (1, 2, 3, 10)]
    [1, 1, 2, 7]
    """
    return int(total * share + 0.5)


def _move(state: PlanState, nodes: Sequence[NodeState], number: int) -> int:
    """Move up to this number of spot nodes to on-demand offers; return how many were moved."""
    exchange, moved = NodeExchange(state), 0
    found = [(node, choices) for node in nodes if _is_spot(node) and (choices := _on_demand(node))]
    for node, choices in sorted(found, key=lambda one: (_rise(one[0], one[1][0]), one[0].name)):
        if moved >= number:
            break
        moved += any(exchange.replace([node], choice) for choice in choices)
    return moved


def _on_demand(node: NodeState) -> list[OfferChoice]:
    """Return the cheapest on-demand offer of each zone that holds the pods of the node, the cheapest first; of equal
    prices, that in its own zone."""
    choice = node.choice
    if choice is None:
        return []
    zone = choice.one.offering.zone
    able = [one for one in offers_for(choice, node.planned) if one.offering.capacity_type == names.ON_DEMAND]
    able.sort(key=lambda one: (one.offer.price_per_hour, one.offering.zone != zone, one.offer, one.index))
    best: dict[str, NodeOffer] = {}
    for one in able:
        best.setdefault(one.offering.zone, one)
    return [choice.with_offer(one) for one in best.values()]


def _rise(node: NodeState, choice: OfferChoice) -> float:
    return choice.one.offer.price_per_hour - (node.choice.one.offer.price_per_hour if node.choice else 0.0)


def _is_spot(node: NodeState) -> bool:
    return node.choice is not None and node.choice.one.offering.capacity_type == names.SPOT


def _capacity_type(node: NodeState) -> str:
    return node.labels.get(names.CAPACITY_TYPE, "")


def _is_of(node: NodeState, pool: NodePool) -> bool:
    return pool.own_label.items() <= node.labels.items()
