"""A plan as arrays: what is left to place against what can be launched, as far as classes can express it.

*Items* are pods that are alike to the search: the same requests, the same offers, the same rules about hosts, the same
domain if they were dealt out (``dealing``). *Offers* are those that no other beats. Rules that arrays cannot express
are left to the exact placer, which has the last word on everything: what is found here is a proposal.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from joiner import names
from joiner.cluster.resources import CPU, MEMORY, PODS
from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.model.node_offers import PoolOffers
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.relaxation.offer_table import (
    UNBOUNDED_AMOUNT,
    OfferChoices,
    tabulate_offers,
    undominated_offers,
)
from joiner.planning.state.domain_assignment import DomainAssignment
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts, GroupRules


@dataclass(frozen=True, slots=True, eq=False)
class PackingProblem:
    """K items, O offers, R resources. Amounts are whole numbers below 2^53, so sums of floats are exact.

    ``open``: whether one pod of the item fits an empty node of the offer and may go there.

    ``asks``, ``counts``: rules about hosts, a row each: on a node where an item asks, at most ``caps`` pods of those
    that count may be. ``firm`` rules hold in every plan there is, the others are how this planner reads a spread over
    hosts.

    ``domain`` numbers the domains that items were dealt to; offers come in order of price. ``members``: which pods an
    item stands for, and how many of each. ``merged``: the same without domains, where pods were dealt out.
    """

    need: Floats
    demand: Whole
    room: Floats
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
    merged: "MergedProblem | None" = None

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

    @property
    def capped(self) -> Marks:
        """Rows of items of which one node takes at most ``caps``: those that ask and count."""
        capped: Marks = self.asks & self.counts
        return capped

    def clashing(self, counts: Whole) -> Marks:
        """Which of these contents (rows of how many of each item) break a rule about hosts."""
        if not len(self.caps):
            return np.zeros(len(counts), bool)
        broken = (counts @ self.counts.T > self.caps) & (counts @ self.asks.T > 0)
        clashes: Marks = np.logical_or.reduce(broken, axis=1)
        return clashes


@dataclass(frozen=True, slots=True, eq=False)
class MergedProblem:
    """A problem whose domains are all alike, with the domains taken off: a fraction of the size, and no plan is cheaper
    than it says.

    ``item_of`` and ``domain_of`` (-1: any) are of the items with domains; ``offer_in`` gives for each merged offer its
    like in every domain.
    """

    problem: PackingProblem
    item_of: Whole
    domain_of: Whole
    offer_in: Whole

    def total(self, demand: Whole) -> Whole:
        """A demand by domain, with the domains taken off."""
        total: Whole = np.bincount(self.item_of, weights=demand, minlength=self.problem.items).astype(np.int64)
        return total

    def likes(self, offers: Whole) -> Whole:
        """The merged offers of these."""
        likes: Whole = np.flatnonzero(np.isin(self.offer_in, offers).any(axis=1))
        return likes


def compile_problem(
    state: PlanState,
    deal: DomainAssignment,
    groups: Sequence[PodGroup],
    *,
    overflow: bool = False,
    narrowed: bool = False,
) -> PackingProblem:
    """The arrays for these groups (those that arrays can express), pods that are left only. ``overflow``: also open to
    them are the offers that they may use once heavier pools have come to their limits. ``narrowed``: of pools with
    minValues no node takes more than as many others could, so that it is no bound any more.
    """
    table = tabulate_offers(state, [group for group in state.groups.pending if not group.refused], deal.keys)
    wanted = np.zeros(len(table.kinds), bool)
    wanted[[table.kind_of[group] for group in groups]] = True
    kept = undominated_offers(table, wanted)
    kept = kept[~table.limited[kept]]
    items = _items(state, deal, groups, table.kind_of)
    room = table.room[kept]
    for number, market in enumerate(state.markets) if narrowed else ():
        mine = table.pool[kept] == number
        room[mine] = np.minimum(room[mine], _held_by_enough(market, state.groups.resources))
    vectors = np.array([one.group.vector for one in items], float).reshape(len(items), room.shape[1])
    used: Marks = np.logical_or.reduce(vectors > 0, axis=0) & np.logical_or.reduce(room < UNBOUNDED_AMOUNT, axis=0)
    units = _coarse_units(vectors[:, used])
    need, room = vectors[:, used] / units, np.floor(np.minimum(room[:, used], UNBOUNDED_AMOUNT) / units)
    open_to = table.kinds[[table.kind_of[one.group] for one in items]][:, kept].T.copy()
    for resource in range(need.shape[1]):
        open_to &= need[None, :, resource] <= room[:, resource, None]
    limited = np.array([overflow and bool(market.pool.limits) for market in state.markets], bool)
    _heaviest_pools_only(open_to, table.tier[kept], limited[table.pool[kept]])
    asks, counts, caps, firm = _caps(items)
    whole = PackingProblem(
        need=need,
        demand=np.array([sum(number for _, number in one.members) for one in items], dtype=np.int64),
        room=room,
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
    )
    if not deal.keys:
        return whole
    pools = table.pool[kept]
    known = [tuple(map(str, value)) for value in table.domains]
    return _divided(whole, items, table.domain[kept], values=known, keys=deal.keys, pools=pools)


def _held_by_enough(market: PoolOffers, resources: Sequence[str]) -> Floats:
    """What so many of the largest types of a pool can hold, each of them, as its minValues ask for; of other resources
    than those that all nodes have, anything.
    """
    room = np.full(len(resources), np.inf)
    columns = [resources.index(name) for name in (CPU, MEMORY, PODS) if name in resources]
    by_size = sorted(
        market.launchable, key=lambda one: [-float(np.prod([one.room[column] for column in columns])), one.index]
    )
    for key, number in market.pool.min_values.items():
        largest: dict[str, tuple[int, ...]] = {}
        for one in by_size:
            value = one.label(key)
            if value is not None:
                largest.setdefault(value, one.room)
        for held in list(largest.values())[:number]:
            room[columns] = np.minimum(room[columns], [held[column] for column in columns])
    return room


def _divided(
    whole: PackingProblem,
    items: Sequence["ItemDraft"],
    domain: Whole,
    *,
    values: Sequence[tuple[str, ...]],
    keys: Sequence[str],
    pools: Whole,
) -> PackingProblem:
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


def _positions(item: "ItemDraft", values: Sequence[tuple[str, ...]], keys: Sequence[str]) -> int:
    """The one domain of an item; -1 if it may go anywhere, or where nodes are and no offer is."""
    return values.index((item.value,)) if item.key and len(keys) == 1 and (item.value,) in values else -1


def _merged(
    whole: PackingProblem, items: Sequence["ItemDraft"], place: Whole, domain: Whole, pools: Whole
) -> MergedProblem | None:
    domains = int(domain.max()) + 1 if len(domain) else 0
    shapes: dict[object, list[int]] = {}
    for offer in range(len(whole.price)):
        shape = (whole.room[offer].tobytes(), whole.price[offer], pools[offer], whole.open[offer].tobytes())
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
        room=whole.room[first],
        price=whole.price[first],
        domain=np.zeros(len(first), np.int64),
        open=whole.open[np.ix_(first, sample)],
        asks=whole.asks[:, sample],
        counts=whole.counts[:, sample],
        members=(),
    )
    return MergedProblem(problem, item_of, place, offer_in)


def _coarse_units(need: Floats) -> Floats:
    """The largest units in which all requests are whole: a node's fraction of a unit is of no use to anybody."""
    whole = np.minimum(need, UNBOUNDED_AMOUNT).astype(np.int64)
    unit = np.array([np.gcd.reduce(whole[:, resource]) for resource in range(need.shape[1])], float)
    least: Floats = np.maximum(unit, 1)
    return least


