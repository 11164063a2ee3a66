"""Exchange nodes of a finished plan for other nodes with the same pods, if every rule allows it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from joiner.planning.model.node_offers import NodeOffer, OfferChoice
from joiner.planning.model.pod_groups import PodGroup, sum_needs
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts
from joiner.planning.tuning import MOST_PLAN_CHECKS

Part = tuple[OfferChoice, Mapping[PodGroup, int]]
"""A new node, and the pods that it gets."""


def has_preferences(state: PlanState, group: PodGroup) -> bool:
    """Return whether pods of the group prefer some nodes, or to be near or apart from other pods."""
    return bool(group.constraints.preferences or state.rules[group.index].preferred)


def find_preferred_counts(state: PlanState) -> set[DomainCounts]:
    """Return the counts of pods by domain that preferences of pending pods use; those of required rules are others."""
    return {counts for group in state.left for _, counts in state.rules[group.index].preferred}


def offers_for(
    choice: OfferChoice, planned: Mapping[PodGroup, int], among: Iterable[NodeOffer] | None = None
) -> Iterator[NodeOffer]:
    """Yield the offers of the same pool and variant that hold these pods, by their labels and resources; of those of
    ``among``, in this order."""
    need = sum_needs(planned.items(), len(choice.one.free))
    bits = choice.variant.common_to(group.index for group in planned)
    for one in choice.variant.launchable if among is None else among:
        if bits >> one.index & 1 and all(map(int.__le__, need, one.free)):
            yield one


class NodeExchange:
    """Exchanges nodes of one plan."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self._audits = 0
        self._soft = find_preferred_counts(state)

    def replace(self, nodes: Sequence[NodeState], choice: OfferChoice) -> bool:
        """Put the pods of these nodes on one new node; return whether it was possible. Otherwise nothing changes."""
        contents: dict[PodGroup, int] = {}
        for node in nodes:
            for group, number in node.planned.items():
                contents[group] = contents.get(group, 0) + number
        return self.divide(nodes, [(choice, contents)])

    def divide(self, nodes: Sequence[NodeState], parts: Sequence[Part]) -> bool:
        """Put the pods of these nodes on new nodes, ``parts``; return whether it was possible. Otherwise nothing
        changes.

        A node that keeps all of its pods violates no rule, if it stays in all domains by which rules count them.
        """
        state = self._state
        contents = {group for _, inside in parts for group in inside}
        ruled = any(map(self._is_ruled, contents)) and not self._keeps_domains(nodes, parts, contents)
        if ruled and self._audits >= MOST_PLAN_CHECKS:
            return False
        before = [(node, dict(node.planned)) for node in nodes]
        for node in nodes:
            state.close(node)
        opened: list[NodeState] = []
        if all(self._open(choice, inside, opened) for choice, inside in parts) and self._sound(ruled):
            return True
        for new in reversed(opened):
            state.close(new)
        for node, planned in before:
            state.reopen(node)
            for group, number in planned.items():
                state.take(group, node, -number)
        return False

    def _is_ruled(self, group: PodGroup) -> bool:
        """Return whether required rules concern the group: its own ones, or those of other pods."""
        own = self._state.rules[group.index]
        return not own.free or any(counts not in self._soft for counts in own.feeds)

    def _keeps_domains(
        self,
        nodes: Sequence[NodeState],
        parts: Sequence[Part],
        contents: Iterable[PodGroup],
    ) -> bool:
        """Return whether one node replaces one, in the same domains of all rules about its pods but those of hosts."""
        old, new = nodes[0].choice, parts[0][0]
        return (
            len(nodes) == len(parts) == 1
            and old is not None
            and all(old.label(key) == new.label(key) for group in contents for key in self._state.keys_of(group))
        )

    def _open(self, choice: OfferChoice, inside: Mapping[PodGroup, int], opened: list[NodeState]) -> bool:
        if self._state.over_limit(choice) is not None:
            return False
        opened.append(self._state.open(choice))
        ordered = sorted(inside.items(), key=lambda one: one[0].index)
        return all(self._state.put(group, opened[-1], number) == number for group, number in ordered)

    def _sound(self, ruled: bool) -> bool:
        if not ruled:
            return True
        self._audits += 1
        return keeps_all_rules(self._state)
