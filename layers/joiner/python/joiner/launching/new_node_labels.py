"""The labels with which a new node registers. Registration sets the others, once the node has joined.

Source: Kubernetes, "Using Node Authorization", NodeRestriction.
"""

from joiner import names
from joiner.pools import NodeClaim, NodePool
from joiner.pools.label_rules import OF_KUBERNETES, in_domain


def select_node_labels(claim: NodeClaim, pool: NodePool) -> dict[str, str]:
    """Return the labels that the kubelet sets on its own node.

    Without labels that NodeRestriction forbids (registration sets them) and labels that only the launched instance
    decides.
    """
    declared = {key: value for key, value in claim.labels.items() if key in pool.labels or key in names.OURS}
    return {key: value for key, value in declared.items() if not in_domain(key, OF_KUBERNETES)} | {
        names.DO_NOT_SYNC_TAINTS: "true"
    }