@dataclass(slots=True)
class ItemDraft:
    """While items are gathered: a sample group, the domain it was dealt to, what it asks of others on its node and what
    counts it, and its members.
    """

    group: PodGroup
    key: str
    value: str
    kind: int
    rows: tuple["HostRow", ...]
    counted: tuple["HostRow", ...]
    members: list[tuple[PodGroup, int]]


ANY: Final = "*"
EVERY: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - addresses that pods take ports on, not one to listen on

PRECISE_RULES_PODS: Final = 6000
"""Up to here a pod that clashes with its neighbours costs a part of a node, so it is told apart who asks something of
its neighbours and whom they count. With more it finds another place, and fewer items are worth more: whoever asks is
taken to count as well.
"""
PRECISE_RULES_GROUPS: Final = 60
"""Of so many it is told apart whatever their number."""

HostRow = tuple[object, int, bool]
"""A rule about hosts (its tally, or a port), how many pods under it may share a node, and whether every plan must keep
to that.
"""


def _items(
    state: PlanState, deal: DomainAssignment, groups: Sequence[PodGroup], kind_of: Mapping[PodGroup, int]
) -> list[ItemDraft]:
    found: dict[object, ItemDraft] = {}
    addresses: dict[tuple[int, str], set[str]] = {}
    for group in groups:
        for port in group.constraints.host_ports:
            addresses.setdefault((port.port, port.protocol), set()).add(ANY if port.ip in EVERY else port.ip)
    precise = state.pods_left <= PRECISE_RULES_PODS or len(groups) <= PRECISE_RULES_GROUPS
    asked = _asked(state, groups) if precise else {}
    for group in groups:
        rows = tuple(row for row in host_rows(group, state.rules[group.index], addresses) if precise or row[1])
        feeds = state.rules[group.index].feeds
        counted = tuple(row for row in rows if not precise or not isinstance(row[0], DomainCounts) or row[0] in feeds)
        counted += tuple(row for tally in feeds for row in asked.get(tally, ()) if row not in rows)
        for key, value, number in deal.shares(group, state.left[group]):
            identity = (group.vector, kind_of[group], key, value, rows, counted)
            if identity not in found:
                found[identity] = ItemDraft(group, key, value, kind_of[group], rows, counted, [])
            found[identity].members.append((group, number))
    return list(found.values())


