"""The offers worth looking at: those that no other offer of the same pool beats in every respect.

An offer is beaten by one that costs no more, has no less room of anything, is open to all groups that it is open to, means the
same to every rule and wish about domains, and counts no more against the pool's limits. Nothing is lost by leaving it out.
"""

from collections.abc import Iterator, Sequence

from joiner import names
from joiner.planning.groups import Group, Groups, terms
from joiner.planning.offers import Choice, Market, Variant, positions


class Frontier:
    """Choices, the heaviest pools first, then the cheapest offers first."""

    def __init__(self, markets: Sequence[Market], groups: Groups) -> None:
        self._pending = groups.pending
        keys = telling_keys(groups)
        self.tiers: list[tuple[int, list[Choice]]] = []
        for market in markets:
            welcome = [group for group in groups.pending if group.constraints.untolerated(market.pool.taints) is None and not group.refused]
            for variant in market.variants:
                found = list(_unbeaten(market, variant, welcome, keys))
                if self.tiers and self.tiers[-1][0] == market.pool.weight:
                    self.tiers[-1][1].extend(found)
                else:
                    self.tiers.append((market.pool.weight, found))
        for _, choices in self.tiers:
            choices.sort(key=lambda one: (one.one.offer, one.market.pool.key, sorted(one.variant.labels.items())))
        self._of: dict[Group, list[list[Choice]]] = {}

    def by_weight(self, group: Group) -> list[list[Choice]]:
        """The choices of one group, a list for each weight of pool, the heaviest first."""
        if group not in self._of:
            mark = 1 << group.index
            tiers = [[one for one in choices if one.groups & mark] for _, choices in self.tiers]
            self._of[group] = [choices for choices in tiers if choices]
        return self._of[group]

    def of(self, group: Group) -> list[Choice]:
        return [one for choices in self.by_weight(group) for one in choices]


def telling_keys(groups: Groups) -> tuple[str, ...]:
    """The labels, but for the hostname, by which some pod tells nodes apart that are open to it: domains of rules, and wishes."""
    found: set[str] = set()
    for group in groups.all:
        said = group.constraints
        found |= {spread.topology_key for spread in said.spreads if spread.hard or group.pods}
        found |= {term.topology_key for term in terms(said)}
        if group.pods:
            found |= {key for wish in said.preferences for key in wish.term.labels}
    return tuple(sorted(found - {names.HOSTNAME}))


def _unbeaten(market: Market, variant: Variant, welcome: Sequence[Group], keys: Sequence[str]) -> Iterator[Choice]:
    open_to = [0] * len(market.launchable)
    for group in welcome:
        mark = 1 << group.index
        for position in positions(variant.bits[group.index]):
            open_to[position] |= mark
    limited = [name for name in market.pool.limits if name != "nodes"]
    kept: dict[tuple[str | None, ...], list[tuple[int, tuple[int, ...]]]] = {}
    for one in sorted(market.launchable, key=lambda one: (one.offer, one.index)):
        mine = open_to[one.index]
        if not mine:
            continue
        counted = tuple(-one.capacity.get(name, 0) for name in limited)
        better = kept.setdefault(tuple(one.labels.get(key) for key in keys), [])
        size = (*one.room, *counted)
        if not any(groups & mine == mine and all(map(int.__le__, size, other)) for groups, other in better):
            better.append((mine, size))
            yield Choice(market, variant, one, mine)
