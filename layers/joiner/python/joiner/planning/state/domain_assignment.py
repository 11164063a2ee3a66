"""Assign pods to topology domains before nodes are made: pods that spread over zones, and pods that must share one.

Pods then fill whole nodes domain by domain. Pods that a spread counts are assigned as well, even if they have no spread
of their own: otherwise they could fill one zone and exclude the pods that have one. The finished plan is checked
against the true skew.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from joiner.planning.model.offered_domains import offered_domains
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.model.pod_stages import PodStage
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts, SpreadRule


@dataclass(frozen=True, slots=True)
class DomainAssignment:
    """The assignment of one group: the topology key, and the number of pods for each of its values. Further pods of
    the group are not assigned."""

    shares_of: Mapping[PodGroup, tuple[str, Mapping[str, int]]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the topology keys with assigned domains, sorted."""
        return tuple(sorted({key for key, _ in self.shares_of.values()}))

    def shares(self, group: PodGroup, left: int) -> Iterator[tuple[str, str, int]]:
        """Yield topology key, value and number of pods; key and value are empty for a group without an assignment."""
        if group not in self.shares_of:
            yield "", "", left
            return
        key, by_value = self.shares_of[group]
        for value, number in by_value.items():
            if number:
                yield key, value, number


def assign_domains(state: PlanState, groups: Sequence[PodGroup], worth: Mapping[PodGroup, float]) -> DomainAssignment:
    """Assign groups to topology domains: first the groups whose rules require it, the largest first."""
    assigner = DomainAssigner(state, groups, worth)
    asking = [group for group in groups if state.rules[group.index].assigned_spread]
    counted = [group for group in groups if not state.rules[group.index].assigned_spread]
    # Pods that still run do not restrict the others, which their own rules count
    later = PodStage.EVICTED
    for group in sorted(asking, key=lambda one: (one.stage is later, -worth[one] * state.left[one], one.index)):
        assigner.spread(group)
    assigner.gather([group for group in counted if state.rules[group.index].affinity])
    for group in sorted(counted, key=lambda one: (-worth[one] * state.left[one], one.index)):
        assigner.balance(group)
    return DomainAssignment(assigner.shares)


