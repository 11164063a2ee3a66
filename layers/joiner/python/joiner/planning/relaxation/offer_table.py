"""All offers of all open pools as columns, and the undominated ones.

Results that depend only on a pool's offers are computed once and reused by later plans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole, distinct_columns
from joiner.planning.model.node_offers import OfferChoice, OfferSet, PoolOffers, PoolVariant
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.model.volume_constraints import UNLIMITED
from joiner.planning.state.plan_state import PlanState

UNBOUNDED_AMOUNT: Final = float(UNLIMITED >> 1)
"""An amount from this value on is unlimited."""


class OfferColumns:
    """One offer set as arrays: O offers."""

    def __init__(self, offer_set: OfferSet) -> None:
        offers = offer_set.launchable
        self.free: Floats = np.array([one.free for one in offers], float)
        self.price: Floats = np.array([one.offering.price_per_hour for one in offers], float)
        self.limited: Marks = np.array([one.supply is not None for one in offers], dtype=bool)
        self._offers = offers
        self._codes: dict[str, tuple[Whole, list[str | None]]] = {}
        self._counted: dict[str, Floats] = {}

    def codes(self, key: str) -> tuple[Whole, list[str | None]]:
        """Return for each offer the number of its value of a label, and the values."""
        if key not in self._codes:
            known: dict[str | None, int] = {}
            codes = [known.setdefault(one.label(key), len(known)) for one in self._offers]
            self._codes[key] = np.array(codes, dtype=np.int64), list(known)
        return self._codes[key]

    def capacity(self, name: str) -> Floats:
        """Return what a node of each offer counts against a limit on this resource."""
        if name not in self._counted:
            self._counted[name] = np.array([one.capacity.get(name, 0) for one in self._offers], float)
        return self._counted[name]


def columns_of(offer_set: OfferSet) -> OfferColumns:
    """Return the arrays of this offer set; they are created once."""
    return offer_set.derived(OfferColumns)


@dataclass(frozen=True, slots=True, eq=False)
class OfferTable:
    """All offers of a plan. ``sections`` are pool and variant of consecutive offers, which begin at ``starts``.

    ``domain`` numbers the ``domains``: the values of the requested labels. Groups of one of the ``kinds`` may use the
    same offers: a row of marks for each kind, with a column for each ``way`` in which offers are open to kinds.
    ``limited``: the offer has a limited supply. ``limits``: what a node counts against the limits of its pool.
    ``cache`` has what is known from earlier plans.
    """

    sections: tuple[tuple[PoolOffers, PoolVariant], ...]
    starts: Whole
    free: Floats
    _: KW_ONLY
    price: Floats
    limits: Floats
    tier: Whole
    pool: Whole
    limited: Marks
    domain: Whole
    domains: tuple[tuple[str | None, ...], ...]
    kinds: Marks
    way: Whole
    kind_of: Mapping[PodGroup, int]
    cache: OfferCache

    def open_to(self, kinds: Sequence[int] | Whole, columns: Whole | int) -> Marks:
        """Return which of these kinds of groups may use which of these offers: kinds x offers, or for one offer its
        marks."""
        marks: Marks = self.kinds[np.asarray(kinds, np.int64)][:, self.way[columns]]
        return marks

    def origin(self, column: int) -> tuple[PoolOffers, PoolVariant, int]:
        """Return the pool, the variant, and the offer's position in the pool's offer set."""
        section = int(np.searchsorted(self.starts, column, side="right")) - 1
        return *self.sections[section], column - int(self.starts[section])


def tabulate_offers(state: PlanState, groups: Sequence[PodGroup], keys: Sequence[str]) -> OfferTable:
    """Return every offer, and the groups that may use it by node rules. The last table is kept: the steps of a search
    ask for the same one in succession, and with many values of open labels it is large."""
    sections = tuple(
        (pool_offers, variant)
        for pool_offers in state.offered_pools
        for variant in pool_offers.variants
        if pool_offers.launchable
    )
    asked = (tuple(groups), tuple(keys), *((variant, variant.openings) for _, variant in sections))
    return state.kept(OfferTable, most=1).find(asked, lambda: _tabulate(state, groups, keys, sections))


def _tabulate(
    state: PlanState,
    groups: Sequence[PodGroup],
    keys: Sequence[str],
    sections: tuple[tuple[PoolOffers, PoolVariant], ...],
) -> OfferTable:
    kinds, kind_of = _kinds(sections, groups)
    weights = sorted({pool_offers.pool.weight for pool_offers, _ in sections}, reverse=True)
    pools = [pool_offers.pool.key for pool_offers in state.offered_pools]
    parts = [columns_of(variant.offer_set) for _, variant in sections]
    sizes = np.array([len(pool_offers.launchable) for pool_offers, _ in sections], dtype=np.int64)
    domain, domains = _domains(sections, keys)
    ways, way = _ways(sections, kinds)
    return OfferTable(
        sections=sections,
        starts=np.cumsum(sizes) - sizes,
        free=np.concatenate([np.zeros((0, len(state.groups.resources))), *(part.free for part in parts)]),
        price=np.concatenate([np.zeros(0), *(part.price for part in parts)]),
        limits=_limits(sections),
        tier=np.repeat(
            np.array([weights.index(pool_offers.pool.weight) for pool_offers, _ in sections], dtype=np.int64), sizes
        ),
        pool=np.repeat(
            np.array([pools.index(pool_offers.pool.key) for pool_offers, _ in sections], dtype=np.int64), sizes
        ),
        limited=np.concatenate([np.zeros(0, bool), *(part.limited for part in parts)]),
        domain=domain,
        domains=domains,
        kinds=ways,
        way=way,
        kind_of=kind_of,
        cache=state.cache,
    )


def _kinds(
    sections: Sequence[tuple[PoolOffers, PoolVariant]], groups: Sequence[PodGroup]
) -> tuple[list[tuple[int, ...]], dict[PodGroup, int]]:
    """Return the different sets of offers that groups may use, as bits by section, and the set of each group."""
    tolerated = {
        pool_offers.pool.key: [one.constraints.untolerated(pool_offers.pool.taints) is None for one in groups]
        for pool_offers, _ in sections
    }
    kinds: dict[tuple[int, ...], int] = {}
    kind_of: dict[PodGroup, int] = {}
    for position, group in enumerate(groups):
        kind = tuple(
            variant.bits[group.index] if tolerated[pool_offers.pool.key][position] else 0
            for pool_offers, variant in sections
        )
        kind_of[group] = kinds.setdefault(kind, len(kinds))
    return list(kinds), kind_of


def _ways(sections: Sequence[tuple[PoolOffers, PoolVariant]], kinds: Sequence[tuple[int, ...]]) -> tuple[Marks, Whole]:
    """Return the ways in which offers are open to kinds of groups (kinds x ways), and the way of each offer. A table
    of kinds x offers would grow with the square of the number of tenants that have nodes of their own."""
    ways, way, known = [np.zeros((len(kinds), 0), bool)], [np.zeros(0, np.int64)], 0
    for number, (pool_offers, _) in enumerate(sections):
        width = len(pool_offers.launchable)
        mine = [at for at, kind in enumerate(kinds) if kind[number]]
        here = np.array([unpack_bits(kinds[at][number], width) for at in mine], bool).reshape(len(mine), width)
        distinct, own = distinct_columns(here)
        ways.append(np.zeros((len(kinds), distinct.shape[1]), bool))
        ways[-1][mine] = distinct
        way.append(own + known)
        known += distinct.shape[1]
    return np.concatenate(ways, axis=1), np.concatenate(way)


def _domains(
    sections: Sequence[tuple[PoolOffers, PoolVariant]], keys: Sequence[str]
) -> tuple[Whole, tuple[tuple[str | None, ...], ...]]:
    """Return for each offer the number of its values of the keys, in order of first occurrence."""
    known: dict[tuple[str | None, ...], int] = {}
    found: list[Whole] = [np.zeros(0, np.int64)]
    for pool_offers, variant in sections:
        code: Whole = np.zeros(len(pool_offers.launchable), np.int64)
        values: list[tuple[str | None, ...]] = [()]
        for key in keys:
            own = variant.labels.get(key)
            more, names = (
                (np.zeros(len(code), np.int64), [own]) if own else columns_of(pool_offers.offer_set).codes(key)
            )
            code = code * len(names) + more
            values = [(*value, name) for value in values for name in names]
        used, first = np.unique(code, return_index=True)
        numbers = np.zeros(len(values), np.int64)
        for at in np.argsort(first, kind="stable").tolist():
            numbers[used[at]] = known.setdefault(values[used[at]], len(known))
        found.append(numbers[code])
    return np.concatenate(found), tuple(known)


def _limits(sections: Sequence[tuple[PoolOffers, PoolVariant]]) -> Floats:
    """Return what a node of each offer counts against its pool's limits: an offer dominates none that counts less."""
    bounded = sorted({name for pool_offers, _ in sections for name in pool_offers.pool.limits if name != "nodes"})
    parts = [np.zeros((0, len(bounded)))]
    for pool_offers, _ in sections:
        none = np.zeros(len(pool_offers.launchable))
        columns = [
            columns_of(pool_offers.offer_set).capacity(name) if name in pool_offers.pool.limits else none
            for name in bounded
        ]
        parts.append(np.stack(columns, axis=1) if columns else np.zeros((len(none), 0)))
    return np.concatenate(parts)


