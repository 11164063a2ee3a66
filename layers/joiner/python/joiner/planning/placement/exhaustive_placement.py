"""Place a few pods in any possible way, so that pods stay pending only if no way exists.

The pods are divided among the nodes that exist, the nodes of the plan and further new nodes, by depth-first search. A
node of the plan may become larger: its offer is chosen again, together with the pods that it has. What more pods can
only break is checked with each pod (resources, ports, rules about pods to be apart from, the most that a spread
allows). All other rules are checked when the division is placed in the plan state.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from joiner import names
from joiner.planning.effort import Meter
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import layout_of, restore_layout
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts, GroupRules, SpreadRule

A_STEP: Final = 0.015
"""The effort of one pod that is added to one bin, in steps."""
A_TRIAL: Final = 0.2
"""The effort of one division that is placed in the plan state, in steps."""
MOST_OFFERINGS: Final = 60
"""The maximum number of combinations of offers that are tried for one division. More than one is needed only where
limits bind."""

Domain = tuple[str | None, ...]


class RepairEffort:
    """What a repair may use: a number of steps of its own, because the search may have used all of its steps, and the
    time until the deadline."""

    def __init__(self, meter: Meter, steps: float, whole: "RepairEffort | None" = None) -> None:
        self._meter = meter
        self._steps = steps
        self._whole = whole

    def spend(self, steps: float) -> None:
        """Count steps, here and where the whole effort is counted."""
        self._steps -= steps
        if self._whole is None:
            self._meter.spend(steps)
        else:
            self._whole.spend(steps)

    def spent(self) -> bool:
        """Return whether the effort is used up."""
        return self._steps <= 0 or (self._meter.overdue(0.0) if self._whole is None else self._whole.spent())

    def share(self, steps: float) -> "RepairEffort":
        """Return a part of this effort."""
        return RepairEffort(self._meter, steps, self)


def is_bounded(state: PlanState) -> bool:
    """Return whether limits of pools, or ceilings of the cluster, can keep pods out."""
    limited = any(pool_offers.pool.limits for pool_offers in state.offered_pools)
    return limited or state.left_of_ceilings != (None, None)


@dataclass(slots=True)
class Bin:
    """One node that may take pods. ``node`` is a node that exists or is planned; None for a further new node.
    ``options`` are the offers that a new node may have, the best first; empty for a node that exists."""

    domain: Domain
    node: NodeState | None
    options: tuple[OfferChoice, ...]
    host: str
    free: list[int] | None = None
    """What its pods can still request; None for a new node."""
    need: list[int] = field(default_factory=list)
    """What all pods of a new node request, in the order of the plan's resources."""
    added: list[PodGroup] = field(default_factory=list)


