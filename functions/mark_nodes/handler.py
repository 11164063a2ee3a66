"""Mark nodes: taint the nodes of a validated proposal, and write the plan of their replacements. It needs the lease.

For each action the ledger item is written first, then the nodes are tainted, then their pods are listed again. A pod
that was bound meanwhile has no place in the plan, so its action is undone. Other actions of the proposal are marked.
Several actions are marked at a time, because the lease is held meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment
from joiner.adapters.call_failures import CALL_FAILURES
from joiner.adapters.disruption_items import DisruptionRecord, PodsOfClaim
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import get_claim, index_by_name, list_claims, write_conditions, write_status
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.kube_events import publish_events
from joiner.adapters.kube_nodes import get_same_node, list_nodes_by_instance, list_pods_on, patch_node
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_all, call_each_in_time
from joiner.adapters.payload import Task
from joiner.adapters.store import Store
from joiner.cluster import InvalidField, Node, Pod
from joiner.disruption.disruption_candidates import workload_of
from joiner.disruption.mark_objections import find_objection_to_mark
from joiner.disruption.proposal import DisruptionAction
from joiner.lifecycle.disruption_progress import REPLACEMENT_SECONDS, as_disrupted, as_kept, find_unplaced_pod
from joiner.lifecycle.emptiness import holds_node
from joiner.lifecycle.node_closing import mark_patch, untaint_patch
from joiner.planning import Plan
from joiner.pools import NodeClaim
from joiner.pools.node_claim import build_claim_name
from joiner.reporting import disruption_events
from joiner.reporting.events import Event
from joiner.reporting.shortened_reasons import REASON_AT_MOST

logger = Logger()

NODES_AT_ONCE: Final = 2
"""Nodes of one action that are written at a time. Several actions are marked at a time."""

DIGITS: Final = 4
"""Digits of an action's number in the id of its item. Items are read in the order of their ids, so the nodes of the
best action are retired first."""

NO_TIME: Final = "no time was left to mark its nodes"

WORKLOADS_KEPT: Final = 1000
"""Controllers named in one item, which DynamoDB limits to 400 KB."""


@dataclass(frozen=True, slots=True)
class MarkedAction:
    """One action whose nodes are to be tainted, or are, with their claims and nodes."""

    action: DisruptionAction
    record: DisruptionRecord
    pairs: Sequence[tuple[NodeClaim, Node]]


class NodeMarking:
    """The marking of one proposal; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        disruptions: Disruptions,
        emptiness: EmptyNodes,
        store: Store,
        *,
        time_left: TimeLeft = UNBOUNDED,
    ) -> None:
        self._kube = kube
        self._ledger = ledger
        self._disruptions = disruptions
        self._emptiness = emptiness
        self._store = store
        self._time_left = time_left

    def answer(self, task: Task, proposal: str, rings: int, now: datetime, lease_until: int) -> dict[str, Any]:
        """Return ``{"plan", "marked", "replacements", "dropped"}``. `plan` is the key of the plan of the replacements,
        empty without replacements. `rings` is the number of rings that was read before the snapshot.

        Raises LeaseLost if another execution holds the lease now.
        """
        lease = self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        actions = documents.get_proposal(self._store, proposal).actions
        self._undo_own(task)
        if lease.rings != rings:  # new pods may need the free resources that the proposal uses
            return _answer("", (), [(one, "the doorbell rang after the snapshot") for one in actions])
        claims = index_by_name(list_claims(self._kube).claims)
        nodes = list_nodes_by_instance(self._kube)
        leaving = self._pools_with_leaving_nodes(claims, int(now.timestamp()))
        todo: list[MarkedAction] = []
        dropped: list[tuple[DisruptionAction, str]] = []
        for number, action in enumerate(actions):
            mine = [claims[name] for name in action.claims if name in claims]
            pairs = [(claim, nodes[claim.provider_id]) for claim in mine if claim.provider_id in nodes]
            if why := find_objection_to_mark(action.claims, pairs, leaving):
                dropped.append((action, why))
            else:
                todo.append(MarkedAction(action, _record(task, number, action, now), pairs))
        todo = _name_replacements(todo, task)
        answers, late = call_each_in_time(todo, lambda one: self._mark(one, now), CALL_FAILURES, self._time_left)
        done = [answer for _, answer in answers if isinstance(answer, MarkedAction)]
        dropped += [(one.action, str(answer)) for one, answer in answers if not isinstance(answer, MarkedAction)]
        dropped += [(one.action, NO_TIME) for one in late]
        marked = self._rename_replacements(done, task)
        planned = [node for one in marked for node in one.action.replacements]
        key = documents.put_plan(self._store, task, Plan(nodes=tuple(planned))) if planned else ""
        self._report(marked, task, now)
        for action, why in dropped:
            logger.info("not disrupted", nodeclaims=list(action.claims), reason=why)
        return _answer(key, marked, dropped)

    def _undo_own(self, task: Task) -> None:
        """Undo what an earlier attempt of this execution has marked: the names of replacements follow from their
        positions in the plan, which the actions that it marked are not in any more."""
        mine = [one for one in self._disruptions.all() if one.execution == task.execution.arn]
        if not mine:
            return
        names, nodes = {claim for one in mine for claim in one.claims}, list_nodes_by_instance(self._kube)
        claims = [claim for claim in list_claims(self._kube).claims if claim.name in names]
        self._open(claims, [nodes[claim.provider_id] for claim in claims if claim.provider_id in nodes])
        for one in mine:
            self._disruptions.end(one.id)
            logger.info("undone, an earlier attempt marked it", nodeclaims=list(one.claims))

    def _open(self, claims: Sequence[NodeClaim], nodes: Sequence[Node]) -> None:
        call_all(claims, self._clear, KubeError, workers=NODES_AT_ONCE)
        call_all(nodes, self._untaint, KubeError, workers=NODES_AT_ONCE)

    def _rename_replacements(self, marked: Sequence[MarkedAction], task: Task) -> list[MarkedAction]:
        """Return the actions with the names that their replacements have in the plan. A dropped action changes the
        names of those after it, whose records are then written again."""
        named = _name_replacements(marked, task)
        for before, after in zip(marked, named, strict=True):
            if before.record != after.record:
                self._disruptions.begin(after.record)
        return named

    def _pools_with_leaving_nodes(self, claims: Mapping[str, NodeClaim], at: int) -> frozenset[str]:
        """Return the pools of empty nodes whose retirement was requested and has not begun. They count against the
        budgets, and no list shows them."""
        asked = (each.claim for each in self._emptiness.all().values() if each.requested_until > at)
        return frozenset(claims[name].pool_key for name in asked if name in claims and not claims[name].deleting)

    def _find_moves(self, pairs: Sequence[tuple[NodeClaim, Node]]) -> dict[str, PodsOfClaim]:
        """Return the pods that must move, by claim."""
        listed, kept = list_pods_on(self._kube, [node.name for _, node in pairs]), WORKLOADS_KEPT // len(pairs)
        found = {}
        for claim, node in pairs:
            mine = [pod for pod in map(_pod, listed[node.name]) if pod is not None and holds_node(pod)]
            workloads = sorted(set(map(workload_of, mine)))
            found[claim.name] = PodsOfClaim(claim.pool_key, len(mine), tuple(workloads[:kept]))
        return found

    def _mark(self, one: MarkedAction, now: datetime) -> MarkedAction | str:
        """Taint the nodes of an action and set the condition of their claims; return why that was undone, or the action
        with the pods that it moves."""
        action, pairs = one.action, one.pairs
        record = replace(one.record, moves=self._find_moves(pairs))
        self._disruptions.begin(record)
        try:
            call_all(
                [node for _, node in pairs],
                lambda node: patch_node(self._kube, node, mark_patch),
                KubeError,
                workers=NODES_AT_ONCE,
            )
            why = self._find_unplaced_pod(action, [node.name for _, node in pairs])
            if not why:
                call_all(
                    [as_disrupted(claim, action.reason, action.message, at=now) for claim, _ in pairs],
                    lambda claim: write_status(self._kube, claim),
                    KubeError,
                    workers=NODES_AT_ONCE,
                )
                return replace(one, record=record)
        except KubeError as reason:
            why = str(reason)
        self._open([claim for claim, _ in pairs], [node for _, node in pairs])
        self._disruptions.end(record.id)
        return why

    def _find_unplaced_pod(self, action: DisruptionAction, names: Sequence[str]) -> str:
        """Return which pod has no place in the plan because it was bound to a node before the taint."""
        listed = list_pods_on(self._kube, names).items()
        found = (find_unplaced_pod(name, manifests, action.moves) for name, manifests in listed)
        return next(filter(None, found), "")

    def _untaint(self, node: Node) -> None:
        if (now := get_same_node(self._kube, node)) is not None:
            patch_node(self._kube, now, untaint_patch)

    def _clear(self, claim: NodeClaim) -> None:
        """Remove the condition, which may be there although its write failed."""
        now = get_claim(self._kube, claim.kind, claim.name)
        if now is not None and now.uid == claim.uid and (kept := as_kept(now)) is not None:
            write_conditions(self._kube, kept)

    def _report(self, marked: Sequence[MarkedAction], task: Task, now: datetime) -> None:
        events: list[Event] = []
        for one in marked:
            for claim, node in one.pairs:
                events += disruption_events.report_disruption(claim, node, one.action)
            logger.info(
                one.action.message, nodeclaims=list(one.action.claims), replacements=list(one.record.replacements)
            )
        for unwritten in publish_events(self._kube, events, at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=unwritten)


