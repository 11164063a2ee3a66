"""What keeps a node from being consolidated: policies, budgets, annotations, rules of its pods, and savings that do
not justify the evictions.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters.disruptions import MOVES_KEPT
from joiner.catalogue import Catalogue
from joiner.catalogue.commitments import Commitment
from joiner.catalogue.total_node_prices import NodePrices
from joiner.cluster import Pod
from joiner.disruption import consolidation
from joiner.disruption.consolidation_worth import PoolTotals, worthless
from joiner.disruption.disruption_candidates import Candidate, find_candidates, workload_of
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import Proposal
from joiner.planning import Snapshot
from joiner.pools import NodePool
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, drawn, pool, proposed, reasons
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    ZONE,
    ZONES,
    Json,
    affinity,
    near,
    spread,
)


def test_nothing_is_moved_near_the_lower_bound() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
    )

    def with_gap(gap: float) -> Proposal:
        return consolidation.propose(
            Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES, now=NOW, gap=gap
        )

    distance = with_gap(0.0).price_per_hour / with_gap(0.0).lower_bound_per_hour - 1
    assert drawn(with_gap(distance - 0.01)) == ["b -> web:node-a"]
    assert drawn(with_gap(distance + 0.01)) == []


def test_running_nodes_above_a_blast_radius_of_vcpus_do_not_stop_consolidation() -> None:
    """Within the radius, the pods of node-a would need four nodes, for more than the cluster costs. A radius that is a
    percentage does not raise the bound."""
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[
            *(replica(f"web-{number}", "node-a", cpu="970m", nodeSelector=ON_DEMAND) for number in range(4)),
            replica("api", "node-b", cpu="30m", app="api", nodeSelector=ON_DEMAND),
        ],
        nodepools=[pool({"joiner.dev/blast-radius": "2"})],
    )

    proposal = proposed(lists)

    assert drawn(proposal) == ["b -> api:node-a"]
    assert proposal.lower_bound_per_hour < proposal.price_per_hour


@pytest.mark.parametrize(("radius", "left"), [("100%", 1), ("50%", 2), ("25%", 4)])
def test_a_blast_radius_that_is_a_percentage_holds_for_pods_that_are_moved(radius: str, left: int) -> None:
    """All four pods fit on one of their nodes."""
    pods = [replica(f"web-{name}", f"node-{name}", cpu="300m", nodeSelector=ON_DEMAND) for name in "abcd"]
    lists = cluster(*map(claim_and_node, "abcd"), pods=pods, nodepools=[pool({"joiner.dev/blast-radius": radius})])

    removed = [claim for action in proposed(lists).actions for claim in action.claims]

    assert len(removed) == 4 - left


def test_the_same_type_does_not_replace_itself() -> None:
    proposal = proposed(
        cluster(
            claim_and_node("a", kind="s.large"), pods=[replica("web", "node-a", cpu="1500m", nodeSelector=ON_DEMAND)]
        )
    )

    assert drawn(proposal) == []


@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        ("joiner.dev/consolidation-least-saving-per-hour", "0.1", "less than the $0.1/h"),
        (
            "joiner.dev/consolidation-evictions-per-day",
            "0",
            "NodePool/default allows 0 evictions a day, and 0 are used",
        ),
        ("joiner.dev/consolidation-least-saving-per-hour", "much", "an annotation of NodePool/default is not valid"),
    ],
)
def test_annotations_of_the_pool_keep_nodes(annotation: str, value: str, reason: str) -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
    )

    proposal = proposed({**lists, "nodepools": [pool({annotation: value})]})

    assert drawn(proposal) == []
    assert reason in reasons(proposal)["node-b"]


def test_a_workload_that_was_just_moved_is_not_moved_again() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b"),
        pods=[replica("large", "node-a", cpu="3", app="db"), replica("web", "node-b")],
        nodepools=[pool({"joiner.dev/consolidation-workload-cool-down": "1h"})],
    )
    moved = DisruptionHistory(moves={"default/ReplicaSet/web": NOW - timedelta(minutes=59)})

    assert [line for line in drawn(proposed(lists, moved)) if line.startswith("b")] == []
    assert "b" in " ".join(drawn(proposed(lists)))


def of_revision(pod: Json, template: str) -> Json:
    """Return the pod as one of the Deployment `web`, with the hash of its template."""
    metadata = pod["metadata"]
    owner = {**metadata["ownerReferences"][0], "kind": "ReplicaSet", "name": f"web-{template}"}
    labels = {**(metadata.get("labels") or {}), "pod-template-hash": template}
    return {**pod, "metadata": {**metadata, "labels": labels, "ownerReferences": [owner]}}


def test_a_rollout_does_not_end_the_cool_down_of_its_deployment() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b"),
        pods=[replica("large", "node-a", cpu="3", app="db"), of_revision(replica("web", "node-b"), "7d9c")],
        nodepools=[pool({"joiner.dev/consolidation-workload-cool-down": "1h"})],
    )
    before = Pod.from_kube(of_revision(replica("web", "node-a"), "5f64"))
    moved = DisruptionHistory(moves={workload_of(before): NOW - timedelta(minutes=59)})

    assert [line for line in drawn(proposed(lists, moved)) if line.startswith("b")] == []
    assert "b" in " ".join(drawn(proposed(lists)))


def test_a_cool_down_longer_than_moves_are_kept_is_reported_and_has_the_effect_of_the_longest() -> None:
    day, more = (
        Snapshot.from_lists(cluster(nodepools=[pool({"joiner.dev/consolidation-workload-cool-down": value})]))
        for value in ("24h", "48h")
    )

    assert day.pools[0].disruption.limits == more.pools[0].disruption.limits
    assert day.pools[0].disruption.limits.workload_cool_down == MOVES_KEPT
    assert not more.pools[0].disruption.limits.unreadable
    assert [one for one in day.problems if one.severity == "warning"] == []
    [problem] = [one for one in more.problems if one.severity == "warning"]
    assert problem.field == "metadata.annotations[joiner.dev/consolidation-workload-cool-down]"
    remedy = "give at most 24h: a longer cool-down has the effect of 24h, for which moves are remembered"
    assert problem.remedy == remedy


def test_when_empty_keeps_nodes_with_pods() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b"),
        pods=[replica("web", "node-b")],
        nodepools=[pool(consolidationPolicy="WhenEmpty")],
    )

    proposal = proposed(lists)

    assert drawn(proposal) == ["a ->"]
    assert reasons(proposal) == {
        "node-b": "Unconsolidatable: the consolidation policy of NodePool/default is WhenEmpty, "
        "and the node is not empty"
    }


def test_balanced_refuses_a_small_saving_for_many_evictions() -> None:
    large = [replica(f"db-{number}", "node-a", app="db", cpu="100m", nodeSelector=ON_DEMAND) for number in range(2)]
    small = [replica(f"web-{number}", "node-b", cpu="100m", nodeSelector=ON_DEMAND) for number in range(9)]
    lists = cluster(
        claim_and_node("a", kind="m.2xlarge"),
        claim_and_node("b"),
        pods=[*large, *small],
        nodepools=[pool(consolidationPolicy="Balanced")],
    )

    proposal = proposed(lists)

    assert drawn(proposal) == ["a -> s.large/on-demand db-0:default-1 db-1:default-1"]
    assert proposal.actions[0].score is not None
    assert proposal.actions[0].score > 0.5


def test_an_action_across_pools_is_taken_only_if_each_balanced_pool_gains_enough() -> None:
    def labelled(claim: Json, made: Json, of: str) -> tuple[Json, Json]:
        for one in (claim, made):
            one["metadata"]["labels"] = {**one["metadata"]["labels"], "karpenter.sh/nodepool": of}
        return claim, made

    lists = cluster(
        labelled(*claim_and_node("a", kind="m.2xlarge"), of="first"),
        labelled(*claim_and_node("b"), of="second"),
        pods=[replica("web-a", "node-a"), *(replica(f"web-b{number}", "node-b", cpu="100m") for number in range(9))],
        nodepools=[pool(name=name, consolidationPolicy="Balanced") for name in ("first", "second")],
    )
    snapshot = Snapshot.from_lists(lists)
    pools = {one.key: one for one in snapshot.pools}
    prices = NodePrices(Catalogue.from_json(CATALOGUE), pools, CLASSES)
    removed = find_candidates(snapshot, prices, now=NOW, history=DisruptionHistory()).candidates
    totals = PoolTotals({"NodePool/first": 1.0, "NodePool/second": 1.0}, dict.fromkeys(pools, 20.0))

    assert [one.pool.key for one in removed] == ["NodePool/first", "NodePool/second"]
    assert worthless(removed[:1], 0.1, totals) == ""
    # The saving is divided by price: the second pool gets a small part of it, and spends half of its eviction cost.
    assert worthless(removed, 0.1, totals).endswith("is below 0.5 (policy Balanced)")
    mixed = [replace(removed[0]), replace(removed[1], pool=pool_with_policy(removed[1], "WhenEmptyOrUnderutilized"))]
    assert worthless(mixed, 0.1, totals) == ""


def pool_with_policy(one: Candidate, policy: Any) -> NodePool:
    return replace(one.pool, disruption=replace(one.pool.disruption, policy=policy))


@pytest.mark.parametrize(
    "rule",
    [
        affinity(podAntiAffinity=[near(HOST, "web")]),
        {"topologySpreadConstraints": [spread(HOST)]},
        {"topologySpreadConstraints": [spread(ZONE)]},
    ],
)
def test_a_pod_that_may_run_on_no_other_node_keeps_its_node(rule: Mapping[str, Any]) -> None:
    nodes = [claim_and_node(name, zone=zone) for name, zone in zip("ab", ZONES, strict=False)]
    pods = [replica(f"web-{name}", f"node-{name}", nodeSelector=ON_DEMAND, **rule) for name in "ab"]

    assert drawn(proposed(cluster(*nodes, pods=pods))) == []


def test_a_pod_disruption_budget_limits_the_evictions_of_one_wave() -> None:
    nodes = [claim_and_node(name) for name in "abc"]
    pods = [replica(f"web-{name}", f"node-{name}", nodeSelector=ON_DEMAND) for name in "abc"]
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }

    free, limited = (
        proposed(cluster(*nodes, pods=pods)),
        proposed(cluster(*nodes, pods=pods, poddisruptionbudgets=[budget])),
    )
    blocked = proposed(
        cluster(*nodes, pods=pods, poddisruptionbudgets=[{**budget, "status": {"disruptionsAllowed": 0}}])
    )

    assert sum(len(action.moves) for action in free.actions) == 2
    assert sum(len(action.moves) for action in limited.actions) == 1
    assert limited.remaining == 2
    assert drawn(blocked) == []
    assert reasons(blocked)["node-a"] == (
        "DisruptionBlocked: PodDisruptionBudget default/web allows no eviction of pod default/web-a"
    )


def test_a_node_with_more_pods_than_their_budget_allows_at_once_leaves_alone() -> None:
    """Its drain evicts them one after the other."""
    nodes = [claim_and_node(name) for name in "abc"]
    pods = [
        replica(f"web-{name}{number}", f"node-{name}", cpu="200m", nodeSelector=ON_DEMAND)
        for name in "abc"
        for number in "12"
    ]
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }

    limited = proposed(cluster(*nodes, pods=pods, poddisruptionbudgets=[budget]))

    assert [len(action.moves) for action in limited.actions] == [2]
    assert limited.remaining == 2


def test_no_pod_moves_to_a_node_within_its_own_window_or_not_yet_initialized() -> None:
    pods = [replica("web", "node-b", nodeSelector=ON_DEMAND)]
    for destination in (
        claim_and_node("a", kind="m.xlarge", initialized=False),
        claim_and_node("a", kind="m.xlarge", initialized_at="2026-11-21T11:59:00Z"),
    ):
        lists = cluster(destination, claim_and_node("b"), pods=pods, nodepools=[pool(consolidateAfter="5m")])
        assert [line for line in drawn(proposed(lists)) if "web" in line] == []


def test_a_pool_whose_replacement_failed_only_loses_nodes() -> None:
    lists = cluster(claim_and_node("a", kind="m.xlarge"), pods=[replica("web", "node-a")])
    failed = DisruptionHistory(back_off={"NodePool/default": NOW + timedelta(minutes=5)})

    assert drawn(proposed(lists, failed)) == []
    assert reasons(proposed(lists, failed)) == {
        "node-a": "Unconsolidatable: its pods do not fit on other nodes, and NodePool/default waits after replacements "
        "that failed"
    }
    assert drawn(proposed(lists)) == ["a -> s.large/spot web:default-1"]


def test_no_node_of_a_pool_that_cannot_launch_is_consolidated() -> None:
    """A node that leaves could not be replaced if its pods turned out to need one."""
    larger, smaller = claim_and_node("a", kind="m.xlarge"), claim_and_node("b")
    lists = cluster(larger, smaller, pods=[replica("web", "node-a"), replica("api", "node-b")])
    closed = DisruptionHistory(closed_pools={"NodePool/default": "its class EC2NodeClass/default is being deleted"})
    why = "NodePool/default cannot launch a node: its class EC2NodeClass/default is being deleted"

    proposal = proposed(lists, closed)

    assert drawn(proposal) == []
    assert reasons(proposal) == dict.fromkeys(("node-a", "node-b"), f"DisruptionBlocked: {why}")
    assert drawn(proposed(lists)) != []


def test_pending_pods_keep_the_node_that_they_fit_on() -> None:
    waiting = {**replica("next", "", cpu="1500m", nodeSelector=ON_DEMAND)}
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    proposal = proposed(cluster(claim_and_node("a"), pods=[waiting]))

    assert drawn(proposal) == []
    assert reasons(proposal) == {"node-a": "DisruptionBlocked: pending pods fit on it"}


def test_a_node_that_a_commitment_pays_for_is_not_removed_for_its_list_price() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
    )

    def actions(*commitments: Commitment) -> list[str]:
        catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=commitments)
        return drawn(
            consolidation.propose(
                Snapshot.from_lists(lists), catalogue, classes=CLASSES, now=NOW, history=DisruptionHistory()
            )
        )

    assert actions() == ["b -> web:node-a"]
    assert actions(Commitment("reserved-instances/m", 8, {"m.xlarge": 8})) == ["b -> web:node-a"]
    assert actions(Commitment("reserved-instances/s", 1, {"s.large": 1})) == []
