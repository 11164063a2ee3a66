"""The taints with which a new node registers: those of its claim, and those that keep pods away until it is filled."""

from typing import Final

from joiner import names
from joiner.cluster import Taint
from joiner.cluster.resources import KUBELET_RESOURCES
from joiner.pools import NodeClaim, NodePool

REGISTRATION_TAINTS: Final = (Taint(names.UNREGISTERED, "NoExecute"), Taint(names.FILLING, "NoSchedule"))


def list_node_taints(claim: NodeClaim, pool: NodePool) -> tuple[Taint, ...]:
    """Return all taints of the node of a claim: its taints, its startup taints, and those of the registration."""
    return (*claim.taints, *claim.startup_taints, *choose_registration_taints(claim, pool))


def choose_registration_taints(claim: NodeClaim, pool: NodePool) -> tuple[Taint, ...]:
    """Return the taints that keep pods away until the node is registered and the pods planned for it are bound.

    The second taint is omitted for a pool whose annotation ``joiner.dev/placing`` is ``schedule``. It is also omitted
    for a node that waits for its own daemons: a daemon set that does not tolerate it could not install its device
    plugin, or the agent that removes a start-up taint.
    """
    placing = pool.own_annotations.get(names.PLACING) or pool.annotations.get(names.PLACING)
    devices = any(amount > 0 for name, amount in claim.requests.items() if name not in KUBELET_RESOURCES)
    return REGISTRATION_TAINTS[:1] if placing == "schedule" or devices or claim.startup_taints else REGISTRATION_TAINTS