def _pod(manifest: Mapping[str, Any]) -> Pod | None:
    try:
        return Pod.from_kube(manifest)
    except InvalidField:  # the listing after the taint refuses it
        return None


def _record(task: Task, number: int, action: DisruptionAction, now: datetime) -> DisruptionRecord:
    """Return the ledger item of an action, without the names of its replacements."""
    at = int(now.timestamp())
    return DisruptionRecord(
        id=f"{task.execution.name}-{number:0{DIGITS}}",
        execution=task.execution.arn,
        reason=action.reason,
        message=action.message,
        claims=action.claims,
        since=at,
        deadline=at + REPLACEMENT_SECONDS,
    )


def _name_replacements(actions: Sequence[MarkedAction], task: Task) -> list[MarkedAction]:
    """Return the actions with the names of their replacements, which follow from the positions in the plan."""
    named, first = [], 0
    for one in actions:
        names = tuple(
            build_claim_name(node.pool_name, task.claim_suffix(first + index))
            for index, node in enumerate(one.action.replacements)
        )
        pools = tuple(sorted({node.pool for node in one.action.replacements}))
        named.append(replace(one, record=replace(one.record, replacements=names, replacing_pools=pools)))
        first += len(names)
    return named


def _answer(
    plan: str, marked: Sequence[MarkedAction], dropped: Sequence[tuple[DisruptionAction, str]]
) -> dict[str, Any]:
    return {
        "plan": plan,
        "marked": [{"reason": one.action.reason, "claims": list(one.action.claims)} for one in marked],
        "replacements": sum(len(one.record.replacements) for one in marked),
        "dropped": [{"claims": list(action.claims), "why": why[:REASON_AT_MOST]} for action, why in dropped],
    }


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    marking = NodeMarking(
        environment.kube(task.cluster),
        environment.ledger(),
        environment.disruptions(),
        environment.empty_nodes(),
        environment.store(),
        time_left=environment.time_left(context),
    )
    answer = marking.answer(task, str(event["proposal"]), int(event["rings"]), now, environment.lease_end(context, now))
    logger.info("marked nodes", marked=len(answer["marked"]), dropped=len(answer["dropped"]))
    return answer
