"""No node is launched that the next proposal would take away: replacements are repacked within the wave, and nodes that
DISRUPT has launched are left alone for a time.
"""

from datetime import timedelta
from typing import Any

import pytest

from joiner.disruption.proposal import Proposal
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, drawn, pool, proposed
from tests.unit.planning.drawn_clusters import Json

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def not_on(kind: str) -> Json:
    expression = {"key": INSTANCE_TYPE, "operator": "NotIn", "values": [kind]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_two_replacements_whose_pods_fit_on_one_new_node_are_one_action() -> None:
    """Neither pod may run on the node of the other, so each node is replaced; the new nodes would be merged next."""
    pods = [
        replica("web", "node-a", cpu="600m", app="web", nodeSelector=ON_DEMAND, affinity=not_on("m.2xlarge")),
        replica("api", "node-b", cpu="600m", app="api", nodeSelector=ON_DEMAND, affinity=not_on("m.xlarge")),
    ]
    nodes = [claim_and_node("a", kind="m.xlarge"), claim_and_node("b", kind="m.2xlarge")]

    proposal = proposed(cluster(*nodes, pods=pods))

    assert drawn(proposal) == ["a+b -> s.large/on-demand api:default-1 web:default-1"]
    [action] = proposal.actions
    assert action.saving_per_hour == pytest.approx(0.19 + 0.37 - 0.08)
    assert action.eviction_cost == 4.0


def young(minutes: int, execution: str) -> tuple[Json, Json]:
    """Return a half-used node that an execution launched so long ago."""
    claim, node = claim_and_node("young", kind="s.large")
    created = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    claim["metadata"] |= {"creationTimestamp": created, "annotations": {"joiner.dev/execution": execution}}
    return claim, node


def proposal_beside(node: tuple[Json, Json], **more: Any) -> Proposal:
    """Return what is proposed for a node whose pod also fits on another, full-priced one."""
    pods = [
        replica("large", "node-old", cpu="3", app="db", nodeSelector=ON_DEMAND),
        replica("web", "node-young", cpu="500m", nodeSelector=ON_DEMAND),
    ]
    return proposed(cluster(claim_and_node("old", kind="m.xlarge"), node, pods=pods, **more))


def test_a_node_that_a_disruption_launched_is_left_alone_for_ten_minutes() -> None:
    removed = ["young -> web:node-old"]

    assert drawn(proposal_beside(young(9, "disrupt-20261121T115100-sweep"))) == []
    assert drawn(proposal_beside(young(10, "disrupt-20261121T115000-sweep"))) == removed
    assert drawn(proposal_beside(young(9, "up-20261121T115100"))) == removed


def test_a_pool_may_ask_for_another_age_of_all_of_its_nodes() -> None:
    longer = [pool({"joiner.dev/consolidation-least-node-age": "1h"})]
    shorter = [pool({"joiner.dev/consolidation-least-node-age": "1m"})]

    assert drawn(proposal_beside(young(59, "disrupt-20261121T110100-sweep"), nodepools=longer)) == []
    assert drawn(proposal_beside(young(59, "up-20261121T110100"), nodepools=longer)) == []
    assert drawn(proposal_beside(young(1, "disrupt-20261121T115900-sweep"), nodepools=shorter)) != []
    assert drawn(proposal_beside(young(0, "disrupt-20261121T120000-sweep"), nodepools=shorter)) == []
