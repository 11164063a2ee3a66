"""A plan as arrays: what is left to place against what can be launched, as far as classes can express it.

*Items* are pods that are alike to the search: the same requests, the same offers, the same rules about hosts, the same domain if they were
dealt out (``dealing``). *Offers* are those that no other beats. Rules that arrays cannot express are left to the exact placer, which has
the last word on everything: what is found here is a proposal.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from joiner import names
from joiner.planning.dealing import Deal
from joiner.planning.groups import Group
from joiner.planning.mounting import UNLIMITED
from joiner.planning.offers import Choice, Market, Variant
from joiner.planning.rooms import World
from joiner.planning.topology import Rules

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Marks = NDArray[np.bool_]

PLENTY: Final = float(UNLIMITED >> 1)
"""An amount from here on is no limit at all."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """K items, O offers, R resources. Amounts are whole numbers below 2^53, so sums of floats are exact.

    ``open``: whether one pod of the item fits an empty node of the offer and may go there. ``capped``: rows of items of which one node
    takes at most ``caps``; ``firm`` rows hold in every plan there is, the others are how this planner reads a spread over hosts.
    ``members``: which pods an item stands for, and how many of each. ``merged``: the same without domains, where pods were dealt out.
    """

    need: Floats
    demand: Whole
    room: Floats
    price: Floats
    open: Marks
    capped: Marks
    caps: Whole
    firm: Marks
    members: tuple[tuple[tuple[Group, int], ...], ...]
    choices: "Choices"
    resources: tuple[str, ...] = ()
    merged: "Merged | None" = None

    @property
    def items(self) -> int:
        return len(self.demand)

    @property
    def one_tier(self) -> bool:
        """Whether all offers are of pools of one weight, so that nobody is kept from a cheaper one."""
        return self.choices.one_tier

    def most_of_one(self) -> Floats:
        """For each item, how many of it caps let onto one node."""
        most = np.full(self.items, np.inf)
        for row, cap in zip(self.capped, self.caps, strict=True):
            most[row] = np.minimum(most[row], cap)
        return most


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """A problem whose domains are all alike, with the domains taken off: a fraction of the size, and no plan is cheaper than it says.

    ``item_of`` and ``domain_of`` (-1: any) are of the items with domains; ``offer_in`` gives for each merged offer its
    like in every domain.
    """

    problem: Problem
    item_of: Whole
    domain_of: Whole
    offer_in: Whole


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """All offers of all open pools, as columns. ``kinds`` are the distinct ways in which groups may use offers: a row of marks each.
    ``limited``: the offer is of a supply that can run out."""

    room: Floats
    price: Floats
    limits: Floats
    tier: Whole
    pool: Whole
    limited: Marks
    label: Mapping[str, Sequence[str | None]]
    origin: list[tuple[Market, Variant, int]]
    kinds: Marks
    kind_of: Mapping[Group, int]


def tabulate(world: World, groups: Sequence[Group], keys: Sequence[str]) -> Table:
    """Every offer, and which groups may use it as far as node rules go."""
    columns: list[tuple[Market, Variant]] = [
        (market, variant) for market in world.markets for variant in market.variants if market.launchable
    ]
    welcome = {market.pool.key: [one.constraints.untolerated(market.pool.taints) is None for one in groups] for market, _ in columns}
    ways: dict[tuple[int, ...], int] = {}
    kind_of: dict[Group, int] = {}
    for position, group in enumerate(groups):
        way = tuple(variant.bits[group.index] if welcome[market.pool.key][position] else 0 for market, variant in columns)
        kind_of[group] = ways.setdefault(way, len(ways))
    weights = sorted({market.pool.weight for market, _ in columns}, reverse=True)
    pools = [market.pool.key for market in world.markets]
    rooms = {market.pool.key: np.array([one.room for one in market.launchable], float) for market, _ in columns}
    prices = {market.pool.key: np.array([one.offering.price_per_hour for one in market.launchable]) for market, _ in columns}
    bounded = sorted({name for market, _ in columns for name in market.pool.limits if name != "nodes"})
    repeated = np.repeat(np.arange(len(columns)), [len(market.launchable) for market, _ in columns])
    return Table(
        room=_joined([rooms[market.pool.key] for market, _ in columns], len(world.groups.resources)),
        price=np.concatenate([np.zeros(0), *(prices[market.pool.key] for market, _ in columns)]),
        limits=_counted(columns, bounded),
        tier=np.array([weights.index(market.pool.weight) for market, _ in columns], dtype=int)[repeated],
        pool=np.array([pools.index(market.pool.key) for market, _ in columns], dtype=int)[repeated],
        limited=np.array([one.supply is not None for market, _ in columns for one in market.launchable], dtype=bool),
        label={
            key: [variant.labels.get(key) or one.label(key) for market, variant in columns for one in market.launchable] for key in keys
        },
        origin=[(market, variant, position) for market, variant in columns for position in range(len(market.launchable))],
        kinds=np.concatenate(
            [np.zeros((len(ways), 0), bool)]
            + [np.stack([unpacked(way[number], len(market.launchable)) for way in ways]) for number, (market, _) in enumerate(columns)],
            axis=1,
        ),
        kind_of=kind_of,
    )


def _joined(parts: Sequence[Floats], width: int) -> Floats:
    return np.concatenate([np.zeros((0, width)), *parts])


def _counted(columns: Sequence[tuple[Market, Variant]], bounded: Sequence[str]) -> Floats:
    """What a node of each offer counts against its pool's limits: an offer beats none that counts less."""
    rows = (
        [
            [one.capacity.get(name, 0) if name in market.pool.limits else 0 for name in bounded]
            for market, _ in columns
            for one in market.launchable
        ]
        if bounded
        else [[] for market, _ in columns for _ in market.launchable]
    )
    return np.array(rows, float).reshape(len(rows), len(bounded))


