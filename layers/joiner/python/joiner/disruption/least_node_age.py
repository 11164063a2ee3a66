"""From what age a node may be consolidated.

A node that DISRUPT has launched is the result of a proposal. The next proposals, which are made while the pods of the
wave still move, would rank it among the other nodes again, and could replace it a minute after its launch. So it is
left alone for ten minutes, unless it becomes empty. A pool may set the least age of all of its nodes instead. The age
of such a node counts from its initialization, because pods move to it only then, however long its boot took. The age of
others counts from their launch.
"""

from datetime import datetime, timedelta
from typing import Final

from joiner import names
from joiner.pools import NodeClaim, NodePool
from joiner.pools.consolidation_limits import LEAST_AGE_OF_REPLACEMENTS

DISRUPT_EXECUTIONS: Final = "disrupt-"
"""How the names of executions of DISRUPT begin."""


def is_old_enough(claim: NodeClaim, pool: NodePool, now: datetime) -> bool:
    """Return whether the node of this claim may be consolidated at its age."""
    least = pool.disruption.limits.least_node_age
    launched = claim.annotations.get(names.EXECUTION, "").startswith(DISRUPT_EXECUTIONS)
    if least is None and not launched:
        return True
    initialized = claim.conditions["Initialized"]
    since = initialized.since if launched and initialized.true else None
    began = since or claim.created
    return began is None or now - began >= timedelta(seconds=LEAST_AGE_OF_REPLACEMENTS if least is None else least)


def why_too_young(pool: NodePool) -> str:
    """Return why a node of the pool that is not old enough stays. The text does not depend on the time, so that the
    event of one node is repeated and not written anew."""
    least = pool.disruption.limits.least_node_age
    if least is not None:
        return f"it is younger than {names.LEAST_NODE_AGE} of {pool.key} ({least} s), and not empty"
    minutes = LEAST_AGE_OF_REPLACEMENTS // 60
    return f"a disruption launched it less than {minutes} minutes ago ({names.LEAST_NODE_AGE}), and it is not empty"
