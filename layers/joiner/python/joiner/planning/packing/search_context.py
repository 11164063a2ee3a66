"""What the steps of a search share, and the relaxations that they solve repeatedly.

A relaxation that was solved without domains is returned with domains. A resource that is almost used up always has
a price.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.effort import Meter
from joiner.planning.packing.independent_parts import IndependentPart, find_independent_parts
from joiner.planning.packing.node_filling import NodeFiller
from joiner.planning.relaxation.aggregation import solve_aggregated
from joiner.planning.relaxation.lp_values import NO_OFFERS, Relaxation
from joiner.planning.relaxation.packing_problem import MergedProblem, PackingProblem
from joiner.planning.relaxation.resource_lp import LARGE, ResourceLp

LITTLE: Final = 0.15
FEW_KINDS: Final = 40
"""Up to this number of items, the program is small without bundles."""
CAUTION: Final = 0.03


@dataclass(slots=True)
class SearchContext:
    """The state of one search: its random generator, its meter, and the program that it solves repeatedly."""

    rng: np.random.Generator
    meter: Meter
    program: ResourceLp
    filler: NodeFiller
    offers: Whole = field(default_factory=NO_OFFERS.copy)
    """The offers that the last relaxation over bundles used."""
    proven: dict[bytes, float] = field(default_factory=dict)
    """Known lower bounds of the price of a packing, by demand."""
    relaxed: dict[bytes, Relaxation] = field(default_factory=dict)
    """The relaxation of each independent part that was relaxed, by its items and their demand."""

    def prove(self, demand: Whole, bound: float) -> None:
        """Record that no packing of this demand costs less than ``bound``."""
        self.proven[demand.tobytes()] = max(bound, self.proven_for(demand))

    def proven_for(self, demand: Whole) -> float:
        """Return the proven lower bound in $/h for exactly this demand; 0 if none is known."""
        return self.proven.get(demand.tobytes(), 0.0)

    def vary(
        self, rows: int, items: int, resources: int, *, noise: float, weight_noise: float
    ) -> tuple[Floats | None, Floats | None]:
        """Return random factors near 1, by row: for the worth of items (``noise``) and the weight of resources
        (``weight_noise``); None where nothing varies."""
        return (
            np.exp(noise * self.rng.standard_normal((rows, items))) if noise else None,
            np.exp(weight_noise * self.rng.standard_normal((rows, resources))) if weight_noise else None,
        )

    def relax(self, problem: PackingProblem, demand: Whole, among: Marks | None) -> Relaxation:
        """Return the relaxation: over bundles if many kinds of pods are left. Otherwise by the kept program, or for a
        small demand by a new small one, because the old flows would slow it down."""
        little = demand.sum() < LITTLE * problem.demand.sum()
        kinds = int(np.count_nonzero(demand))
        self.meter.spend(_relaxing_steps(kinds if little else problem.items))
        if kinds > FEW_KINDS and self.program.classes > LARGE:
            allowed = np.ones(len(problem.price), bool) if among is None else among
            found = solve_aggregated(
                problem, demand, allowed, self.offers[allowed[self.offers]], rough=len(self.offers) > 0
            )
            if found is not None:
                self.offers = found.offers
                return found
        return _solve_small(problem, demand, among) if little else self.program.solve(demand, among)

    def of_part(self, part: PackingProblem, *, free: bool = False) -> "SearchContext":
        """Return the context of the search for a part of the problem, which uses the same random numbers and meter.
        ``free``: the work for the part is not counted."""
        return SearchContext(self.rng, self.meter.renewed() if free else self.meter, ResourceLp(part), NodeFiller(part))

    @classmethod
    def of(cls, problem: PackingProblem, seed: int, meter: Meter) -> "SearchContext":
        """Return the context of a search with this seed."""
        return cls(
            np.random.default_rng(seed),
            meter,
            ResourceLp(problem.merged.problem if problem.merged else problem),
            NodeFiller(problem),
        )


def _relaxing_steps(items: int) -> float:
    return 0.8 + 0.016 * items


def _tightening_steps(items: int) -> float:
    return 3.0 + 0.06 * items


def _solve_small(problem: PackingProblem, demand: Whole, among: Marks | None) -> Relaxation:
    """Return the relaxation of a small demand, by a program without the other items."""
    items = np.flatnonzero(demand)
    few = replace(problem.with_items(items), demand=demand[items])
    found = ResourceLp(few).solve(demand[items], among)
    worth = np.zeros(problem.items)
    worth[items] = found.worth
    return replace(found, worth=worth, item=items[found.item])


def solve_relaxation(
    problem: PackingProblem, demand: Whole, context: SearchContext, *, among: Marks | None = None
) -> Relaxation:
    """Return the relaxation with domains, and with minimum resource prices (see ``floor_resource_prices``)."""
    if among is None and problem.merged is None and (parts := find_independent_parts(problem, demand)):
        context.meter.spend(_relaxing_steps(problem.items))
        for one in parts:
            free = context.of_part(one.problem, free=True)
            context.relaxed[one.key(demand)] = solve_relaxation(one.problem, demand[one.items], free)
        return _join_relaxations(problem, demand, parts, context)
    merged = problem.merged
    shapes = among if among is None or merged is None else np.logical_or.reduce(among[merged.offer_in], axis=1)
    return _merged(problem, demand, lambda shape, total: context.relax(shape, total, shapes))


def tighten_relaxation(problem: PackingProblem, demand: Whole, context: SearchContext, known: Relaxation) -> Relaxation:
    """Return the ``known`` relaxation (of this demand in this context) with cuts for whole pods: a higher bound, and
    prices that include the cuts. It uses a separate program, because the program that is solved repeatedly must stay
    small."""
    if problem.merged is None and (parts := find_independent_parts(problem, demand)):
        context.meter.spend(_tightening_steps(problem.items))
        for one in parts:
            free, loose = context.of_part(one.problem, free=True), context.relaxed[one.key(demand)]
            context.relaxed[one.key(demand)] = tighten_relaxation(one.problem, demand[one.items], free, loose)
        return _join_relaxations(problem, demand, parts, context)
    offers = np.unique(known.offers if problem.merged is None else problem.merged.likes(known.offers))

    def relax(shape: PackingProblem, total: Whole) -> Relaxation:
        context.meter.spend(_tightening_steps(shape.items))
        return ResourceLp(shape, offers=offers).solve(total, whole=True)

    return _merged(problem, demand, relax)


def _join_relaxations(
    problem: PackingProblem, demand: Whole, apart: Sequence[IndependentPart], context: SearchContext
) -> Relaxation:
    """Return the relaxation of the whole problem. The caps of a part have no price on the offers of the others."""
    parts = [(one, context.relaxed[one.key(demand)]) for one in apart]
    worth = np.zeros(problem.items)
    for one, found in parts:
        worth[one.items] = found.worth
    caps = np.unique(np.concatenate([found.caps for _, found in parts]))
    places = [np.zeros((len(found.offers), len(caps))) for _, found in parts]
    for place, (_, found) in zip(places, parts, strict=True):
        place[:, np.searchsorted(caps, found.caps)] = found.places if len(found.caps) else 0.0
    starts = np.cumsum([0, *(len(found.offers) for _, found in parts)])
    return Relaxation(
        value=sum(found.value for _, found in parts),
        worth=worth,
        offers=np.concatenate([one.offers[found.offers] for one, found in parts]),
        nodes=np.concatenate([found.nodes for _, found in parts]),
        item=np.concatenate([one.items[found.item] for one, found in parts]),
        at=np.concatenate([start + found.at for start, (_, found) in zip(starts, parts, strict=False)]),
        flow=np.concatenate([found.flow for _, found in parts]),
        rates=np.concatenate([found.rates for _, found in parts]),
        firm=all(found.firm for _, found in parts),
        caps=caps,
        places=np.concatenate(places),
    )


def _merged(problem: PackingProblem, demand: Whole, relax: Callable[[PackingProblem, Whole], Relaxation]) -> Relaxation:
    """Return the result of ``relax`` with minimum resource prices. If the problem has a merged form, that form is
    solved and the domains are added again."""
    merged = problem.merged
    if merged is None:
        return floor_resource_prices(problem, demand, relax(problem, demand))
    total = merged.total(demand)
    return _apart(problem, demand, total, floor_resource_prices(merged.problem, total, relax(merged.problem, total)))


def floor_resource_prices(problem: PackingProblem, demand: Whole, found: Relaxation) -> Relaxation:
    """Give almost used up resources a minimum price.

    A resource that is used up almost everywhere can have no dual price; then the remaining capacity would be all of
    other resources. A small part of the value is therefore distributed by what items use of such resources.
    """
    if found.nodes.sum() <= 0 or found.value <= 0:
        return found
    use, there = demand @ problem.need, found.nodes @ problem.free[found.offers]
    price = (found.nodes[:, None] * found.rates * problem.free[found.offers]).sum(axis=0) / found.value
    cheap = (price < CAUTION) & (use > 0.93 * there)
    if not cheap.any():
        return found
    extra = (problem.need[:, cheap] / use[cheap]).sum(axis=1) * CAUTION * found.value
    return replace(found, worth=found.worth * (1 - CAUTION * np.count_nonzero(cheap)) + extra)


def _apart(problem: PackingProblem, demand: Whole, total: Whole, found: Relaxation) -> Relaxation:
    """Return a relaxation of the merged problem in terms of the problem with domains."""
    merged = problem.merged
    if merged is None:
        return found
    flow = np.zeros((merged.problem.items, len(found.offers)))
    flow[found.item, found.at] = found.flow
    flow = flow[merged.item_of] * (demand / np.maximum(total[merged.item_of], 1))[:, None]
    worth = found.worth[merged.item_of]
    weight = _domain_shares(merged, found, worth, flow)
    origin = [
        (position, one)
        for position in np.flatnonzero(found.nodes > 1e-9).tolist()
        for one in range(weight.shape[1])
        if weight[position, one] > 1e-9
    ]
    columns = [
        np.where(
            merged.domain_of == one,
            flow[:, position],
            np.where(merged.domain_of < 0, flow[:, position] * weight[position, one], 0.0),
        )
        for position, one in origin
    ]
    items = [np.flatnonzero(column > 1e-12) for column in columns]
    empty = np.zeros(0, np.int64)
    return Relaxation(
        value=found.value,
        worth=worth,
        offers=np.array([merged.offer_in[found.offers[position], one] for position, one in origin], dtype=np.int64),
        nodes=np.array([found.nodes[position] * weight[position, one] for position, one in origin], dtype=float),
        item=np.concatenate([empty, *items]),
        at=np.concatenate([empty, *(np.full(len(mine), number) for number, mine in enumerate(items))]),
        flow=np.concatenate([np.zeros(0), *(column[mine] for column, mine in zip(columns, items, strict=True))]),
        rates=np.array([found.rates[position] for position, _ in origin]).reshape(len(origin), problem.need.shape[1]),
        firm=found.firm,
    )


def _domain_shares(merged: MergedProblem, found: Relaxation, worth: Floats, flow: Floats) -> Floats:
    """Return the share of each offer's nodes that each domain gets: by the worth of its pods there. Nodes without pods
    of any domain are divided equally, or if they are few, each goes to the next domain."""
    domains = merged.offer_in.shape[1]
    held = np.stack(
        [((worth * (merged.domain_of == one))[:, None] * flow).sum(axis=0) for one in range(domains)], axis=1
    )
    whole = held.sum(axis=1, keepdims=True)
    weight: Floats = np.where(whole > 1e-9, held / np.maximum(whole, 1e-12), 0.0)
    for number, position in enumerate(np.flatnonzero(whole[:, 0] <= 1e-9)):
        if found.nodes[position] >= 4 * domains:
            weight[position] = 1 / domains
        else:
            weight[position, number % domains] = 1.0
    return weight


def floor_worth(problem: PackingProblem, worth: Floats) -> Floats:
    """Give every pod a minimum worth, because every pod uses capacity and must be packed, too."""
    if not len(problem.price):
        return worth
    share = (problem.need / np.maximum(problem.free.max(axis=0), 1e-9)).max(axis=1)
    least: Floats = np.maximum(worth, 1e-7 * problem.price.min() + 1e-6 * share)
    return least
