"""Filling the nodes that may take pods, and opening them.

The order is safe to die in: pods are bound, the node opens (one patch: initialized, filling off), its assignment goes, and last the claim
says that it is initialized. A claim that does not say so yet is looked at again, by this execution or by the one that the sweep starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger
from joining import Step

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.claims import write_status
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel import each
from joiner.cluster import InvalidField, Node, Pod
from joiner.lifecycle import deadlines
from joiner.lifecycle.initialization import closed_too_long, initialization_patch, is_initialized, opening_patch
from joiner.lifecycle.placing import Binding, World, open_slots, place
from joiner.names import FILLING
from joiner.planning import Snapshot
from joiner.pools.conditions import read_time
from joiner.telling import joining as telling
from joiner.telling.events import Event

logger = Logger()

TRIES: Final = 3  # see joining
PROBLEMS_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class Work:
    """One node to fill: all slots of its claim, and those that no pod has taken yet."""

    step: Step
    node: Node
    slots: Mapping[str, int]
    left: Mapping[str, int]

    @property
    def planned(self) -> int:
        return sum(self.slots.values())

    @property
    def there(self) -> int:
        return self.planned - sum(self.left.values())


class Opener:
    """Places pods on ready nodes and opens them."""

    def __init__(self, kube: Kube, ledger: Ledger, now: datetime) -> None:
        self._kube = kube
        self._ledger = ledger
        self._now = now

    def open(self, wave: str, steps: Sequence[Step]) -> list[Step]:
        """The steps, with every ready node filled and opened."""
        ready = [step for step in steps if step.stage == "ready"]
        filled = self._fill(wave, ready) if ready else {}
        return [filled.get(step.claim.name) or step for step in steps]

    def open_closed(self, nodes: Iterable[Node]) -> None:
        """Every node of ours that was closed for too long, whatever became of its claim."""
        for node in nodes:
            if not closed_too_long(node, self._now):
                continue
            try:
                self._open(node, initialized=False)
                logger.warning("opened a node that was closed for too long", node=node.name)
            except (KubeError, InvalidField) as reason:
                logger.warning("a node that was closed for too long could not be opened", node=node.name, reason=str(reason))

    def _fill(self, wave: str, ready: Sequence[Step]) -> dict[str, Step]:
        assignments = self._ledger.assignments()
        listed = {"nodes": self._kube.list(kinds.NODES), "namespaces": self._kube.list(kinds.NAMESPACES)}
        world = read_world({**listed, "pods": self._kube.list(kinds.PODS)})  # pods last: each counts once, on its node or waiting
        nodes, pods = {node.name: node for node in world.nodes}, world.pods
        work = []
        for step in ready:
            node, assignment = nodes.get(step.claim.node_name), assignments.get(step.claim.name)
            if node is not None:
                # The scheduler fills an open node, and two that bind to one node would overfill it
                slots = assignment.classes if assignment and node.has_taint(FILLING) else {}
                work.append(Work(step, node, slots, open_slots(node.name, slots, pods)))
        closed = [(each.node, each.slots) for each in work if each.node.has_taint(FILLING)]
        placements = place(closed, World(nodes, pods, world.namespaces))
        bindings = [binding for placement in placements.values() for binding in placement.bindings]
        answers = each(bindings, self._bind, KubeError)
        by_uid = {pod.uid: pod for pod in pods}
        return {one.step.claim.name: self._finish(wave, one, answers, by_uid) for one in work}

    def _bind(self, binding: Binding) -> None:
        self._kube.bind(binding.namespace, binding.pod, binding.node, uid=binding.uid, resource_version=binding.resource_version)

    def _finish(self, wave: str, work: Work, answers: Sequence[tuple[Binding, KubeError | None]], pods: Mapping[str, Pod]) -> Step:
        step, node, claim = work.step, work.node, work.step.claim
        mine = [(binding, answer) for binding, answer in answers if binding.node == node.name]
        bound = [pods[binding.uid] for binding, answer in mine if answer is None and not binding.daemon]
        # A conflict means that somebody was faster, and a pod that is gone needs no room: both are done
        failed = [answer for _, answer in mine if answer is not None and not isinstance(answer, Conflict | NotFound)]
        events: list[Event] = [*step.events, *(telling.placed(pod, node, claim) for pod in bound)]
        if failed and not deadlines.placing_is_over(self._ready_since(node), self._now):
            said = f"{len(failed)} bindings failed and are tried again: {failed[0]}"
            return replace(step, stage="registered", said=said, events=tuple(events))
        try:
            node = self._open(node, initialized=True)
            self._ledger.unassign(claim.name)
            claim = claim.as_initialized(at=self._now, capacity=node.capacity, allocatable=node.allocatable)
            write_status(self._kube, claim)
        except KubeError as reason:
            return replace(step, stage="registered", said=f"could not be opened now: {reason}", events=tuple(events))
        self._ledger.count_placed(wave, planned=work.planned, placed=len(bound) + work.there)
        events += telling.initialized(claim, node)
        return replace(step, claim=claim, node=node, stage="initialized", said="is initialized", events=tuple(events))

    def _ready_since(self, node: Node) -> datetime | None:
        """When the node became Ready, as its condition says it."""
        manifest = self._kube.get(kinds.NODES, node.name)
        conditions = (manifest.get("status") or {}).get("conditions") or ()
        ready: Mapping[str, Any] = next((each for each in conditions if each.get("type") == "Ready" and each.get("status") == "True"), {})
        return read_time(ready.get("lastTransitionTime"))

    def _open(self, node: Node, *, initialized: bool) -> Node:
        for _ in range(TRIES):
            if not node.has_taint(FILLING) and (is_initialized(node) or not initialized):
                return node
            try:
                patch = initialization_patch(node) if initialized else opening_patch(node)
                return Node.from_kube(self._kube.patch(kinds.NODES, node.name, patch))
            except Conflict:
                node = Node.from_kube(self._kube.get(kinds.NODES, node.name))
        raise Conflict(f"node {node.name} changes all the time")


def read_world(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> Snapshot:
    """The lists as values. What cannot be read is told and left out: whoever may create pods must not keep all nodes closed."""
    world = Snapshot.from_lists(lists)
    for problem in world.problems[:PROBLEMS_TOLD]:
        logger.warning("could not be read", object=problem.object, field=problem.field, value=problem.value[:100])
    return world