def host_rows(
    group: PodGroup, own: GroupRules, addresses: Mapping[tuple[int, str], Collection[str]]
) -> tuple[HostRow, ...]:
    """What keeps many pods of a group off one node. A port that is taken on every address is taken on each of
    ``addresses``.
    """
    rows: list[HostRow] = [(rule.tally, rule.spread.max_skew, False) for rule in own.spreads if rule.universe is None]
    rows += [(tally, 1 if tally in own.feeds else 0, True) for tally in own.away if tally.key == names.HOSTNAME]
    taken: set[tuple[int, str, str]] = set()
    for port in group.constraints.host_ports:
        known = (port.port, port.protocol)
        taken |= {(*known, ip) for ip in (addresses.get(known, ()) if port.ip in EVERY else (port.ip,))}
    return (*rows, *((one, 1, True) for one in sorted(taken)))


def _asked(state: PlanState, groups: Sequence[PodGroup]) -> dict[object, tuple[HostRow, ...]]:
    """By tally: the rules about hosts that some of these groups ask by it."""
    found: dict[object, dict[HostRow, None]] = {}
    for group in groups:
        for row in host_rows(group, state.rules[group.index], {}):
            found.setdefault(row[0], {})[row] = None
    return {tally: tuple(rows) for tally, rows in found.items()}


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


def _heaviest_pools_only(open_to: Marks, tier: Whole, limited: Marks) -> None:
    """A pod asks for a node of a heavier pool as long as one of its offers could hold it; and there is always one where
    there is no limit.
    """
    if len(tier) and tier.max() > tier.min():
        endless = open_to & ~limited[:, None]
        levels = np.where(endless, tier[:, None], tier.max() + 1)
        open_to &= tier[:, None] <= levels.min(axis=0)[None, :]
