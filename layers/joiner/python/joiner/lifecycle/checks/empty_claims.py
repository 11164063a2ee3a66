"""Find nodes that have been empty for the time that their pool sets, within the pool's disruption budgets.

A node of a pool that cannot launch another one stays, and so does a node with capacity for a CapacityBuffer.

Nodes that wait for the budget only are counted while it is about to allow more of them: the next sweep then runs
after seconds.

The ledger keeps the start of the emptiness between sweeps. If a node's time comes soon and before the next sweep, its
retirement is requested now for that time: it waits, and checks the node again before it begins.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from math import ceil
from typing import Final

from joiner.cluster import Node
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.emptiness import AHEAD, empty_for, keeps_empty_node, may_empty_nodes_go, settled_at
from joiner.lifecycle.failed_claims import failure_reason
from joiner.lifecycle.retirement import RetirementReason
from joiner.pools import NodeClaim, NodePool
from joiner.pools.disruption_budgets import count_remaining_disruptions

BEGUN_WITHIN: Final = timedelta(seconds=60)
"""A node whose retirement began earlier is held by something else, such as a PodDisruptionBudget: its place in the
budget is not expected soon."""


def empty_claims(survey: ClusterSurvey) -> list[NodeClaim]:
    """Return the claims whose nodes are empty now and may be retired for it; the start of the emptiness is recorded for
    these only.
    """
    pools, nodes, on_node = survey.pool_of(), survey.node_of(), survey.pods_of()
    found = []
    for claim in survey.claims:
        node, pool = nodes.get(claim.key), pools.get(claim.pool_key)
        if node is None or pool is None or pool.key in survey.closed_pools or not may_empty_nodes_go(pool):
            continue
        if keeps_empty_node(pool, node) or claim.name in survey.replacing:
            continue
        pods = on_node.get(node.name, ())
        staying = (
            claim.deleting or node.retiring or bool(failure_reason(claim) or survey.disturbance(claim, node, pods))
        )
        if (
            not staying
            and not (survey.buffered and claim.name in survey.buffered.claims)
            and settled_at(claim) is not None
            and survey.is_empty(node, pods)
        ):
            found.append(claim)
    return found


def find_empty_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each claim; the claim that has been empty for the longest time comes first."""
    pools, nodes = survey.pool_of(), survey.node_of()
    left: dict[str, int] = {}
    found = []
    for one in _due_claims(survey):
        pool = pools[one.claim.pool_key]
        if pool.key not in left:
            left[pool.key] = _may_go(pool, nodes, survey)
        if left[pool.key] > 0:
            left[pool.key] -= 1
            found.append(one)
    return found


def count_waiting_claims(survey: ClusterSurvey, going: Collection[str]) -> int:
    """Return how many nodes would be retired now if more were allowed at once, which they will be in seconds.

    `going` are names of claims whose retirement begins now. A budget allows more when an instance is terminated. Pools
    without a retirement that has just begun or that begins now are not counted: their nodes wait for the next sweep.
    """
    pools = {claim.pool_key for claim in survey.claims if claim.name in going or _has_just_begun(claim, survey)}
    return sum(
        not one.not_before and one.claim.name not in going and one.claim.pool_key in pools
        for one in _due_claims(survey)
    )


def _has_just_begun(claim: NodeClaim, survey: ClusterSurvey) -> bool:
    """Return whether the node leaves since some seconds ago and still counts against the budgets."""
    if claim.conditions.true("InstanceTerminating"):
        return False
    return _was_asked_for(claim, survey) or (claim.deletion is not None and survey.now - claim.deletion < BEGUN_WITHIN)


def _due_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return the claims that have been empty long enough, or will be before the next sweep."""
    pools, nodes = survey.pool_of(), survey.node_of()
    found = []
    for claim in sorted(
        empty_claims(survey), key=lambda each: (survey.empty_since.get(each.name, survey.at), each.name)
    ):
        pool = pools[claim.pool_key]
        if survey.buffered and survey.buffered.planned_at < survey.empty_since.get(claim.name, survey.at):
            continue  # its emptiness causes a plan for the buffers, which may need it
        due = _due(claim, pool, survey)
        if due > survey.at + min(survey.interval, AHEAD) or _was_asked_for(claim, survey):
            continue
        message = f"node {nodes[claim.key].name} is empty, and is removed after {empty_for(pool)} s"
        found.append(DueRetirement(claim, RetirementReason.EMPTY, message, due if due > survey.at else 0))
    return found


def _due(claim: NodeClaim, pool: NodePool, survey: ClusterSurvey) -> int:
    """Return the time when the node has been empty long enough, and open long enough for its pods to arrive."""
    settled = settled_at(claim)
    return max(
        survey.empty_since.get(claim.name, survey.at) + empty_for(pool), ceil(settled.timestamp()) if settled else 0
    )


def _was_asked_for(claim: NodeClaim, survey: ClusterSurvey) -> bool:
    return survey.requested_until.get(claim.name, 0) > survey.at


def _may_go(pool: NodePool, nodes: Mapping[str, Node], survey: ClusterSurvey) -> int:
    """Return how many more nodes of a pool its budgets allow to retire."""
    asked = [claim.name for claim in survey.claims if _was_asked_for(claim, survey)]
    return count_remaining_disruptions(pool, "Empty", survey.claims, nodes, leaving=asked, now=survey.now)


EMPTY = RetirementCheck("empty", find_empty_claims)
