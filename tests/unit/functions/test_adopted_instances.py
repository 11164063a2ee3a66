"""Instances of claims that this deployment did not launch: kept nodes of an earlier one, claims that another autoscaler
handed over. The first sweep records them, and from then on their notices are handled.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner.item_keys import INSTANCE
from joiner.pools import NodeClaim
from tests.pairings import recorded_pairings
from tests.unit.functions.delivered_interruptions import MINE, RETIREMENT, QueueRun, state_change, warning
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.sweeping import claims, looked, stand, without_claim, without_node

TOGETHER = ("BatchGetItem", "TransactWriteItems")
RECOMMENDATION = "EC2 Instance Rebalance Recommendation"


@pytest.fixture
def adopted(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster whose three nodes were launched by a deployment with another table."""
    standing = stand(cluster)
    for pairing in recorded(standing):
        standing.ledger.forget_instance(pairing)
    return standing


def recorded(cluster: SimulatedCluster) -> dict[str, str]:
    found = recorded_pairings(cluster.machine._client, cluster.machine._table)
    return {each.instance: each.claim for each in found if each.instance != MINE}


def of_claims(cluster: SimulatedCluster) -> dict[str, str]:
    return {each.instance_id: each.name for each in claims(cluster)}


def calls_of_a_sweep(cluster: SimulatedCluster, number: int) -> list[str]:
    """Run the surveys of one sweep; return their reads and writes of the records of instances."""
    asked = cluster.machine._client.asked
    before = len(asked)
    looked(cluster, number)
    return [call for call, kind in asked[before:] if call in TOGETHER or kind == INSTANCE]


@pytest.mark.parametrize("reason", ["spot", "lost"])
def test_a_notice_for_an_adopted_node_is_acted_upon_after_the_first_sweep(
    adopted: SimulatedCluster, reason: str
) -> None:
    claim, queue = claims(adopted)[0], QueueRun(adopted)
    notices = {"spot": warning(claim.instance_id), "lost": state_change("terminated", claim.instance_id)}

    looked(adopted, 1)
    if reason == "lost":
        adopted.ec2.instances[claim.instance_id]["State"] = {"Name": "terminated"}
    assert queue.deliver(notices[reason]) == []

    noted = queue.retirements.of(claim.name)
    assert noted is not None
    assert (noted.reasons, noted.instance) == ((reason,), claim.instance_id)
    assert ("retire", RETIREMENT) in queue.states.started


def test_a_recommendation_for_an_adopted_node_is_recorded_after_the_first_sweep(adopted: SimulatedCluster) -> None:
    claim, queue = claims(adopted)[0], QueueRun(adopted)

    looked(adopted, 1)
    queue.deliver({**warning(claim.instance_id), "detail-type": RECOMMENDATION})

    assert set(queue.recommendations.since()) == {claim.name}


def test_the_record_of_an_adopted_instance_names_no_launch_and_is_found_by_later_sweeps(
    adopted: SimulatedCluster,
) -> None:
    assert calls_of_a_sweep(adopted, 1) == ["BatchGetItem", "TransactWriteItems"]

    found = recorded_pairings(adopted.machine._client, adopted.machine._table)
    assert {each.instance: each.claim for each in found} == of_claims(adopted)
    assert {each.launch for each in found} == {""}
    assert calls_of_a_sweep(adopted, 2) == []

    adopted.recorded.clear()  # another process
    assert calls_of_a_sweep(adopted, 3) == ["BatchGetItem"]


def test_sweeps_of_a_cluster_at_rest_read_the_record_of_each_instance_once(cluster: SimulatedCluster) -> None:
    standing = stand(cluster)
    before = recorded(standing)

    assert [calls_of_a_sweep(standing, number) for number in (1, 2, 3)] == [["BatchGetItem"], [], []]
    assert recorded(standing) == before == of_claims(standing)


def test_a_sweep_of_a_cluster_without_claims_reads_no_record(cluster: SimulatedCluster) -> None:
    cluster.prepare()

    assert calls_of_a_sweep(cluster, 1) == []


def test_an_instance_that_ends_is_not_recorded_because_nothing_would_delete_its_record(
    adopted: SimulatedCluster,
) -> None:
    ended, gone, _ = claims(adopted)
    adopted.ec2.instances[ended.instance_id]["State"] = {"Name": "shutting-down"}
    del adopted.ec2.instances[gone.instance_id]

    looked(adopted, 1)

    assert set(recorded(adopted)) == set(of_claims(adopted)) - {ended.instance_id, gone.instance_id}


def test_an_instance_with_the_record_of_another_claim_gets_its_own(cluster: SimulatedCluster) -> None:
    """One claim was launched twice, and the claim of the second instance was rebuilt under another name."""
    standing = stand(cluster)
    first, second, _ = claims(standing)
    give(standing, second, first.name)

    looked(standing, 1)

    assert recorded(standing) == of_claims(standing)


def test_an_unreadable_record_is_reported_by_each_sweep_and_stays(cluster: SimulatedCluster) -> None:
    standing = stand(cluster)
    claim = claims(standing)[0]
    spoilt: Mapping[str, Any] = {":claim": 7}
    standing.machine._update(INSTANCE, claim.instance_id, "SET claim = :claim", spoilt)

    assert [looked(standing, number)[1]["unreadable"] for number in (1, 2)] == [1, 1]
    (item,) = (each for each in standing.machine._query(INSTANCE) if each["id"] == {"S": claim.instance_id})
    assert item["claim"] == {"N": "7"}


def test_instances_without_a_claim_are_not_recorded(adopted: SimulatedCluster) -> None:
    claim = claims(adopted)[0]
    without_claim(adopted, claim)
    without_node(adopted, claim)

    looked(adopted, 1)

    assert recorded(adopted) == of_claims(adopted)
    assert claim.instance_id not in recorded(adopted)


def give(cluster: SimulatedCluster, claim: NodeClaim, name: str) -> None:
    cluster.ledger.forget_instance(claim.instance_id)
    cluster.ledger.pair(claim.instance_id, name, "l-1")
