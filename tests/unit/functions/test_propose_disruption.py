"""What propose_disruption reads from the table before it decides: pools that launch no node for some pods."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.propose_disruption import handler as propose_disruption
from infra.disruption_limits import REPLACEMENTS_AWAITED_ALONE_SECONDS
from joiner.adapters import documents
from joiner.adapters.disruption_items import DisruptionRecord
from joiner.adapters.ledger_items import OfferingKey
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.catalogue import Catalogue
from joiner.disruption.disruption_history import OVERDUE_SECONDS
from joiner.disruption.proposal import Proposal
from joiner.planning import Ceilings, Snapshot
from joiner.planning.inputs.held_pools import find_edition
from joiner.pools.pool_holds import OF_REPLICAS, PoolHold
from tests.unit.disruption.initialized_nodes import LONG_AGO, claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import ON_DEMAND, pool
from tests.unit.disruption.test_wave_choice import drifting_and_wasteful
from tests.unit.functions.disruption_execution import records, task
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONES, Json
from tests.unit.planning.test_held_pools import node_class

DRIFTED = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": LONG_AGO}


def world(*pods: Json, kind: str = "m.2xlarge", drifted: bool = False, **spec: Any) -> dict[str, Sequence[Json]]:
    """Return the lists of a cluster with one node that is too large for its pods, or drifted."""
    made, (claim, node) = pool(), claim_and_node("a", kind=kind)
    if drifted:
        claim["status"]["conditions"].append(DRIFTED)
    return {
        "nodepools": [{**made, "spec": {**made["spec"], **spec}}],
        "ec2nodeclasses": [node_class(1)],
        "nodeclaims": [claim],
        "nodes": [node],
        "pods": list(pods),
    }


def proposed(cluster: SimulatedCluster, lists: dict[str, Sequence[Json]]) -> Proposal:
    part = task(0)
    documents.put_catalogue(cluster.store, Catalogue.from_json(CATALOGUE), cluster.now)
    keys = {
        "snapshot": documents.put_snapshot(cluster.store, part, lists, assignments={}, assigned={}, in_flight=()),
        "classes": documents.put_node_classes(cluster.store, part, CLASSES.values()),
        "proposal": "",
        "digest": "d",
    }
    table = cluster.ledger._client, cluster.ledger._table
    planning = propose_disruption.DisruptionPlanning(
        cluster.ledger, records(cluster), Recommendations(*table), cluster.store, Ceilings()
    )
    answer = planning.answer(part, keys, cluster.now, 0)
    json.dumps(answer)
    return documents.get_proposal(cluster.store, answer["proposal"])


def hold(cluster: SimulatedCluster, lists: dict[str, Sequence[Json]], *, of_replicas: bool = False) -> None:
    """Hold the pool for the first pod, or for its replicas, for a minute."""
    snapshot, at = Snapshot.from_lists(lists), int(cluster.now.timestamp())
    held = PoolHold(
        pool="NodePool/default",
        class_key=OF_REPLICAS if of_replicas else snapshot.pods[0].class_key,
        device="",
        edition=find_edition(snapshot, snapshot.pools[0]),
        launched_at=at - 900,
        failed_at=at,
        failures=2,
        until=at + 60,
        claim="default-9",
        cause="the node is not Ready",
    )
    assert cluster.ledger.put_pool_hold(held, None)


@pytest.mark.parametrize("drifted", [False, True], ids=["consolidated", "drifted"])
def test_no_replacement_is_planned_in_a_pool_that_is_held_for_the_pods(
    cluster: SimulatedCluster, *, drifted: bool
) -> None:
    lists = world(replica("web-0", "node-a", nodeSelector=ON_DEMAND), drifted=drifted)

    [action] = proposed(cluster, lists).actions
    assert len(action.replacements) == 1
    hold(cluster, lists)

    assert proposed(cluster, lists).actions == ()


def test_a_pool_that_is_held_for_some_pods_replaces_the_nodes_of_others(cluster: SimulatedCluster) -> None:
    lists = world(replica("web-0", "node-a", nodeSelector=ON_DEMAND))
    hold(cluster, {**lists, "pods": [replica("db-0", "node-a", nodeSelector={"disk": "fast"})]})

    assert len(proposed(cluster, lists).actions) == 1


def limits_end(cluster: SimulatedCluster, lists: dict[str, Sequence[Json]]) -> int:
    """Return in how many seconds the first limit of a proposal ends; 0 for none."""
    proposed(cluster, lists)
    end = records(cluster).last_proposal().limits_end
    return end - int(cluster.now.timestamp()) if end else 0


def test_the_end_of_a_hold_counts_only_if_it_closes_the_pool_to_pods_of_the_cluster(cluster: SimulatedCluster) -> None:
    lists = world(replica("web-0", "node-a", nodeSelector=ON_DEMAND))
    assert limits_end(cluster, lists) == 0

    hold(cluster, {**lists, "pods": [replica("db-0", "node-a", nodeSelector={"disk": "fast"})]})
    assert limits_end(cluster, lists) == 0, "no such pod is left"
    hold(cluster, lists, of_replicas=True)
    assert limits_end(cluster, lists) == 0, "the pool is not static"
    hold(cluster, lists)
    assert limits_end(cluster, lists) == 60
    corrected = {
        **lists,
        "nodepools": [{**each, "metadata": {**each["metadata"], "generation": 9}} for each in lists["nodepools"]],
    }
    assert limits_end(cluster, corrected) == 0, "the pool was corrected"


def test_the_end_of_a_mark_counts_only_if_its_offering_may_replace_a_node(cluster: SimulatedCluster) -> None:
    lists, until = world(replica("web-0", "node-a", nodeSelector=ON_DEMAND)), int(cluster.now.timestamp()) + 180
    cluster.ledger.mark_unavailable(OfferingKey("on-demand", "m.2xlarge", ZONES[0]), until - 60, "ICE")
    assert limits_end(cluster, lists) == 0, "the node has the same price"

    cluster.ledger.mark_unavailable(OfferingKey("on-demand", "m.xlarge", ZONES[0]), until, "ICE")
    assert limits_end(cluster, lists) == 180


def test_a_node_of_a_static_pool_that_is_held_is_not_replaced(cluster: SimulatedCluster) -> None:
    lists = world(drifted=True, replicas=1)

    [action] = proposed(cluster, lists).actions
    assert len(action.replacements) == 1
    hold(cluster, lists, of_replicas=True)

    held = proposed(cluster, lists)
    assert held.actions == ()
    assert [one.message.partition(": ")[0] for one in held.kept if one.condition == "DisruptionBlocked"] == [
        "it is drifted (AMIDrift), and its pool lacks a replacement"
    ]


def test_a_pool_that_drifts_for_long_takes_turns_with_the_consolidation_of_the_others(
    cluster: SimulatedCluster,
) -> None:
    """Also if no proposal is executed."""
    lists = {**drifting_and_wasteful(), "ec2nodeclasses": [node_class(1)]}
    kinds = [proposed(cluster, lists).actions[0].reason for _ in range(4)]

    assert kinds == ["Drifted", "Underutilized", "Drifted", "Underutilized"]


def test_a_pool_with_overdue_replacements_waits_until_their_deadline(cluster: SimulatedCluster) -> None:
    lists, at = world(replica("web-0", "node-a", nodeSelector=ON_DEMAND)), int(cluster.now.timestamp())
    begun = DisruptionRecord(
        "disrupt-9-0",
        arn("disrupt-9"),
        "Drifted",
        message="replaces b",
        claims=("b",),
        replacements=("default-9",),
        replacing_pools=("NodePool/default",),
        since=at - OVERDUE_SECONDS + 1,
        deadline=at + 480,
    )
    records(cluster).begin(begun)
    assert len(proposed(cluster, lists).actions) == 1, "its replacements are not overdue yet"

    records(cluster).begin(replace(begun, since=at - OVERDUE_SECONDS))
    assert (proposed(cluster, lists).actions, limits_end(cluster, lists)) == ((), 480)

    records(cluster).begin(replace(begun, since=at - 630, deadline=at - 30))
    assert (proposed(cluster, lists).actions, limits_end(cluster, lists)) == ((), 60), "its failure is not recorded yet"

    records(cluster).ask(begun.id, at)
    assert len(proposed(cluster, lists).actions) == 1, "its replacements run"


def test_the_turn_is_given_back_when_replacements_are_overdue() -> None:
    assert REPLACEMENTS_AWAITED_ALONE_SECONDS == OVERDUE_SECONDS
