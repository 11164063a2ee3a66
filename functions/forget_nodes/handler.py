"""Forget nodes: delete the objects and records of nodes whose instances are gone.

The order of the steps allows the function to stop at any point: the claim's own finalizer is removed last. While the
claim exists, the sweep finds it deleted and retires it again, and that retirement does only the steps that are left. So
the record of the retirement is deleted before the finalizer, and written again if the API server refuses to remove it:
the execution keeps the claim, and no other one starts for it.

A user may create a claim with the same name as soon as the old one is gone. Nothing of such a claim is changed, also if
this function is called again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import environment, metrics
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.call_failures import CALL_FAILURES, is_lasting
from joiner.adapters.finalizers import delete_and_release
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import delete_claim, get_claim, list_claims
from joiner.adapters.kube_classes import release_classes
from joiner.adapters.kube_errors import Conflict, Forbidden, KubeError, NotFound
from joiner.adapters.kube_events import publish_events
from joiner.adapters.kube_nodes import delete_pod, list_pods_on, patch_node, read_node
from joiner.adapters.kube_pools import write_usage
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Execution
from joiner.adapters.retirements import Retirements
from joiner.cluster import Node
from joiner.lifecycle.node_closing import taint_patch
from joiner.lifecycle.retirement import RetirementStage, RetiringClaim
from joiner.names import TERMINATION_FINALIZER
from joiner.pools import NodeClaim
from joiner.reporting import retirement_events
from joiner.reporting.events import Event

logger = Logger()


NO_TIME: Final = "no time was left in this pass"


class OutOfTime(KubeError):
    """The function ran out of time; the next pass continues."""


@dataclass(frozen=True, slots=True)
class ForgottenNode:
    """The result for one claim, which is not forgotten if the API server does not release it; and the events."""

    retiring: RetiringClaim
    events: tuple[Event, ...] = ()


class NodeRemoval:
    """One removal of nodes; its dependencies are arguments, which tests replace."""

    def __init__(self, kube: Kube, ledger: Ledger, retirements: Retirements, time_left: TimeLeft = UNBOUNDED) -> None:
        self._time_left = time_left
        self._kube = kube
        self._ledger = ledger
        self._retirements = retirements

    def answer(self, execution: Execution, entries: Sequence[RetiringClaim], now: datetime) -> dict[str, Any]:
        """Return ``{"claims", "forgotten"}``: all claims with their stages.

        A claim whose removal failed gives the reason, and the next pass tries it again.
        """
        gone = [one for one in entries if one.stage is RetirementStage.TERMINATED]
        self._retirements.see((one.claim for one in gone), execution.arn, int(now.timestamp()))
        nodes = self._kube.list(kinds.NODES) if gone else []
        answers, left = call_each_in_time(
            gone, lambda one: self._forget(one, nodes, execution, now), CALL_FAILURES, self._time_left
        )
        done = {
            one.claim: answer.retiring if isinstance(answer, ForgottenNode) else one.at(one.stage, str(answer))
            for one, answer in answers
        }
        self._publish([answer for _, answer in answers if isinstance(answer, ForgottenNode)], execution, now)
        done |= {one.claim: one.at(one.stage, NO_TIME) for one in left}
        forgotten = [one.claim for one in done.values() if one.stage is RetirementStage.FORGOTTEN]
        if forgotten:
            self._update_pools()
        return {"claims": [done.get(one.claim, one).to_json() for one in entries], "forgotten": len(forgotten)}

    def _publish(self, forgotten: Sequence[ForgottenNode], execution: Execution, now: datetime) -> None:
        events = [event for each in forgotten for event in each.events]
        for unwritten in publish_events(self._kube, events, at=now, instance=execution.name):
            logger.warning("an event could not be written", reason=unwritten)

    def _update_pools(self) -> None:
        """Write the usage of the pools, and release deleted classes. What fails is left to the next scale-up: an error
        would have the whole function called again.
        """
        try:
            claims = list_claims(self._kube).claims
            for trouble in write_usage(self._kube, claims):
                logger.warning("a pool's status could not be written", reason=trouble)
            for trouble in release_classes(self._kube, claims):
                logger.warning("the finalizer of a class could not be removed", reason=trouble)
        except KubeError as reason:
            logger.warning("pools and classes could not be updated", reason=str(reason))

    def _forget(
        self, one: RetiringClaim, nodes: Sequence[Mapping[str, Any]], execution: Execution, now: datetime
    ) -> ForgottenNode:
        self._remove_nodes(one, nodes)
        claim, replaced = self._find_claim(one)
        if not replaced:
            self._ledger.unassign(one.claim)
        if one.instance:
            self._ledger.forget_instance(one.instance)
        self._retirements.forget(one.claim, execution.arn, unowned=not replaced)
        if claim is not None and (refusal := self._release(claim)) is not None:
            return self._keep(claim, one, refusal, execution, now)
        logger.info("forgotten", nodeclaim=one.claim, node=one.node, instance=one.instance, reason=str(one.reason))
        why = f"instance {one.instance} and node {one.node} are gone".strip()
        events = retirement_events.report_kept_by_others(claim) if claim is not None else []
        return ForgottenNode(one.at(RetirementStage.FORGOTTEN, why), tuple(events))

    def _find_claim(self, one: RetiringClaim) -> tuple[NodeClaim | None, bool]:
        """Return the claim, None if it is gone; and whether another claim has its name now."""
        if not one.kind:  # it was gone before
            return None, any(self._exists(kind, one.claim) for kind in (kinds.NODECLAIMS, kinds.MACHINES))
        claim = get_claim(self._kube, one.kind, one.claim)
        if claim is None or (claim.deleting and one.uid in ("", claim.uid)):
            return claim, False
        return None, True

    def _exists(self, kind: kinds.Kind, name: str) -> bool:
        try:
            self._kube.get(kind, name)
        except NotFound:
            return False
        return True

    def _release(self, claim: NodeClaim) -> KubeError | None:
        """Remove the claim's finalizer. Return the refusal of the API server; None if the claim is gone anyway."""
        try:
            delete_claim(self._kube, claim)
        except KubeError as refusal:
            there = get_claim(self._kube, claim.kind, claim.name)
            return refusal if there is not None and there.uid == claim.uid else None
        return None

    def _keep(
        self, claim: NodeClaim, one: RetiringClaim, refusal: KubeError, execution: Execution, now: datetime
    ) -> ForgottenNode:
        """Own the claim again, which the API server does not release: the next pass tries it again."""
        self._retirements.begin(
            one.claim,
            execution.arn,
            str(one.reason),
            int(now.timestamp()),
            instance=one.instance,
            ends_by=execution.ends_by,
        )
        logger.warning("a claim was not released", nodeclaim=one.claim, reason=str(refusal))
        events = (retirement_events.report_unreleased(claim, str(refusal)),) if is_lasting(refusal) else ()
        return ForgottenNode(one.at(one.stage, str(refusal)), events)

    def _remove_nodes(self, one: RetiringClaim, nodes: Sequence[Mapping[str, Any]]) -> None:
        found = [read_node(node) for node in nodes if _belongs(node, one)]
        # Some nodes joined late or were opened again: pods and Node are deleted only if the node is closed
        its = [node for node in found if _allowed(node, partial(patch_node, self._kube, node, taint_patch))]
        names = {node.name for node in its}
        if one.node and one.node not in {str(node["metadata"]["name"]) for node in nodes}:
            names.add(one.node)  # its Node is gone; a node of another instance with this name keeps its pods
        self._end_pods(names, one)
        for node in its:
            _allowed(node, partial(delete_and_release, self._kube, kinds.NODES, node.name, uid=node.uid))

    def _end_pods(self, nodes: Collection[str], one: RetiringClaim) -> None:
        """Delete the pods on nodes whose instance is gone, without a grace period, so that replacements start at once.

        A node of another instance may have taken the name since the nodes were listed. The node is therefore read again
        after the pods are listed, and no pod of another instance's node is deleted. A pod that cannot be deleted does
        not keep the node: the garbage collector of pods deletes the pods of a node that is gone.
        """
        on_nodes = list_pods_on(self._kube, nodes)
        pods = [
            pod["metadata"]
            for name, found in on_nodes.items()
            if len(found) and not self._is_taken(name, one)
            for pod in found
        ]

        def end(pod: Mapping[str, Any]) -> None:
            try:
                delete_pod(self._kube, pod["namespace"], pod["name"], uid=pod["uid"], grace=0)
            except (NotFound, Conflict):
                return

        answers, left = call_each_in_time(pods, end, KubeError, self._time_left)
        kept = [answer for _, answer in answers if isinstance(answer, KubeError)]
        if kept:
            logger.warning(
                "pods are left to the garbage collector of pods",
                nodes=sorted(nodes),
                pods=len(kept),
                reason=str(kept[0]),
            )
        if left:
            raise OutOfTime(f"{len(left)} pods of its node are still to be deleted: {NO_TIME}")

    def _is_taken(self, name: str, one: RetiringClaim) -> bool:
        """Return whether a node of this name belongs to another instance."""
        try:
            return not _belongs(self._kube.get(kinds.NODES, name), one)
        except NotFound:
            return False


