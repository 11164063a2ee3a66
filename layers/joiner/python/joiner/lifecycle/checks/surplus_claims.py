"""Find nodes of static pools that are more than the pool's ``replicas``.

Nodes that have not registered go first, then empty ones, then those whose pods are the cheapest to move, then the
youngest. A node with ``karpenter.sh/do-not-disrupt`` on itself or on a pod stays. The pool's budgets do not count, as
in Karpenter: the user asked for fewer nodes.
"""

from collections.abc import Mapping, Sequence

from joiner.cluster import Node, Pod
from joiner.cluster.eviction_costs import node_eviction_cost
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, RetirementCheck
from joiner.lifecycle.emptiness import holds_node
from joiner.lifecycle.replica_counts import find_replicas
from joiner.lifecycle.retirement import RetirementReason
from joiner.pools import NodeClaim

SurplusOrder = tuple[bool, bool, float, float, str]


def find_surplus_claims(survey: ClusterSurvey) -> list[DueRetirement]:
    """Return one entry for each surplus claim, in the order in which they are removed."""
    replicas = find_replicas(survey.pools, survey.claims, survey.nodes, survey.launching)
    if not replicas:
        return []
    pools, nodes, pods = survey.pool_of(), survey.node_of(), survey.pods_of()
    found = []
    for key, claims in sorted(replicas.items()):
        wanted = pools[key].replicas or 0
        removable = [one for one in claims if _may_go(one, survey, nodes, pods)]
        removable.sort(key=lambda one: _order(one, nodes, pods))
        # Claims without a recorded launch go first, at a later sweep: no node with pods goes in their place
        launching = sum(not one.launched for one in claims)
        for claim in removable[: max(0, len(claims) - launching - wanted)]:
            message = f"{key} has {len(claims)} nodes and replicas {wanted}: {claim.key} is removed"
            found.append(DueRetirement(claim, RetirementReason.SURPLUS, message))
    return found


def _may_go(
    claim: NodeClaim, survey: ClusterSurvey, nodes: Mapping[str, Node], pods: Mapping[str, Sequence[Pod]]
) -> bool:
    if not claim.launched or claim.name in survey.disrupting:  # its launch has no recorded outcome, or DISRUPT owns it
        return False
    node = nodes.get(claim.key)
    return node is None or not survey.disturbance(claim, node, pods.get(node.name, ()))


def _order(claim: NodeClaim, nodes: Mapping[str, Node], pods: Mapping[str, Sequence[Pod]]) -> SurplusOrder:
    """Return the sort key of a claim: the lowest goes first."""
    node, launched = nodes.get(claim.key), claim.conditions["Launched"].since
    moving = [pod for pod in pods.get(node.name, ()) if holds_node(pod)] if node else []
    age = launched.timestamp() if launched is not None else 0.0
    return (node is not None, bool(moving), node_eviction_cost(moving), -age, claim.name)


SURPLUS = RetirementCheck("surplus", find_surplus_claims)
