"""What a search for a wave finds: its actions, and the reasons of the nodes that stay. And what it repacks together."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from joiner.cluster.eviction_costs import NODE_COST
from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.replacement_rules import instance_type_of
from joiner.planning.plan import Offer
from joiner.planning.state.node_state import NodeState


@dataclass(frozen=True, slots=True, eq=False)
class FoundAction:
    """Nodes to remove, and the new nodes (of the simulation) that replace them.

    ``flexible`` are the offers for the fleet, by new node, if spot nodes replace a single spot node; else the usual
    alternatives are used.
    """

    removed: tuple[Candidate, ...]
    opened: tuple[NodeState, ...]
    saving: float
    score: float | None
    flexible: Mapping[NodeState, tuple[Offer, ...]] = field(default_factory=dict)

    @property
    def eviction_cost(self) -> float:
        """Return the cost of evicting the pods of all removed nodes."""
        return sum(one.eviction_cost for one in self.removed)

    @property
    def price(self) -> float:
        """Return the price of the new nodes in $/h."""
        return sum(node.price for node in self.opened)


@dataclass(frozen=True, slots=True)
class RepackedGroup:
    """What is packed anew together: nodes, and new nodes of actions that were found before.

    The pods on such new nodes are moved in any case, so that they cost no further eviction. A repack replaces these
    actions: no node is launched that is removed again.
    """

    nodes: tuple[Candidate, ...]
    actions: tuple[FoundAction, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of nodes, new ones included."""
        return len(self.nodes) + self.opened

    @property
    def opened(self) -> int:
        """Return the number of new nodes that the replaced actions would launch."""
        return sum(len(one.opened) for one in self.actions)

    @property
    def price(self) -> float:
        """Return the price of all nodes in $/h."""
        return sum(one.price for one in self.nodes) + sum(action.price for action in self.actions)

    @property
    def removed(self) -> tuple[Candidate, ...]:
        """Return the nodes that are removed, those of the replaced actions included."""
        return (*(one for action in self.actions for one in action.removed), *self.nodes)

    def exceeds(self, most: int, launched: int) -> bool:
        """Return whether it replaces actions, and removes and launches more than so many nodes together."""
        return bool(self.actions) and len(self.removed) + launched > most

    @property
    def eviction_cost(self) -> float:
        """Return the cost of the evictions that the replaced actions do not need, at least that of one node."""
        return max(NODE_COST, sum(one.eviction_cost for one in self.nodes))

    def without_types(self, types: Collection[str]) -> "RepackedGroup":
        """Return the group without the nodes of these instance types, and without actions that remove such nodes."""
        return RepackedGroup(
            tuple(one for one in self.nodes if instance_type_of(one) not in types),
            tuple(
                action for action in self.actions if not any(instance_type_of(one) in types for one in action.removed)
            ),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return what identifies the group: the names of its nodes."""
        opened = (node.name for action in self.actions for node in action.opened)
        return tuple(sorted((*opened, *(one.node.name for one in self.nodes))))


@dataclass(slots=True)
class FoundWave:
    """The actions found. ``refused`` are the reasons of nodes that were tried and stay; ``postponed`` are the names of
    nodes that a budget does not allow to disrupt now."""

    actions: list[FoundAction] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    postponed: set[str] = field(default_factory=set)