def unpacked(bits: int, width: int) -> Marks:
    """Bits as marks, the lowest first.

    >>> unpacked(0b101, 4).tolist()
    [True, False, True, False]
    """
    raw = np.frombuffer(bits.to_bytes((width + 7) // 8, "little"), np.uint8)
    return np.unpackbits(raw, count=width, bitorder="little").astype(bool)


def unbeaten(table: Table, wanted: Marks, alike: Whole) -> Whole:
    """Offers that no other one beats: as cheap, as roomy, open to as many kinds, of the same pool and domain (``alike``)."""
    marks = table.kinds[wanted]
    usable = np.flatnonzero(marks.any(axis=0))
    if not len(usable):
        return usable
    ways, way = np.unique(marks[:, usable], axis=1, return_inverse=True)
    way = way.reshape(-1)
    covers: Marks = ~np.logical_or.reduce(ways[:, None, :] & ~ways[:, :, None], axis=0)  # [a, b]: a is open to all that b is open to
    size = np.concatenate([np.minimum(table.room[usable], PLENTY), -table.limits[usable]], axis=1)
    size = size[:, size.min(axis=0) < size.max(axis=0)]
    price = table.price[usable]
    sections = (alike[usable] * (table.pool.max() + 1) + table.pool[usable]) * 2 + table.limited[usable]
    kept: list[Whole] = []
    known: list[tuple[Floats, Whole]] = []  # domains are often alike: what was worked out for one holds for the next
    for section in np.unique(sections):
        mine = np.flatnonzero(sections == section)
        facts = np.concatenate([price[mine, None], way[mine, None], size[mine]], axis=1)
        best = next((found for seen, found in known if np.array_equal(seen, facts)), None)
        if best is None:
            best = _maximal(facts, covers)
            known.append((facts, best))
        kept.append(mine[best])
    found = np.concatenate(kept)
    return usable[found[np.lexsort((usable[found], price[found]))]]


def _maximal(facts: Floats, covers: Marks) -> Whole:
    """Rows (price, way, sizes) that no other row beats; of equal rows the first."""
    order = np.lexsort((np.arange(len(facts)), *(-facts[:, 2:]).T, facts[:, 1], facts[:, 0]))
    rows = facts[order]
    first = np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])
    order, rows = order[first], rows[first]
    by_size = np.argsort(-rows[:, 2:].sum(axis=1), kind="stable") if rows.shape[1] > 2 else np.arange(len(rows))
    by_size = by_size[np.argsort(rows[by_size, 0], kind="stable")]
    order, rows = order[by_size], rows[by_size]
    beats = np.triu(np.ones((len(rows), len(rows)), bool), 1)
    for column in range(2, rows.shape[1]):
        beats &= rows[:, column, None] >= rows[None, :, column]
    if len(covers) > 1:
        way = rows[:, 1].astype(np.int64)
        beats &= covers[np.ix_(way, way)]
    return np.sort(order[~beats.any(axis=0)])


