"""Propose disruption: decide which nodes to remove or to replace. It calls only the bucket and the ledger.

`joiner.disruption`, a pure function, makes the decision. The state machine invokes this function twice: for *Propose
disruption* without the lease, and for *Validate disruption* 15 seconds later, under the lease and with a fresh
snapshot. The second proposal contains only actions that are in both. Each proposal is stored with all its reasons.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment, sweep_documents
from joiner.adapters.disruption_items import (
    DisruptionRecord,
    LastProposal,
    count_evictions,
    find_last_moves,
    find_moves,
    find_oldest_evictions,
)
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.ledger import Ledger
from joiner.adapters.payload import Task
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.store import Store
from joiner.catalogue import Catalogue
from joiner.disruption.disruption_history import OVERDUE_SECONDS, DisruptionHistory
from joiner.disruption.ending_limits import find_first_end
from joiner.disruption.last_pod_events import digest_snapshot, find_pod_events
from joiner.disruption.limiting_marks import find_limiting_ends
from joiner.disruption.proposal import Proposal
from joiner.disruption.wave_choice import WaveInputs, propose_wave
from joiner.planning import Ceilings, PlanPolicies, Snapshot
from joiner.planning.inputs.held_pools import find_standing_holds, with_held_pools
from joiner.planning.plan_policies import DEFAULT_POLICIES
from joiner.pools import NodeClaim
from joiner.pools.closed_pools import find_closed_pools
from joiner.pools.scheduled_pools import apply_schedules
from joiner.reporting.decision_summaries import summarize_proposal

logger = Logger()


UNDONE_WITHIN: Final = 60
"""Seconds after a deadline in which the execution that awaits replacements usually undoes the disruption."""


class DisruptionPlanning:
    """One proposal; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        ledger: Ledger,
        disruptions: Disruptions,
        recommendations: Recommendations,
        store: Store,
        ceilings: Ceilings,
        *,
        policies: PlanPolicies = DEFAULT_POLICIES,
    ) -> None:
        self._ledger = ledger
        self._recommendations = recommendations
        self._disruptions = disruptions
        self._store = store
        self._ceilings = ceilings
        self._policies = policies

    def answer(self, task: Task, keys: Mapping[str, str], now: datetime, lease_until: int) -> dict[str, Any]:
        """Return ``{"proposal", "actions", "replacements", "remaining", "pricePerHour", "lowerBoundPerHour",
        "messages"}``.

        `keys`: snapshot, classes, proposal (the earlier one; empty for the first), digest. Raises LeaseLost if it needs
        the lease and another execution holds it, and NoCatalogue before the first refresh.
        """
        at = int(now.timestamp())
        if task.lease_number:
            self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        first = not keys["proposal"]
        before = self._disruptions.last_proposal() if first else LastProposal()
        made, limits_end = self._propose(keys, now, before.reason)
        key = documents.put_proposal(self._store, task, made)
        if first:
            reason = made.actions[0].reason if made.actions else ""
            self._disruptions.note_proposal(
                before.followed_by(keys["digest"], at, reason=reason, limits_end=limits_end)
            )
        return {"proposal": key, **summarize_proposal(made)}

    def _propose(self, keys: Mapping[str, str], now: datetime, last_reason: str) -> tuple[Proposal, int]:
        """Return the proposal, and when the first of its limits ends (epoch seconds, 0 for none). `last_reason` is that
        of the last proposal; a second look needs none, because it has the first."""
        at = int(now.timestamp())
        marks = self._ledger.unavailable(at)
        offerings = [(one.capacity_type, one.instance_type, one.zone) for one in (mark.offering for mark in marks)]
        world = documents.get_snapshot(self._store, keys["snapshot"])
        resolved = documents.get_node_classes(self._store, keys["classes"])
        world = replace(world, pools=apply_schedules(world.pools, now)).with_launch_templates(resolved)
        holds = find_standing_holds(world, self._ledger.pool_holds(), at)
        catalogue = documents.get_catalogue(self._store)
        world = _without_uncounted_pools(with_held_pools(world, holds, at), catalogue, self._ceilings)
        inputs = WaveInputs(
            catalogue,
            frozenset(offerings),
            resolved,
            self._ceilings,
            self._history(world, now, last_reason),
            self._policies,
        )
        if keys["proposal"]:
            return propose_wave(world, inputs, now, documents.get_proposal(self._store, keys["proposal"])), 0
        fresh = propose_wave(world, inputs, now)
        ended = [(one, _time(mark.until)) for one, mark in zip(offerings, marks, strict=True)]
        ends = find_limiting_ends(ended, world, inputs.catalogue, inputs.history.recommended)
        end = find_first_end(world, inputs.history, [*ends, *(_time(hold.until) for hold in holds)], now)
        return fresh, int(end.timestamp()) if end is not None else 0

    def _history(self, world: Snapshot, now: datetime, last_reason: str) -> DisruptionHistory:
        """Return what is known of earlier proposals: the last pod event of each node, the disruptions under way, the
        pods that earlier ones moved, EC2's recommendations, and the pools that wait after a failure."""
        under_way, at = self._disruptions.all(), int(now.timestamp())
        draining = {claim.name for claim in world.claims if claim.deleting}
        moved = find_moves(self._disruptions.moves(at), under_way, draining, at)
        return DisruptionHistory(
            pod_events=find_pod_events(sweep_documents.get_pod_events(self._store), digest_snapshot(world), now),
            disrupting=frozenset(claim for record in under_way for claim in record.claims),
            evictions=count_evictions(moved),
            oldest_evictions=find_oldest_evictions(moved),
            moves=find_last_moves(moved),
            recommended=self._recommendations.since(),
            closed_pools=find_closed_pools(world.pools, world.classes, world.problems),
            back_off=self._ledger.disruption_back_offs(now),
            awaited=_find_overdue(under_way, {claim.name: claim.pool_key for claim in world.claims}, at),
            last_reason=last_reason,
        )


