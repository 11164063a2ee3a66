"""Which nodes of a plan the commitments of the account pay for, in the way in which AWS applies them.

A plan can use a commitment without naming it: AWS applies commitments to every instance that matches, the smallest
first, beside all that run already. ``CommitmentUse`` gives each new node of a finished plan the offer that it will be
billed by, and computes what the plan adds to the bill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from joiner import names
from joiner.catalogue.commitments import Commitment, Coverage, Machine, apply_commitments, runs_linux
from joiner.catalogue.total_node_prices import NodePrices
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_offers import NodeOffer, OfferChoice
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.planning.model.running_commitments import find_machines
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.pools.node_pool import pool_key_of

FULLY_COVERED = 1 - 1e-9
Known = Mapping[str, tuple[Mapping[str, str], str]]


class CommitmentUse:
    """The commitments of one catalogue, beside the instances that run. ``prices`` are those of running nodes."""

    def __init__(self, snapshot: Snapshot, prices: NodePrices) -> None:
        self._commitments: Sequence[Commitment] = prices.catalogue.commitments
        self._prices = prices
        self._running = list(find_machines(snapshot))
        self._known = _labels_and_pools(snapshot)
        self._swapped: dict[tuple[OfferChoice, NodeOffer], OfferChoice] = {}

    def settle(self, state: PlanState) -> None:
        """Give each new node of the plan the offer of a commitment if commitments pay for all of it, and the offer
        without a commitment otherwise."""
        shares = self._apply(state).shares
        for node in state.new:
            choice = node.choice
            if choice is None or choice.one.offering.capacity_type != names.ON_DEMAND:
                continue
            covered = shares.get(_machine_id(node), 0.0) >= FULLY_COVERED
            if covered != bool(choice.one.offering.commitment) and (other := _counterpart(choice)) is not None:
                known = (choice, other)
                if known not in self._swapped:
                    self._swapped[known] = OfferChoice(choice.pool_offers, choice.variant, other, choice.groups)
                state.change_offer(node, self._swapped[known])

    def bill(self, state: PlanState) -> float:
        """Return what the plan's new nodes add to the bill ($/h): commitments that they take from running instances
        count, and the part that is left for the last node, too."""
        coverage = self._apply(state)
        now, before = replace(self._prices, coverage=coverage), self._prices.coverage.shares
        bill = sum(_billed(node, now) for node in state.new)
        for machine in sorted(before):
            if coverage.shares.get(machine, 0.0) < before[machine] and machine in self._known:
                labels, pool = self._known[machine]
                bill += now.of(labels, pool, machine) - self._prices.of(labels, pool, machine)
        return bill

    def _apply(self, state: PlanState) -> Coverage:
        planned = [*state.new, *(node for node in state.existing if node.made)]
        machines = [_machine(node) for node in planned if _may_be_covered(node)]
        return apply_commitments(self._commitments, [*self._running, *machines])


def _labels_and_pools(snapshot: Snapshot) -> Known:
    """Return the labels and the pool of each running node and claim, by the ids that ``find_machines`` uses."""
    joined = nodes_of_claims(snapshot)
    found = {node.name: (node.labels, pool_key_of(node)) for node in snapshot.nodes}
    for claim in snapshot.claims:
        node = joined.get(claim.key)
        found[node.name if node else claim.key] = (node.labels if node else claim.labels, claim.pool_key)
    return found


def _machine_id(node: NodeState) -> str:
    return f"planned/{node.name}"


def _machine(node: NodeState) -> Machine:
    return Machine(_machine_id(node), node.labels[names.INSTANCE_TYPE], node.labels.get(names.ZONE, ""))


def _may_be_covered(node: NodeState) -> bool:
    capacity_type = node.labels.get(names.CAPACITY_TYPE)
    return runs_linux(node.labels) and capacity_type in (names.ON_DEMAND, names.RESERVED)


def _counterpart(choice: OfferChoice) -> NodeOffer | None:
    """Return the same offer with a commitment if it has none, and without one otherwise; None if there is none."""
    own = choice.one.offering
    return next(
        (
            one
            for one in choice.variant.launchable
            if one.model.name == choice.one.model.name
            and (one.offering.zone, one.offering.capacity_type) == (own.zone, own.capacity_type)
            and bool(one.offering.commitment) != bool(own.commitment)
        ),
        None,
    )


def _billed(node: NodeState, prices: NodePrices) -> float:
    """Return the price of a new node at these prices, which know what commitments pay of it."""
    choice = node.choice
    if choice is None or choice.one.offering.capacity_type != names.ON_DEMAND:
        return node.price
    return prices.of(node.labels, choice.pool_offers.pool.key, _machine_id(node))
