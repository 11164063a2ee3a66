"""A claim whose launch is not on it: its instance counts in full against limits, its node has no room for the pods of
others, and no disruption waits until the outcome can be written or read.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.find_candidates import handler as find_candidates
from functions.propose_disruption import handler as propose_disruption
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.item_reading import KNOWN_SCHEMA
from joiner.adapters.kube_errors import Forbidden
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.catalogue import Catalogue
from joiner.disruption.proposal import Proposal
from joiner.item_keys import LAUNCH, item_key
from joiner.names import CAPACITY_TYPE
from joiner.planning import Ceilings
from joiner.pools import NodeClaim
from tests.unit.functions.disruption_execution import records, task
from tests.unit.functions.fake_ec2 import Answer, lost
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CATALOGUE, NODEPOOL, pending
from tests.unit.functions.sweeping import claims
from tests.unit.functions.test_refused_claim_writes import POLICY, claims_by_state, refusing

NO_CEILINGS = Ceilings()


def refuse_one(cluster: SimulatedCluster, *pods: dict[str, Any]) -> NodeClaim:
    """Launch nodes for pods of 1.5 cores, each of 2 cores; the outcome of one cannot be written."""
    cluster.prepare(*pods)
    cluster.kube.fault = refusing("PATCH", lambda: Forbidden(POLICY, status=403))
    cluster.scale_up("up-1")
    (refused,) = claims_by_state(cluster)[1]
    return refused


def limit(cluster: SimulatedCluster, cpu: str) -> None:
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"limits": {"cpu": cpu}}})


def find(cluster: SimulatedCluster) -> dict[str, Any]:
    view, guards = ListedCluster(cluster.kube, find_candidates.DISRUPTED), AutoscalerDetection(cluster.kube)
    listing = find_candidates.CandidateListing(view, cluster.ledger, cluster.store, guards)
    answer: dict[str, Any] = listing.answer(task(0), cluster.now, 0)
    return answer


def propose(cluster: SimulatedCluster, ceilings: Ceilings = NO_CEILINGS) -> Proposal:
    part, found = task(0), find(cluster)
    assert found["why"] == ""
    classes = documents.put_node_classes(cluster.store, part, [cluster.node_class])
    keys = {"snapshot": found["snapshot"], "classes": classes, "proposal": "", "digest": "d"}
    table = cluster.ledger._client, cluster.ledger._table
    planning = propose_disruption.DisruptionPlanning(
        cluster.ledger, records(cluster), Recommendations(*table), cluster.store, ceilings
    )
    return documents.get_proposal(cluster.store, planning.answer(part, keys, cluster.now, 0)["proposal"])


def let_drift(cluster: SimulatedCluster) -> NodeClaim:
    """Let the one initialized node drift, an hour after it joined."""
    cluster.now += timedelta(hours=1)
    (joined,) = claims_by_state(cluster)[0]
    cluster.kube.fault = None
    manifest = cluster.kube.get(kinds.NODECLAIMS, joined.name)
    drifted = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": "2026-11-21T12:00:00Z"}
    conditions = [*manifest["status"]["conditions"], drifted]
    cluster.kube.patch(kinds.NODECLAIMS, joined.name, {"status": {"conditions": conditions}}, subresource="status")
    return joined


def wait_for_the_refused_one(cluster: SimulatedCluster) -> None:
    """Let the writes of an hour fail, the last one now: no other is due for 15 minutes."""
    (launch,) = cluster.ledger.unrecorded_launches()
    now = int(cluster.now.timestamp())
    values = {":since": now - 3600, ":at": now}
    cluster.machine._update("LAUNCH", launch.id, "SET failedSince = :since, failedAt = :at", values)


def make_unreadable(cluster: SimulatedCluster) -> None:
    """Let the record of the launch be one of a later version."""
    (launch,) = cluster.ledger.unrecorded_launches()
    cluster.ledger._client.update_item(
        TableName=cluster.ledger._table,
        Key=item_key(LAUNCH, launch.id),
        UpdateExpression="SET schemaNumber = :later",
        ExpressionAttributeValues={":later": {"N": str(KNOWN_SCHEMA + 1)}},
    )


def delete_pod_of(cluster: SimulatedCluster, joined: NodeClaim) -> None:
    """Delete the pod that waits for the other node."""
    for pod in cluster.kube.all(kinds.PODS):
        if pod["spec"].get("nodeName") != joined.node_name:
            cluster.kube.delete(kinds.PODS, pod["metadata"]["name"], namespace="default")


@pytest.mark.parametrize(("cpu", "replaced"), [("6", 1), ("5900m", 0)], ids=["within the limit", "over the limit"])
def test_a_drifted_node_is_replaced_beside_a_refused_claim_as_far_as_limits_allow(
    cluster: SimulatedCluster, cpu: str, replaced: int
) -> None:
    refused = refuse_one(cluster, pending("web-1"), pending("web-2"))
    limit(cluster, cpu)
    drifted = let_drift(cluster)
    delete_pod_of(cluster, drifted)  # the node of the refused claim would have room for the pod that moves
    wait_for_the_refused_one(cluster)
    assert (refused.requests["cpu"], refused.instance_type) == (1500, "")

    actions = propose(cluster).actions

    assert [(action.claims, len(action.replacements)) for action in actions] == [((drifted.name,), 1)] * replaced


def test_the_instance_of_a_refused_claim_counts_against_the_ceiling_of_the_price(cluster: SimulatedCluster) -> None:
    refuse_one(cluster, pending("web-1"), pending("web-2"))
    delete_pod_of(cluster, let_drift(cluster))
    wait_for_the_refused_one(cluster)

    assert len(propose(cluster, Ceilings(price_per_hour=3 * 0.096)).actions) == 1
    assert propose(cluster, Ceilings(price_per_hour=3 * 0.096 - 0.01)).actions == ()


def test_a_launch_that_nobody_can_read_stops_no_disruption_but_replacements_in_its_pool(
    cluster: SimulatedCluster,
) -> None:
    refuse_one(cluster, pending("web-1"), pending("web-2"))
    drifted = let_drift(cluster)
    delete_pod_of(cluster, drifted)
    make_unreadable(cluster)
    assert propose(cluster).actions == ()

    for pod in cluster.kube.all(kinds.PODS):
        cluster.kube.delete(kinds.PODS, pod["metadata"]["name"], namespace="default")

    actions = propose(cluster).actions
    assert [(action.claims, len(action.replacements)) for action in actions] == [((drifted.name,), 0)]


def test_a_price_that_nobody_can_read_stops_the_replacements_of_all_pools_below_a_ceiling(
    cluster: SimulatedCluster,
) -> None:
    refuse_one(cluster, pending("web-1"), pending("web-2"))
    delete_pod_of(cluster, let_drift(cluster))
    make_unreadable(cluster)
    other = {**NODEPOOL, "metadata": {"name": "other", "uid": "pool-2"}}
    cluster.kube.put(other)

    assert len(propose(cluster).actions) == 1
    assert propose(cluster, Ceilings(price_per_hour=9.0)).actions == ()


@pytest.mark.parametrize(("cpu", "nodes"), [("4", 2), ("3900m", 1)], ids=["within the limit", "over the limit"])
def test_a_scale_up_beside_a_refused_claim_keeps_the_limit_of_the_pool(
    cluster: SimulatedCluster, cpu: str, nodes: int
) -> None:
    refuse_one(cluster, pending("web-1"))
    limit(cluster, cpu)
    cluster.kube.put(pending("db-1", cpu="1400m"))

    cluster.scale_up("up-2")

    assert len(cluster.ec2.instances) == nodes


def test_no_pod_waits_for_the_room_on_the_node_of_a_refused_claim(cluster: SimulatedCluster) -> None:
    refused = refuse_one(cluster, pending("web-1"))
    cluster.kube.delete(kinds.PODS, "web-1", namespace="default")
    cluster.kube.put(pending("db-1", cpu="1"))

    cluster.scale_up("up-2")

    (joined,) = claims_by_state(cluster)[0]
    assert joined.name != refused.name
    assert cluster.kube.get(kinds.PODS, "db-1", namespace="default")["spec"]["nodeName"] == joined.node_name


def fail_fleets(name: str, do: Callable[[], Answer]) -> Answer:
    """Lose the request of each fleet: nothing is launched, and no answer comes."""
    if name == "CreateFleet":
        raise lost(name)
    return do()


def sweep_for(cluster: SimulatedCluster, minutes: int) -> None:
    for _ in range(minutes):
        cluster.now += timedelta(minutes=1)
        cluster.sweep(f"up-sweep-{cluster.now:%H%M}")


def test_the_pods_of_a_launch_that_nobody_can_read_get_another_node_if_it_has_no_instance(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"))
    cluster.ec2.fault, cluster.stop_after = fail_fleets, "launch_instances"
    cluster.scale_up("up-1")
    cluster.ec2.fault, cluster.stop_after = None, ""
    (first,) = claims(cluster)
    make_unreadable(cluster)

    sweep_for(cluster, 15)
    assert [each.name for each in claims(cluster)] == [first.name]
    sweep_for(cluster, 3)

    (second,) = claims(cluster)
    assert second.name != first.name
    assert second.initialized
    assert cluster.ledger.unrecorded_launches() == []


def test_a_launch_that_nobody_can_read_keeps_its_record_while_it_has_an_instance(cluster: SimulatedCluster) -> None:
    refused = refuse_one(cluster, pending("web-1"))
    make_unreadable(cluster)

    sweep_for(cluster, 20)

    assert [launch.claims for launch in cluster.ledger.unrecorded_launches()] == [(refused.name,)]
    assert [each["State"]["Name"] for each in cluster.ec2.instances.values()] == ["running"]


def refuse_one_of_three(cluster: SimulatedCluster) -> tuple[NodeClaim, tuple[NodeClaim, NodeClaim]]:
    """Return the refused claim of a launch of three, and its written siblings, whose nodes have no pods any more."""
    refused = refuse_one(cluster, pending("web-1"), pending("web-2"), pending("web-3"))
    first, second = claims_by_state(cluster)[0]
    names = {refused.name, first.name, second.name}
    assert [{*launch.claims} for launch in cluster.ledger.unrecorded_launches()] == [names]
    for pod in cluster.kube.all(kinds.PODS):
        if pod["spec"].get("nodeName"):
            cluster.kube.delete(kinds.PODS, pod["metadata"]["name"], namespace="default")
    return refused, (first, second)


def test_pods_get_the_room_on_the_written_nodes_of_a_launch_with_a_refused_claim(cluster: SimulatedCluster) -> None:
    refuse_one_of_three(cluster)
    cluster.kube.put(pending("db-1"))
    cluster.kube.put(pending("db-2"))

    cluster.scale_up("up-2")
    assert len(cluster.ec2.instances) == 3

    cluster.kube.put(pending("db-3"))
    cluster.scale_up("up-3")
    assert len(cluster.ec2.instances) == 4


@pytest.mark.parametrize("let", [wait_for_the_refused_one, make_unreadable], ids=["refused", "unreadable"])
def test_nodes_of_a_launch_with_a_refused_claim_are_consolidated_onto_each_other(
    cluster: SimulatedCluster, let: Callable[[SimulatedCluster], None]
) -> None:
    _, siblings = refuse_one_of_three(cluster)
    for waiting in cluster.kube.all(kinds.PODS):  # it would fit there
        cluster.kube.delete(kinds.PODS, waiting["metadata"]["name"], namespace="default")
    for number, claim in enumerate(siblings):
        pod = pending(f"small-{number}", cpu="400m")
        cluster.kube.put({**pod, "spec": {**pod["spec"], "nodeName": claim.node_name}, "status": {"phase": "Running"}})
    cluster.now += timedelta(hours=1)
    let(cluster)

    (action,) = propose(cluster).actions

    (removed,) = action.claims
    (kept,) = {claim.name: claim for claim in siblings if claim.name != removed}.values()
    assert action.replacements == ()
    assert [*action.moves.values()] == [kept.node_name]


def test_the_written_claims_of_a_launch_keep_their_labels_beside_a_refused_one(cluster: SimulatedCluster) -> None:
    refused, (changed, _) = refuse_one_of_three(cluster)
    cluster.kube.fault = None
    labels = {CAPACITY_TYPE: "reserved"}
    cluster.kube.patch(kinds.NODECLAIMS, changed.name, {"metadata": {"labels": labels}})
    cluster.now += timedelta(hours=1)
    wait_for_the_refused_one(cluster)

    world = documents.get_snapshot(cluster.store, find(cluster)["snapshot"])

    types = {claim.name: claim.capacity_type for claim in world.claims}
    assert (types[changed.name], types[refused.name]) == ("reserved", "on-demand")
    assert world.entering == world.unwritten == {refused.name}


def test_a_launch_whose_claims_nobody_can_read_stops_disruption(cluster: SimulatedCluster) -> None:
    refuse_one(cluster, pending("web-1"), pending("web-2"))
    let_drift(cluster)
    make_unreadable(cluster)
    assert find(cluster)["why"] == ""

    (launch,) = cluster.ledger.unrecorded_launches()
    cluster.machine._update("LAUNCH", launch.id, "SET claims = :other", {":other": 1})

    assert find(cluster)["why"] == "the outcome of a launch is not recorded yet"


def test_a_pool_without_replacements_names_the_unknown_instance_type_if_a_record_does(
    cluster: SimulatedCluster,
) -> None:
    refused = refuse_one(cluster, pending("web-1"), pending("web-2"))
    drifted = let_drift(cluster)
    delete_pod_of(cluster, drifted)
    wait_for_the_refused_one(cluster)
    larger = Catalogue.of([CATALOGUE.types["m5.xlarge"]])
    documents.put_catalogue(cluster.store, larger, cluster.now)

    def why() -> str:
        (message,) = [one.message for one in propose(cluster).kept if one.claim == drifted.name]
        return message

    assert f"the catalogue does not have m5.large, the instance type of {refused.name}, so limits cannot" in why()
    make_unreadable(cluster)
    assert f"no record shows the instance type of {refused.name}, so limits cannot count it" in why()
