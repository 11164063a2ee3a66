"""Rules between pods as running counts: spread, affinity and anti-affinity, exactly as kube-scheduler applies them.

``DomainCounts`` counts pods by topology domain. The groups that it counts are determined once. Placing a pod adds one
to a few counts, and checking a node reads a few. Sources: Kubernetes, "Pod Topology Spread Constraints" and "Assigning
Pods to Nodes". Where these pages do not specify a case, the scheduler's plugins of those names decide.

* A spread counts pods of the pod's own namespace, on nodes with all its topology keys that its own rules allow.
* Affinity counts pods that *all* its terms select. A pod that they select itself may be the first of its kind anywhere.
* Anti-affinity applies in both directions: it also keeps other pods out of the domain of the pod that has the term.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from joiner import names
from joiner.cluster import LabelSelector, PodAffinityTerm, Taint, TopologySpreadConstraint
from joiner.planning.model.node_offers import PoolOffers, PoolVariant, bit_positions_descending
from joiner.planning.model.pod_groups import PodGroup, fits, label_keys_of_rules, pod_terms
from joiner.planning.model.volume_constraints import UNLIMITED

CLAIM_TAKEN: Final = "its PersistentVolumeClaim is for one pod at a time, and another pod that waits has it"
VOLUMES_TAKEN: Final = "other claims take the PersistentVolumes that its claim could have"

Namespaces = Mapping[str, Mapping[str, str]]


class TopologyNode(Protocol):
    """A node as the topology rules see it."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def taints(self) -> Sequence[Taint]: ...

    @property
    def answers(self) -> dict[object, bool]:
        """Return the cache for results about this node that never change."""
        ...


class DomainCounts:
    """Pods by domain of ``key``, on the nodes that ``counts`` accepts."""

    __slots__ = ("by_domain", "key", "only", "total")

    def __init__(self, key: str, only: Callable[[TopologyNode], bool] | None = None) -> None:
        self.key = key
        self.only = only
        self.by_domain: dict[str, int] = {}
        self.total = 0

    def add(self, place: TopologyNode, number: int) -> None:
        domain = place.labels.get(self.key)
        if domain is not None and (self.only is None or self.only(place)):
            self.by_domain[domain] = self.by_domain.get(domain, 0) + number
            self.total += number


@dataclass(frozen=True, slots=True, eq=False)
class SpreadRule:
    """One hard spread of a group. ``universe`` are the domains that count even without a pod. It is None for
    hostnames: a new node is always possible, so the lowest count is 0. ``moves`` is whether the spread counts
    pending pods."""

    spread: TopologySpreadConstraint
    counts: DomainCounts
    counts_itself: bool
    universe: frozenset[str] | None
    moves: bool

    def lowest(self, without: str | None = None) -> int:
        """Return the count of the emptiest domain except ``without``, or 0 while the number of domains is below
        minDomains."""
        if not self.universe:
            return 0
        counted = self.counts.by_domain
        counts = (counted.get(domain, 0) for domain in self.universe if domain != without)
        return self.spread.lowest_count(counts, len(self.universe), default=UNLIMITED)

    def allows(self, domain: str | None) -> bool:
        """Return whether the current skew of this domain is within maxSkew."""
        return domain is not None and self.spread.allows(self.counts.by_domain.get(domain, 0), self.lowest())

    def limit(self, domain: str | None) -> int:
        """Return how many more pods may go to this domain one after the other, so that it stays at most maxSkew above
        the others."""
        if domain is None:
            return 0
        here = self.counts.by_domain.get(domain, 0)
        if not self.counts_itself:
            return UNLIMITED if self.allows(domain) else 0
        return max(self.lowest(without=domain) + self.spread.max_skew - here, 0)