class ExhaustivePlacement:
    """One search in one state. ``kept`` are the nodes whose pods stay where they are."""

    def __init__(self, state: PlanState, frontier: OfferFrontier, kept: Sequence[NodeState], effort: RepairEffort):
        self._state = state
        self._effort = effort
        self._choices = [choice for _, choices in frontier.tiers for choice in choices]
        self._keys = tuple(sorted({key for group in state.groups.pending for key in state.keys_of(group)}))
        self._bins = [self._bin_of(node) for node in kept]
        self._added: Counter[tuple[DomainCounts, str | None]] = Counter()
        self._own: Counter[tuple[PodGroup, str, str | None]] = Counter()
        self._pods: frozenset[PodGroup] = frozenset()
        self._tops: dict[SpreadRule, int] = {}
        self._trials = 0
        self._bounded = is_bounded(state)

    def place(self, pods: Sequence[PodGroup]) -> bool:
        """Place all of these pods; return whether that succeeded. If not, the state is as before."""
        ordered = self._prepare(pods)
        return any(self._is_followed() and self._realize() for _ in self._divide(ordered, 0))

    def place_on_one_node(self, pods: Sequence[PodGroup]) -> bool:
        """Place all of these pods on one node; return whether that succeeded. If not, the state is as before."""
        ordered = self._prepare(pods)
        return any(self._all_on(here, ordered) for here in list(self._bins)) or any(
            self._all_on_new(domain, choices, ordered) for domain, choices in self._new.items()
        )

    def _prepare(self, pods: Sequence[PodGroup]) -> list[PodGroup]:
        """Return the pods in the order in which they are added to bins, and compile their limits."""
        counted = Counter(counts for group in pods for counts in self._state.rules[group.index].feeds)
        for group in set(pods):
            for rule in self._state.rules[group.index].spreads:
                if rule.counts_itself:
                    self._tops[rule] = self._highest(rule, counted[rule.counts])
        self._pods = frozenset(pods)
        return sorted(pods, key=lambda group: (self._freedom(group), group.index))

    def _all_on_new(self, domain: Domain, choices: Sequence[OfferChoice], pods: Sequence[PodGroup]) -> bool:
        here = self._new_bin(domain, choices, len(pods[0].vector))
        self._bins.append(here)
        placed = self._all_on(here, pods)
        self._bins.pop()
        return placed

    def _all_on(self, here: Bin, pods: Sequence[PodGroup]) -> bool:
        """Place all of these pods on the node of this bin; return whether that succeeded."""
        before, placed = here.options, False
        self._effort.spend(A_STEP)
        for group in pods:
            if self._effort.spent() or not self._holds(here, group):
                break
            self._count(here, group, 1)
        else:
            placed = self._is_followed() and self._realize()
        for group in reversed(tuple(here.added)):
            self._count(here, group, -1)
        here.options = before
        return placed

    def _new_bin(self, domain: Domain, choices: Sequence[OfferChoice], resources: int) -> Bin:
        options = tuple(one for one in choices if not self._state.over_limit(one))
        return Bin(domain, None, options, f"#{len(self._bins)}", need=[0] * resources)

    @cached_property
    def _new(self) -> dict[Domain, tuple[OfferChoice, ...]]:
        """Return the offers by domain; offers in one domain are equal to every rule about domains."""
        found: dict[Domain, list[OfferChoice]] = {}
        for choice in self._choices:
            found.setdefault(tuple(map(choice.label, self._keys)), []).append(choice)
        return {domain: tuple(choices) for domain, choices in found.items()}

    def _bin_of(self, node: NodeState) -> Bin:
        domain = tuple(map(node.labels.get, self._keys))
        if node.choice is None:
            return Bin(domain, node, (), node.labels.get(names.HOSTNAME, node.name), list(node.free))
        need = [0] * len(node.free)
        mask = 0
        for group, number in node.planned.items():
            mask |= 1 << group.index
            for position, amount in group.needs:
                need[position] += number * amount
        others = [one for one in self._new.get(domain, ()) if one.groups & mask == mask and one is not node.choice]
        return Bin(domain, node, (node.choice, *others), node.labels[names.HOSTNAME], need=need)

    def _freedom(self, group: PodGroup) -> tuple[bool, int]:
        """Return the sort key of a group: groups with rules first, of these the groups with the fewest offers."""
        return self._state.rules[group.index].free, self._state.offers(group)

    def _highest(self, rule: SpreadRule, more: int) -> int:
        """Return the highest count that a domain can have, if ``more`` pods that the spread counts are placed."""
        if not rule.universe:
            return rule.spread.max_skew
        lowest = (rule.counts.total + more) // len(rule.universe)
        return rule.spread.max_skew + rule.spread.lowest_count((lowest,), len(rule.universe), default=lowest)

    def _divide(self, pods: Sequence[PodGroup], first: int) -> Iterator[None]:
        """Divide the pods among bins, and yield for each possible division. Pods of one group are interchangeable:
        each goes to a bin that is not before the previous one's, which is ``first``."""
        if not pods:
            yield
            return
        group, rest = pods[0], pods[1:]
        alike = bool(rest) and rest[0] is group
        for at in range(first, len(self._bins)):
            yield from self._add(self._bins[at], group, rest, at if alike else 0)
        for domain, choices in self._new.items():
            here = self._new_bin(domain, choices, len(group.vector))
            self._bins.append(here)
            yield from self._add(here, group, rest, len(self._bins) - 1 if alike else 0)
            self._bins.pop()

    def _add(self, here: Bin, group: PodGroup, rest: Sequence[PodGroup], first: int) -> Iterator[None]:
        if self._effort.spent():
            return
        self._effort.spend(A_STEP)
        before = here.options
        if not self._holds(here, group):
            here.options = before
            return
        self._count(here, group, 1)
        if not self._bounded or self._within_limits():
            yield from self._divide(rest, first)
        self._count(here, group, -1)
        here.options = before

    def _holds(self, here: Bin, group: PodGroup) -> bool:
        """Return whether the bin can hold one more pod of the group; leave the offers that can hold it."""
        if not self._allowed(here, group):
            return False
        if here.node is not None and here.free is not None:
            return self._state.suits(group, here.node) and fits(group, here.free)
        bit, need = 1 << group.index, list(map(int.__add__, here.need, group.vector))
        here.options = tuple(
            one for one in here.options if one.groups & bit and all(map(int.__le__, need, one.one.free))
        )
        return bool(here.options)

    def _allowed(self, here: Bin, group: PodGroup) -> bool:
        """Return whether ports, volumes, and rules that more pods can only break, allow one more pod of the group."""
        taken = [port for one in here.added for port in one.constraints.host_ports]
        taken += here.node.ports if here.node is not None else []
        own = self._state.rules[group.index]
        if any(port.conflicts(other) for port in group.constraints.host_ports for other in taken) or not (
            self._volumes_allow(here, own)
        ):
            return False
        for counts, most in own.apart:
            domain = self._domain(here, counts.key)
            others = self._added[counts, domain] + counts.by_domain.get(domain or "", 0)
            if domain is not None and others + (counts in own.feeds) > most:
                return False
        if not all(self._may_follow(here, group, counts) for counts in own.affinity):
            return False
        for rule in own.spreads:
            key = rule.spread.topology_key
            domain = self._domain(here, key)
            if domain is None:
                return False
            there = rule.counts.by_domain.get(domain, 0) + self._own[group, key, domain]
            if rule.counts_itself and there >= self._tops[rule]:
                return False
        return True

    def _volumes_allow(self, here: Bin, own: GroupRules) -> bool:
        """Return whether claims that are for one pod, or whose volumes are few or do not exist yet, allow one more pod
        there."""
        if any(counts.total or self._is_added(counts) for counts in own.alone):
            return False
        for counts in own.together:
            domain = self._domain(here, counts.key)
            if not (counts.by_domain.get(domain or "") or self._added[counts, domain]) and (
                counts.total or self._is_added(counts)
            ):
                return False
        for counts, there in own.offer_set:
            domain = self._domain(here, counts.key)
            used = counts.by_domain.get(domain or "", 0) + self._added[counts, domain]
            if domain is not None and used >= there.get(domain, 0):
                return False
        return True

    def _is_added(self, counts: DomainCounts) -> bool:
        return any(self._added[counts, domain] for domain in self._domains_of(counts))

    def _may_follow(self, here: Bin, group: PodGroup, counts: DomainCounts) -> bool:
        """Return whether a pod of the group can be in this domain of its affinity, at least if more pods come. Without
        pods of other groups that it selects, all of its pods are in the domain of the first one."""
        own, domain = self._state.rules[group.index], self._domain(here, counts.key)
        if (
            domain is None
            or counts.by_domain.get(domain)
            or any(selected in self._pods for selected in own.selected_groups)
        ):
            return domain is not None
        if not own.selects_itself or any(each.total for each in own.affinity):
            return False
        return bool(self._added[counts, domain]) or not self._is_added(counts)

    def _domains_of(self, counts: DomainCounts) -> Iterator[str | None]:
        return (self._domain(one, counts.key) for one in self._bins if one.added)

    def _is_followed(self) -> bool:
        """Return whether every added pod is in the domains of pods that its affinity selects."""
        return all(
            self._added[counts, self._domain(one, counts.key)]
            or counts.by_domain.get(self._domain(one, counts.key) or "")
            for one in self._bins
            for group in one.added
            for counts in self._state.rules[group.index].affinity
        )

    def _domain(self, here: Bin, key: str) -> str | None:
        return here.host if key == names.HOSTNAME else here.domain[self._keys.index(key)]

    def _count(self, here: Bin, group: PodGroup, number: int) -> None:
        for position, amount in group.needs:
            if here.free is not None:
                here.free[position] -= number * amount
            else:
                here.need[position] += number * amount
        if number > 0:
            here.added.append(group)
        else:
            here.added.pop()
        own = self._state.rules[group.index]
        for counts in own.feeds:
            self._added[counts, self._domain(here, counts.key)] += number
        for key in {rule.spread.topology_key for rule in own.spreads}:
            self._own[group, key, self._domain(here, key)] += number

    def _within_limits(self) -> bool:
        """Return whether the smallest offers of the changed and new nodes are within limits of pools, as far as these
        nodes belong to one pool, and whether their number is within the ceiling."""
        nodes, price = self._state.left_of_ceilings
        made = [one for one in self._bins if one.added and one.options]
        new = [one for one in made if one.node is None]
        if nodes is not None and len(new) > nodes:
            return False
        added = sum(min(option.one.offer.price_per_hour for option in one.options) for one in made) - sum(
            one.node.price for one in made if one.node is not None
        )
        if price is not None and added > price + 1e-9:
            return False
        pools = {option.pool_offers.pool.key: option.pool_offers.pool for one in made for option in one.options}
        if len(pools) != 1:
            return True
        (key, pool) = pools.popitem()
        used = self._state.limits.used.get(key, {})
        for name, limit in pool.limits.items():
            more = len(new) if name == "nodes" else 0
            for one in made if name != "nodes" else ():
                more += min(option.one.capacity.get(name, 0) for option in one.options)
                if one.node is not None and one.node.choice is not None:
                    more -= one.node.choice.one.capacity.get(name, 0)
            if used.get(name, 0) + more > limit:
                return False
        return True

    def _realize(self) -> bool:
        """Place this division in the state; return whether every rule allows it. If not, the state is as before."""
        made = [one for one in self._bins if one.added]
        changed = [one.node for one in made if one.node is not None and one.options]
        before = layout_of(changed)
        contents = [Counter(one.node.planned if one.node is not None and one.options else {}) for one in made]
        for one, wanted in zip(made, contents, strict=True):
            wanted.update(one.added)
        for node in changed:
            self._state.close(node)
        self._trials = MOST_OFFERINGS if self._bounded or self._state.narrow else 1
        if self._open(made, contents, ()):
            return True
        restore_layout(self._state, before)
        return False

    def _open(self, made: Sequence[Bin], contents: Sequence[Counter[PodGroup]], nodes: tuple[NodeState, ...]) -> bool:
        """Open the nodes of the bins after ``nodes``, and place all pods; return whether some choice of offers allows
        it."""
        if len(nodes) == len(made):
            self._trials -= 1
            self._effort.spend(A_TRIAL)
            return self._settle(dict(zip(nodes, contents, strict=True)))
        here = made[len(nodes)]
        if not here.options and here.node is not None:
            return self._open(made, contents, (*nodes, here.node))
        for choice in here.options:
            if self._trials <= 0 or self._effort.spent():
                return False
            if not self._state.over_limit(choice):
                node = self._state.open(choice)
                if self._open(made, contents, (*nodes, node)):
                    return True
                self._state.close(node)
        return False

    def _settle(self, wanted: Mapping[NodeState, Counter[PodGroup]]) -> bool:
        """Place these pods on these nodes, in an order in which each is allowed; return whether that succeeded."""
        placed = {node: Counter[PodGroup]() for node in wanted}
        moved = True
        while moved:  # Pods may need others first: those they follow, or those that keep a spread level.
            moved = False
            for node, contents in wanted.items():
                for group, number in contents.items():
                    more = self._state.put(group, node, number - placed[node][group])
                    placed[node][group] += more
                    moved |= more > 0
        if placed == dict(wanted) and keeps_all_rules(self._state):
            return True
        for node, contents in placed.items():
            for group, number in contents.items():
                if number:
                    self._state.take(group, node, number)
        return False
