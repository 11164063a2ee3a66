"""No node is launched that the next proposal would take away: replacements are repacked within the wave, and nodes that
DISRUPT has launched are left alone for a time.
"""

from datetime import timedelta
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.proposal import Proposal
from joiner.disruption.wave_search import LARGE_WAVE, MOST_CHANGED
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, drawn, pool, proposed, reasons
from tests.unit.planning.drawn_clusters import CLASSES, Json, instance_type

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


OLD_AND_NEW = {
    "old": instance_type("old", 4, 16, 1.0),
    "new": instance_type("new", 4, 16, 0.9, pods=100),
    "frozen": instance_type("frozen", 4, 16, 200.0),
}


def test_a_merged_action_changes_a_limited_number_of_nodes() -> None:
    """One new node could hold the pods of all forty nodes. The node that no budget releases keeps the search going."""
    names = [f"n{number:02}" for number in range(40)]
    nodes = [claim_and_node(name, kind="old", catalogue=OLD_AND_NEW) for name in names]
    nodes.append(claim_and_node("frozen", kind="frozen", pool="frozen", catalogue=OLD_AND_NEW))
    pods = [
        replica(name, f"node-{name}", cpu="10m", memory="1Mi", nodeSelector=ON_DEMAND, affinity=not_on("old"))
        for name in names
    ]
    pods.append(replica("large", "node-frozen", cpu="10m", memory="1Mi", app="large", affinity=not_on("old")))
    lists = cluster(*nodes, pods=pods, nodepools=[pool(), pool(name="frozen", budgets=[{"nodes": "0"}])])

    proposal = consolidation.propose(
        Snapshot.from_lists(lists), Catalogue.from_json(OLD_AND_NEW), classes=CLASSES, now=NOW
    )

    assert sorted(claim for action in proposal.actions for claim in action.claims) == names
    assert max(len(action.claims) + len(action.replacements) for action in proposal.actions) <= MOST_CHANGED


ROOMY = {
    "full": instance_type("full", 4, 16, 1.0),
    "cheap": instance_type("cheap", 4, 16, 0.9),
    "tiny": instance_type("tiny", 2, 4, 0.4),
    "roomy": instance_type("roomy", 8, 32, 50.0, pods=100),
}


def wave_beside_a_full_node(number: int) -> set[str]:
    """Return which claims the wave removes of so many nodes with a small pod each, and of a full node, which a cheaper
    one could replace. The node that has room for the small pods is expensive, and no budget releases it."""
    names = [f"n{each:02}" for each in range(number)]
    nodes = [claim_and_node(name, kind="tiny", catalogue=ROOMY) for name in names]
    nodes.append(claim_and_node("full", kind="full", catalogue=ROOMY))
    nodes.append(claim_and_node("roomy", kind="roomy", pool="frozen", catalogue=ROOMY))
    pods = [replica(name, f"node-{name}", cpu="10m", memory="1Mi", nodeSelector=ON_DEMAND) for name in names]
    large = {"cpu": "320m", "memory": "1Mi", "app": "large", "nodeSelector": ON_DEMAND, "affinity": not_on("roomy")}
    pods += [replica(f"large-{each}", "node-full", **large) for each in range(12)]
    pods.append(replica("own", "node-roomy", cpu="10m", memory="1Mi", app="own"))
    lists = cluster(*nodes, pods=pods, nodepools=[pool(), pool(name="frozen", budgets=[{"nodes": "0"}])])
    proposal = consolidation.propose(Snapshot.from_lists(lists), Catalogue.from_json(ROOMY), classes=CLASSES, now=NOW)
    return {claim for action in proposal.actions for claim in action.claims}


def test_a_large_wave_leaves_actions_that_save_little_per_eviction_to_the_next() -> None:
    assert "full" in wave_beside_a_full_node(LARGE_WAVE - 10)
    assert len(wave_beside_a_full_node(LARGE_WAVE + 4)) == LARGE_WAVE + 4
    assert "full" not in wave_beside_a_full_node(LARGE_WAVE + 4)