@dataclass(slots=True, eq=False)
class GroupRules:
    """The rules of one group about other pods, and the counts that its own pods change (``feeds``).

    ``selected_groups`` are the other groups that its affinity selects; ``selects_itself`` is whether it also selects
    its own pods. ``together`` counts the pods that share a volume which does not exist yet: the volume is created in
    the domain of the first of them, and all others must go there. ``alone`` counts the pods that have a claim with
    access mode ReadWriteOncePod. ``stock`` counts the pods that use one of a family of manually created volumes,
    with the number of volumes in each domain.
    """

    spreads: list[SpreadRule] = field(default_factory=list)
    affinity: list[DomainCounts] = field(default_factory=list)
    selected_groups: list[PodGroup] = field(default_factory=list)
    selects_itself: bool = False
    away: list[DomainCounts] = field(default_factory=list)
    unwanted: list[DomainCounts] = field(default_factory=list)
    feeds: list[DomainCounts] = field(default_factory=list)
    wishes: list[tuple[int, DomainCounts]] = field(default_factory=list)
    together: list[DomainCounts] = field(default_factory=list)
    alone: list[DomainCounts] = field(default_factory=list)
    stock: list[tuple[DomainCounts, Mapping[str, int]]] = field(default_factory=list)

    @property
    def apart(self) -> list[tuple[DomainCounts, int]]:
        """Return what the group must be apart from: a counts, and the highest count allowed in the domain of a pod of
        the group, with that pod included."""
        return [(counts, 1 if counts in self.feeds else 0) for counts in (*self.away, *self.unwanted)]

    @property
    def of_hosts(self) -> tuple[tuple[DomainCounts, int], ...]:
        """Return its rules about hosts, in the form of ``apart``."""
        apart = [(counts, most) for counts, most in self.apart if counts.key == names.HOSTNAME]
        return (*apart, *((rule.counts, rule.spread.max_skew) for rule in self.spreads if rule.universe is None))

    @property
    def free(self) -> bool:
        """Return whether no rule restricts where its pods go, or how many."""
        return not (
            self.spreads or self.affinity or self.away or self.unwanted or self.together or self.alone or self.stock
        )

    def limit(
        self, place: TopologyNode, quota: Mapping[str, int] | None = None, assigned: SpreadRule | None = None
    ) -> tuple[int, str]:
        """Return how many more pods of the group rules about other pods allow on this node; if none, also the rule
        that forbids it.

        While a plan is made, ``quota`` replaces the live skew of the ``assigned`` spread: the number of pods that each
        domain may still accept.
        """
        most, labels = 1 if self.alone else UNLIMITED, place.labels
        if any(counts.total for counts in self.alone):
            return 0, CLAIM_TAKEN
        for avoided, whose in ((self.away, "its anti-affinity"), (self.unwanted, "the anti-affinity of other pods")):
            for counts in avoided:
                domain = labels.get(counts.key)
                if domain is not None:
                    if counts.by_domain.get(domain, 0):
                        return 0, f"{whose} on {counts.key}"
                    if counts in self.feeds:
                        most = 1
        if self.affinity and not self._beside(labels):
            return 0, f"its affinity on {', '.join(dict.fromkeys(counts.key for counts in self.affinity))}"
        if self.together or self.stock:
            most, why = min((most, ""), self._volumes(labels))
            if most <= 0:
                return 0, why
        for rule in self.spreads:
            domain = labels.get(rule.spread.topology_key)
            more = quota.get(domain or "", 0) if quota is not None and rule is assigned else rule.limit(domain)
            if more <= 0:
                return 0, f"its spread over {rule.spread.topology_key}"
            most = min(most, more)
        return most, ""

    def _volumes(self, labels: Mapping[str, str]) -> tuple[int, str]:
        """Return how many more pods may go there with respect to shared volumes and volumes of limited number."""
        if any(counts.total and not counts.by_domain.get(labels.get(counts.key, ""), 0) for counts in self.together):
            return 0, "a volume that it shares with pods elsewhere"
        left = [
            there.get(domain, 0) - counts.by_domain.get(domain, 0)
            for counts, there in self.stock
            if (domain := labels.get(counts.key, ""))
        ]
        return min(left, default=UNLIMITED), VOLUMES_TAKEN

    def _beside(self, labels: Mapping[str, str]) -> bool:
        domains = [labels.get(counts.key) for counts in self.affinity]
        if None in domains:
            return False
        if all(counts.by_domain.get(domain or "", 0) for counts, domain in zip(self.affinity, domains, strict=True)):
            return True
        return self.selects_itself and not any(counts.total for counts in self.affinity)

    @property
    def assigned_spread(self) -> SpreadRule | None:
        """Return the spread whose domains are assigned beforehand. A spread that counts no pending pod does not divide
        them: all of them may go to any domain that is level."""
        return next((rule for rule in self.spreads if rule.universe is not None and rule.moves), None)


