"""Rules between pods, kept as running counts: spread, affinity and anti-affinity, each exactly as kube-scheduler reads it.

A *tally* counts pods by topology domain. Which groups it counts is worked out once; placing a pod then adds one to a few
tallies, and asking whether a pod may go somewhere reads a few. Sources: Kubernetes, "Pod Topology Spread Constraints" and
"Assigning Pods to Nodes"; the scheduler's plugins of those names decide where the pages are silent:

* a spread counts pods of the pod's own namespace, on nodes that carry all its spread keys and that its own rules allow;
* affinity counts pods that *all* its terms mean, and a pod that they mean itself may be the first of its kind anywhere;
* anti-affinity binds both ways: nobody joins a domain where somebody does not want it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from joiner import names
from joiner.cluster import PodTerm, Spread, Taint
from joiner.planning.groups import Group
from joiner.planning.offers import Market

Namespaces = Mapping[str, Mapping[str, str]]

UNLIMITED: Final = 1 << 60


class Place(Protocol):
    """A node as far as topology sees it."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def taints(self) -> Sequence[Taint]: ...

    @property
    def remembered(self) -> dict[object, bool]:
        """For answers about this place that never change."""
        ...


class Tally:
    """Pods by domain of ``key``, on the places that ``counts`` accepts."""

    __slots__ = ("by_domain", "key", "only", "total")

    def __init__(self, key: str, only: Callable[[Place], bool] | None = None) -> None:
        self.key = key
        self.only = only
        self.by_domain: dict[str, int] = {}
        self.total = 0

    def add(self, place: Place, number: int) -> None:
        domain = place.labels.get(self.key)
        if domain is not None and (self.only is None or self.only(place)):
            self.by_domain[domain] = self.by_domain.get(domain, 0) + number
            self.total += number


@dataclass(frozen=True, slots=True, eq=False)
class SpreadRule:
    """One hard spread of a group. ``universe`` are the domains that count even without a pod; None for hostnames, where a new
    node is always possible and the emptiest one therefore has nothing."""

    spread: Spread
    tally: Tally
    counts_itself: bool
    universe: frozenset[str] | None

    def lowest(self, without: str | None = None) -> int:
        """The count of the emptiest domain (``without`` left out), 0 while there are fewer domains than minDomains."""
        if not self.universe or len(self.universe) < self.spread.min_domains:
            return 0
        counted = self.tally.by_domain
        return min((counted.get(domain, 0) for domain in self.universe if domain != without), default=UNLIMITED)

    def limit(self, domain: str | None) -> int:
        """How many more pods may go to this domain, one after the other: as long as it is at most maxSkew above the others."""
        if domain is None:
            return 0
        here = self.tally.by_domain.get(domain, 0)
        if not self.counts_itself:
            return UNLIMITED if here - self.lowest() <= self.spread.max_skew else 0
        return max(self.lowest(without=domain) + self.spread.max_skew - here, 0)


@dataclass(slots=True, eq=False)
class Rules:
    """What one group asks of its neighbours, and what its pods change for others (``feeds``).

    ``friends`` are the other groups beside which its affinity wants to be; ``may_begin`` says that it is its own friend.
    """

    spreads: list[SpreadRule] = field(default_factory=list)
    affinity: list[Tally] = field(default_factory=list)
    friends: list[Group] = field(default_factory=list)
    may_begin: bool = False
    away: list[Tally] = field(default_factory=list)
    unwanted: list[Tally] = field(default_factory=list)
    feeds: list[Tally] = field(default_factory=list)
    wishes: list[tuple[int, Tally]] = field(default_factory=list)

    @property
    def free(self) -> bool:
        """Whether it may go wherever there is room, however many there are."""
        return not (self.spreads or self.affinity or self.away or self.unwanted)

    def limit(self, place: Place, quota: Mapping[str, int] | None = None) -> tuple[int, str]:
        """How many more pods of the group may go to this place as far as neighbours matter; if none, the rule that says so.

        ``quota`` replaces the live skew of the first zone spread while a plan is being made: what each domain may still take.
        """
        most, labels = UNLIMITED, place.labels
        for tallies, whose in ((self.away, "its anti-affinity"), (self.unwanted, "the anti-affinity of other pods")):
            for tally in tallies:
                domain = labels.get(tally.key)
                if domain is not None:
                    if tally.by_domain.get(domain, 0):
                        return 0, f"{whose} on {tally.key}"
                    if tally in self.feeds:
                        most = 1
        if self.affinity and not self._beside(labels):
            return 0, f"its affinity on {', '.join(tally.key for tally in self.affinity)}"
        for rule in self.spreads:
            domain = labels.get(rule.spread.topology_key)
            dealt = quota is not None and rule is self.quoted
            more = quota.get(domain or "", 0) if dealt and quota is not None else rule.limit(domain)
            if more <= 0:
                return 0, f"its spread over {rule.spread.topology_key}"
            most = min(most, more)
        return most, ""

    def _beside(self, labels: Mapping[str, str]) -> bool:
        domains = [labels.get(tally.key) for tally in self.affinity]
        if None in domains:
            return False
        if all(tally.by_domain.get(domain or "", 0) for tally, domain in zip(self.affinity, domains, strict=True)):
            return True
        return self.may_begin and not any(tally.total for tally in self.affinity)

    @property
    def quoted(self) -> SpreadRule | None:
        """The spread whose domains are dealt out beforehand."""
        return next((rule for rule in self.spreads if rule.universe is not None), None)