def unpack_bits(bits: int, width: int) -> Marks:
    """Return bits as marks, the lowest first.

    >>> unpack_bits(0b101, 4).tolist()
    [True, False, True, False]
    """
    raw = np.frombuffer(bits.to_bytes((width + 7) // 8, "little"), np.uint8)
    return np.unpackbits(raw, count=width, bitorder="little").astype(bool)


def undominated_offers(table: OfferTable, wanted: Marks) -> Whole:
    """Return the offers that no other offer of the same pool and domain dominates (by price, capacity and kinds that
    may use it), in order of price."""
    marks, way = distinct_columns(table.kinds[wanted])
    way = way[table.way]
    # All inputs that determine the result: an offer set determines its capacity, prices and supplies.
    stocks = tuple(
        (variant.offer_set, position)
        for (_, variant), position in zip(table.sections, table.pool[table.starts].tolist(), strict=True)
    )
    of_ways = (np.packbits(marks, axis=1).tobytes(), len(marks), way.tobytes())
    asked = (stocks, *of_ways, table.domain.tobytes(), table.limits.tobytes())
    return table.cache.undominated(asked, lambda: _find_undominated(table, marks, way))


def _find_undominated(table: OfferTable, ways: Marks, way: Whole) -> Whole:
    used: Marks = np.logical_or.reduce(ways, axis=0)
    usable = np.flatnonzero(used[way])
    if not len(usable):
        return usable
    way = way[usable]
    closed_to = (~ways).T.astype(np.float32) @ ways.astype(np.float32)  # [a, b]: of the kinds of b, those that a lacks
    covers: Marks = closed_to == 0
    size = np.concatenate([np.minimum(table.free[usable], UNBOUNDED_AMOUNT), -table.limits[usable]], axis=1)
    size = size[:, size.min(axis=0) < size.max(axis=0)]
    price = table.price[usable]
    sections = (table.domain[usable] * (table.pool.max() + 1) + table.pool[usable]) * 2 + table.limited[usable]
    kept: list[Whole] = []
    known: list[tuple[Floats, Whole]] = []  # Domains are often equal: the result of one is valid for the next.
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
    """Return the rows (price, way, sizes) that no other row dominates; of equal rows the first.

    Rows are compared within each way first: most ways of a pool with many variants cover no other way, and few rows
    are left to compare between ways.
    """
    order = np.lexsort((np.arange(len(facts)), *(-facts[:, 2:]).T, facts[:, 1], facts[:, 0]))
    rows = facts[order]
    first = np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])
    order, rows = order[first], rows[first]
    by_size = np.argsort(-rows[:, 2:].sum(axis=1), kind="stable") if rows.shape[1] > 2 else np.arange(len(rows))
    by_size = by_size[np.argsort(rows[by_size, 0], kind="stable")]
    order, sizes, way = order[by_size], rows[by_size, 2:], rows[by_size, 1].astype(np.int64)
    best: dict[int, Whole] = {}
    for one in np.unique(way).tolist():
        mine = np.flatnonzero(way == one)
        best[one] = mine[~_dominated(mine, mine, sizes)]
    kept = []
    for one, mine in best.items():
        rivals = [its for other, its in best.items() if other != one and covers[other, one]]
        kept.append(mine[~_dominated(mine, np.sort(np.concatenate(rivals)), sizes)] if rivals else mine)
    return np.sort(order[np.concatenate(kept)])


