"""Compile the rules between pods of all groups, once for a plan: what each rule counts, and in which domains.

Rules that count the same pods on the same nodes share one ``DomainCounts``. A selector is evaluated once for each kind
of pod that some selector can distinguish. ``pod_topology`` evaluates the compiled rules.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from joiner import names
from joiner.cluster import ABSENT, LabelSelector, PodAffinityTerm, Requirements, TopologySpreadConstraint
from joiner.planning.model.blast_radius import most_on_a_node, share_of
from joiner.planning.model.node_offers import PoolOffers, PoolVariant
from joiner.planning.model.offered_domains import offered_domains
from joiner.planning.model.pod_groups import PodGroup, fits, label_keys_of_rules, pod_terms
from joiner.planning.model.pod_stages import PodStage
from joiner.planning.model.position_bits import bit_positions_descending
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.pod_topology import DomainCounts, GroupRules, SpreadRule, TopologyNode

Namespaces = Mapping[str, Mapping[str, str]]
IN_BLOCKED_DRAINS = (PodStage.LEAVING, PodStage.EVICTED)


def compile_rules(
    groups: Sequence[PodGroup],
    places: Sequence[NodeState],
    offered_pools: Sequence[PoolOffers],
    namespaces: Namespaces,
) -> tuple[GroupRules, ...]:
    """Return the rules of every group, by its index, with empty counts: no pod is counted yet.

    Running pods and daemon pods are not placed again. They matter only because the rules of other pods count them.
    """
    if all(one.pool.planning.blast_radius.share is None for one in offered_pools) and all(
        not one.constraints.spreads
        and not pod_terms(one.constraints)
        and not one.mounted.shared + one.mounted.alone + one.mounted.families
        for one in groups
    ):
        return tuple(GroupRules() for _ in groups)
    return RuleCompiler(groups, places, offered_pools, namespaces).rules()


class RuleCompiler:
    """Compiles the rules of all groups."""

    def __init__(
        self,
        groups: Sequence[PodGroup],
        places: Sequence[NodeState],
        offered_pools: Sequence[PoolOffers],
        namespaces: Namespaces,
    ) -> None:
        self._groups = groups
        self._places = places
        self._offered_pools = offered_pools
        self._namespaces = namespaces
        self._found = tuple(GroupRules() for _ in groups)
        self._counts: dict[object, DomainCounts] = {}
        self._meanings: dict[object, list[PodGroup]] = {}
        self._eligible: dict[object, Callable[[TopologyNode], bool]] = {}
        self._universes: dict[object, frozenset[str]] = {}
        self._wanted: dict[PoolVariant, int] = {}
        self._waiting = sorted((one for one in groups if one.pods), key=lambda one: one.vector)
        self._staged = any(group.stage is not PodStage.CURRENT for group in groups)
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
        """Return the compiled rules of each group, in the order of the groups."""
        for group in self._groups:
            if group.pods:
                self._spreads(group)
                self._blast_radius(group)
                self._affinity(group)
                self._preferences(group)
                for claim in group.mounted.shared:
                    sharing = [other for other in self._groups if claim in other.mounted.shared]
                    self._found[group.index].together.append(self._counts_of(("shared", claim), names.ZONE, sharing))
                for claim in group.mounted.alone:
                    wanting = [other for other in self._groups if claim in other.mounted.alone]
                    self._found[group.index].alone.append(self._counts_of(("alone", claim), names.HOSTNAME, wanting))
                for family in group.mounted.families:
                    taking = [other for other in self._groups if family in other.mounted.families]
                    self._found[group.index].offer_set.append(
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
            known = (spread.topology_key, group.namespace, spread.selector, identity, group.stage)
            counts = self._counts_of(known, spread.topology_key, meant, only)
            universe = None if spread.topology_key == names.HOSTNAME else self._universe(group, spread, only, identity)
            own = self._found[group.index]
            own.spreads.append(
                SpreadRule(spread, counts, counts in own.feeds, universe, any(other.pods for other in meant))
            )

    def _blast_radius(self, group: PodGroup) -> None:
        """Add the share of the group's pods that one node may hold, as a rule about hosts."""
        share = share_of(group, self._offered_pools)
        if share is not None:
            counts = self._counts_of(("blast radius", group.index), names.HOSTNAME, [group])
            spread = TopologySpreadConstraint(names.HOSTNAME, most_on_a_node(group, share), LabelSelector())
            self._found[group.index].spreads.append(SpreadRule(spread, counts, True, None, True))

    def _affinity(self, group: PodGroup) -> None:
        wanted = group.constraints.affinity
        if not wanted:
            return
        own = self._found[group.index]
        meant = self._real(group, self._meant(wanted))
        own.selects_itself = group in meant
        leaving = self._still_beside(group, wanted)
        own.selected_groups = [other for other in meant if other is not group]
        beside = [*meant, *leaving]
        known = ("beside", wanted, group.stage, bool(leaving))
        own.affinity = [self._counts_of((*known, term.topology_key), term.topology_key, beside) for term in wanted]

    def _still_beside(self, group: PodGroup, wanted: tuple[PodAffinityTerm, ...]) -> list[PodGroup]:
        """Return the pods of blocked drains that the affinity of a replacement has to count where they run.

        The replacement starts while some of them run, so it goes to their domain, if a new node can be there.
        """
        if group.stage is not PodStage.EVICTED:
            return []
        leaving = [other for other in self._meant(wanted) if other.stage is PodStage.LEAVING]
        there = [place for place in self._places if place.closing and any(other in place.held for other in leaving)]
        for key in {term.topology_key for term in wanted} if there else ():
            offered = {domain for offers in self._offered_pools for domain in offered_domains(offers, group, key)}
            if offered.isdisjoint(place.labels.get(key, "") for place in there):
                return []
        return leaving

    def _anti_affinity(self, group: PodGroup) -> None:
        own = self._found[group.index]
        # The others of a blocked drain do not keep a replacement out of the domain that it leaves itself
        which = (group.stage, group.name if group.stage in IN_BLOCKED_DRAINS else "")
        for term in group.constraints.anti_affinity:
            identity = ("owners", term, which)
            known = identity in self._counts
            owners = self._counts_of(identity, term.topology_key, ())
            if owners not in own.feeds:
                own.feeds.append(owners)
            if not known:
                for other in self._meant((term,)):
                    if other.pods and (other.stage.counts(group.stage) or _may_outlast(group, other)):
                        self._found[other.index].unwanted.append(owners)
            if group.pods:
                meant = self._real(group, self._meant((term,)))
                if group.stage is PodStage.EVICTED:
                    meant = meant + [one for one in self._meant((term,)) if _may_outlast(one, group)]
                own.away.append(self._counts_of(("away", term, which), term.topology_key, meant))

    def _real(self, group: PodGroup, meant: list[PodGroup]) -> list[PodGroup]:
        """Return the groups that the group's rules count, by the stages of both."""
        return [other for other in meant if group.stage.counts(other.stage)] if self._staged else meant

    def _preferences(self, group: PodGroup) -> None:
        """Compile preferences about other pods and soft spreads into weighted counts: more pods are better, or worse
        if the weight is negative."""
        own = self._found[group.index]
        for preference in group.constraints.pod_preferences:
            term, meant = preference.term, self._real(group, self._meant((preference.term,)))
            counts = self._counts_of(("preference", term, group.stage), term.topology_key, meant)
            own.preferred.append((-preference.weight if preference.away else preference.weight, counts))
        for spread in group.constraints.spreads:
            if not spread.hard:
                meant = self._real(group, self._selected(group.namespace, spread.selector))
                known = (spread.topology_key, group.namespace, spread.selector, group.stage)
                own.preferred.append((-1, self._counts_of(known, spread.topology_key, meant)))

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
            open_to = tuple(
                variant.bits[group.index] for pool_offers in self._offered_pools for variant in pool_offers.variants
            )
        settled = group.stage is PodStage.EVICTED  # the nodes of blocked drains are gone then
        asked = (key, identity, open_to, anywhere, settled)
        if asked not in self._universes:
            places = (place for place in self._places if not (settled and place.closing))
            there = {place.labels[key] for place in places if key in place.labels and only(place)}
            self._universes[asked] = frozenset(
                there.union(*(self._to_come(group, spread, pool_offers) for pool_offers in self._offered_pools))
            )
        return self._universes[asked]

    def _to_come(self, group: PodGroup, spread: TopologySpreadConstraint, pool_offers: PoolOffers) -> set[str]:
        """Return the domains that count for the spread and in which these offers allow a new node for a pending pod."""
        key, found = spread.topology_key, set[str]()
        if spread.honors_taints and group.constraints.untolerated(pool_offers.pool.taints):
            return found
        for variant in pool_offers.variants:
            bits = self._wanted_of(pool_offers, variant)
            if spread.honors_affinity:
                bits &= _by_own_rules(group, pool_offers, variant)
            if key in variant.labels:
                found |= {variant.labels[key]} if bits else set()
            else:
                found |= {domain for domain, offers in pool_offers.domains(key).items() if offers & bits}
        return found

    def _wanted_of(self, pool_offers: PoolOffers, variant: PoolVariant) -> int:
        """Return the offers that could hold a pending pod. The smallest pods are tested first, because they leave few
        offers to test for the others."""
        if variant not in self._wanted:
            found = 0
            for group in self._waiting:
                bits = variant.bits[group.index]
                if bits & ~found and not group.constraints.untolerated(pool_offers.pool.taints):
                    found |= sum(
                        1 << at
                        for at in bit_positions_descending(bits & ~found)
                        if fits(group, variant.launchable[at].free)
                    )
            self._wanted[variant] = found
        return self._wanted[variant]