def rules_of(groups: Sequence[Group], places: Sequence[Place], markets: Sequence[Market], namespaces: Namespaces) -> tuple[Rules, ...]:
    """The rules of every group, by its index, with empty tallies: nothing is placed yet.

    Of pods that run already (and daemons) only what they mean to others matters: they will not be placed again.
    """
    found = tuple(Rules() for _ in groups)
    pending = [group for group in groups if group.pods]
    for group in pending:
        _spreads(group, groups, found, places, markets)
        if group.constraints.affinity:
            _affinity(group, groups, found, namespaces)
        _wishes(group, groups, found, namespaces)
    for group in groups:
        own = found[group.index]
        for term in group.constraints.anti_affinity:
            owners = Tally(term.topology_key)
            own.feeds.append(owners)
            for other in _meant([term], pending, namespaces):
                found[other.index].unwanted.append(owners)
            if group.pods:
                meant = Tally(term.topology_key)
                own.away.append(meant)
                for other in _meant([term], groups, namespaces):
                    found[other.index].feeds.append(meant)
    return found


def _spreads(group: Group, groups: Sequence[Group], found: Sequence[Rules], places: Sequence[Place], markets: Sequence[Market]) -> None:
    hard = [spread for spread in group.constraints.spreads if spread.hard]
    for spread in hard:
        only = _eligible(group, spread, [one.topology_key for one in hard])
        tally = Tally(spread.topology_key, only)
        meant = [other for other in groups if other.namespace == group.namespace and spread.selector.selects(other.labels)]
        for other in meant:
            found[other.index].feeds.append(tally)
        universe = None if spread.topology_key == names.HOSTNAME else _universe(group, spread, only, places, markets)
        found[group.index].spreads.append(SpreadRule(spread, tally, group in meant, universe))


def _affinity(group: Group, groups: Sequence[Group], found: Sequence[Rules], namespaces: Namespaces) -> None:
    own = found[group.index]
    meant = _meant(group.constraints.affinity, groups, namespaces)
    own.may_begin = group in meant
    own.friends = [other for other in meant if other is not group]
    for term in group.constraints.affinity:
        tally = Tally(term.topology_key)
        for other in meant:
            found[other.index].feeds.append(tally)
        own.affinity.append(tally)


def _wishes(group: Group, groups: Sequence[Group], found: Sequence[Rules], namespaces: Namespaces) -> None:
    """Preferences about neighbours and soft spreads, as weighted tallies: more is better, or worse where the weight is negative."""
    own = found[group.index]
    for wish in group.constraints.pod_preferences:
        tally = Tally(wish.term.topology_key)
        for other in _meant([wish.term], groups, namespaces):
            found[other.index].feeds.append(tally)
        own.wishes.append((-wish.weight if wish.away else wish.weight, tally))
    for spread in group.constraints.spreads:
        if not spread.hard:
            tally = Tally(spread.topology_key)
            for other in groups:
                if other.namespace == group.namespace and spread.selector.selects(other.labels):
                    found[other.index].feeds.append(tally)
            own.wishes.append((-1, tally))


def _meant(terms: Iterable[PodTerm], groups: Sequence[Group], namespaces: Namespaces) -> list[Group]:
    """The groups that all these terms select."""
    wanted = tuple(terms)
    return [other for other in groups if all(term.selects(other.namespace, other.labels, namespaces) for term in wanted)]


def _eligible(group: Group, spread: Spread, keys: Sequence[str]) -> Callable[[Place], bool]:
    def eligible(place: Place) -> bool:
        known = place.remembered.get(eligible)
        if known is None:
            labels = place.labels
            known = all(key in labels for key in keys)
            if known and spread.honors_affinity:
                known = group.constraints.suits(labels, labels.get(names.HOSTNAME, ""))
            if known and spread.honors_taints:
                known = group.constraints.untolerated(tuple(place.taints)) is None
            place.remembered[eligible] = known
        return known

    return eligible


def _universe(
    group: Group, spread: Spread, only: Callable[[Place], bool], places: Sequence[Place], markets: Sequence[Market]
) -> frozenset[str]:
    """Domains of the nodes that there are, and of those that could be made for such a pod."""
    key = spread.topology_key
    found = {place.labels[key] for place in places if key in place.labels and only(place)}
    for market in markets:
        if spread.honors_taints and group.constraints.untolerated(market.pool.taints):
            continue
        for variant in market.variants:
            bits = variant.bits[group.index] if spread.honors_affinity else -1
            if key in variant.labels:
                found |= {variant.labels[key]} if bits else set()
            else:
                found |= {one.labels[key] for one in market.launchable if key in one.labels and bits >> one.index & 1}
    return frozenset(found)
