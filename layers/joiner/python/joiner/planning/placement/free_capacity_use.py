"""Move pods of new nodes to nodes that exist, where that makes a small plan cheaper.

Existing nodes are filled first, pod by pod. Pods that must be on one host may then begin on a node that is too small
for all of them, so that the plan leaves this node and its free capacity out. Here the pods of a new node that are
independent, and those that affinity ties together, move to existing nodes, and the rest gets the cheapest offer.
"""

from collections.abc import Iterator, Sequence

from joiner.planning.effort import Meter
from joiner.planning.model.pod_groups import PodGroup, group_mask, sum_needs
from joiner.planning.placement.node_exchange import NodeExchange
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import clear_plan, layout_of, restore_layout
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState

A_MOVE = 0.02
"""The effort of one block of pods that is tried on one node, in steps."""

Block = Sequence[tuple[PodGroup, int]]
"""Numbers of pods of groups, which move together."""


def use_free_capacity(state: PlanState, frontier: OfferFrontier, meter: Meter) -> bool:
    """Move pods of new nodes to existing nodes if the plan becomes cheaper; return whether it did."""
    if not state.existing:
        return False
    before, found = state.price, False
    for node in sorted(state.new, key=lambda one: (-one.price, one.name)):
        kept = layout_of(one for one in (*state.existing, *state.new) if one.planned)
        if meter.spent() or not _move_blocks(state, node, meter):
            continue
        if node.planned:
            _choose_cheaper_offer(state, frontier, node)
        else:
            state.close(node)
        if state.price < before - 1e-9 and keeps_all_rules(state):
            before, found = state.price, True
        else:
            clear_plan(state)
            restore_layout(state, kept)
    return found


def _move_blocks(state: PlanState, node: NodeState, meter: Meter) -> bool:
    """Move the pods of this node that fit on existing nodes; return whether any moved."""
    moved = False
    for block in list(_blocks(state, node)):
        for other in state.existing:
            meter.spend(A_MOVE)
            if _move(state, block, node, other):
                moved = True
                break
    return moved


def _blocks(state: PlanState, node: NodeState) -> Iterator[Block]:
    """Yield the pods of this node: those that affinity ties together as one block, the others one by one."""
    done: set[PodGroup] = set()
    for group in sorted(node.planned, key=lambda one: (sum(map(float, one.vector)), one.index), reverse=True):
        if group in done:
            continue
        tied = {group} | {one for one in node.planned if _related(state, group, one)}
        done |= tied
        if len(tied) == 1 and not state.rules[group.index].affinity:
            yield from ([(group, 1)] for _ in range(node.planned[group]))
        else:
            yield [(one, node.planned[one]) for one in sorted(tied, key=lambda one: one.index)]


def _related(state: PlanState, group: PodGroup, other: PodGroup) -> bool:
    """Return whether affinity ties one of these groups to the other."""
    return other in state.rules[group.index].selected_groups or group in state.rules[other.index].selected_groups


def _move(state: PlanState, block: Block, node: NodeState, other: NodeState) -> bool:
    """Move a block to another node; return whether that succeeded."""
    need = sum_needs(block, len(other.free))
    if not all(map(int.__le__, need, other.free)) or not all(state.suits(group, other) for group, _ in block):
        return False
    for group, number in block:
        state.take(group, node, number)
    placed: list[tuple[PodGroup, int]] = []
    waiting = list(block)
    while waiting:  # A pod may have to follow another of the block.
        some = [(group, state.put(group, other, number)) for group, number in waiting]
        placed.extend(one for one in some if one[1])
        if not any(number for _, number in some):
            break
        waiting = [
            (group, number - put) for (group, number), (_, put) in zip(waiting, some, strict=True) if number > put
        ]
    if not waiting:
        return True
    for group, number in placed:
        state.take(group, other, number)
    for group, number in block:
        state.take(group, node, -number)
    return False


def _choose_cheaper_offer(state: PlanState, frontier: OfferFrontier, node: NodeState) -> None:
    """Give the pods that are left on this node the cheapest offer that holds them."""
    now = node.choice
    if now is None:
        return
    need, mask = sum_needs(node.planned.items(), len(node.free)), group_mask(node.planned)
    exchange = NodeExchange(state)
    for choice in frontier.of_weight(now.pool_offers.pool.weight):
        if choice.one.offer.price_per_hour >= node.price:
            return
        holds = choice.groups & mask == mask and all(map(int.__le__, need, choice.one.free))
        if holds and exchange.replace([node], choice):
            return
