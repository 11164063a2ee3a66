"""From what age a node may be consolidated.

A node that DISRUPT has launched is the result of a proposal. The next proposals, which are made while the pods of the
wave still move, would rank it among the other nodes again, and could replace it a minute after its launch. So it is
left alone for ten minutes, unless it becomes empty. A pool may set the least age of all of its nodes instead.
"""

from datetime import datetime, timedelta
from typing import Final

from joiner import names
from joiner.pools import NodeClaim, NodePool

DISRUPT_EXECUTIONS: Final = "disrupt-"
"""How the names of executions of DISRUPT begin."""
LEAST_AGE_OF_REPLACEMENTS: Final = timedelta(minutes=10)


def is_old_enough(claim: NodeClaim, pool: NodePool, now: datetime) -> bool:
    """Return whether the node of this claim may be consolidated at its age."""
    if claim.created is None:
        return True
    least = pool.disruption.limits.least_node_age
    if least is not None:
        return now - claim.created >= timedelta(seconds=least)
    launched = claim.annotations.get(names.EXECUTION, "").startswith(DISRUPT_EXECUTIONS)
    return not launched or now - claim.created >= LEAST_AGE_OF_REPLACEMENTS


def why_too_young(pool: NodePool) -> str:
    """Return why a node of the pool that is not old enough stays. The text does not depend on the time, so that the
    event of one node is repeated and not written anew."""
    least = pool.disruption.limits.least_node_age
    if least is not None:
        return f"it is younger than {names.LEAST_NODE_AGE} of {pool.key} ({least} s), and not empty"
    minutes = LEAST_AGE_OF_REPLACEMENTS // timedelta(minutes=1)
    return f"a disruption launched it less than {minutes} minutes ago ({names.LEAST_NODE_AGE}), and it is not empty"