class DomainAssigner:
    """Assigns groups to domains, and keeps the resulting counts beside the counts of the state."""

    def __init__(self, state: PlanState, groups: Sequence[PodGroup], worth: Mapping[PodGroup, float]) -> None:
        self._state = state
        self._worth = worth
        self.shares: dict[PodGroup, tuple[str, Mapping[str, int]]] = {}
        self._watched: dict[DomainCounts, SpreadRule] = {}
        for group in groups:
            for rule in state.rules[group.index].spreads:
                if rule.universe:
                    self._watched.setdefault(rule.counts, rule)
        self._counts = {
            counts: {domain: counts.by_domain.get(domain, 0) for domain in sorted(rule.universe or ())}
            for counts, rule in self._watched.items()
        }
        self._load: dict[tuple[str, str], float] = {}
        self._prices: dict[str, Mapping[str, float]] = {}
        self._reach: dict[object, tuple[str, ...]] = {}

    def spread(self, group: PodGroup) -> None:
        """Assign a group with a spread of its own: as evenly as its skew requires, and never beyond it."""
        rule = self._state.rules[group.index].assigned_spread
        if rule is None or not rule.universe:
            return
        key = rule.spread.topology_key
        reach = [domain for domain in self._reachable(group, key) if domain in rule.universe]
        self._distribute(group, key, reach, rule)

    def balance(self, group: PodGroup) -> None:
        """Assign a group that only the spreads of others count: evenly over the domains, so that no other group is
        excluded."""
        if group in self.shares:
            return
        watched = [counts for counts in self._state.rules[group.index].feeds if counts in self._watched]
        if watched:
            rule = self._watched[watched[0]]
            key = rule.spread.topology_key
            self._distribute(
                group, key, [domain for domain in self._reachable(group, key) if domain in (rule.universe or ())]
            )

    def gather(self, groups: Sequence[PodGroup]) -> None:
        """Assign groups with affinity to each other to one domain: all connected groups go to the domain that already
        has matching pods, or else to the one with the fewest assigned pods."""
        for tied in _tied(self._state, groups):
            keys = {affinity.key for group in tied for affinity in self._state.rules[group.index].affinity}
            if len(keys) != 1:
                continue
            key = keys.pop()
            reach = set.intersection(*(set(self._reachable(group, key)) for group in tied))
            there = [self._state.rules[group.index].affinity[0].by_domain for group in tied]
            pinned = {domain for counts in there for domain, number in counts.items() if number}
            reach = reach & pinned if pinned else reach
            if reach:
                chosen = min(sorted(reach), key=lambda domain: self._load.get((key, domain), 0.0))
                for group in tied:
                    self._give(group, key, {chosen: self._state.left[group]})

    def _distribute(self, group: PodGroup, key: str, reach: Sequence[str], rule: SpreadRule | None = None) -> None:
        """Assign the group's pods to these domains, the emptiest first; with a ``rule``, only as far as its skew
        allows."""
        left = self._state.left[group]
        counting = [
            self._counts[domain_counts]
            for domain_counts in self._state.rules[group.index].feeds
            if domain_counts in self._counts
        ]
        own = self._counts[rule.counts] if rule else {}
        adds = 1 if rule and rule.counts_itself else 0
        given = dict.fromkeys(reach, 0)
        domains = len(rule.universe or ()) if rule else 0
        enough = rule is None or domains >= rule.spread.min_domains
        rounds = left // len(reach) if reach and enough and _are_level(counting, len(reach)) else 0
        for domain in reach if rounds else ():
            given[domain] += rounds
            for counts in counting:
                counts[domain] = counts.get(domain, 0) + rounds
        share = self._worth[group]
        prices_by_domain = self._price_by_domain(key) if left > rounds * len(reach) else {}
        for _ in range(left - rounds * len(reach)):
            allowed = reach
            if rule is not None:
                lowest = rule.spread.lowest_count(own.values(), domains)
                allowed = [domain for domain in reach if rule.spread.allows(own.get(domain, 0) + adds, lowest)]
            if not allowed:
                break
            domain = min(
                allowed,
                key=lambda one: (
                    own.get(one, 0) if adds else 0,
                    sum(counts.get(one, 0) for counts in counting),
                    prices_by_domain.get(one, 0.0),
                    self._load.get((key, one), 0.0) + share * given[one],
                    one,
                ),
            )
            given[domain] += 1
            for counts in counting:
                counts[domain] = counts.get(domain, 0) + 1
        self._give(group, key, given, counted=True)

    def _price_by_domain(self, key: str) -> Mapping[str, float]:
        """Return the price of all offers that exist in every domain, by domain. Remaining pods go to the cheapest
        domain."""
        if key not in self._prices:
            prices: dict[object, dict[str, float]] = {}
            for pool_offers in self._state.offered_pools:
                for one in pool_offers.launchable:
                    domain = one.label(key)
                    if domain is not None:
                        prices.setdefault((pool_offers, one.model, one.offering.capacity_type), {})[domain] = (
                            one.offering.price_per_hour
                        )
            domains = {domain for by_domain in prices.values() for domain in by_domain}
            everywhere = [by_domain for by_domain in prices.values() if len(by_domain) == len(domains)]
            self._prices[key] = {
                domain: round(sum(by_domain[domain] for by_domain in everywhere), 6) for domain in domains
            }
        return self._prices[key]

    def _give(self, group: PodGroup, key: str, given: Mapping[str, int], *, counted: bool = False) -> None:
        self.shares[group] = (key, given)
        for domain, number in given.items():
            self._load[key, domain] = self._load.get((key, domain), 0.0) + number * self._worth[group]
            if not counted:
                for counts in self._state.rules[group.index].feeds:
                    if counts in self._counts:
                        self._counts[counts][domain] = self._counts[counts].get(domain, 0) + number

    def _reachable(self, group: PodGroup, key: str) -> tuple[str, ...]:
        """Return the domains in which the group has an offer, or a node with free capacity. Groups with equal offers
        and size share the cached result."""
        state = self._state
        bits = tuple(
            variant.bits[group.index] for pool_offers in state.offered_pools for variant in pool_offers.variants
        )
        asked = (key, bits, group.constraints.tolerations, group.vector, bool(state.existing) and group)
        if asked not in self._reach:
            self._reach[asked] = tuple(sorted(reachable_domains(state, group, key)))
        return self._reach[asked]


