"""Rebuild claims: create the missing claims of Joiner's nodes, so that these nodes are drained and counted.

Everything is read again first. Nothing is rebuilt if a claim exists by now, or if the node belongs to another instance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import environment, metrics
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import create_claim, get_claim, list_claims, write_status
from joiner.adapters.kube_errors import AlreadyExists, KubeError
from joiner.adapters.kube_events import publish_events
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Task
from joiner.cluster import Node
from joiner.lifecycle.claim_rebuilding import rebuilt_claim
from joiner.planning import Snapshot
from joiner.pools import NodeClaim, NodePool
from joiner.pools.node_pool import pool_key_of
from joiner.reporting.registration_events import report_rebuilt
from joiner.reporting.shortened_reasons import shortened

logger = Logger()

LEFT_SHOWN: Final = 20

Asked = Mapping[str, Any]
"""``{"instance", "node", "claim"}``: an instance, its node, and the claim of its launch, if known."""


class ClaimRebuilding:
    """One rebuilding; its dependencies are arguments, which tests replace."""

    def __init__(self, kube: Kube, time_left: TimeLeft = UNBOUNDED) -> None:
        self._time_left = time_left
        self._kube = kube

    def answer(self, task: Task, requests: Sequence[Asked], now: datetime) -> dict[str, Any]:
        """Return ``{"rebuilt": [claims], "left": [why]}``."""
        known = {claim.instance_id for claim in list_claims(self._kube).claims if claim.provider_id}
        lists = {kind.plural: self._kube.list(kind) for kind in (*kinds.POOLS, kinds.NODES)}
        world = Snapshot.from_lists(lists)
        nodes, pools = (
            {node.instance_id: node for node in world.nodes if node.provider_id},
            {pool.key: pool for pool in world.pools},
        )
        wanted = [
            (nodes[one["instance"]], str(one["claim"]))
            for one in requests
            if one["instance"] in nodes and one["instance"] not in known
        ]
        answers, late = call_each_in_time(
            wanted, lambda one: self._rebuild(*one, pools, task.execution.name, now), KubeError, self._time_left
        )
        rebuilt = [answer for _, answer in answers if isinstance(answer, NodeClaim)]
        left = [
            f"node {node.name}: {answer or 'its class is unknown'}"
            for (node, _), answer in answers
            if answer not in rebuilt
        ]
        left += [f"node {node.name}: no time was left; the next sweep finds it again" for node, _ in late]
        for claim in rebuilt:
            logger.warning(
                "a missing claim was created again",
                nodeclaim=claim.name,
                node=claim.node_name,
                instance=claim.instance_id,
            )
        for why in left:
            logger.error("a claim could not be rebuilt", reason=why)
        for unwritten in publish_events(self._kube, map(report_rebuilt, rebuilt), at=now, instance=task.execution.name):
            logger.warning("an event could not be written", reason=unwritten)
        return {"rebuilt": [claim.name for claim in rebuilt], "left": shortened(left, LEFT_SHOWN)}

    def _rebuild(
        self, node: Node, name: str, pools: Mapping[str, NodePool], execution: str, now: datetime
    ) -> NodeClaim | None:
        for called in (name, ""):
            claim = rebuilt_claim(node, pools.get(pool_key_of(node)), called, at=now, execution=execution)
            made = self._create(claim) if claim is not None else None
            if claim is not None and made is not None:
                return write_status(self._kube, replace(claim, uid=made.uid).rebased(made))
        return None

    def _create(self, claim: NodeClaim) -> NodeClaim | None:
        """Create the claim and return it; None if its name belongs to another instance.

        Then one claim was launched twice, and this is the second instance.
        """
        try:
            return create_claim(self._kube, claim)
        except AlreadyExists:
            standing = get_claim(self._kube, claim.kind, claim.name)
            return standing if standing is not None and standing.provider_id in ("", claim.provider_id) else None


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name)
    answer = ClaimRebuilding(environment.kube(task.cluster), environment.time_left(context)).answer(
        task, list(event["rebuild"]), environment.now()
    )
    metrics.publish(task.cluster.name, {"ClaimsRebuilt": len(answer["rebuilt"])})
    return answer
