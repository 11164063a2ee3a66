"""What could be launched in place of a planned node: every offer that holds the same pods by the same rules for about the same price.

The fleet chooses among them when some are short. Asked for every node of a plan, so the offers of a pool are laid out as arrays once.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from joiner.planning.frontier import telling_keys
from joiner.planning.offers import Choice, Launchable, Market, flexible
from joiner.planning.problem import Floats, Marks, Whole, unpacked
from joiner.planning.rooms import Room, World

PRICE_TOLERANCE: Final = 0.10
"""How much dearer than its own offer a node's alternatives may be."""
MOST_ALTERNATIVES: Final = 60


class Alternatives:
    """Of all nodes of one plan."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._keys = telling_keys(world.groups)
        self._shelves: dict[Market, Shelf] = {}

    def of(self, room: Room, choice: Choice) -> list[Launchable]:
        """Its own offer first, then the cheapest; more where minValues ask for more."""
        if choice.market not in self._shelves:
            self._shelves[choice.market] = Shelf(choice.market, self._keys)
        shelf, bits = self._shelves[choice.market], -1
        for group in room.planned:
            bits &= choice.variant.bits[group.index]
        own = choice.one
        need = [before - after for before, after in zip(own.room, room.free, strict=True)]
        found = [own, *shelf.holding(own, need, bits)[: MOST_ALTERNATIVES - 1]]
        least = choice.market.pool.min_values
        if least:
            others = [one for one in self._world.stand_ins(choice, room.planned) if one not in found and _holds(one, need)]
            found.extend(_more_choice(found, sorted(others, key=lambda one: (one.offer, one.index)), least))
        return found


class Shelf:
    """The offers of one pool in order of price."""

    def __init__(self, market: Market, keys: Sequence[str]) -> None:
        self._market = market
        offers = market.launchable
        self._order = sorted(range(len(offers)), key=lambda at: _rank(offers[at]))
        ordered = [offers[at] for at in self._order]
        self._rooms: Floats = np.array([one.room for one in ordered], float)
        self._prices: Floats = np.array([one.offering.price_per_hour for one in ordered])
        kinds: dict[object, int] = {}
        kind_of = [
            kinds.setdefault((one.offering.capacity_type, one.daemons, *(one.label(key) for key in keys)), len(kinds)) for one in ordered
        ]
        self._kinds: Whole = np.array(kind_of, dtype=np.int64)
        self._endless: Marks = np.array([one.supply is None for one in ordered], dtype=bool)
        limits = [name for name in market.pool.limits if name != "nodes"]
        counted = [[one.capacity.get(name, 0) for name in limits] for one in ordered]
        self._counted: Floats = np.array(counted, float).reshape(len(ordered), len(limits))
        self._place = {at: position for position, at in enumerate(self._order)}
        self._open: dict[int, Marks] = {}
        self._alike: dict[int, Whole] = {}

    def holding(self, own: Launchable, need: Sequence[int], bits: int) -> list[Launchable]:
        """Offers of about the price, equal in each label that some rule or wish tells nodes apart by, with the same daemons, and no heavier
        on the pool's limits, that hold this much and are open to these groups; the cheapest first, without its own."""
        alike = self._alike.get(own.index)
        if alike is None:
            position = self._place[own.index]
            same = self._endless & (self._kinds == self._kinds[position]) & (self._prices <= self._prices[position] * (1 + PRICE_TOLERANCE))
            same &= (self._counted <= self._counted[position]).all(axis=1)
            same[position] = False
            alike = self._alike[own.index] = np.flatnonzero(same)
        held = (self._rooms[alike] >= np.array(need, float)).all(axis=1)
        if bits >= 0:
            if bits not in self._open:
                self._open[bits] = unpacked(bits, len(self._order))[self._order]
            held &= self._open[bits][alike]
        offers = self._market.launchable
        return [offers[self._order[position]] for position in alike[held][: MOST_ALTERNATIVES - 1].tolist()]


def _rank(one: Launchable) -> tuple[float, str, str, str, int]:
    said = one.offering
    return (said.price_per_hour, one.model.name, said.zone, said.capacity_type, one.index)


def _holds(one: Launchable, need: Sequence[int]) -> bool:
    return all(amount <= there for amount, there in zip(need, one.room, strict=True))


def _more_choice(found: Sequence[Launchable], holding: Sequence[Launchable], least: Mapping[str, int]) -> list[Launchable]:
    """The cheapest of the others that are new in some label that minValues count, until there is choice enough."""
    more: list[Launchable] = []
    for one in holding:
        if flexible((*found, *more), least):
            break
        short = [key for key, number in least.items() if len({other.label(key) for other in (*found, *more)} - {None}) < number]
        if any(one.label(key) not in {other.label(key) for other in (*found, *more)} for key in short):
            more.append(one)
    return more
