"""Find candidates: write the snapshot for one proposal of nodes to disrupt.

The same function serves both proposals of a disruption: the first without the lease, the second under it. It stores
nothing if nothing may be disrupted now: another autoscaler is there, an execution launches nodes, or no node is
initialized.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.find_candidates.rollout_reading import find_rollouts
from joiner.adapters import documents, environment
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import PLANNED, SELECTING, ClusterView, ListedCluster
from joiner.adapters.held_pod_lists import mark_held_pods
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, yet_unstored
from joiner.adapters.payload import Task
from joiner.adapters.store import Store
from joiner.adapters.unwritten_claims import find_launched, list_unlaunched, with_launched
from joiner.lifecycle.claim_progress import assess_progress, open_assignments
from joiner.lifecycle.other_autoscalers import refusal_reason
from joiner.planning import Snapshot
from joiner.planning.inputs.buffer_schedules import apply_buffer_schedules
from joiner.pools import NodeClaim

logger = Logger()

DISRUPTED: Final = (*PLANNED, kinds.POD_DISRUPTION_BUDGETS)
"""Kinds that a proposal of nodes to disrupt reads besides claims, nodes and pods."""


class CandidateListing:
    """One listing; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        view: ClusterView,
        ledger: Ledger,
        store: Store,
        guards: AutoscalerDetection,
        *,
        default_spreads: Sequence[Mapping[str, Any]] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._view = view
        self._ledger = ledger
        self._store = store
        self._guards = guards
        self._default_spreads = default_spreads
        self._sleep = sleep

    def answer(self, task: Task, now: datetime, lease_until: int) -> dict[str, Any]:
        """Return ``{"refused", "why", "rings", "snapshot", "candidates"}``; `why` is empty if a proposal is
        possible now.

        Raises LeaseLost if it needs the lease and another execution holds it.
        """
        lease = (
            self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
            if task.lease_number
            else self._ledger.lease()
        )
        found = {"refused": "", "why": "", "rings": lease.rings, "snapshot": "", "candidates": 0}
        if refused := refusal_reason(self._guards.detect(now)):
            return {**found, "refused": refused, "why": refused}
        if not task.lease_number and lease.is_held(int(now.timestamp())):
            return {**found, "why": "another execution plans or launches nodes"}
        launches = self._ledger.unrecorded_launches()  # before the claims are listed, on which others are by then
        if task.lease_number and (left := yet_unstored(lease.stored_at, now)):
            self._sleep(left)  # the snapshot must have the change behind a ring that `rings` counts
        assigned = {claim: each.classes for claim, each in self._ledger.assignments().items()}
        launched = find_launched(launches)
        lists = with_launched(apply_buffer_schedules(self._view.lists(expected_claims=assigned), now), launched)
        lists, world = mark_held_pods(lists, Snapshot.from_lists(lists), now)
        if _are_moving(launches, world.claims, int(now.timestamp())):
            return {**found, "why": "the outcome of a launch is not recorded yet"}
        candidates = _count(world.claims)
        if not candidates:
            return {**found, "why": "no node is initialized and stays"}
        unreadable = {name for launch in launches if launch.unreadable for name in launch.claims}
        in_flight = list_unlaunched(world.claims, {*launched, *unreadable})
        # Without the slots of claims that are not written: a pod that moves would wait for one for days
        state = assess_progress(world.claims, launching=(), watched=(), lease=0)
        kept = open_assignments(state.on_their_way, assigned, world.nodes, world.pods)
        key = documents.put_snapshot(
            self._store,
            task,
            lists,
            assignments=kept,
            assigned=assigned,
            in_flight=in_flight,
            unwritten=in_flight,
            default_spreads=self._default_spreads,
            rollouts=find_rollouts(self._view, world, now),
        )
        return {**found, "snapshot": key, "candidates": candidates}


def _count(claims: Sequence[NodeClaim]) -> int:
    return sum(claim.initialized and not claim.deleting for claim in claims)


def _are_moving(launches: Iterable[LaunchRecord], claims: Iterable[NodeClaim], at: int) -> bool:
    """Return whether a scale-up continues one of the launches now. It may be refused by an admission policy for days,
    or nobody can read it: no disruption waits for that, unless not even its claims are known. Then nobody knows which
    limits do not count its instances.
    """
    there = {claim.name for claim in claims}
    return any(not launch.claims if launch.unreadable else not launch.waits(at, there) for launch in launches)


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    kube, spreads = environment.kube(task.cluster), environment.default_spreads()
    search = CandidateListing(
        ListedCluster(kube, (*DISRUPTED, *SELECTING) if spreads else DISRUPTED),
        environment.ledger(),
        environment.store(),
        AutoscalerDetection(kube),
        default_spreads=spreads,
    )
    answer = search.answer(task, now, environment.lease_end(context, now))
    logger.info("listed candidates", **answer)
    return answer
