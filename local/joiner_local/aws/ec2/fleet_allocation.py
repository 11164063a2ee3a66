"""Allocate a fleet's target over its launch pools, by EC2's allocation strategies, with known capacity.

Source: EC2 user guide, "Use allocation strategies to determine how EC2 Fleet or Spot Fleet fulfills Spot and On-Demand
capacity". EC2 does not publish the formula of price-capacity-optimized; this takes the cheapest of the pools with
enough capacity.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from joiner_local.aws.ec2.fleet_requests import FleetRequest, LaunchPool

DEEP: Final = 10  # remaining capacity that is enough for price-capacity-optimized


@dataclass(frozen=True, slots=True)
class PricedPool:
    """A pool that could launch: its price in US$ an hour and its remaining capacity (infinity: unlimited)."""

    asked: LaunchPool
    price: float
    depth: float

    @property
    def unit_price(self) -> float:
        return self.price / self.asked.weight


@dataclass(frozen=True, slots=True)
class PoolRefusal:
    asked: LaunchPool
    code: str
    message: str


@dataclass(slots=True)
class FleetAllocation:
    """The result: instances by pool in the order of allocation, and the refusals."""

    granted: list[tuple[LaunchPool, int]] = field(default_factory=list)
    refused: list[PoolRefusal] = field(default_factory=list)

    @property
    def capacity(self) -> float:
        return sum(count * asked.weight for asked, count in self.granted)


# Takes instances from a pool; returns how many, and the refusal of the rest.
Draw = Callable[[LaunchPool, int], tuple[int, PoolRefusal | None]]


def ranked(candidates: Sequence[PricedPool], strategy: str) -> list[PricedPool]:
    """Return the pools in the order in which a strategy uses them."""
    keys: dict[str, Callable[[PricedPool], tuple[float, ...]]] = {
        "prioritized": lambda c: (c.asked.priority, c.unit_price),
        "capacity-optimized": lambda c: (-c.depth, c.unit_price),
        "capacity-optimized-prioritized": lambda c: (-c.depth, c.asked.priority, c.unit_price),
        "price-capacity-optimized": lambda c: (c.depth < DEEP, c.unit_price),
    }
    return sorted(candidates, key=keys.get(strategy, lambda c: (c.unit_price, c.asked.priority)))


def allocate(
    request: FleetRequest, candidates: Sequence[PricedPool], draw: Draw, give_back: Callable[[LaunchPool, int], None]
) -> FleetAllocation:
    """Fill the target from the pools; for a single type or zone, from the first such group that reaches the minimum."""
    order = ranked(candidates, request.strategy)
    total = FleetAllocation()
    for group in _groups(request, order):
        attempt = _fill(request, group, draw)
        total.refused += attempt.refused
        if attempt.granted and attempt.capacity >= request.minimum:
            total.granted = attempt.granted
            break
        for asked, count in attempt.granted:
            give_back(asked, count)
    return total


def _groups(request: FleetRequest, order: list[PricedPool]) -> list[list[PricedPool]]:
    """Return one group of all pools, or a group for each type (or zone), the group with the best pool first."""

    def kind(candidate: PricedPool) -> tuple[str, str]:
        pool = candidate.asked.pool
        return (pool.instance_type if request.single_type else "", pool.zone if request.single_zone else "")

    best = {k: order.index(next(c for c in order if kind(c) == k)) for k in {kind(c) for c in order}}
    return [
        list(members) for _, members in groupby(sorted(order, key=lambda c: (best[kind(c)], order.index(c))), key=kind)
    ]


def _fill(request: FleetRequest, order: list[PricedPool], draw: Draw) -> FleetAllocation:
    if request.strategy == "diversified":
        return _spread(request, order, draw)
    allocation = FleetAllocation()
    for candidate in order:
        missing = request.target - allocation.capacity
        if missing <= 0:
            break
        _draw_from(candidate.asked, math.ceil(missing / candidate.asked.weight), draw, allocation)
    return allocation


def _spread(request: FleetRequest, order: list[PricedPool], draw: Draw) -> FleetAllocation:
    """Take equal shares; other pools replace what one pool lacks."""
    allocation = FleetAllocation()
    willing = order
    while willing and (missing := request.target - allocation.capacity) > 0:
        share = missing / len(willing)
        still = []
        for candidate in willing:
            left = request.target - allocation.capacity
            wanted = min(math.ceil(share / candidate.asked.weight), math.ceil(left / candidate.asked.weight))
            if wanted > 0 and _draw_from(candidate.asked, wanted, draw, allocation) == wanted:
                still.append(candidate)
        willing = still
    return allocation


def _draw_from(asked: LaunchPool, wanted: int, draw: Draw, allocation: FleetAllocation) -> int:
    given, refusal = draw(asked, wanted)
    if given:
        allocation.granted.append((asked, given))
    if refusal is not None:
        allocation.refused.append(refusal)
    return given
