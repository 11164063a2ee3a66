"""Fill many nodes at once: the inner loop of the search.

One row is one node. In each step, every row takes some pods of the item with the highest worth for its use of the
remaining capacity. Rows are independent: each uses the same demand, and the caller decides which rows to keep.
"""

from dataclasses import dataclass, replace

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.packing.kernel.compiled_kernel import MOST_RESOURCES, Kernel, best_library, load_library
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.tuning import TINY


@dataclass(frozen=True, slots=True, eq=False)
class NodePattern:
    """``times`` nodes of one offer, each with ``counts`` pods of ``items``."""

    offer: int
    items: Whole
    counts: Whole
    times: int


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """A proposal: patterns that together hold all pods, and their total price in $/h."""

    price: float
    patterns: tuple[NodePattern, ...]

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return sum(one.times for one in self.patterns)

    def is_better_than(self, price: float, nodes: int) -> bool:
        """Return whether the packing is cheaper than this price, in $/h, or has fewer nodes at this price."""
        less = price - self.price
        return less > TINY or (less >= -TINY and self.nodes < nodes)


NO_PACKING = Packing(np.inf, ())


@dataclass(frozen=True, slots=True, eq=False)
class FillSettings:
    """How rows are filled. ``share`` of what fits is taken at a time (by row or for all rows). ``noise`` changes the
    worth of items and ``weights`` the weight of resources, by row."""

    share: float | Floats = 0.5
    noise: Floats | None = None
    weights: Floats | None = None


class NodeFiller:
    """A problem in the memory layout for filling: created once, used for many fills. ``compiled`` names the compiled
    library (if empty, the fastest one); with None, numpy is used."""

    def __init__(self, problem: PackingProblem, *, compiled: str | None = "") -> None:
        self.problem = problem
        self.resources = np.flatnonzero(problem.need.any(axis=0))
        self.need = np.ascontiguousarray(problem.need[:, self.resources])
        by_resource = np.ascontiguousarray(self.need.T)
        self._by_resource = by_resource
        with np.errstate(divide="ignore"):
            self._inverse = np.where(by_resource > 0, 1.0 / by_resource, 0.0)
        self._extra = np.where(by_resource > 0, 1e-9, 1e9)
        self._gaps = [bool((row <= 0).any()) for row in by_resource]
        self.free = np.ascontiguousarray(problem.free[:, self.resources])
        self.most = problem.most_of_one()
        # A cap on one item is already in ``most``. Items that are never open to one offer together do not share a node.
        shared = [
            int((problem.open & members).sum(axis=1).max(initial=0)) > 1 for members in problem.asks | problem.counts
        ]
        rows = np.flatnonzero(np.array(shared, dtype=bool))
        self.asks, self.counts, self.caps = problem.asks[rows], problem.counts[rows], problem.caps[rows]
        under = self.asks | self.counts
        number = under.sum(axis=0)
        self._rules = np.full((problem.items, int(number.max(initial=0))), -1, dtype=np.int64)
        for item in np.flatnonzero(number):
            own = np.flatnonzero(under[:, item])
            self._rules[item, : len(own)] = own
        library = (
            (load_library(compiled) if compiled else best_library())
            if compiled is not None and 0 < len(self.resources) <= MOST_RESOURCES
            else None
        )
        self.kernel: Kernel | None = None
        if library:
            self.kernel = Kernel(
                library,
                free=self.free,
                open_to=problem.open,
                need=self.need,
                most=self.most,
                rules=self._rules,
                part=self.counts + 2 * self.asks.astype(np.uint8),
                caps=self.caps,
                price=problem.price,
                domain=problem.domain,
            )

    def fill(
        self,
        offers: Whole,
        active: Whole,
        demand: Whole | Floats,
        worth: Floats,
        *,
        way: FillSettings | None = None,
        seed: Whole | None = None,
    ) -> Whole:
        """Return the counts of each active item, by row.

        ``offers`` may repeat. ``seed`` is what rows contain at first. ``worth`` and ``demand`` are of the active
        items; ``demand`` may differ by row.
        """
        how = way or FillSettings()
        number, width = len(offers), len(active)
        counts = np.zeros((number, width), dtype=np.int64) if seed is None else seed.astype(np.int64)
        share = np.broadcast_to(np.asarray(how.share, float), (number,))
        weights = None if how.weights is None else how.weights[:, self.resources]
        if self.kernel:
            value = worth if how.noise is None else np.broadcast_to(worth * how.noise, (number, width))
            self.kernel.fill(offers, active, demand.astype(float), value, share=share, weights=weights, counts=counts)
            return counts
        used = np.zeros((number, len(self.caps)), dtype=np.int64)
        asked = np.zeros((number, len(self.caps)), dtype=bool)
        free = self.free[offers]
        left = np.minimum(demand, self.most[active]) * self.problem.open[np.ix_(offers, active)]
        if seed is not None:
            left = left - seed
            free = free - seed @ self.need[active]
            self._count_seed(seed, active, left, used=used, asked=asked)
        value = np.broadcast_to(worth if how.noise is None else worth * how.noise, (number, width))
        self._take(
            active,
            free=free,
            left=left,
            counts=counts,
            used=used,
            asked=asked,
            value=value,
            share=share,
            weights=weights,
        )
        return counts

    def _count_seed(self, seed: Whole, active: Whole, left: Floats, *, used: Whole, asked: Marks) -> None:
        """Count what rows contain at first under the caps, and limit what they may still take."""
        if not len(self.caps):
            return
        used += seed @ self.counts[:, active].T
        asked |= seed @ self.asks[:, active].T > 0
        for cap in np.flatnonzero((used + asked).any(axis=0)):
            rows = np.flatnonzero(used[:, cap] + asked[:, cap])
            self._narrow(rows, np.full(1, cap), active, left, used=used, asked=asked)

    def _take(
        self,
        active: Whole,
        *,
        free: Floats,
        left: Floats,
        counts: Whole,
        used: Whole,
        asked: Marks,
        value: Floats,
        share: Floats,
        weights: Floats | None,
    ) -> None:
        need, by_resource, inverse, extra = (
            self.need[active],
            self._by_resource[:, active],
            self._inverse[:, active],
            self._extra[:, active],
        )
        alive = np.arange(len(free))
        tiny = 1e-3 * free + 1e-6
        weight_of = weights
        while len(alive):
            whole = len(alive) == len(free)
            here, there = (free, left) if whole else (free[alive], left[alive])
            fitting = _fitting(here, there, inverse, extra)
            weight = 1.0 / np.maximum(here, tiny if whole else tiny[alive])
            if weight_of is not None:
                weight = weight * (weight_of if whole else weight_of[alive])
            score = (value if whole else value[alive]) / (weight @ by_resource)
            score[fitting < 1] = -1.0
            item = score.argmax(axis=1)
            positions = np.arange(len(alive))
            able = score[positions, item] > 0
            if not able.all():
                alive, item, positions = alive[able], item[able], positions[able]
                if not len(alive):
                    return
            taken = np.maximum(1.0, np.floor(np.floor(fitting[positions, item]) * share[alive]))
            counts[alive, item] += taken.astype(np.int64)
            left[alive, item] -= taken
            free[alive] -= taken[:, None] * need[item]
            self._count_taken(alive, item, taken, active, left, used=used, asked=asked)

    def _count_taken(
        self, alive: Whole, item: Whole, taken: Floats, active: Whole, left: Floats, *, used: Whole, asked: Marks
    ) -> None:
        """Count what rows took of an item each under the caps, and limit what they may still take."""
        rules = self._rules[active]
        for column in range(rules.shape[1]):
            rule = rules[item, column]
            inside = np.flatnonzero(rule >= 0)
            if len(inside):
                rows = alive[inside]
                mine = active[item[inside]]
                used[rows, rule[inside]] += taken[inside].astype(np.int64) * self.counts[rule[inside], mine]
                asked[rows, rule[inside]] |= self.asks[rule[inside], mine]
                self._narrow(rows, rule[inside], active, left, used=used, asked=asked)

    def _narrow(self, rows: Whole, caps: Whole, active: Whole, left: Floats, *, used: Whole, asked: Marks) -> None:
        """Limit what rows may still take by what the caps leave: for all counted items if an asking pod is on the row,
        otherwise only for counted items that ask themselves."""
        still = np.maximum(self.caps[caps] - used[rows, caps], 0)[:, None]
        asks, counts = self.asks[caps][:, active], self.counts[caps][:, active]
        members = counts & (asks | asked[rows, caps][:, None])
        left[rows] = np.where(members, np.minimum(left[rows], still), left[rows])
        shut_out = asks & ~counts & (used[rows, caps] > self.caps[caps])[:, None]
        left[rows] = np.where(shut_out, 0.0, left[rows])


