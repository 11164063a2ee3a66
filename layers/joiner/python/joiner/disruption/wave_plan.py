"""Check the actions of a wave together in the cluster that they lead to, and write them as values.

The removed nodes do not exist in this state, so domains that only they had are gone, too. Each pod is placed where its
action says, by every rule of the scheduler. An action with a pod that cannot be placed is dropped with the reason, and
the others are checked again.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner.cluster import Pod
from joiner.disruption.cluster_simulation import PlannerArguments
from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.found_actions import FoundAction
from joiner.disruption.proposal import DisruptionAction
from joiner.disruption.replacement_rules import repeats_a_type, too_few_spot_types
from joiner.planning import Offer, PlannedNode, Snapshot
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, group_mask
from joiner.planning.output.alternatives import OfferAlternatives
from joiner.planning.output.plan_assembly import NodeWriter, PodSlots, narrowed_requirements
from joiner.planning.placement.address_limits import find_closed_zones
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.limit_violations import AddressViolation, LimitViolation
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState

NO_PLACE_TOGETHER: Final = "its pods have no place beside those of better actions of the same wave"
UNWANTED: Final = "the proposal before did not contain this action"
SAVING_AT_RISK: Final = 0.5
"""The share of the saving that the fleet may give up by launching alternatives."""


@dataclass(frozen=True, slots=True)
class WaveWriter:
    """``places`` are the nodes of all pods that the simulation can move, in the end: by key of the pod."""

    snapshot: Snapshot
    world: PlannerArguments
    places: Mapping[str, NodeState]

    def write(
        self, actions: Sequence[FoundAction], is_wanted: Callable[[DisruptionAction], bool]
    ) -> tuple[list[DisruptionAction], dict[str, str]]:
        """Return the wanted actions that keep every rule together, best first, and why the nodes of the others stay, by
        name. An action that keeps the rules only together with one that is not wanted is left out, too."""
        left = sorted(actions, key=lambda one: -one.saving / one.eviction_cost)
        dropped: dict[str, str] = {}
        while left:
            attempt = _Attempt(self, left)
            failed = attempt.failed()
            if not failed:
                written = attempt.written()
                failed = {one: UNWANTED for one, made in zip(left, written, strict=True) if not is_wanted(made)}
                if not failed:
                    return written, dropped
            left = [action for action in left if action not in failed]
            dropped |= {one.node.name: why for action, why in failed.items() for one in action.removed}
        return [], dropped


class _Attempt:
    """One attempt to make all of these actions in a fresh state."""

    def __init__(self, writer: WaveWriter, actions: Sequence[FoundAction]) -> None:
        self._writer = writer
        self._actions = actions
        self._removed = {one.node.name: action for action in actions for one in action.removed}
        self._claims = {one.claim.key for action in actions for one in action.removed}
        self._pods = {pod.key: pod for action in actions for one in action.removed for pod in one.pods}
        self._action_of = {pod.key: action for action in actions for one in action.removed for pod in one.pods}
        self._pods_on: dict[NodeState, list[str]] = defaultdict(list)
        for key in sorted(writer.places):
            self._pods_on[writer.places[key]].append(key)
        self._state = self._build()
        self._nodes: dict[str, NodeState] = {node.node_name: node for node in self._state.existing if node.node_name}
        self._new: dict[NodeState, NodeState] = {}
        self._opened: dict[NodeState, tuple[FoundAction, NodeState]] = {}
        self._alternatives: OfferAlternatives  # made when all pods are placed
        self._closed: Mapping[NodeState, frozenset[str]] = {}

    def _build(self) -> PlanState:
        snapshot = self._writer.snapshot
        after = replace(
            self._writer.world.unbound(snapshot, self._pods),
            nodes=tuple(node for node in snapshot.nodes if node.name not in self._removed),
            claims=tuple(claim for claim in snapshot.claims if claim.key not in self._claims),
        )
        return self._writer.world.state(after)

    def failed(self) -> dict[FoundAction, str]:
        """Place everything; return the actions that cannot be made, each with the reason."""
        for action in self._actions:
            for node in action.opened:
                choice = node.choice and _same_choice(self._state, node.choice)
                violation = self._state.over_limit(choice) if choice else None
                if not choice or violation is not None:
                    return {action: _describe_lack(violation)}
                self._new[node] = new = self._state.open(choice)
                self._opened[new] = action, node
        wanted: dict[tuple[PodGroup, NodeState], list[str]] = defaultdict(list)
        lost: set[FoundAction] = set()
        for group in self._state.groups.pending:
            for pod in group.pods:
                target = self._target(pod.key)
                if target is not None:
                    wanted[group, target].append(pod.key)
                elif pod.key in self._action_of:
                    lost.add(self._action_of[pod.key])
        if lost:
            return dict.fromkeys(lost, NO_PLACE_TOGETHER)
        left = self._place({key: len(pods) for key, pods in wanted.items()})
        culprits = {self._action_of[pod] for key in left for pod in wanted[key] if pod in self._action_of}
        if culprits:
            return dict.fromkeys(culprits, NO_PLACE_TOGETHER)
        if not left and keeps_all_rules(self._state):
            return self._with_too_few_types()
        worse = self._actions[len(self._actions) // 2 :]  # the better half, for as many attempts as needed
        return dict.fromkeys(worse, NO_PLACE_TOGETHER)

    def _with_too_few_types(self) -> dict[FoundAction, str]:
        """Close zones whose addresses do not suffice for the alternatives of all new nodes; return the actions that
        this leaves too few types to choose among, each with the reason."""
        self._alternatives = OfferAlternatives(self._state)
        made = [(node, node.made) for node in self._state.existing if node.made]
        new = [(self._new[node], self._choice(node)) for action in self._actions for node in action.opened]
        self._closed = find_closed_zones(self._writer.world.classes, [*made, *new], self._other_zones)
        return {
            action: f"{few}, in zones whose subnets have a free address"
            for action in self._actions
            for node in action.flexible
            if (few := too_few_spot_types(action.removed[0], self._flexible(action, node, self._closed_for(node))))
        }

    def _closed_for(self, node: NodeState) -> frozenset[str]:
        """Return the zones in which the fleet may not launch a node of the simulation."""
        return self._closed.get(self._new[node], frozenset())

    def _flexible(self, action: FoundAction, node: NodeState, closed: frozenset[str]) -> list[Offer]:
        """Return the offers for the fleet outside the closed zones; empty if it has the usual ones."""
        return [offer for offer in action.flexible.get(node, ()) if offer.zone not in closed]

    def _offers(self, action: FoundAction, node: NodeState, closed: frozenset[str]) -> tuple[Offer, ...]:
        """Return the offers among which the fleet chooses, outside the closed zones."""
        choice = self._choice(node)
        most = choice.one.offer.price_per_hour + SAVING_AT_RISK * action.saving / len(action.opened)
        offers = self._flexible(action, node, closed) or [
            one.offer for one in self._alternatives.of(self._new[node], choice, closed)
        ]
        return tuple(offer for offer in offers if offer == choice.one.offer or _may_launch(offer, action.removed, most))

    def _other_zones(self, new: NodeState, choice: OfferChoice, closed: frozenset[str]) -> frozenset[str]:
        """Return the zones besides its own in which the fleet may launch a node."""
        if new not in self._opened:  # of a static pool or a standalone claim
            return self._alternatives.other_zones(new, choice, closed)
        action, node = self._opened[new]
        return frozenset(offer.zone for offer in self._offers(action, node, closed)) - {choice.one.offering.zone}

    def _target(self, pod: str) -> NodeState | None:
        """Return the node of the pod in this state. A pod on a node of an action that was dropped has none."""
        place = self._writer.places.get(pod)
        return None if place is None else self._new.get(place) or self._nodes.get(place.node_name)

    def _place(self, wanted: dict[tuple[PodGroup, NodeState], int]) -> dict[tuple[PodGroup, NodeState], int]:
        """Place the pods; return those that are left. A pod can need another one that comes later, so the pods are
        tried again while some are placed."""
        moved = True
        while moved and wanted:
            moved = False
            for (group, node), number in list(wanted.items()):
                came = self._state.put(group, node, number)
                moved |= came > 0
                if came == number:
                    del wanted[group, node]
                else:
                    wanted[group, node] = number - came
        return wanted

    def written(self) -> list[DisruptionAction]:
        slots = PodSlots(self._state)
        nodes = NodeWriter(self._state, slots, alternatives=self._alternatives, closed=self._closed)
        numbers: Counter[str] = Counter()
        return [self._action(action, nodes, numbers) for action in self._actions]

    def _action(self, action: FoundAction, nodes: NodeWriter, numbers: Counter[str]) -> DisruptionAction:
        launched: dict[NodeState, PlannedNode] = {}
        for node in action.opened:
            pool = self._choice(node).pool_offers.pool.name
            numbers[pool] += 1
            name = f"{pool}-{numbers[pool]}"
            launched[node] = self._planned(nodes, node, name, action)
        moves = {}
        for one in action.removed:
            for pod in one.pods:
                place = self._writer.places[pod.key]
                moves[pod.key] = launched[place].name if place in launched else place.node_name
        return DisruptionAction(
            "Underutilized",
            tuple(sorted(one.claim.name for one in action.removed)),
            tuple(launched.values()),
            moves,
            round(action.saving, 10),
            action.eviction_cost,
            action.score,
        )

    def _choice(self, node: NodeState) -> OfferChoice:
        choice = self._new[node].choice
        if choice is None:
            raise ValueError(f"{node.name} is not a new node")
        return choice

    def _planned(self, nodes: NodeWriter, node: NodeState, name: str, action: FoundAction) -> PlannedNode:
        new, choice = self._new[node], self._choice(node)
        contents = sorted((-group.constraints.priority, group.index, number) for group, number in new.planned.items())
        made = nodes.node(new, choice, contents, name)
        offers = self._offers(action, node, self._closed_for(node))
        pods = self._pods_on.get(node, [])
        real = [pod for key in pods if (pod := self._pods.get(key)) is not None]
        return replace(
            made,
            alternatives=offers,
            requirements=narrowed_requirements(choice, offers),
            pods=tuple(pods),
            classes=_by_class(real),
        )


def _describe_lack(violation: LimitViolation | None) -> str:
    """Return why a new node of the simulation cannot be opened beside the better actions."""
    if isinstance(violation, AddressViolation):
        return f"no cheaper node has an address beside those of better actions of the same wave ({violation.text()})"
    return "no cheaper node is left beside those of better actions of the same wave"


def _may_launch(offer: Offer, removed: Sequence[Candidate], most: float) -> bool:
    return offer.price_per_hour <= most and not repeats_a_type(removed, (offer,))


def _by_class(pods: Sequence[Pod]) -> dict[str, int]:
    return dict(sorted(Counter(pod.class_key for pod in pods if not is_buffer_pod(pod.name)).items()))


def _same_choice(state: PlanState, choice: OfferChoice) -> OfferChoice | None:
    """Return the same offer with the same open labels in another state; None if it has no such offer."""
    for pool_offers in state.offered_pools:
        if pool_offers.pool.key != choice.pool_offers.pool.key:
            continue
        variant = next((one for one in pool_offers.variants if one.labels == choice.variant.labels), None)
        if variant is None:
            return None
        one = next((one for one in variant.launchable if one.offer == choice.one.offer), None)
        if one is None:
            return None
        groups = group_mask(
            group
            for group in state.groups.pending
            if variant.bits[group.index] >> one.index & 1
            and group.constraints.untolerated(pool_offers.pool.taints) is None
        )
        return OfferChoice(pool_offers, variant, one, groups)
    return None
