"""Find nodes that have been unhealthy for longer than their pool tolerates.

Source: Karpenter, core `pkg/controllers/node/health`. The repair is forceful: budgets, PodDisruptionBudgets and
annotations against disruption do not count. It is blocked while more than a fifth of a pool's nodes (rounded up) are
unhealthy, because the cause is then probably outside the nodes. Karpenter also counts nodes that boot; here a node
counts once it was initialized, or after the tolerated time.
"""

from collections.abc import Iterator, Mapping

from joiner.cluster import Node
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.node_health import (
    UNHEALTHY_PERCENT,
    are_too_many_unhealthy,
    describe_condition,
    find_intolerable_condition,
    is_bad,
)
from joiner.lifecycle.retirement import RetirementReason
from joiner.pools import NodeClaim, NodePool
from joiner.pools.standalone_claims import UNOWNED


def find_unhealthy_nodes(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim whose node is to be repaired."""
    nodes = survey.node_of()
    blocked = find_blocked_pools(survey)
    found = []
    for claim, pool in _repairable(survey, nodes):
        condition = find_intolerable_condition(nodes[claim.key], pool, survey.now)
        if condition is None or claim.deleting or nodes[claim.key].retiring or pool.key in blocked:
            continue
        message = f"node {nodes[claim.key].name} is unhealthy: {describe_condition(condition)}"
        found.append(DueRetirement(claim, RetirementReason.UNHEALTHY, message))
    return found


def find_blocked_pools(survey: ClusterSurvey) -> Mapping[str, str]:
    """Return the pools whose unhealthy nodes are not repaired, because they are too many: the message by pool key."""
    nodes = survey.node_of()
    total: dict[str, int] = {}
    unhealthy: dict[str, int] = {}
    due: set[str] = set()
    for claim, pool in _repairable(survey, nodes):
        node = nodes[claim.key]
        is_due = find_intolerable_condition(node, pool, survey.now) is not None
        total[pool.key] = total.get(pool.key, 0) + 1
        unhealthy[pool.key] = unhealthy.get(pool.key, 0) + (is_due or (claim.initialized and is_bad(node, pool)))
        if is_due:
            due.add(pool.key)
    return {
        key: f"{unhealthy[key]} of {total[key]} nodes are unhealthy, more than {UNHEALTHY_PERCENT} %: none is repaired"
        for key in sorted(due)
        if are_too_many_unhealthy(unhealthy[key], total[key])
    }


def _repairable(survey: ClusterSurvey, nodes: Mapping[str, Node]) -> Iterator[tuple[NodeClaim, NodePool]]:
    """Yield the claims with a node and a pool that repairs its nodes. Claims without a pool count as one pool."""
    pools = {**survey.pool_of(), "": UNOWNED}
    for claim in survey.claims:
        pool = pools.get(claim.pool_key)
        if claim.key in nodes and pool is not None and pool.disruption.settings.repair.enabled:
            yield claim, pool


UNHEALTHY = RetirementCheck("unhealthy", find_unhealthy_nodes)