def test_a_saving_that_budgets_keep_does_not_end_a_large_wave() -> None:
    """The frozen nodes could save most. Without them, the nodes with many pods save more per eviction cost than the
    replacement of all nodes, because the pods of the full nodes are expensive to move."""
    few, many = [f"few-{each:02}" for each in range(LARGE_WAVE)], [f"many-{each:02}" for each in range(4 * LARGE_WAVE)]
    full, frozen = ["full-0", "full-1", "full-2"], [f"frozen-{each}" for each in range(8)]
    nodes = [claim_and_node(name, kind="tiny", catalogue=ROOMY) for name in (*few, *many)]
    nodes += [claim_and_node(name, kind="cheap", catalogue=ROOMY) for name in full]
    nodes += [claim_and_node(name, kind="roomy", pool="frozen", catalogue=ROOMY) for name in frozen]
    small = {"cpu": "10m", "memory": "1Mi", "nodeSelector": ON_DEMAND}
    pods = [replica(name, f"node-{name}", **small) for name in few]
    pods += [replica(f"{name}-{each}", f"node-{name}", **small) for name in many for each in range(9)]
    costly = {"controller.kubernetes.io/pod-deletion-cost": str(2**31 - 1)}
    large = {"cpu": "190m", "memory": "1Mi", "app": "large", "affinity": not_on("roomy")}
    for one in (replica(f"{name}-{each}", f"node-{name}", **large) for name in full for each in range(20)):
        pods.append({**one, "metadata": {**one["metadata"], "annotations": costly}})
    pods += [replica(f"own-{name}", f"node-{name}", cpu="10m", memory="1Mi", app="frozen") for name in frozen]
    lists = cluster(*nodes, pods=pods, nodepools=[pool(), pool(name="frozen", budgets=[{"nodes": "0"}])])

    proposal = consolidation.propose(Snapshot.from_lists(lists), Catalogue.from_json(ROOMY), classes=CLASSES, now=NOW)

    assert {claim for action in proposal.actions for claim in action.claims} > set(few)


def young(minutes: int, execution: str, *, boot: int = 0) -> tuple[Json, Json]:
    """Return a half-used node of an execution, initialized so long ago, so many minutes after its launch."""
    created, initialized = (f"{NOW - timedelta(minutes=age):%Y-%m-%dT%H:%M:%SZ}" for age in (minutes + boot, minutes))
    claim, node = claim_and_node("young", kind="s.large", initialized_at=initialized)
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


def test_the_age_of_a_node_that_a_disruption_launched_counts_from_its_initialization() -> None:
    hour = [pool({"joiner.dev/consolidation-least-node-age": "1h"})]

    assert drawn(proposal_beside(young(9, "disrupt-20261121T114200-sweep", boot=9))) == []
    assert drawn(proposal_beside(young(59, "disrupt-20261121T105200-sweep", boot=9), nodepools=hour)) == []
    assert drawn(proposal_beside(young(59, "up-20261121T105200", boot=9), nodepools=hour)) != []


def test_a_node_that_is_too_young_says_why_it_stays() -> None:
    longer = [pool({"joiner.dev/consolidation-least-node-age": "1h"})]
    launched = proposal_beside(young(9, "disrupt-20261121T115100-sweep"))
    annotated = proposal_beside(young(59, "up-20261121T110100"), nodepools=longer)

    assert reasons(launched)["node-young"] == (
        "Unconsolidatable: a disruption launched it less than 10 minutes ago "
        "(joiner.dev/consolidation-least-node-age), and it is not empty"
    )
    assert reasons(annotated)["node-young"] == (
        "Unconsolidatable: it is younger than joiner.dev/consolidation-least-node-age of NodePool/default (3600 s), "
        "and not empty"
    )
    assert "node-young" not in reasons(proposal_beside(young(10, "disrupt-20261121T115000-sweep")))


def test_a_pool_may_ask_for_another_age_of_all_of_its_nodes() -> None:
    longer = [pool({"joiner.dev/consolidation-least-node-age": "1h"})]
    shorter = [pool({"joiner.dev/consolidation-least-node-age": "1m"})]

    assert drawn(proposal_beside(young(59, "disrupt-20261121T110100-sweep"), nodepools=longer)) == []
    assert drawn(proposal_beside(young(59, "up-20261121T110100"), nodepools=longer)) == []
    assert drawn(proposal_beside(young(1, "disrupt-20261121T115900-sweep"), nodepools=shorter)) != []
    assert drawn(proposal_beside(young(0, "disrupt-20261121T120000-sweep"), nodepools=shorter)) == []
