"""Events of nodes that join: on the node, on its claim, and on the pods that are placed on it."""

from joiner.cluster import Node, Pod
from joiner.lifecycle.failed_claims import INITIALIZATION_TIMEOUT, NODE_GONE, REGISTRATION_TIMEOUT
from joiner.lifecycle.node_deadlines import INITIALIZATION_MINUTES, REGISTRATION_MINUTES
from joiner.pools import NodeClaim
from joiner.pools.pool_holds import OF_REPLICAS, PoolHold, describe_end
from joiner.reporting.events import Event, Subject


def report_registered(claim: NodeClaim, node: Node) -> list[Event]:
    """Return the events of a node that registered."""
    shape = f"{claim.instance_type} in {claim.zone}, {claim.capacity_type}"
    return [
        Event(Subject.node(node), "Registered", "Register", f"Joined to {claim.kind} {claim.name} ({shape})"),
        Event(Subject.claim(claim), "Registered", "Register", f"Node {node.name} joined"),
    ]


def report_missing_taint(claim: NodeClaim, node: Node) -> Event:
    """Return the event of a node that joined without the registration taint.

    It accepted pods before registration, so its user data is not the text that Joiner wrote.
    """
    note = (
        f"Node {node.name} joined without the taint karpenter.sh/unregistered: pods may have come before it was ready"
    )
    return Event(Subject.claim(claim), "UnregisteredTaintMissing", "Register", note, "Warning")


def report_trouble(claim: NodeClaim, trouble: str, cause: str) -> Event:
    """Return the event of a claim whose node will probably not join; `trouble` is the reason of its condition."""
    return Event(Subject.claim(claim), trouble, "Register", cause, "Warning")


def report_initialized(claim: NodeClaim, node: Node) -> list[Event]:
    """Return the events of a node that is ready for pods."""
    return [
        Event(Subject.node(node), "Initialized", "Initialize", f"Ready for pods, for {claim.kind} {claim.name}"),
        Event(Subject.claim(claim), "Initialized", "Initialize", f"Node {node.name} is ready for pods"),
    ]


def report_placed(pod: Pod, node: Node, claim: NodeClaim) -> Event:
    """Return the event of a pod that was bound to a node launched for it, or for pods of its class."""
    note = (
        f"Placed on {node.name}, which was launched for pods like it ({claim.instance_type} in "
        f"{claim.zone}, {claim.capacity_type})"
    )
    return Event(Subject.pod(pod), "Scheduled", "Binding", note, owner=Subject.owner_of(pod))


def report_failure(claim: NodeClaim, reason: str, missing: str = "") -> Event:
    """Return the event of a claim that is given up.

    `reason` is one of `joiner.lifecycle.failed_claims`, `missing` is what its node waits for, empty if that is unknown.
    """
    if reason == REGISTRATION_TIMEOUT:
        return report_registration_timeout(claim, missing)
    if reason == INITIALIZATION_TIMEOUT:
        return report_initialization_timeout(claim, missing)
    return report_node_gone(claim)


def describe_hold(hold: PoolHold) -> str:
    """Return the sentence about the hold of the claim's pool, for the event of a claim that is given up."""
    if hold.class_key == OF_REPLICAS:
        pods = "to replace it"
    else:
        pods = f"for its pods that request {hold.device}" if hold.device else "for its pods"
    return f". {hold.pool} launches no other node {pods} until {describe_end(hold.until)}"


def report_registration_timeout(claim: NodeClaim, cause: str = "") -> Event:
    """Return the event of a node that did not join in time; `cause` is empty if it is unknown."""
    usual = (
        "Read its console output: usual causes are the user data, the access entry of the node role, and the network "
        "path to the API server"
    )
    late = f"Instance {claim.instance_id} has not joined the cluster in {REGISTRATION_MINUTES} minutes"
    note = f"{late}. {cause or usual}"
    return Event(Subject.claim(claim), REGISTRATION_TIMEOUT, "Register", note, "Warning")


def report_initialization_timeout(claim: NodeClaim, missing: str) -> Event:
    """Return the event of a node that registered and was not ready for pods in time; `missing` is the reason."""
    note = (
        f"Node {claim.node_name} has not become ready for pods in {INITIALIZATION_MINUTES} minutes: {missing}. "
        "Check the node's conditions and taints, and the pods of its DaemonSets (network plug-in, device plug-ins, "
        "agents that remove startup taints)"
    )
    return Event(Subject.claim(claim), INITIALIZATION_TIMEOUT, "Initialize", note, "Warning")


def report_node_gone(claim: NodeClaim) -> Event:
    """Return the event of a node that registered and was deleted before it was ready for pods."""
    instance = claim.instance_id
    note = (
        f"Node {claim.node_name} was deleted before it was ready for pods. Check the state of instance {instance} "
        f"(spot interruption, terminated)"
    )
    return Event(Subject.claim(claim), NODE_GONE, "Register", note, "Warning")


def report_rebuilt(claim: NodeClaim) -> Event:
    """Return the event of a claim that was created again for its running node."""
    note = (
        f"Node {claim.node_name} of the running instance {claim.instance_id} had no claim; this claim was rebuilt from "
        "the node and its pool"
    )
    return Event(Subject.claim(claim), "ClaimRebuilt", "Rebuild", note, "Warning")
