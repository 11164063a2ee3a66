"""What a move of a node or of pods changes for the preferences of the pods.

Only what differs between the old and the new place matters. A node that moves to another zone keeps its pods together,
so preferences about hosts do not hold it, nor does a preference for a CPU that both types have. What holds a node in
its zone are rules and preferences about zones. A preference of pods to be apart from their own kind (ScheduleAnyway, or
preferred anti-affinity) holds them only where a move would put more of them together.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from joiner import names
from joiner.planning.model.node_offers import OfferChoice, PoolVariant
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.placement.node_exchange import find_preferred_counts
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts


@dataclass(frozen=True, slots=True, eq=False)
class GroupEffects:
    """What a move of pods of one group must keep.

    ``keys`` are the topology keys, without the hostname, whose label must stay the same. ``apart`` counts pods of its
    own kind, from which the pods prefer to be apart. ``beside`` is whether they, or others, prefer to share a host.
    ``settled`` is whether its pods must stay on their nodes: rules, or other preferences about hosts, count them.
    """

    keys: frozenset[str]
    apart: tuple[DomainCounts, ...]
    beside: bool
    settled: bool


class PreferenceEffects:
    """The effects of moves in one plan."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self._soft = find_preferred_counts(state)
        self._liked = {
            counts for group in state.left for weight, counts in state.rules[group.index].preferred if weight > 0
        }
        self._groups: dict[int, GroupEffects] = {}
        self._weights: dict[tuple[int, PoolVariant, int], int] = {}
        self._on_nodes: dict[tuple[int, str], int] = {}

    def of(self, group: PodGroup) -> GroupEffects:
        """Return what moves of pods of this group must keep."""
        if group.index not in self._groups:
            self._groups[group.index] = self._compile(group)
        return self._groups[group.index]

    def _compile(self, group: PodGroup) -> GroupEffects:
        own = self._state.rules[group.index]
        apart = tuple(
            dict.fromkeys(
                counts
                for weight, counts in own.preferred
                if weight < 0 and counts in own.feeds and counts not in self._liked
            )
        )
        rules = (*own.affinity, *own.away, *own.unwanted, *own.together, *(rule.counts for rule in own.spreads))
        preferred = tuple(counts for _, counts in own.preferred if counts not in apart)
        others = (*(counts for counts in own.feeds if counts not in apart), *rules, *preferred)
        hosts = [counts for counts in others if counts.key == names.HOSTNAME]
        return GroupEffects(
            keys=frozenset(counts.key for counts in others) - {names.HOSTNAME},
            apart=apart,
            beside=any(counts in self._liked for counts in hosts),
            settled=not own.free or bool(hosts) or any(counts not in self._soft for counts in own.feeds),
        )

    def allow(self, planned: Mapping[PodGroup, int], old: OfferChoice, new: OfferChoice) -> bool:
        """Return whether pods of a node may move to a node of another offer: the labels of their rules stay the same,
        and no preference is less satisfied."""
        return self.keep_labels(planned, old, new) and self.keep_apart(planned, old.label, new.label)

    def keep_labels(self, planned: Iterable[PodGroup], old: OfferChoice, new: OfferChoice) -> bool:
        """Return whether nodes of both offers are in the same domains of the rules of these pods, and the new one
        satisfies their preferences about nodes as well."""
        return all(
            all(old.label(key) == new.label(key) for key in self.of(group).keys)
            and self._weight(group, new) >= self._weight(group, old)
            for group in planned
        )

    def keep_apart(
        self,
        planned: Mapping[PodGroup, int],
        old: Callable[[str], str | None],
        new: Callable[[str], str | None],
    ) -> bool:
        """Return whether these pods do not join more of their own kind in the new domains than they leave. ``old`` and
        ``new`` return the label of a key; a node that has no hostname yet is apart from all others."""
        moved: dict[DomainCounts, int] = {}
        for group, number in planned.items():
            for counts in self.of(group).apart:
                moved[counts] = moved.get(counts, 0) + number
        for counts, number in moved.items():
            here, there = old(counts.key), new(counts.key)
            if there is None or here == there:
                continue
            if counts.by_domain.get(there, 0) + number > counts.by_domain.get(here or "", 0):
                return False
        return True

    def likes_as_well(self, group: PodGroup, old: NodeState, new: NodeState) -> bool:
        """Return whether the new node satisfies the group's preferences about nodes as well as the old one."""
        return not group.constraints.preferences or self._on(group, new) >= self._on(group, old)

    def _on(self, group: PodGroup, node: NodeState) -> int:
        known = (group.index, node.name)
        if known not in self._on_nodes:
            self._on_nodes[known] = _satisfied(group, node.labels)
        return self._on_nodes[known]

    def _weight(self, group: PodGroup, choice: OfferChoice) -> int:
        if not group.constraints.preferences:
            return 0
        known = (group.index, choice.variant, choice.one.index)
        if known not in self._weights:
            self._weights[known] = _satisfied(group, {**choice.one.labels, **choice.variant.labels})
        return self._weights[known]


def _satisfied(group: PodGroup, labels: Mapping[str, str]) -> int:
    """Return the weight of the group's preferences about nodes that a node with these labels satisfies."""
    name = labels.get(names.HOSTNAME, "")
    return sum(one.weight for one in group.constraints.preferences if one.term.suits(labels, name))


def asks_for_zones(group: PodGroup) -> bool:
    """Return whether the pods themselves prefer several zones: by ScheduleAnyway or by preferred anti-affinity."""
    constraints = group.constraints
    spreads = any(not one.hard and one.topology_key == names.ZONE and not one.by_default for one in constraints.spreads)
    return spreads or any(one.away and one.term.topology_key == names.ZONE for one in constraints.pod_preferences)