def compile_problem(world: World, deal: Deal, groups: Sequence[Group]) -> Problem:
    """The arrays for these groups (those that arrays can express), pods that are left only."""
    table = tabulate(world, [group for group in world.groups.pending if not group.refused], deal.keys)
    values = list(zip(*(table.label[key] for key in deal.keys), strict=True)) if deal.keys else [()] * len(table.price)
    numbers: dict[tuple[Any, ...], int] = {}
    domain = np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)
    wanted = np.zeros(len(table.kinds), bool)
    wanted[[table.kind_of[group] for group in groups]] = True
    kept = unbeaten(table, wanted, domain)
    kept = kept[~table.limited[kept]]
    items = _items(world, deal, groups, table.kind_of)
    room = table.room[kept]
    vectors = np.array([one.group.vector for one in items], float).reshape(len(items), room.shape[1])
    used: Marks = np.logical_or.reduce(vectors > 0, axis=0) & np.logical_or.reduce(room < PLENTY, axis=0)
    units = _coarse_units(vectors[:, used])
    need, room = vectors[:, used] / units, np.floor(np.minimum(room[:, used], PLENTY) / units)
    open_to = table.kinds[[table.kind_of[one.group] for one in items]][:, kept].T.copy()
    for resource in range(need.shape[1]):
        open_to &= need[None, :, resource] <= room[:, resource, None]
    _heaviest_pools_only(open_to, table.tier[kept])
    capped, caps, firm = _caps(items)
    whole = Problem(
        need=need,
        demand=np.array([sum(number for _, number in one.members) for one in items], dtype=np.int64),
        room=room,
        price=table.price[kept],
        open=open_to,
        capped=capped,
        caps=caps,
        firm=firm,
        members=tuple(tuple(one.members) for one in items),
        choices=Choices(world, table, kept, used, units),
        resources=tuple(name for name, here in zip(world.groups.resources, used.tolist(), strict=True) if here),
    )
    if not deal.keys:
        return whole
    pools = table.pool[kept]
    known = [tuple(map(str, value)) for value in numbers]
    return _divided(whole, items, domain[kept], values=known, keys=deal.keys, pools=pools)


def _divided(
    whole: Problem, items: Sequence["Item"], domain: Whole, *, values: Sequence[tuple[str, ...]], keys: Sequence[str], pools: Whole
) -> Problem:
    """The problem with each dealt item held to its domain; with its merged form, if all domains offer the same."""
    place = np.array([_positions(one, values, keys) for one in items], dtype=np.int64)
    merged = _merged(whole, items, place, domain, pools)
    open_to = whole.open.copy()
    for position, one in enumerate(items):
        if one.key:
            column = keys.index(one.key)
            right = np.array([value[column] == one.value for value in values], bool)
            open_to[:, position] &= right[domain]
    return replace(whole, open=open_to, merged=merged)


def _positions(item: "Item", values: Sequence[tuple[str, ...]], keys: Sequence[str]) -> int:
    """The one domain of an item; -1 if it may go anywhere."""
    return values.index((item.value,)) if item.key and len(keys) == 1 else -1


def _merged(whole: Problem, items: Sequence["Item"], place: Whole, domain: Whole, pools: Whole) -> Merged | None:
    domains = int(domain.max()) + 1 if len(domain) else 0
    shapes: dict[object, list[int]] = {}
    for offer in range(len(whole.price)):
        shape = (whole.room[offer].tobytes(), whole.price[offer], pools[offer], whole.open[offer].tobytes())
        shapes.setdefault(shape, []).append(offer)
    if any(len(alike) != domains or len(set(domain[alike].tolist())) != domains for alike in shapes.values()):
        return None
    first = np.array([alike[0] for alike in shapes.values()], dtype=np.int64)
    offer_in = np.zeros((len(first), domains), dtype=np.int64)
    for number, alike in enumerate(shapes.values()):
        offer_in[number, domain[alike]] = alike
    known: dict[object, int] = {}
    item_of = np.array([known.setdefault((one.group.vector, one.kind, one.rows), len(known)) for one in items], dtype=np.int64)
    _, sample = np.unique(item_of, return_index=True)
    problem = replace(
        whole,
        need=whole.need[sample],
        demand=np.bincount(item_of, weights=whole.demand, minlength=len(known)).astype(np.int64),
        room=whole.room[first],
        price=whole.price[first],
        open=whole.open[np.ix_(first, sample)],
        capped=whole.capped[:, sample],
        members=(),
    )
    return Merged(problem, item_of, place, offer_in)


def _coarse_units(need: Floats) -> Floats:
    """The largest units in which all requests are whole: a node's fraction of a unit is of no use to anybody."""
    unit = np.array([np.gcd.reduce(need[:, resource].astype(np.int64)) for resource in range(need.shape[1])], float)
    least: Floats = np.maximum(unit, 1)
    return least


@dataclass(slots=True)
class Item:
    """While items are gathered: a sample group, the domain it was dealt to, what keeps many of it off one node, and its members."""

    group: Group
    key: str
    value: str
    kind: int
    rows: tuple["HostRow", ...]
    members: list[tuple[Group, int]]


ANY: Final = "*"
EVERY: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - addresses that pods take ports on, not one to listen on

