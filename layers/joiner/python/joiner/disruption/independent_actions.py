"""Divide the actions that a search finds: nodes that need nothing of one another are disrupted independently.

A repack tries a group of nodes together. Often some of them share no new node in the end, and they may even be of
different pools. But an action waits for all of its new nodes; one that fails undoes the whole action, and all of its
pools back off. So such an action becomes several. Removed nodes stay together

* if their pods move to the same new node;
* if a pod of one needs pods of the other in its new domain (required pod affinity, a shared volume).

A part that is not allowed on its own, for example because it saves nothing, is joined with as few others as it needs.
The parts together remove, launch, move and save the same as the action.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from joiner.disruption.cluster_simulation import ClusterSimulation
from joiner.disruption.consolidation_worth import PoolTotals, balanced_score, worthless
from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.found_actions import FoundAction
from joiner.disruption.replacement_offers import fleet_choices
from joiner.disruption.replacement_rules import repeated_types
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.pod_topology import DomainCounts


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Nodes that stay together. ``links`` are what connects them with others: new nodes, and domains with pods that
    are needed there."""

    removed: tuple[Candidate, ...]
    opened: tuple[NodeState, ...] = ()
    links: frozenset[object] = frozenset()

    @property
    def saving(self) -> float:
        """Return what it saves in $/h; negative if it costs more."""
        return sum(one.price for one in self.removed) - sum(node.price for node in self.opened)

    @property
    def names(self) -> list[str]:
        """Return the names of its removed nodes."""
        return sorted(one.node.name for one in self.removed)

    def __or__(self, other: "_Part") -> "_Part":
        return _Part(self.removed + other.removed, self.opened + other.opened, self.links | other.links)


@dataclass(frozen=True, slots=True)
class ActionDivision:
    """``homes`` are the keys of the pods on each node before the wave, by its name; ``places`` are the nodes of all
    pods that can move, after it, by the key of the pod."""

    simulation: ClusterSimulation
    totals: PoolTotals
    homes: Mapping[str, Sequence[str]]
    places: Mapping[str, NodeState]

    def divide(self, action: FoundAction) -> list[FoundAction]:
        """Return the independent actions of which this one consists; itself if it cannot be divided."""
        parts = self._independent_parts(action)
        while len(parts) > 1:
            made = [self._allowed(part) for part in parts]
            if None not in made:
                return [one for one in made if one is not None]
            alone = parts.pop(made.index(None))
            other = min(parts, key=lambda one: self._rank(alone | one))
            parts[parts.index(other)] = alone | other
        return [action]

    def _rank(self, joined: _Part) -> tuple[bool, float, list[str]]:
        """Return what sorts the smallest part that is allowed first; else the one that saves the most, which needs the
        fewest others."""
        allowed = self._allowed(joined) is not None
        return not allowed, len(joined.removed + joined.opened) if allowed else -joined.saving, joined.names

    def _allowed(self, part: _Part) -> FoundAction | None:
        return find_allowed_action(self.simulation, self.totals, part.removed, part.opened)

    def _independent_parts(self, action: FoundAction) -> list[_Part]:
        """Return the parts that share no link. A new node without a pod of the action is a part without a node."""
        pods = [pod for one in action.removed for pod in self.homes[one.node.name]]
        shared = {*action.opened, *(domain for pod in pods for domain in self._needed(pod))}
        parts: list[_Part] = []
        for one in action.removed:
            found = _Part((one,), (), self._links(one) & shared)
            for part in [each for each in parts if each.links & found.links]:
                parts.remove(part)
                found = part | found
            parts.append(found)
        made = [_Part(each.removed, _of(action.opened, each.links), each.links) for each in parts]
        known = {node for part in made for node in part.opened}
        return [*made, *(_Part((), (node,)) for node in action.opened if node not in known)]

    def _links(self, one: Candidate) -> frozenset[object]:
        """Return the nodes to which pods of a node go, and the domains there in which others could need them or they
        need others."""
        found: set[object] = set()
        for pod in self.homes[one.node.name]:
            counted = self.simulation.state.rules[self.simulation.group_of(pod).index].feeds
            found |= {self.places[pod], *self._domains(pod, counted), *self._needed(pod)}
        return frozenset(found)

    def _needed(self, pod: str) -> list[tuple[DomainCounts, str | None]]:
        """Return the domains of a pod's new node in which it needs other pods."""
        own = self.simulation.state.rules[self.simulation.group_of(pod).index]
        return self._domains(pod, (*own.affinity, *own.together))

    def _domains(self, pod: str, counted: Iterable[DomainCounts]) -> list[tuple[DomainCounts, str | None]]:
        labels = self.places[pod].labels
        return [(counts, labels.get(counts.key)) for counts in counted]


def find_allowed_action(
    simulation: ClusterSimulation, totals: PoolTotals, removed: Sequence[Candidate], opened: Sequence[NodeState]
) -> FoundAction | None:
    """Return the action that replaces these nodes by these new ones; None if a rule forbids it. The nodes have been
    found to be replaceable, and their budgets are taken."""
    saving = sum(one.price for one in removed) - sum(node.price for node in opened)
    launched = [node.choice.one.offer for node in opened if node.choice]
    if worthless(removed, saving, totals) or repeated_types(removed, launched):
        return None
    flexible = fleet_choices(simulation, removed, opened, saving)
    if flexible is None:
        return None
    return FoundAction(tuple(removed), tuple(opened), saving, balanced_score(removed, saving, totals), flexible)


def _of(opened: Iterable[NodeState], links: frozenset[object]) -> tuple[NodeState, ...]:
    """Return the new nodes that are among the links."""
    return tuple(node for node in opened if node in links)