def _fitting(free: Floats, left: Floats, inverse: Floats, extra: Floats) -> Floats:
    """Return how many pods of each item fit on each row, at most those that are left."""
    fitting: Floats = free[:, 0, None] * inverse[0] + extra[0]
    for resource in range(1, free.shape[1]):
        np.minimum(fitting, free[:, resource, None] * inverse[resource] + extra[resource], out=fitting)
    return np.minimum(fitting, left, out=fitting)


def filling_steps(cells: int) -> float:
    """Return the cost of a fill of ``cells`` (rows times items), in steps."""
    return 0.1 + 2e-5 * cells


def right_size(problem: PackingProblem, patterns: list[NodePattern] | tuple[NodePattern, ...]) -> Packing:
    """Return each pattern on the cheapest offer that holds it."""
    price = 0.0
    found: list[NodePattern] = []
    for one in patterns:
        need = one.counts @ problem.need[one.items]
        able = np.flatnonzero((problem.free >= need).all(axis=1) & (problem.price < problem.price[one.offer] - 1e-12))
        if len(able):
            able = able[problem.open[np.ix_(able, one.items)].all(axis=1)]
        found.append(replace(one, offer=int(able[problem.price[able].argmin()])) if len(able) else one)
        price += one.times * float(problem.price[found[-1].offer])
    return Packing(price, tuple(found))


def offers_up_to_price(problem: PackingProblem, demand: Whole, limit: float) -> Marks:
    """Return the offers up to a price, and for each item without such an offer its cheapest one."""
    allowed = problem.price <= limit
    for item in np.flatnonzero((demand > 0) & ~problem.open[allowed].any(axis=0)):
        able = np.flatnonzero(problem.open[:, item])
        if len(able):
            allowed[able[problem.price[able].argmin()]] = True
    return allowed
