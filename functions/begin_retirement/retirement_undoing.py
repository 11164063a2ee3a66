"""Undo the steps of a retirement that does not begin. An execution that crashed may have done some of them before.

DISRUPT closes nodes with the same taint, and another reason may have been recorded meanwhile: both are read first.
"""

from datetime import datetime
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters.call_failures import CALL_FAILURES
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.item_reading import UnreadableRecord
from joiner.adapters.kube import Kube
from joiner.adapters.kube_nodes import get_same_node, patch_node
from joiner.adapters.retirements import Retirements
from joiner.cluster import Node
from joiner.lifecycle.interrupted_claims import find_binding_reason
from joiner.lifecycle.node_closing import include_patch, untaint_patch
from joiner.lifecycle.retirement import OF_A_DISRUPTION, RetirementReason
from joiner.lifecycle.retirement_candidates import RetirementCandidate
from joiner.pools import NodeClaim

logger = Logger(child=True)


class RetirementUndoing:
    """Opens the nodes of claims that are not retired, and releases the claims."""

    def __init__(self, kube: Kube, retirements: Retirements, disruptions: Disruptions) -> None:
        self._kube = kube
        self._retirements = retirements
        self._disruptions = disruptions

    def take_back(self, candidate: RetirementCandidate, owner: str, now: datetime) -> RetirementReason | None:
        """Undo a retirement, or return the reason for which the claim must be retired all the same.

        A voluntary reason that a crashed execution left is forgotten: who finds it again requests it again. Other
        reasons are recorded by those who learn of them once, and stay. Who records one while the claim has an owner
        leaves it to the owner; so they are read again after the claim is released.
        """
        if (binding := self._find_binding_reason(candidate, now)) is not None:
            return binding
        claim = candidate.claim
        if claim is not None and not claim.deleting and candidate.node is not None:
            node = get_same_node(self._kube, candidate.node)
            if node is not None and not node.deletion:
                patch_node(self._kube, node, partial(self._find_patch, candidate, claim))
        reason = str(candidate.request.reason)
        self._retirements.give_up(candidate.request.claim, owner, reason, unowned=candidate.voluntary)
        return self._find_binding_reason(candidate, now)

    def include(self, candidate: RetirementCandidate) -> None:
        """Give the node of a voluntary retirement that could not begin back to load balancers: its pods stay until the
        next request, which may be long after."""
        if not candidate.voluntary or candidate.node is None:
            return
        try:
            node = get_same_node(self._kube, candidate.node)
            if node is not None:
                patch_node(self._kube, node, include_patch)
        except CALL_FAILURES as failure:
            logger.warning("a node stays out of load balancers", node=candidate.node.name, reason=str(failure))

    def _find_binding_reason(self, candidate: RetirementCandidate, now: datetime) -> RetirementReason | None:
        if not candidate.voluntary or candidate.claim is None:
            return None
        try:
            noted = self._retirements.of(candidate.request.claim)
        except UnreadableRecord as unreadable:
            logger.error("%s; the claim stays", unreadable)
            return None
        return find_binding_reason(noted, candidate.claim, now) if noted is not None else None

    def _find_patch(self, candidate: RetirementCandidate, claim: NodeClaim, node: Node) -> dict[str, Any] | None:
        """Return the patch that opens a node. The taint of a disruption under way stays: DISRUPT removes it.

        DISRUPT writes its record before it taints the node, and `node` was read before the records are. A node whose
        record does not name its claim, because it cannot be read, is opened: no disruption goes on with it.
        """
        if candidate.request.reason in OF_A_DISRUPTION:  # DISRUPT ends a disruption whose nodes were opened
            return untaint_patch(node)
        disrupted = any(claim.name in record.claims for record in self._disruptions.all())
        return include_patch(node) if disrupted else untaint_patch(node)
