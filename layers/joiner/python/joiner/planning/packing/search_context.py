"""What the steps of a search share, and the relaxations that they solve again and again.

A relaxation that was solved without domains is returned with them. A resource that is almost used up always has a
price.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.effort import Meter
from joiner.planning.packing.node_filling import NodeFiller
from joiner.planning.relaxation.aggregation import solve_aggregated
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.relaxation.resource_lp import LARGE, NO_OFFERS, Relaxation, ResourceLp

LITTLE: Final = 0.15
FEW_KINDS: Final = 40
"""Up to so many items the programme is small as it is."""
CAUTION: Final = 0.03


@dataclass(slots=True)
class SearchContext:
    """What one search goes on with: its dice, the count of its work, and the programme that it solves again and
    again.
    """

    rng: np.random.Generator
    meter: Meter
    programme: ResourceLp
    bench: NodeFiller
    offers: Whole = field(default_factory=NO_OFFERS.copy)
    """Those that the last relaxation over bundles used."""
    proven: dict[bytes, float] = field(default_factory=dict)
    """What no packing of a demand can be cheaper than, if that was found out on the way."""

    def prove(self, demand: Whole, bound: float) -> None:
        """No packing of this demand costs less."""
        self.proven[demand.tobytes()] = max(bound, self.proven_for(demand))

    def proven_for(self, demand: Whole) -> float:
        return self.proven.get(demand.tobytes(), 0.0)

    def relax(self, problem: PackingProblem, demand: Whole, among: Marks | None) -> Relaxation:
        """Over bundles where many kinds of pods are left. Otherwise by the programme that is kept, or where little is
        left by a small new one: its old flows would only be in the way.
        """
        little = demand.sum() < LITTLE * problem.demand.sum()
        kinds = np.count_nonzero(demand)
        self.meter.spend(0.8 + 0.016 * (kinds if little else problem.items))
        if kinds > FEW_KINDS and self.programme.classes > LARGE:
            allowed = np.ones(len(problem.price), bool) if among is None else among
            found = solve_aggregated(
                problem, demand, allowed, self.offers[allowed[self.offers]], rough=len(self.offers) > 0
            )
            if found is not None:
                self.offers = found.offers
                return found
        return _solve_small(problem, demand, among) if little else self.programme.solve(demand, among)

    @classmethod
    def of(cls, problem: PackingProblem, seed: int, meter: Meter) -> "SearchContext":
        return cls(
            np.random.default_rng(seed),
            meter,
            ResourceLp(problem.merged.problem if problem.merged else problem),
            NodeFiller(problem),
        )


def _solve_small(problem: PackingProblem, demand: Whole, among: Marks | None) -> Relaxation:
    """The relaxation where few pods are left, by a programme that knows nothing of the others."""
    items = np.flatnonzero(demand)
    few = replace(
        problem,
        need=problem.need[items],
        demand=demand[items],
        open=problem.open[:, items],
        asks=problem.asks[:, items],
        counts=problem.counts[:, items],
        members=(),
        merged=None,
    )
    found = ResourceLp(few).solve(demand[items], among)
    worth = np.zeros(problem.items)
    worth[items] = found.worth
    return replace(found, worth=worth, item=items[found.item])


def solve_relaxation(
    problem: PackingProblem, demand: Whole, context: SearchContext, *, among: Marks | None = None
) -> Relaxation:
    """The relaxation with domains put back, and with prudent prices (see ``prudent``)."""
    merged = problem.merged
    shapes = among if among is None or merged is None else np.logical_or.reduce(among[merged.offer_in], axis=1)
    return _merged(problem, demand, lambda shape, total: context.relax(shape, total, shapes))


def tighten_relaxation(problem: PackingProblem, demand: Whole, context: SearchContext, known: Relaxation) -> Relaxation:
    """A relaxation that is ``known`` already, with whole pods counted as such: a higher bound, and prices that know of
    it. By a programme of its own: what is solved again and again is to stay small.
    """
    offers = np.unique(known.offers if problem.merged is None else problem.merged.likes(known.offers))

    def relax(shape: PackingProblem, total: Whole) -> Relaxation:
        context.meter.spend(3.0 + 0.06 * shape.items)
        return ResourceLp(shape, offers=offers).solve(total, whole=True)

    return _merged(problem, demand, relax)


def _merged(problem: PackingProblem, demand: Whole, relax: Callable[[PackingProblem, Whole], Relaxation]) -> Relaxation:
    """What ``relax`` says, made prudent; of the problem without domains, and with them put back, where there is one."""
    merged = problem.merged
    if merged is None:
        return floor_resource_prices(problem, demand, relax(problem, demand))
    total = merged.total(demand)
    return _apart(problem, demand, total, floor_resource_prices(merged.problem, total, relax(merged.problem, total)))


def floor_resource_prices(problem: PackingProblem, demand: Whole, found: Relaxation) -> Relaxation:
    """A resource that is used up almost everywhere may yet have no price; then leftovers would be all of that resource.
    So a small part of the value is shared out again, by what items take of such resources.
    """
    if found.nodes.sum() <= 0 or found.value <= 0:
        return found
    use, there = demand @ problem.need, found.nodes @ problem.room[found.offers]
    price = (found.nodes[:, None] * found.rates * problem.room[found.offers]).sum(axis=0) / found.value
    cheap = (price < CAUTION) & (use > 0.93 * there)
    if not cheap.any():
        return found
    extra = (problem.need[:, cheap] / use[cheap]).sum(axis=1) * CAUTION * found.value
    return replace(found, worth=found.worth * (1 - CAUTION * np.count_nonzero(cheap)) + extra)


def _apart(problem: PackingProblem, demand: Whole, total: Whole, found: Relaxation) -> Relaxation:
    """A relaxation of the merged problem in terms of the problem with domains."""
    merged = problem.merged
    if merged is None:
        return found
    domains = merged.offer_in.shape[1]
    flow = np.zeros((merged.problem.items, len(found.offers)))
    flow[found.item, found.at] = found.flow
    flow = flow[merged.item_of] * (demand / np.maximum(total[merged.item_of], 1))[:, None]
    worth = found.worth[merged.item_of]
    held = np.stack(
        [((worth * (merged.domain_of == one))[:, None] * flow).sum(axis=0) for one in range(domains)], axis=1
    )
    whole = held.sum(axis=1, keepdims=True)
    weight = np.where(whole > 1e-9, held / np.maximum(whole, 1e-12), 0.0)
    for number, position in enumerate(np.flatnonzero(whole[:, 0] <= 1e-9)):
        if found.nodes[position] >= 4 * domains:
            weight[position] = 1 / domains
        else:
            weight[position, number % domains] = 1.0
    offers: list[int] = []
    nodes: list[float] = []
    items: list[Whole] = []
    at: list[Whole] = []
    flows: list[Floats] = []
    rates: list[Floats] = []
    for position in np.flatnonzero(found.nodes > 1e-9):
        for one in range(domains):
            if weight[position, one] > 1e-9:
                column = np.where(
                    merged.domain_of == one,
                    flow[:, position],
                    np.where(merged.domain_of < 0, flow[:, position] * weight[position, one], 0.0),
                )
                mine = np.flatnonzero(column > 1e-12)
                items.append(mine)
                at.append(np.full(len(mine), len(offers)))
                flows.append(column[mine])
                offers.append(merged.offer_in[found.offers[position], one])
                nodes.append(found.nodes[position] * weight[position, one])
                rates.append(found.rates[position])
    return Relaxation(
        value=found.value,
        worth=worth,
        offers=np.array(offers, dtype=np.int64),
        nodes=np.array(nodes),
        item=np.concatenate(items) if items else np.zeros(0, np.int64),
        at=np.concatenate(at) if at else np.zeros(0, np.int64),
        flow=np.concatenate(flows) if flows else np.zeros(0),
        rates=np.array(rates).reshape(len(rates), problem.need.shape[1]),
        firm=found.firm,
    )


def floor_worth(problem: PackingProblem, worth: Floats) -> Floats:
    """No pod is worth nothing: what takes room must be packed, too."""
    if not len(problem.price):
        return worth
    share = (problem.need / np.maximum(problem.room.max(axis=0), 1e-9)).max(axis=1)
    least: Floats = np.maximum(worth, 1e-7 * problem.price.min() + 1e-6 * share)
    return least