def _allowed(node: Node, act: Callable[[], object]) -> bool:
    """Call `act` for a node whose instance is gone; return False if the cluster does not allow it.

    Such a node has no pool label, or has a label of a managed node group. The cloud controller manager deletes it,
    because its instance does not exist. Joiner's finalizer would block that deletion forever: then the error is raised,
    and the claim stays.
    """
    try:
        act()
    except Forbidden as reason:
        if TERMINATION_FINALIZER in node.finalizers:
            raise
        logger.warning(
            "a node is left to the cloud controller manager",
            node=node.name,
            instance=node.instance_id,
            reason=str(reason),
        )
        return False
    return True


def _belongs(node: Mapping[str, Any], one: RetiringClaim) -> bool:
    provider_id = str((node.get("spec") or {}).get("providerID") or "")
    return one.is_its_node(provider_id, str(node["metadata"]["name"]))


@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    task = environment.task(event)
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    forgetting = NodeRemoval(
        environment.kube(task.cluster), environment.ledger(), environment.retirements(), environment.time_left(context)
    )
    entries = [RetiringClaim.from_json(each) for each in event["claims"]]
    answer = forgetting.answer(task.execution, entries, environment.now())
    metrics.publish(task.cluster.name, {"NodesRetired": answer["forgotten"]})
    return answer