def reachable_domains(state: PlanState, group: PodGroup, key: str) -> set[str]:
    """Return the domains in which the group has an offer, or a node with free capacity."""
    there = (
        node for node in state.existing if key in node.labels and state.suits(group, node) and fits(group, node.free)
    )
    return {node.labels[key] for node in there}.union(_offered(state, group, key))


def _offered(state: PlanState, group: PodGroup, key: str) -> Iterator[str]:
    for pool_offers in state.open_pools:
        yield from offered_domains(pool_offers, group, key)


def _tied(state: PlanState, groups: Iterable[PodGroup]) -> list[list[PodGroup]]:
    """Group the groups by mutual affinity: only groups that all require each other are connected. A group that only
    others require is not connected."""
    rest = dict.fromkeys(groups)
    found = []
    while rest:
        first = next(iter(rest))
        del rest[first]
        tied, waiting, whole = [first], [first], True
        while waiting:
            own = state.rules[waiting.pop().index]
            for selected in own.selected_groups:
                if selected in rest:
                    del rest[selected]
                    tied.append(selected)
                    waiting.append(selected)
                elif selected not in tied and state.left.get(selected):
                    whole = False
        if whole and any(
            state.rules[one.index].selects_itself or any(counts.total for counts in state.rules[one.index].affinity)
            for one in tied
        ):
            found.append(sorted(tied, key=lambda one: one.index))
    return sorted(found, key=lambda tied: (-sum(map(state.left.__getitem__, tied)), tied[0].index))


def assign_quotas(state: PlanState, groups: Iterable[PodGroup]) -> None:
    """Set quotas: how many pods of each group that spreads over zones go to each zone, as evenly as its skew requires.

    Groups are taken in the given order. Pods then fill whole nodes zone by zone instead of alternating; the finished
    plan is checked against the true skew.
    """
    expected: dict[tuple[str, object, str, PodStage], dict[str, int]] = {}
    for group in groups:
        rule = state.rules[group.index].assigned_spread
        if rule is None or not rule.universe:
            continue
        counts = expected.setdefault(
            (rule.spread.topology_key, rule.spread.selector, group.namespace, group.stage),
            {domain: rule.counts.by_domain.get(domain, 0) for domain in rule.universe},
        )
        quota: dict[str, int] = {}
        open_to = sorted(reachable_domains(state, group, rule.spread.topology_key) & rule.universe)
        adds = 1 if rule.counts_itself else 0
        for _ in range(state.left[group]):
            lowest = rule.spread.lowest_count(counts.values(), len(rule.universe))
            domain = min(open_to, key=lambda one: counts.get(one, 0), default=None)
            if domain is None or not rule.spread.allows(counts.get(domain, 0) + adds, lowest):
                break
            quota[domain] = quota.get(domain, 0) + 1
            if adds:
                counts[domain] = counts.get(domain, 0) + 1
        state.quotas[group.index] = quota


def _are_level(counting: Sequence[Mapping[str, int]], domains: int) -> bool:
    """Return whether these counts cover no more than this number of domains, and differ by at most one in each."""
    covered = domains == max(map(len, counting), default=domains)
    return covered and all(max(counts.values()) - min(counts.values()) <= 1 for counts in counting)
