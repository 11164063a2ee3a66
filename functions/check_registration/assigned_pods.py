"""Bind the pods that are assigned to a node's claim, while the node is closed to all other pods."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.check_registration.node_joining_steps import ClaimProgress
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.cluster_view import NOT_ENDED, SELECTING, keep_selector
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.cluster import Node, Pod
from joiner.lifecycle.filled_nodes import BindingResults, FilledNodes, NodeToFill, Slots, assess_filled_nodes
from joiner.lifecycle.pod_binding import Binding, BindingInput, Placement, choose_bindings, select_by_namespace_labels
from joiner.names import FILLING
from joiner.planning import Snapshot
from joiner.pools.timestamps import parse_timestamp

logger = Logger(child=True)

PROBLEMS_LOGGED: Final = 20
REASONS_LOGGED: Final = 5

BINDINGS_AT_ONCE: Final = 16
"""Bindings that are sent at the same time. The API server takes milliseconds for one, its storage much longer, so that
it waits most of the time. Priority and fairness give all calls of one user tens of seats."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """All nodes of the cluster that can be read, by name, and since when each is Ready."""

    nodes: Mapping[str, Node]
    ready_since: Mapping[str, datetime | None]

    @classmethod
    def of(cls, kube: Kube) -> "NodeReading":
        """List the nodes."""
        manifests = kube.list(kinds.NODES)
        nodes = {node.name: node for node in read_snapshot({"nodes": manifests}).nodes}
        return cls(nodes, {str(each["metadata"]["name"]): _ready_since(each) for each in manifests})


class NodeFilling:
    """Fills the closed nodes of one pass; `assigned` are the slots of all claims, by claim name. `default_spreads`
    are the default topology spread constraints of the cluster's scheduler.

    Nodes may be filled in two steps. The second one reads the pods again, and takes the nodes of the first one again:
    pods of a spread may have waited for the nodes that it adds.
    """

    def __init__(
        self,
        kube: Kube,
        assigned: Mapping[str, Slots],
        now: datetime,
        time_left: TimeLeft = UNBOUNDED,
        *,
        default_spreads: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._time_left = time_left
        self._hard_spreads = [one for one in default_spreads if one["whenUnsatisfiable"] == "DoNotSchedule"]
        self._kube = kube
        self._assigned = assigned
        self._now = now
        self._pods: Sequence[Pod] = ()
        self._filled: list[NodeToFill] = []  # those of the last step
        self._bound: dict[str, str] = {}
        self._failed: dict[str, list[str]] = {}

    def bind(self, fillable: Iterable[ClaimProgress], reading: NodeReading) -> set[str]:
        """Bind the pods of these nodes; return the names of the nodes that got pods."""
        open_or_closed = [
            self._node_to_fill(progress, reading)
            for progress in fillable
            if _is_its(reading.nodes.get(progress.claim.node_name), progress)
        ]
        # Pods are listed after the nodes: each counts once, either on its node or as pending
        listed: dict[str, Sequence[Mapping[str, Any]]] = {}
        for kind in SELECTING if self._hard_spreads else ():  # ScheduleAnyway keeps no pod from a node
            listed[kind.plural] = list(map(keep_selector, self._kube.list(kind)))
        listed["pods"] = self._kube.packed(kinds.PODS, fields=NOT_ENDED)
        self._pods = read_snapshot(listed, default_spreads=self._hard_spreads).pods
        placements = choose_bindings(
            ((each.node, each.slots) for each in open_or_closed if each.node.has_taint(FILLING)),
            BindingInput(reading.nodes, self._pods, self._namespaces()),
        )
        self._failed.clear()  # they are tried again
        self._filled = [
            replace(each, for_the_scheduler=placements[each.node.name].for_the_scheduler)
            if each.node.name in placements
            else each
            for each in open_or_closed
        ]
        bindings = [each for placement in placements.values() for each in placement.bindings]
        filled = self._bind_all(bindings)
        _log_bindings(len(bindings), len(open_or_closed), placements.values())
        return filled

    def assess(self) -> FilledNodes:
        """Return the state of all nodes after their bindings."""
        results = BindingResults(self._bound, self._failed)
        return assess_filled_nodes(self._filled, self._pods, results, self._assigned.values(), self._now)

    def _node_to_fill(self, progress: ClaimProgress, reading: NodeReading) -> NodeToFill:
        node = reading.nodes[progress.claim.node_name]
        # The scheduler fills an open node; if both bound pods to it, the node would be overfilled
        slots = self._assigned.get(progress.claim.name, {}) if node.has_taint(FILLING) else {}
        return NodeToFill(progress.claim.name, node, reading.ready_since[node.name], slots)

    def _namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of each namespace, if the anti-affinity of a pod selects namespaces."""
        if not select_by_namespace_labels(self._pods):
            return {}
        return read_snapshot({"namespaces": self._kube.list(kinds.NAMESPACES)}).namespaces

    def _bind_all(self, bindings: Sequence[Binding]) -> set[str]:
        """Keep the bound pods, and the errors to retry; return the nodes that got pods."""
        answers, left = call_each_in_time(bindings, self._bind, KubeError, self._time_left, workers=BINDINGS_AT_ONCE)
        filled = set()
        for binding in left:  # the next check binds them; until then the node stays closed for them
            self._failed.setdefault(binding.node, []).append("no time was left in this check")
        for binding, answer in answers:
            if answer is None:
                self._bound[binding.uid] = binding.node
                filled.add(binding.node)
            elif not isinstance(answer, Conflict | NotFound):  # bound by the scheduler, or gone: nothing to do
                self._failed.setdefault(binding.node, []).append(str(answer))
        return filled

    def _bind(self, binding: Binding) -> None:
        """Bind the pod that was read. The API server refuses a pod with another uid, a node or a deletion timestamp.

        Like kube-scheduler, this sends no version: the scheduler writes the status of a pending pod after each of its
        attempts, and each of these versions would refuse the binding.
        """
        self._kube.bind(binding.namespace, binding.pod, binding.node, uid=binding.uid)


def _log_bindings(bindings: int, nodes: int, placements: Iterable[Placement]) -> None:
    """Log how many pods were bound in one step, and why slots were left open."""
    left = Counter(reason for placement in placements for reason in placement.left.values())
    logger.info("bound pods", bindings=bindings, nodes=nodes, left=dict(left.most_common(REASONS_LOGGED)))


def _is_its(node: Node | None, progress: ClaimProgress) -> bool:
    """Return whether this is the claim's own node.

    The node may have been listed after the claim's progress, and another instance may have taken the name.
    """
    return node is not None and node.provider_id == progress.claim.provider_id


def _ready_since(manifest: Mapping[str, Any]) -> datetime | None:
    """Return when the node became Ready, from its condition."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next(
        (each for each in conditions if each.get("type") == "Ready" and each.get("status") == "True"), {}
    )
    return parse_timestamp(ready.get("lastTransitionTime"))


def read_snapshot(
    lists: Mapping[str, Sequence[Mapping[str, Any]]], *, default_spreads: Sequence[Mapping[str, Any]] = ()
) -> Snapshot:
    """Parse the lists.

    An object that cannot be read is logged and left out: an invalid pod must not keep all nodes closed.
    """
    world = Snapshot.from_lists(lists, default_spreads=default_spreads)
    for problem in world.problems[:PROBLEMS_LOGGED]:
        logger.warning("could not be read", object=problem.object, field=problem.field, value=problem.value[:100])
    return world