def _find_overdue(under_way: Iterable[DisruptionRecord], pool_of: Mapping[str, str], at: int) -> dict[str, datetime]:
    """Return until when overdue replacements are awaited, by the pools (keys) of the nodes and of the replacements. One
    that is past its deadline is awaited until its execution has undone it, and recorded the failure."""
    found: dict[str, int] = {}
    for record in under_way:
        if record.replacements and not record.requests and record.since + OVERDUE_SECONDS <= at:
            for pool in {*record.replacing_pools, *(pool_of[name] for name in record.claims if name in pool_of)}:
                found[pool] = max(record.deadline, at + UNDONE_WITHIN, found.get(pool, 0))
    return {pool: _time(deadline) for pool, deadline in found.items()}


def _without_uncounted_pools(world: Snapshot, catalogue: Catalogue, ceilings: Ceilings) -> Snapshot:
    """Return the snapshot in which no pool launches a node whose limits do not count an instance: the record of its
    launch cannot be read, so nobody knows its type, or the catalogue does not have it. A ceiling of the price is one of
    all pools.
    """
    entering = (claim for claim in world.claims if claim.name in world.entering)
    unknown = [claim for claim in entering if claim.instance_type not in catalogue.types]
    if not unknown:
        return world
    own = ceilings.price_per_hour is None
    pools = [claim.pool_key for claim in unknown] if own else [pool.key for pool in world.pools]
    why = f"{_describe_types(unknown)}, so limits cannot count it"
    return replace(world, closed_pools={**world.closed_pools, **dict.fromkeys(pools, why)})


def _describe_types(unknown: Iterable[NodeClaim]) -> str:
    """Return why the instance types of these claims are not known."""
    claims: dict[str, list[str]] = {}
    for claim in unknown:
        claims.setdefault(claim.instance_type, []).append(claim.name)
    return " and ".join(
        f"the catalogue does not have {kind}, the instance type of {', '.join(sorted(found))}"
        if kind
        else f"no record shows the instance type of {', '.join(sorted(found))}"
        for kind, found in sorted(claims.items())
    )


def _time(epoch: int) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    planning = DisruptionPlanning(
        environment.ledger(),
        environment.disruptions(),
        environment.recommendations(),
        environment.store(),
        environment.ceilings(),
        policies=environment.policies(),
    )
    keys = {name: str(event.get(name) or "") for name in ("snapshot", "classes", "proposal", "digest")}
    answer = planning.answer(task, keys, now, environment.lease_end(context, now))
    logger.info("proposed disruption", **answer)
    return answer