def _may_outlast(running: PodGroup, replacement: PodGroup) -> bool:
    """Return whether pods of another workload, whose drain is blocked, may still run when a replacement starts."""
    stages = (running.stage, replacement.stage)
    return stages == (PodStage.LEAVING, PodStage.EVICTED) and running.name != replacement.name


def _eligible(group: PodGroup, spread: TopologySpreadConstraint, keys: Sequence[str]) -> Callable[[TopologyNode], bool]:
    answer = object()  # A key for the nodes' caches. The function itself as a key would create a reference cycle.

    def eligible(place: TopologyNode) -> bool:
        known = place.answers.get(answer)
        if known is None:
            labels = place.labels
            known = all(key in labels for key in keys)
            if known and spread.honors_affinity:
                known = group.constraints.selects(labels, labels.get(names.HOSTNAME, ""))
            if known and spread.honors_taints:
                known = group.constraints.untolerated(tuple(place.taints)) is None
            place.answers[answer] = known
        return known

    return eligible


def _by_own_rules(group: PodGroup, pool_offers: PoolOffers, variant: PoolVariant) -> int:
    """Return the offers that the pod's node selector and affinity accept. Neither the location of its volumes nor the
    operating system that it declares reduces the domains of its spread."""
    if all(not place for place in group.places) and _all_suit(group.constraints.nodes_of_system, pool_offers, variant):
        return variant.bits[group.index]
    asked = group.constraints.selected_new_nodes()
    accepted = (
        one for one in pool_offers.launchable if any(each.allow({**one.labels, **variant.labels}) for each in asked)
    )
    return sum(1 << one.index for one in accepted)


def _all_suit(requirements: Requirements, pool_offers: PoolOffers, variant: PoolVariant) -> bool:
    """Return whether all nodes of the pool meet these requirements."""
    for key, accepted in requirements.items():
        with_value, without = pool_offers.offer_set.positions(key)
        of_offers = (*with_value, *([ABSENT] if without else []))
        if not all(value in accepted for value in ([variant.labels[key]] if key in variant.labels else of_offers)):
            return False
    return True
