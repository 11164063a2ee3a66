"""A plan as arrays: pods that are left to place, and offers, as far as arrays can express the rules.

*Items* are pods that are equal to the search: the same requests, the same offers, the same rules about hosts, and
the same domain if they were assigned (``domain_assignment``). *Offers* are the undominated ones. Rules that arrays
cannot express are checked by the exact placement, which decides about every pod: the packing is only a proposal.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np

from joiner.cluster.resources import CPU, MEMORY, PODS
from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.model.node_offers import PoolOffers, PoolVariant
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.relaxation.offer_table import (
    UNBOUNDED_AMOUNT,
    OfferChoices,
    OfferTable,
    tabulate_offers,
    undominated_offers,
)
from joiner.planning.relaxation.packing_items import HostRow, ItemDraft, draft_items
from joiner.planning.state.domain_assignment import DomainAssignment
from joiner.planning.state.plan_state import PlanState


@dataclass(frozen=True, slots=True, eq=False)
class PackingProblem:
    """K items, O offers, R resources. Amounts are whole numbers below 2^53, so sums of floats are exact.

    ``open``: whether one pod of the item fits an empty node of the offer and may be placed there.

    ``asks``, ``counts``: rules about hosts, a row each. On a node with a pod of an item in ``asks``, at most
    ``caps`` pods of the items in ``counts`` may be. ``firm`` rules hold in every plan; the others are how this
    planner interprets a spread over hosts.

    ``required``: whether one pod of the item may open a node of the offer, because no pool of higher weight has an
    offer for it. A pod may join a node that another pod has opened.

    ``domain`` numbers the assigned domains of items. Offers are in order of price. ``members``: the groups of an
    item, and the number of pods of each. ``merged``: the same problem without domains, if pods were assigned.
    """

    need: Floats
    demand: Whole
    free: Floats
    _: KW_ONLY
    price: Floats
    open: Marks
    asks: Marks
    counts: Marks
    caps: Whole
    firm: Marks
    members: tuple[tuple[tuple[PodGroup, int], ...], ...]
    choices: OfferChoices
    domain: Whole
    resources: tuple[str, ...] = ()
    required: Marks = field(default_factory=lambda: np.zeros((0, 0), bool))
    merged: "MergedProblem | None" = None

    @property
    def items(self) -> int:
        """Return the number of items (classes of pods)."""
        return len(self.demand)

    @property
    def one_tier(self) -> bool:
        """Return whether all offers are of pools of one weight, so that weights exclude no pod from a cheaper offer."""
        return self.choices.one_tier

    def most_of_one(self) -> Floats:
        """Return for each item how many of its pods the caps allow on one node."""
        most = np.full(self.items, np.inf)
        for row, cap in zip(self.capped, self.caps, strict=True):
            most[row] = np.minimum(most[row], cap)
        return most

    @property
    def capped(self) -> Marks:
        """Return the rows of items of which one node takes at most ``caps``: items that both ask and count."""
        capped: Marks = self.asks & self.counts
        return capped

    def with_items(self, items: Whole) -> "PackingProblem":
        """Return the problem with these items only, without groups and without its merged form."""
        return replace(
            self,
            need=self.need[items],
            demand=self.demand[items],
            open=self.open[:, items],
            asks=self.asks[:, items],
            counts=self.counts[:, items],
            members=(),
            merged=None,
        )

    def clashing(self, counts: Whole) -> Marks:
        """Return which of these contents (rows with the number of pods of each item) violate a rule about hosts."""
        if not len(self.caps):
            return np.zeros(len(counts), bool)
        broken = (counts @ self.counts.T > self.caps) & (counts @ self.asks.T > 0)
        clashes: Marks = np.logical_or.reduce(broken, axis=1)
        return clashes


@dataclass(frozen=True, slots=True, eq=False)
class MergedProblem:
    """A problem with equal domains, without its domains: much smaller, and its value is a lower bound for every plan.

    ``item_of`` and ``domain_of`` (-1: any) belong to the items with domains. ``offer_in`` is, for each merged
    offer, the equal offer in every domain.
    """

    problem: PackingProblem
    item_of: Whole
    domain_of: Whole
    offer_in: Whole

    def total(self, demand: Whole) -> Whole:
        """Return a demand by domain, summed over the domains."""
        total: Whole = np.bincount(self.item_of, weights=demand, minlength=self.problem.items).astype(np.int64)
        return total

    def likes(self, offers: Whole) -> Whole:
        """Return the merged offers of these offers."""
        likes: Whole = np.flatnonzero(np.isin(self.offer_in, offers).any(axis=1))
        return likes


def compile_problem(
    state: PlanState,
    assignment: DomainAssignment,
    groups: Sequence[PodGroup],
    *,
    overflow: bool = False,
    narrowed: bool = False,
    joined: bool = False,
) -> PackingProblem:
    """Return the arrays for the remaining pods of these groups (groups that arrays can express).

    With ``overflow``, the offers that pods may use once pools of higher weight have reached their limits are also
    open. With ``narrowed``, a node of a pool with minValues takes no more than the required number of other types
    could hold; the relaxation is then no longer a bound. With ``joined``, an offer of a pool with lower weight is open
    to all pods as soon as one pod requires it, because other pods may use the free capacity of its nodes.
    """
    table = tabulate_offers(state, [group for group in state.groups.pending if not group.refused], assignment.keys)
    kept = _useful_offers(table, groups)
    items = draft_items(state, assignment, groups, table.kind_of)
    free = _narrowed(state, table, kept) if narrowed else table.free[kept]
    vectors = np.array([one.group.vector for one in items], float).reshape(len(items), free.shape[1])
    used: Marks = np.logical_or.reduce(vectors > 0, axis=0) & np.logical_or.reduce(free < UNBOUNDED_AMOUNT, axis=0)
    units = _coarse_units(vectors[:, used])
    need, free = vectors[:, used] / units, np.floor(np.minimum(free[:, used], UNBOUNDED_AMOUNT) / units)
    open_to = _fitting(table.open_to([table.kind_of[one.group] for one in items], kept).T.copy(), need, free)
    required = _narrow_by_weight(state, table, kept, items, open_to, overflow=overflow, joined=joined)
    asks, counts, caps, firm = _caps(items)
    whole = PackingProblem(
        need=need,
        demand=np.array([sum(number for _, number in one.members) for one in items], dtype=np.int64),
        free=free,
        price=table.price[kept],
        open=open_to,
        asks=asks,
        counts=counts,
        caps=caps,
        firm=firm,
        members=tuple(tuple(one.members) for one in items),
        choices=OfferChoices(state, table, kept, used, units),
        domain=table.domain[kept],
        resources=tuple(name for name, here in zip(state.groups.resources, used.tolist(), strict=True) if here),
        required=required,
    )
    if not assignment.keys:
        return whole
    known = [tuple(map(str, value)) for value in table.domains]
    return _divided(whole, items, table.domain[kept], values=known, keys=assignment.keys, pools=table.pool[kept])


def _narrow_by_weight(
    state: PlanState,
    table: OfferTable,
    kept: Whole,
    items: Sequence[ItemDraft],
    open_to: Marks,
    *,
    overflow: bool,
    joined: bool,
) -> Marks:
    """Return the offers that each item requires by the weights of pools. Close the others in ``open_to``; with
    ``joined``, only those that no item requires."""
    refusing = [overflow and _may_refuse(state, pool_offers, joined=joined) for pool_offers in state.offered_pools]
    required = _required_offers(open_to, table.tier[kept], np.array(refusing, bool)[table.pool[kept]])
    if joined:
        return _join_offers(open_to, required, np.array([not state.rules[one.group.index].free for one in items]))
    open_to &= required
    return required


def _useful_offers(table: OfferTable, groups: Sequence[PodGroup]) -> Whole:
    """Return the offers that no other offer dominates for these groups, and that are not limited in number."""
    wanted = np.zeros(len(table.kinds), bool)
    wanted[[table.kind_of[group] for group in groups]] = True
    kept = undominated_offers(table, wanted)
    return kept[~table.limited[kept]]


def _fitting(open_to: Marks, need: Floats, free: Floats) -> Marks:
    """Close offers in ``open_to`` that lack resources for one pod of an item; return it."""
    for resource in range(need.shape[1]):
        open_to &= need[None, :, resource] <= free[:, resource, None]
    return open_to


def _join_offers(open_to: Marks, required: Marks, ruled: Marks) -> Marks:
    """Return which offers each item requires, and close offers in ``open_to`` that no item requires. ``ruled`` items
    require every offer that is open to them."""
    required = open_to & (required | ruled.astype(bool)[None, :])
    open_to &= np.logical_or.reduce(required, axis=1)[:, None]
    return required


def _may_refuse(state: PlanState, pool_offers: PoolOffers, *, joined: bool) -> bool:
    """Return whether a pool may refuse a node that could hold a pod, so that the pod uses pools of lower weight."""
    ceilings = any(spare is not None for spare in state.left_of_ceilings)
    return bool(pool_offers.pool.limits) or (joined and (ceilings or bool(pool_offers.pool.min_values)))


def _narrowed(state: PlanState, table: OfferTable, kept: Whole) -> Floats:
    """Return what these offers can hold, at most what the number of types that minValues requires can hold."""
    free = table.free[kept]
    section = np.searchsorted(table.starts, kept, side="right") - 1
    for number, (pool_offers, variant) in enumerate(table.sections):
        if pool_offers.pool.min_values:
            mine = section == number
            held = _held_by_enough(variant, state.groups.resources)
            free[mine] = np.minimum(free[mine], held)
    return free


def _held_by_enough(variant: PoolVariant, resources: Sequence[str]) -> Floats:
    """Return what each of the largest types of a pool can hold, for as many types as its minValues require; of
    resources that not all nodes have, any amount."""
    free = np.full(len(resources), np.inf)
    columns = [resources.index(name) for name in (CPU, MEMORY, PODS) if name in resources]
    by_size = sorted(
        variant.launchable, key=lambda one: [-float(np.prod([one.free[column] for column in columns])), one.index]
    )
    for key, number in variant.pool.min_values.items():
        largest: dict[str, tuple[int, ...]] = {}
        for one in by_size:
            value = one.label(key)
            if value is not None:
                largest.setdefault(value, one.free)
        for held in list(largest.values())[:number]:
            free[columns] = np.minimum(free[columns], [held[column] for column in columns])
    return free


def _divided(
    whole: PackingProblem,
    items: Sequence["ItemDraft"],
    domain: Whole,
    *,
    values: Sequence[tuple[str, ...]],
    keys: Sequence[str],
    pools: Whole,
) -> PackingProblem:
    """Return the problem with each assigned item restricted to its domain; with its merged form, if all domains have
    the same offers."""
    place = np.array([_positions(one, values, keys) for one in items], dtype=np.int64)
    merged = _merged(whole, items, place, domain, pools)
    open_to = whole.open.copy()
    for position, one in enumerate(items):
        if one.key:
            column = keys.index(one.key)
            right = np.array([value[column] == one.value for value in values], bool)
            open_to[:, position] &= right[domain]
    return replace(whole, open=open_to, merged=merged)


def _positions(item: "ItemDraft", values: Sequence[tuple[str, ...]], keys: Sequence[str]) -> int:
    """Return the domain of an item; -1 if it may go anywhere, or to a domain that has nodes and no offer."""
    return values.index((item.value,)) if item.key and len(keys) == 1 and (item.value,) in values else -1


def _merged(
    whole: PackingProblem, items: Sequence["ItemDraft"], place: Whole, domain: Whole, pools: Whole
) -> MergedProblem | None:
    domains = int(domain.max()) + 1 if len(domain) else 0
    shapes: dict[object, list[int]] = {}
    for offer in range(len(whole.price)):
        shape = (whole.free[offer].tobytes(), whole.price[offer], pools[offer], whole.open[offer].tobytes())
        shapes.setdefault(shape, []).append(offer)
    if not domains or any(
        len(alike) != domains or len(set(domain[alike].tolist())) != domains for alike in shapes.values()
    ):
        return None
    first = np.array([alike[0] for alike in shapes.values()], dtype=np.int64)
    offer_in = np.zeros((len(first), domains), dtype=np.int64)
    for number, alike in enumerate(shapes.values()):
        offer_in[number, domain[alike]] = alike
    known: dict[object, int] = {}
    item_of = np.array(
        [known.setdefault((one.group.vector, one.kind, one.rows, one.counted), len(known)) for one in items],
        dtype=np.int64,
    )
    _, sample = np.unique(item_of, return_index=True)
    problem = replace(
        whole,
        need=whole.need[sample],
        demand=np.bincount(item_of, weights=whole.demand, minlength=len(known)).astype(np.int64),
        free=whole.free[first],
        price=whole.price[first],
        domain=np.zeros(len(first), np.int64),
        open=whole.open[np.ix_(first, sample)],
        asks=whole.asks[:, sample],
        counts=whole.counts[:, sample],
        members=(),
    )
    return MergedProblem(problem, item_of, place, offer_in)


def _coarse_units(need: Floats) -> Floats:
    """Return the largest units in which all requests are whole: a fraction of such a unit on a node is unusable."""
    whole = np.minimum(need, UNBOUNDED_AMOUNT).astype(np.int64)
    unit = np.array([np.gcd.reduce(whole[:, resource]) for resource in range(need.shape[1])], float)
    least: Floats = np.maximum(unit, 1)
    return least


def _caps(items: Sequence[ItemDraft]) -> tuple[Marks, Marks, Whole, Marks]:
    rows: dict[HostRow, int] = {}
    counting = {row for one in items for row in one.counted}
    for one in items:
        for row in one.rows:
            if row in counting:
                rows.setdefault(row, len(rows))
    asks, counts = np.zeros((2, len(rows), len(items)), bool)
    for position, one in enumerate(items):
        asks[[rows[row] for row in one.rows if row in rows], position] = True
        counts[[rows[row] for row in one.counted if row in rows], position] = True
    return (
        asks,
        counts,
        np.array([cap for _, cap, _ in rows], dtype=np.int64),
        np.array([firm for *_, firm in rows], dtype=bool),
    )


def _required_offers(open_to: Marks, tier: Whole, limited: Marks) -> Marks:
    """Return the offers of which a pod may open a node. A pod requires a node of the pool with the highest weight if
    one of its offers can hold it; such a node is always possible if no limit exists."""
    if not len(tier) or tier.max() == tier.min():
        return open_to.copy()
    endless = open_to & ~limited[:, None]
    levels = np.where(endless, tier[:, None], tier.max() + 1)
    required: Marks = open_to & (tier[:, None] <= levels.min(axis=0)[None, :])
    return required
