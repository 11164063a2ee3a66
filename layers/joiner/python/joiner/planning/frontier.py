"""The offers worth looking at: those that no other offer of the same pool beats in every respect.

An offer is beaten by one that costs no more, has no less room of anything, is open to all groups that it is open to, means the
same to every rule and wish about domains, and counts no more against the pool's limits. Nothing is lost by leaving it out.
"""

import numpy as np

from joiner import names
from joiner.planning.groups import Group, Groups, terms
from joiner.planning.offers import Choice
from joiner.planning.rooms import World
from joiner.planning.table import Choices, tabulate, unbeaten


class Frontier:
    """Choices, the heaviest pools first, then the cheapest offers first."""

    def __init__(self, world: World) -> None:
        groups = [group for group in world.groups.pending if not group.refused]
        self.tiers: list[tuple[int, list[Choice]]] = []
        self._of: dict[Group, list[list[Choice]]] = {}
        if not groups or not any(market.launchable for market in world.markets):
            return
        keys = telling_keys(world.groups)
        table = tabulate(world, groups, keys)
        kept = unbeaten(table, np.ones(len(table.kinds), bool))
        choices = Choices(world, table, kept)
        found: dict[int, list[Choice]] = {}
        for position in range(len(kept)):
            choice = choices[position]
            found.setdefault(choice.market.pool.weight, []).append(choice)
        for weight in sorted(found, reverse=True):
            found[weight].sort(key=lambda one: (one.one.offer, one.market.pool.key, sorted(one.variant.labels.items())))
            self.tiers.append((weight, found[weight]))

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
    """The labels, but for the hostname, by which some pod tells nodes apart that are open to it: domains of rules and of volumes, and
    wishes."""
    found: set[str] = set()
    for group in groups.all:
        said = group.constraints
        found |= {spread.topology_key for spread in said.spreads if spread.hard or group.pods}
        found |= {term.topology_key for term in terms(said)}
        if group.pods:
            found |= {key for wish in said.preferences for key in wish.term.labels}
        found |= {family.key for family in group.mounted.families}
        if group.mounted.shared:
            found.add(names.ZONE)
    return tuple(sorted(found - {names.HOSTNAME}))
