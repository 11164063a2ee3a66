"""The progress of a launched claim towards a node that takes pods, and when the claim is given up.

A claim that is given up gets a condition with a reason of `joiner.lifecycle.failed_claims`, and its pods are planned
again.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from joiner.cluster import Node
from joiner.lifecycle import node_deadlines
from joiner.lifecycle.failed_claims import INITIALIZATION_TIMEOUT, NODE_GONE, REGISTRATION_TIMEOUT, failure_reason
from joiner.lifecycle.initialization import (
    find_device_remedy,
    is_ephemeral,
    is_initialized,
    missing_device,
    missing_for_initialization,
    remaining_startup_taint,
)
from joiner.lifecycle.registration import ClaimAndNode
from joiner.pools import NodeClaim
from joiner.pools.timestamps import format_timestamp

MULTIPLE_NODES: Final = "MultipleNodesFound"
RESOURCE_NOT_REGISTERED: Final = "ResourceNotRegistered"
STARTUP_TAINTS_EXIST: Final = "StartupTaintsExist"
KNOWN_EPHEMERAL_TAINTS_EXIST: Final = "KnownEphemeralTaintsExist"
CONDITION_OF_TROUBLE: Final = {
    MULTIPLE_NODES: "Registered",
    RESOURCE_NOT_REGISTERED: "Initialized",
    STARTUP_TAINTS_EXIST: "Initialized",
    KNOWN_EPHEMERAL_TAINTS_EXIST: "Initialized",
}
"""Trouble -> the condition that is Unknown with this reason, unless it is True. The reasons are those of Karpenter."""

Stage = Literal["waiting", "registered", "ready", "initialized", "failed"]


@dataclass(frozen=True, slots=True)
class RegistrationProgress:
    """The stage of a claim, and the reason as a log line.

    `ready` means that the node may be filled and opened now. `failure` is the reason of the condition with which the
    claim is given up; empty if it is not, or was before. `trouble` is the reason of the condition of a claim that still
    waits, if its node will probably not join: its message is then the cause with the remedy.
    """

    stage: Stage
    message: str
    failure: str = ""
    trouble: str = ""


def assess_match(match: ClaimAndNode) -> Node | RegistrationProgress:
    """Return the node to register for the claim, or the progress of a claim whose node cannot be registered."""
    claim, node = match.claim, match.node
    if match.others:
        others = ", ".join(match.others)
        message = f"several nodes have the provider id of its instance: {others}. Delete those that are not its own"
        return RegistrationProgress("waiting", message, trouble=MULTIPLE_NODES)
    if node is None:
        return _assess_without_node(claim)
    if node.deletion:
        return RegistrationProgress("waiting", f"its node {node.name} is being deleted", NODE_GONE)
    return node


def _assess_without_node(claim: NodeClaim) -> RegistrationProgress:
    if reason := failure_reason(claim):
        return RegistrationProgress("failed", f"was given up: {reason}")
    if claim.registered:
        return RegistrationProgress("waiting", f"its node {claim.node_name} is gone", NODE_GONE)
    deadline = node_deadlines.registration_deadline(claim)
    until = f", it may join until {format_timestamp(deadline)}" if deadline else ""
    return RegistrationProgress("waiting", f"instance {claim.instance_id} has not joined yet{until}")


def assess_registered(claim: NodeClaim, node: Node) -> RegistrationProgress:
    """Return the progress of a claim whose node is registered."""
    if is_initialized(node) and claim.initialized:
        return RegistrationProgress("initialized", "was initialized before")
    if not is_initialized(node) and (missing := missing_for_initialization(claim, node)):
        return _assess_ready(claim, node) if node.ready else RegistrationProgress("registered", missing)
    return RegistrationProgress("ready", "may take pods")


def _assess_ready(claim: NodeClaim, node: Node) -> RegistrationProgress:
    """Return the progress of a claim whose node is Ready, and waits for a taint to be removed or for a device."""
    if taint := remaining_startup_taint(claim, node):
        message = f"has the startup taint {taint}: what removes this taint must run and tolerate it"
        trouble = STARTUP_TAINTS_EXIST
    elif taint := next(filter(is_ephemeral, node.taints), None):
        message = f"has the taint {taint}: what removes this taint must run"
        trouble = KNOWN_EPHEMERAL_TAINTS_EXIST
    else:
        device, trouble = missing_device(claim, node), RESOURCE_NOT_REGISTERED
        message = f"has not registered {device}: {find_device_remedy(device)}"
    return RegistrationProgress("registered", f"node {node.name} is Ready and {message}", trouble=trouble)


def assess_deadlines(claim: NodeClaim, message: str, now: datetime) -> RegistrationProgress | None:
    """Return why a claim that still waits is given up now; None if its deadlines are not over.

    `message` is what its node waits for.
    """
    if node_deadlines.registration_timed_out(claim, now):
        reason = f"no node joined in {node_deadlines.REGISTRATION_MINUTES} minutes"
        return RegistrationProgress("waiting", reason, REGISTRATION_TIMEOUT)
    if node_deadlines.initialization_timed_out(claim, now):
        return RegistrationProgress("waiting", f"its node does not take pods: {message}", INITIALIZATION_TIMEOUT)
    return None