def _dominated(mine: Whole, rivals: Whole, sizes: Floats) -> Marks:
    """Return which of these rows one of the rivals precedes that is at least as large in every size."""
    beats = rivals[:, None] < mine[None, :]
    for column in range(sizes.shape[1]):
        beats &= sizes[rivals, None, column] >= sizes[None, mine, column]
    beaten: Marks = np.logical_or.reduce(beats, axis=0)
    return beaten


class OfferChoices:
    """Offers of a table as choices of the state; a choice is created when it is first used."""

    def __init__(
        self, state: PlanState, table: OfferTable, kept: Whole, used: Marks | None = None, units: Floats | None = None
    ) -> None:
        self._groups = [group for group in state.groups.pending if group in table.kind_of]
        self._state = state
        self._table = table
        self._kept = kept
        self._kinds = np.array([table.kind_of[group] for group in self._groups], dtype=int)
        self._indices = np.array([group.index for group in self._groups], dtype=int)
        self._made: dict[int, OfferChoice] = {}
        self._groups_by_way: dict[int, int] = {}
        self._used = used
        self._units = units

    def ordered(self, order: Whole) -> "OfferChoices":
        """Return the same choices in another order."""
        return OfferChoices(self._state, self._table, self._kept[order], self._used, self._units)

    @property
    def has_supplies(self) -> bool:
        """Return whether an offer exists only a limited number of times."""
        return bool(self._table.limited.any())

    @property
    def one_tier(self) -> bool:
        """Return whether all pools have the same weight."""
        return len(np.unique(self._table.tier)) <= 1

    def tiers(self) -> Whole:
        """Return for each offer the rank of its pool's weight; 0 is the highest weight."""
        return self._table.tier[self._kept]

    def pools(self) -> Whole:
        """Return for each offer the position of its pool among the state's pools."""
        return self._table.pool[self._kept]

    def capacity(self, name: str) -> Floats:
        """Return for each offer what a node of it counts against a limit on this resource."""
        parts = [columns_of(pool_offers.offer_set).capacity(name) for pool_offers, _ in self._table.sections]
        return np.concatenate([np.zeros(0), *parts])[self._kept]

    def amounts(self, vector: Sequence[int]) -> list[float]:
        """Return amounts of the plan's resources in the units of the problem."""
        known = np.minimum(np.array(vector, float), UNBOUNDED_AMOUNT)
        return (
            list(np.floor(known[self._used] / self._units).tolist())
            if self._units is not None
            else list(known.tolist())
        )

    def supplies(self, samples: Sequence[PodGroup]) -> list[tuple[int, list[float], Marks]]:
        """Return the offers with limited supply: the number of nodes, the capacity of all of them, and which of these
        groups may use them. Offers that share a commitment are one, with the most of each resource that its units
        suffice for. Parts of nodes count: nodes of several types can use more units than whole nodes of one type."""
        found: list[tuple[int, list[float], Marks]] = []
        shared: dict[tuple[str, ...], tuple[int, list[float], Marks]] = {}
        kinds = np.array([self._table.kind_of[group] for group in samples], dtype=int)
        for column in np.flatnonzero(self._table.limited).tolist():
            _, variant, position = self._table.origin(column)
            one = variant.launchable[position]
            committed, open_to = bool(one.offering.commitment), self._table.open_to(kinds, column)
            nodes = self._state.limits.nodes_left(one) if committed else one.supply or 0
            if not committed:
                found.append((nodes, [amount * nodes for amount in self.amounts(one.free)], open_to))
                continue
            if nodes <= 0:
                continue
            parts = self._state.limits.units_left(one) / one.units
            amounts = [amount * parts for amount in self.amounts(one.free)]
            most, before, groups = shared.get(one.supply_key, (0, [0.0] * len(amounts), np.zeros_like(open_to)))
            shared[one.supply_key] = max(most, nodes), list(map(max, before, amounts)), groups | open_to
        return [*found, *shared.values()]

    def __getitem__(self, offer: int) -> OfferChoice:
        if offer not in self._made:
            column = int(self._kept[offer])
            pool_offers, variant, position = self._table.origin(column)
            groups = self._groups_of(int(self._table.way[column]))
            self._made[offer] = OfferChoice(pool_offers, variant, variant.launchable[position], groups)
        return self._made[offer]

    def _groups_of(self, way: int) -> int:
        """Return the indices of the groups to which offers are open in this way, as bits."""
        if way not in self._groups_by_way:
            open_to = np.zeros(int(self._indices.max()) + 1, bool)
            open_to[self._indices] = self._table.kinds[self._kinds, way]
            self._groups_by_way[way] = int.from_bytes(np.packbits(open_to, bitorder="little").tobytes(), "little")
        return self._groups_by_way[way]
