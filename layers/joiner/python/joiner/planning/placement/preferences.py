"""Satisfy preferences at no cost: nodes of the finished plan move to offers of the same price that satisfy more
preferences.

kube-scheduler weighs preferences where several nodes are possible; here several *offers* are possible. Karpenter first
requires what is preferred, then relaxes it step by step. This step never pays for a preference, and never leaves a pod
pending for one; `zone_spreading` pays for zones, up to a tolerance. Preferences are preferred node affinity, preferred
pod affinity and anti-affinity, and spreads with ScheduleAnyway.
"""

from collections.abc import Mapping
from typing import Final

from joiner import names
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, OfferSet
from joiner.planning.model.pod_groups import PodGroup, group_mask, sum_needs
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import MOST_PLAN_CHECKS

MOST_OFFERS: Final = 12


def apply_preferences(state: PlanState) -> None:
    """Satisfy preferences where possible; price, pods and number of nodes do not change."""
    with_preferences = {group for group in state.left if _wishes(group, state)}
    if with_preferences:
        PreferenceMover(state, with_preferences).apply()


def preference_score(state: PlanState, group: PodGroup, labels: Mapping[str, str], name: str) -> float:
    """Return how well a node satisfies the preferences of one more pod of the group, by weight; a higher score is
    better.

    Each pod that a preferred affinity or anti-affinity term selects counts with the full weight. Each pod that a
    ScheduleAnyway spread counts adds a small part.
    """
    constraints = group.constraints
    liked = float(
        sum(preference.weight for preference in constraints.preferences if preference.term.suits(labels, name))
    )
    for weight, counts in state.rules[group.index].preferred:
        domain = labels.get(counts.key)
        if domain is not None:
            liked += weight * counts.by_domain.get(domain, 0)
    return liked


def _wishes(group: PodGroup, state: PlanState) -> bool:
    return bool(group.pods) and bool(group.constraints.preferences or state.rules[group.index].preferred)


class PreferenceMover:
    """Moves the new nodes to other offers, in one pass."""

    def __init__(self, state: PlanState, with_preferences: set[PodGroup]) -> None:
        self._state = state
        self._wishing = with_preferences
        self._preferred = {id(counts) for group in with_preferences for _, counts in state.rules[group.index].preferred}
        self._audits = 0
        self._same_price: dict[tuple[OfferSet, float], list[NodeOffer]] = {}

    def apply(self) -> None:
        """Move each new node that has pods with preferences to the best equally priced offer."""
        for node in list(self._state.new):
            if node.choice and not self._wishing.isdisjoint(node.planned):
                self._move(node, node.choice)

    def _move(self, node: NodeState, own: OfferChoice) -> None:
        """Try the offers of the same price, and keep the one with the highest preference score."""
        state, planned = self._state, dict(node.planned)
        bound_by_others = any(not state.rules[group.index].free or self._counted(group) for group in planned)
        state.close(node)
        best, moved = self._liked(planned, {**own.one.labels, **own.variant.labels}), False
        for choice in self._choices(own, planned):
            liked = self._liked(planned, {**choice.one.labels, **choice.variant.labels})
            if liked <= best or (bound_by_others and self._audits >= MOST_PLAN_CHECKS) or state.over_limit(choice):
                continue
            new = state.open(choice)
            if all(state.put(group, new, number) == number for group, number in planned.items()) and self._sound(
                bound_by_others
            ):
                moved = True
                break
            state.close(new)
        if not moved:
            state.reopen(node)
            for group, number in planned.items():
                state.take(group, node, -number)

    def _counted(self, group: PodGroup) -> bool:
        """Return whether a required rule (not only a preference) of any pod counts pods of the group."""
        own = self._state.rules[group.index]
        return any(id(counts) not in self._preferred for counts in own.feeds)

    def _sound(self, bound_by_others: bool) -> bool:
        if not bound_by_others:
            return True
        self._audits += 1
        return keeps_all_rules(self._state)

    def _liked(self, planned: Mapping[PodGroup, int], labels: Mapping[str, str]) -> float:
        return sum(
            number * preference_score(self._state, group, labels, labels.get(names.HOSTNAME, ""))
            for group, number in planned.items()
        )

    def _choices(self, own: OfferChoice, planned: Mapping[PodGroup, int]) -> list[OfferChoice]:
        """Return other offers of the same pool and price that hold these pods, highest preference score first."""
        need = sum_needs(planned.items(), len(own.one.free))
        found: dict[tuple[object, ...], OfferChoice] = {}
        for variant in own.variants:
            bits = variant.common_to(group.index for group in planned)
            for one in self._of_price(variant.offer_set, own.one.offering.price_per_hour):
                same = one is own.one and variant is own.variant
                if not same and bits >> one.index & 1 and all(map(int.__le__, need, one.free)):
                    identity = (*one.place.items(), one.model.labels.get(names.ARCH), *variant.labels.items())
                    found.setdefault(identity, OfferChoice(own.pool_offers, variant, one, group_mask(planned)))
        liked = {
            identity: self._liked(planned, {**choice.one.labels, **choice.variant.labels})
            for identity, choice in found.items()
        }
        return [found[identity] for identity in sorted(found, key=lambda identity: -liked[identity])][:MOST_OFFERS]

    def _of_price(self, offer_set: OfferSet, price: float) -> list[NodeOffer]:
        known = (offer_set, price)
        if known not in self._same_price:
            alike = (
                one
                for one in offer_set.launchable
                if abs(one.offering.price_per_hour - price) < 1e-9 and one.supply is None
            )
            self._same_price[known] = list(alike)
        return self._same_price[known]