def compile_rules(
    groups: Sequence[PodGroup], places: Sequence[TopologyNode], markets: Sequence[PoolOffers], namespaces: Namespaces
) -> tuple[GroupRules, ...]:
    """Return the rules of every group, by its index, with empty counts: no pod is counted yet.

    Running pods and daemon pods are not placed again. They matter only because the rules of other pods count them.
    """
    if all(
        not one.constraints.spreads
        and not pod_terms(one.constraints)
        and not one.mounted.shared + one.mounted.alone + one.mounted.families
        for one in groups
    ):
        return tuple(GroupRules() for _ in groups)
    return RuleCompiler(groups, places, markets, namespaces).rules()


class RuleCompiler:
    """Compiles the rules of all groups. Rules that count the same pods on the same nodes share one counts, so a placed
    pod is counted once for all of them. A selector is evaluated once for each kind of pod that some selector can
    distinguish."""

    def __init__(
        self,
        groups: Sequence[PodGroup],
        places: Sequence[TopologyNode],
        markets: Sequence[PoolOffers],
        namespaces: Namespaces,
    ) -> None:
        self._groups = groups
        self._places = places
        self._markets = markets
        self._namespaces = namespaces
        self._found = tuple(GroupRules() for _ in groups)
        self._counts: dict[object, DomainCounts] = {}
        self._meanings: dict[object, list[PodGroup]] = {}
        self._eligible: dict[object, Callable[[TopologyNode], bool]] = {}
        self._universes: dict[object, frozenset[str]] = {}
        self._wanted: dict[PoolVariant, int] = {}
        self._waiting = sorted((one for one in groups if one.pods), key=lambda one: one.vector)
        self._has_buffers = any(group.is_buffer for group in groups)
        keys = sorted(label_keys_of_rules(one.constraints for one in groups))
        self._kinds: dict[object, list[PodGroup]] = {}
        for group in groups:
            self._kinds.setdefault((group.namespace, *map(group.labels.get, keys)), []).append(group)
        self._labelled: dict[tuple[str, str], list[list[PodGroup]]] = {}
        for alike in self._kinds.values():
            for key in keys:
                if key in alike[0].labels:
                    self._labelled.setdefault((key, alike[0].labels[key]), []).append(alike)

    def rules(self) -> tuple[GroupRules, ...]:
        for group in self._groups:
            if group.pods:
                self._spreads(group)
                self._affinity(group)
                self._wishes(group)
                for claim in group.mounted.shared:
                    sharing = [other for other in self._groups if claim in other.mounted.shared]
                    self._found[group.index].together.append(self._counts_of(("shared", claim), names.ZONE, sharing))
                for claim in group.mounted.alone:
                    wanting = [other for other in self._groups if claim in other.mounted.alone]
                    self._found[group.index].alone.append(self._counts_of(("alone", claim), names.HOSTNAME, wanting))
                for family in group.mounted.families:
                    taking = [other for other in self._groups if family in other.mounted.families]
                    self._found[group.index].stock.append(
                        (self._counts_of(family, family.key, taking), dict(family.there))
                    )
            self._anti_affinity(group)
        return self._found

    def _counts_of(
        self, identity: object, key: str, meant: Iterable[PodGroup], only: Callable[[TopologyNode], bool] | None = None
    ) -> DomainCounts:
        """Return the counts of this identity. At the first call, the groups that it counts are connected to it."""
        counts = self._counts.get(identity)
        if counts is None:
            counts = self._counts[identity] = DomainCounts(key, only)
            for other in meant:
                self._found[other.index].feeds.append(counts)
        return counts

    def _spreads(self, group: PodGroup) -> None:
        hard = [spread for spread in group.constraints.spreads if spread.hard]
        keys = tuple(one.topology_key for one in hard)
        for spread in hard:
            only, identity = self._eligibility(group, spread, keys)
            meant = self._real(group, self._selected(group.namespace, spread.selector))
            known = (spread.topology_key, group.namespace, spread.selector, identity, group.is_buffer)
            counts = self._counts_of(known, spread.topology_key, meant, only)
            universe = None if spread.topology_key == names.HOSTNAME else self._universe(group, spread, only, identity)
            own = self._found[group.index]
            own.spreads.append(
                SpreadRule(spread, counts, counts in own.feeds, universe, any(other.pods for other in meant))
            )

    def _affinity(self, group: PodGroup) -> None:
        wanted = group.constraints.affinity
        if not wanted:
            return
        own = self._found[group.index]
        meant = self._real(group, self._meant(wanted))
        own.selects_itself = group in meant
        own.selected_groups = [other for other in meant if other is not group]
        known = ("beside", wanted, group.is_buffer)
        own.affinity = [self._counts_of((*known, term.topology_key), term.topology_key, meant) for term in wanted]

    def _anti_affinity(self, group: PodGroup) -> None:
        own = self._found[group.index]
        for term in group.constraints.anti_affinity:
            identity = ("owners", term, group.is_buffer)
            known = identity in self._counts
            owners = self._counts_of(identity, term.topology_key, ())
            if owners not in own.feeds:
                own.feeds.append(owners)
            if not known:
                for other in self._meant((term,)):
                    if other.pods and (other.is_buffer or not group.is_buffer):
                        self._found[other.index].unwanted.append(owners)
            if group.pods:
                meant = self._real(group, self._meant((term,)))
                own.away.append(self._counts_of(("away", term, group.is_buffer), term.topology_key, meant))

    def _real(self, group: PodGroup, meant: list[PodGroup]) -> list[PodGroup]:
        """Return the groups that the group's rules count. Capacity buffers represent pods that do not exist; only
        rules of buffers count them."""
        return meant if group.is_buffer or not self._has_buffers else [other for other in meant if not other.is_buffer]

    def _wishes(self, group: PodGroup) -> None:
        """Compile preferences about other pods and soft spreads into weighted counts: more pods are better, or worse
        if the weight is negative."""
        own = self._found[group.index]
        for wish in group.constraints.pod_preferences:
            counts = self._counts_of(("wish", wish.term), wish.term.topology_key, self._meant((wish.term,)))
            own.wishes.append((-wish.weight if wish.away else wish.weight, counts))
        for spread in group.constraints.spreads:
            if not spread.hard:
                meant = self._selected(group.namespace, spread.selector)
                counts = self._counts_of(
                    (spread.topology_key, group.namespace, spread.selector), spread.topology_key, meant
                )
                own.wishes.append((-1, counts))

    def _meant(self, wanted: tuple[PodAffinityTerm, ...]) -> list[PodGroup]:
        """Return the groups that all these terms select."""
        found = self._meanings.get(wanted)
        if found is None:
            found = self._meanings[wanted] = [
                other
                for alike in self._candidates(wanted[0].selector)
                if all(term.selects(alike[0].namespace, alike[0].labels, self._namespaces) for term in wanted)
                for other in alike
            ]
        return found

    def _selected(self, namespace: str, selector: LabelSelector) -> list[PodGroup]:
        """Return the groups of one namespace that a selector matches."""
        asked = (namespace, selector)
        found = self._meanings.get(asked)
        if found is None:
            found = self._meanings[asked] = [
                other
                for alike in self._candidates(selector)
                if alike[0].namespace == namespace and selector.selects(alike[0].labels)
                for other in alike
            ]
        return found

    def _candidates(self, selector: LabelSelector) -> Iterable[list[PodGroup]]:
        """Return the kinds of pods that the selector can match: most selectors require one value of one label."""
        for key, values in (selector.requirements or {}).items():
            if values.finite and not values.absent:
                return [alike for value in values for alike in self._labelled.get((key, value), ())]
        return self._kinds.values()

    def _eligibility(
        self, group: PodGroup, spread: TopologySpreadConstraint, keys: tuple[str, ...]
    ) -> tuple[Callable[[TopologyNode], bool], object]:
        """Return which nodes count for the spread, and the identity of that rule. Groups with equal identity share the
        result."""
        constraints = group.constraints
        decides = (
            keys,
            (constraints.selector, constraints.terms)
            if spread.honors_affinity and (constraints.selector or constraints.terms is not None)
            else None,
            constraints.tolerations if spread.honors_taints else None,
        )
        if decides not in self._eligible:
            self._eligible[decides] = _eligible(group, spread, keys)
        return self._eligible[decides], decides

    def _universe(
        self, group: PodGroup, spread: TopologySpreadConstraint, only: Callable[[TopologyNode], bool], identity: object
    ) -> frozenset[str]:
        """Return the domains that the spread counts: the domains of existing nodes and of nodes that can be launched
        for pending pods. A domain without either does not count."""
        key = spread.topology_key
        open_to: tuple[object, ...] = ()
        anywhere = all(not place for place in group.places)
        if spread.honors_affinity and anywhere:
            open_to = tuple(variant.bits[group.index] for market in self._markets for variant in market.variants)
        asked = (key, identity, open_to, anywhere)
        if asked not in self._universes:
            there = {place.labels[key] for place in self._places if key in place.labels and only(place)}
            self._universes[asked] = frozenset(
                there.union(*(self._to_come(group, spread, market) for market in self._markets))
            )
        return self._universes[asked]

    def _to_come(self, group: PodGroup, spread: TopologySpreadConstraint, market: PoolOffers) -> set[str]:
        """Return the domains that count for the spread and in which these offers allow a new node for a pending pod."""
        key, found = spread.topology_key, set[str]()
        if spread.honors_taints and group.constraints.untolerated(market.pool.taints):
            return found
        for variant in market.variants:
            bits = self._wanted_of(market, variant)
            if spread.honors_affinity:
                bits &= _by_own_rules(group, market, variant)
            if key in variant.labels:
                found |= {variant.labels[key]} if bits else set()
            else:
                found |= {domain for domain, offers in market.domains(key).items() if offers & bits}
        return found

    def _wanted_of(self, market: PoolOffers, variant: PoolVariant) -> int:
        """Return the offers that could hold a pending pod. The smallest pods are tested first, because they leave few
        offers to test for the others."""
        if variant not in self._wanted:
            found = 0
            for group in self._waiting:
                bits = variant.bits[group.index]
                if bits & ~found and not group.constraints.untolerated(market.pool.taints):
                    found |= sum(
                        1 << at
                        for at in bit_positions_descending(bits & ~found)
                        if fits(group, market.launchable[at].free)
                    )
            self._wanted[variant] = found
        return self._wanted[variant]


def _eligible(group: PodGroup, spread: TopologySpreadConstraint, keys: Sequence[str]) -> Callable[[TopologyNode], bool]:
    answer = object()  # A key for the nodes' caches. The function itself as a key would create a reference cycle.

    def eligible(place: TopologyNode) -> bool:
        known = place.answers.get(answer)
        if known is None:
            labels = place.labels
            known = all(key in labels for key in keys)
            if known and spread.honors_affinity:
                known = group.constraints.suits(labels, labels.get(names.HOSTNAME, ""))
            if known and spread.honors_taints:
                known = group.constraints.untolerated(tuple(place.taints)) is None
            place.answers[answer] = known
        return known

    return eligible


def _by_own_rules(group: PodGroup, market: PoolOffers, variant: PoolVariant) -> int:
    """Return the offers that the pod's own rules accept. The location of its volumes does not reduce the domains of
    its spread."""
    if all(not place for place in group.places):
        return variant.bits[group.index]
    asked = group.constraints.on_new_nodes()
    accepted = (one for one in market.launchable if any(each.allow({**one.labels, **variant.labels}) for each in asked))
    return sum(1 << one.index for one in accepted)
