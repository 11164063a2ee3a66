"""Bind the pods that are assigned to a node's claim, while the node is closed to all other pods."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.check_registration.node_joining_steps import ClaimProgress
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.cluster_view import NOT_ENDED, SELECTING, keep_selector
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, KubeError, NotFound
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.cluster import Node
from joiner.lifecycle.filled_nodes import BindingResults, FilledNodes, NodeToFill, Slots, assess_filled_nodes
from joiner.lifecycle.pod_binding import Binding, BindingInput, choose_bindings
from joiner.names import FILLING
from joiner.planning import Snapshot
from joiner.pools.timestamps import parse_timestamp

logger = Logger(child=True)

PROBLEMS_LOGGED: Final = 20


class NodeFilling:
    """Fills the closed nodes of one check; `assigned` are the slots of all claims, by claim name. `default_spreads`
    are the default topology spread constraints of the cluster's scheduler.
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

    def fill(self, fillable: Iterable[ClaimProgress]) -> FilledNodes:
        """Bind the pods of all nodes before any of the nodes opens."""
        manifests = {str(each["metadata"]["name"]): each for each in self._kube.list(kinds.NODES)}
        listed = {"nodes": list(manifests.values()), "namespaces": self._kube.list(kinds.NAMESPACES)}
        for kind in SELECTING if self._hard_spreads else ():  # ScheduleAnyway keeps no pod from a node
            listed[kind.plural] = list(map(keep_selector, self._kube.list(kind)))
        # Pods are listed last: each counts once, either on its node or as pending
        listed_pods = self._kube.packed(kinds.PODS, fields=NOT_ENDED)
        world = read_snapshot({**listed, "pods": listed_pods}, default_spreads=self._hard_spreads)
        nodes = {node.name: node for node in world.nodes}
        open_or_closed = [
            self._node_to_fill(progress, nodes[progress.claim.node_name], manifests[progress.claim.node_name])
            for progress in fillable
            if _is_its(nodes.get(progress.claim.node_name), progress)
        ]
        placements = choose_bindings(
            ((each.node, each.slots) for each in open_or_closed if each.node.has_taint(FILLING)),
            BindingInput(nodes, world.pods, world.namespaces),
        )
        results = self._bind_all([each for placement in placements.values() for each in placement.bindings])
        filled = [
            replace(each, for_the_scheduler=placements[each.node.name].for_the_scheduler)
            if each.node.name in placements
            else each
            for each in open_or_closed
        ]
        return assess_filled_nodes(filled, world.pods, results, self._assigned.values(), self._now)

    def _node_to_fill(self, progress: ClaimProgress, node: Node, manifest: Mapping[str, Any]) -> NodeToFill:
        # The scheduler fills an open node; if both bound pods to it, the node would be overfilled
        slots = self._assigned.get(progress.claim.name, {}) if node.has_taint(FILLING) else {}
        return NodeToFill(progress.claim.name, node, _ready_since(manifest), slots)

    def _bind_all(self, bindings: Sequence[Binding]) -> BindingResults:
        """Return the bound pods, and the errors to retry."""
        bound: dict[str, str] = {}
        failed: dict[str, list[str]] = {}
        answers, left = call_each_in_time(bindings, self._bind, KubeError, self._time_left)
        for binding in left:  # the next check binds them; until then the node stays closed for them
            failed.setdefault(binding.node, []).append("no time was left in this check")
        for binding, answer in answers:
            if answer is None:
                bound[binding.uid] = binding.node
            elif not isinstance(answer, Conflict | NotFound):  # bound by the scheduler, or gone: nothing to do
                failed.setdefault(binding.node, []).append(str(answer))
        return BindingResults(bound, failed)

    def _bind(self, binding: Binding) -> None:
        """Bind the pod that was read. The API server refuses a pod with another uid, a node or a deletion timestamp.

        Like kube-scheduler, this sends no version: the scheduler writes the status of a pending pod after each of its
        attempts, and each of these versions would refuse the binding.
        """
        self._kube.bind(binding.namespace, binding.pod, binding.node, uid=binding.uid)


def _is_its(node: Node | None, progress: ClaimProgress) -> bool:
    """Return whether this is the claim's own node.

    Nodes are listed again for the filling, and another instance may have taken the name.
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