HostRow = tuple[object, int, bool]
"""A rule about hosts (its tally, or a port), how many pods under it may share a node, and whether every plan must keep to that."""


def _items(world: World, deal: Deal, groups: Sequence[Group], kind_of: Mapping[Group, int]) -> list[Item]:
    found: dict[object, Item] = {}
    addresses: dict[tuple[int, str], set[str]] = {}
    for group in groups:
        for port in group.constraints.host_ports:
            addresses.setdefault((port.port, port.protocol), set()).add(ANY if port.ip in EVERY else port.ip)
    for group in groups:
        rows = host_rows(group, world.rules[group.index], addresses)
        for key, value, number in deal.shares(group, world.left[group]):
            identity = (group.vector, kind_of[group], key, value, rows)
            if identity not in found:
                found[identity] = Item(group, key, value, kind_of[group], rows, [])
            found[identity].members.append((group, number))
    return list(found.values())


def host_rows(group: Group, own: Rules, addresses: Mapping[tuple[int, str], Collection[str]]) -> tuple[HostRow, ...]:
    """What keeps many pods of a group off one node. A port that is taken on every address is taken on each that anybody names."""
    rows: list[HostRow] = [(rule.tally, rule.spread.max_skew, False) for rule in own.spreads if rule.universe is None]
    rows += [(tally, 1, True) for tally in own.away if tally.key == names.HOSTNAME and tally in own.feeds]
    taken: set[tuple[int, str, str]] = set()
    for port in group.constraints.host_ports:
        known = (port.port, port.protocol)
        taken |= {(*known, ip) for ip in (addresses[known] if port.ip in EVERY else (port.ip,))}
    return (*rows, *((one, 1, True) for one in sorted(taken)))


def _caps(items: Sequence[Item]) -> tuple[Marks, Whole, Marks]:
    rows: dict[HostRow, list[int]] = {}
    for position, one in enumerate(items):
        for row in one.rows:
            rows.setdefault(row, []).append(position)
    capped = np.zeros((len(rows), len(items)), bool)
    for number, positions in enumerate(rows.values()):
        capped[number, positions] = True
    return capped, np.array([cap for _, cap, _ in rows], dtype=np.int64), np.array([firm for *_, firm in rows], dtype=bool)


def _heaviest_pools_only(open_to: Marks, tier: Whole) -> None:
    """A pod asks for a node of a heavier pool as long as one of its offers could hold it."""
    if len(tier) and tier.max() > tier.min():
        levels = np.where(open_to, tier[:, None], tier.max() + 1)
        open_to &= levels == levels.min(axis=0)[None, :]


class Choices:
    """The offers of a problem as choices of the world, made when one is used."""

    def __init__(self, world: World, table: Table, kept: Whole, used: Marks | None = None, units: Floats | None = None) -> None:
        self._groups = [group for group in world.groups.pending if group in table.kind_of]
        self._table = table
        self._kept = kept
        self._kinds = np.array([table.kind_of[group] for group in self._groups], dtype=int)
        self._indices = np.array([group.index for group in self._groups], dtype=int)
        self._made: dict[int, Choice] = {}
        self._used = used
        self._units = units

    @property
    def has_supplies(self) -> bool:
        return bool(self._table.limited.any())

    @property
    def one_tier(self) -> bool:
        return len(np.unique(self._table.tier)) <= 1

    def amounts(self, vector: Sequence[int]) -> list[float]:
        """Amounts of the plan's resources as the problem counts them."""
        known = np.minimum(np.array(vector, float), PLENTY)
        return list(np.floor(known[self._used] / self._units).tolist()) if self._units is not None else list(known.tolist())

    def supplies(self, samples: Sequence[Group]) -> list[tuple[int, list[float], Marks]]:
        """Offers that can run out: how many there are, what one holds, and which of these groups may use it."""
        found = []
        kinds = np.array([self._table.kind_of[group] for group in samples], dtype=int)
        for column in np.flatnonzero(self._table.limited):
            market, _, position = self._table.origin[column]
            one = market.launchable[position]
            found.append((one.supply or 0, self.amounts(one.room), self._table.kinds[kinds, column]))
        return found

    def __getitem__(self, offer: int) -> Choice:
        if offer not in self._made:
            column = int(self._kept[offer])
            market, variant, position = self._table.origin[column]
            open_to = np.zeros(int(self._indices.max()) + 1, bool)
            open_to[self._indices] = self._table.kinds[self._kinds, column]
            groups = int.from_bytes(np.packbits(open_to, bitorder="little").tobytes(), "little")
            self._made[offer] = Choice(market, variant, market.launchable[position], groups)
        return self._made[offer]
