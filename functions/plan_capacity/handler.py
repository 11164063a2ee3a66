"""Plan capacity: make a plan of the snapshot, the node classes and the catalogue. It calls only the bucket and the
ledger.

`joiner.planning.plan`, a pure function, makes the decision. The plan is stored in the bucket with all its reasons; the
state machine passes on a short summary.
"""

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment
from joiner.adapters.ledger import Ledger
from joiner.adapters.payload import Task
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.store import Store
from joiner.adapters.warm_up import returns_at_warm_up
from joiner.lifecycle.buffer_planning import BUFFER_KEYS
from joiner.lifecycle.planning_back_off import PendingPodClass, back_off_after_plan, find_pools_short_of_nodes
from joiner.planning import Ceilings, Plan, PlanPolicies, PlanTolerances, Snapshot
from joiner.planning.effort import DEFAULT_STEPS, Effort
from joiner.planning.inputs.claim_pools import with_claim_pools
from joiner.planning.inputs.held_pools import with_held_pools
from joiner.planning.output.unplanned_classes import find_moving_classes, find_unplaceable_classes
from joiner.planning.plan_policies import DEFAULT_POLICIES, DEFAULT_TOLERANCES
from joiner.planning.planner import Planner
from joiner.pools.scheduled_pools import apply_schedules
from joiner.reporting.decision_summaries import summarize_plan
from joiner.reporting.shortage_remedies import add_remedies

logger = Logger()
environment.prepare_clients("dynamodb", "s3")

EFFORT: Final = Effort(seconds=20.0, steps=DEFAULT_STEPS, clock=time.perf_counter, backstop=True)
"""The steps of a search without a deadline. The clock ends a search that would outlast the function."""
PLANNER: Final = Planner()
"""It keeps compiled offers for the next invocation of this environment."""


class CapacityPlanning:
    """One plan of one round; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        ledger: Ledger,
        answers: PlanningBackOffs,
        store: Store,
        ceilings: Ceilings,
        tolerances: PlanTolerances | None = DEFAULT_TOLERANCES,
        *,
        planner: Planner = PLANNER,
        policies: PlanPolicies = DEFAULT_POLICIES,
        effort: Effort = EFFORT,
    ) -> None:
        self._ledger = ledger
        self._answers = answers
        self._store = store
        self._ceilings = ceilings
        self._tolerances = tolerances
        self._planner = planner
        self._policies = policies
        self._effort = effort

    def answer(self, task: Task, snapshot: str, classes: str, now: datetime, lease_until: int) -> dict[str, Any]:
        """Return the plan's key and its summary.

        Raises LeaseLost if another execution holds the lease now, and NoCatalogue before the first refresh.
        """
        at = int(now.timestamp())
        # The documents of this execution are written once, and only the lease's holder writes back-offs. Meanwhile
        # refresh_catalogue may replace the whole catalogue, and surveys and interruptions may mark offerings: either is
        # as right, and EC2 refuses what it does not have.
        with ThreadPoolExecutor() as together:
            snapshot_read = together.submit(documents.get_snapshot_to_plan, self._store, snapshot)
            classes_read = together.submit(documents.get_node_classes, self._store, classes)
            catalogue_read = together.submit(documents.get_catalogue, self._store)
            marks_read = together.submit(self._ledger.unavailable, at)
            before_read = together.submit(self._answers.all)
            held_read = together.submit(self._ledger.pool_holds)
            self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        (read, asked), marks, before = snapshot_read.result(), marks_read.result(), before_read.result()
        short = [mark.offering for mark in marks]
        world = with_claim_pools(read, task.lease_number)
        world = replace(world, pools=apply_schedules(world.pools, now)).with_launch_templates(classes_read.result())
        world = with_held_pools(world, held_read.result(), at)
        made = self._planner.plan(
            world,
            catalogue_read.result(),
            frozenset((offering.capacity_type, offering.instance_type, offering.zone) for offering in short),
            classes=classes_read.result(),
            ceilings=self._ceilings,
            tolerances=self._tolerances,
            policies=self._policies,
            effort=self._effort,
        )
        for warning in made.warnings:
            logger.warning(warning)
        made = add_remedies(made, {(mark.offering.capacity_type, mark.reason) for mark in marks})
        answer = {"plan": documents.put_plan(self._store, task, made), **summarize_plan(made)}
        after = back_off_after_plan(asked, _settled(made, world, asked), before, at)
        if after != before:
            self._answers.put(after, at)
        return answer


def _settled(made: Plan, world: Snapshot, asked: Mapping[str, PendingPodClass]) -> set[str]:
    """Return the classes that the next rounds skip until something changes or their back-off ends.

    These are pods that stay pending, and pods that must leave their nodes and fit on other nodes. Each plan is for all
    CapacityBuffers: nodes that are launched for them change their description.
    """
    short = find_pools_short_of_nodes(
        asked, (pool.key for pool in world.pools), Counter(node.pool for node in made.nodes)
    )
    return find_unplaceable_classes(made, world) | find_moving_classes(made, world) | short | set(BUFFER_KEYS)


@returns_at_warm_up
@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    planning = CapacityPlanning(
        environment.ledger(),
        environment.planning_back_offs(),
        environment.store(),
        environment.ceilings(),
        environment.tolerances(),
        policies=environment.policies(),
    )
    answer = planning.answer(task, event["snapshot"], event["classes"], now, environment.lease_end(context, now))
    logger.info("planned capacity", **answer)
    return answer
