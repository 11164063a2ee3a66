"""A static pool has as many nodes as its ``replicas``: missing ones are launched, surplus ones are retired."""

from datetime import timedelta
from typing import Any

import pytest

from joiner import names
from joiner.adapters import kube_kinds as kinds
from joiner.pools import NodeClaim
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import claims, looked, retired


def scaled(cluster: SimulatedCluster, replicas: int, **spec: Any) -> SimulatedCluster:
    """Return the cluster after `kubectl scale nodepool default --replicas`."""
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"replicas": replicas, **spec}})
    return cluster


def swept(cluster: SimulatedCluster, number: int) -> dict[str, Any]:
    """Run one sweep a minute later, with the scale-up that it starts."""
    cluster.now += timedelta(minutes=1)
    return cluster.sweep(f"sweep-{number}")


@pytest.fixture
def three(cluster: SimulatedCluster) -> SimulatedCluster:
    """A static pool with its three nodes, an hour after they joined."""
    scaled(cluster.prepare(), 3)
    cluster.sweep("sweep-0")
    cluster.now += timedelta(hours=1)
    return cluster


def bind(cluster: SimulatedCluster, pod: str, claim: NodeClaim, **metadata: Any) -> None:
    """Create a pod that runs on the node of this claim."""
    manifest = pending(pod)
    manifest["metadata"] |= metadata
    manifest["spec"]["nodeName"] = claim.node_name
    manifest["status"] = {"phase": "Running", "startTime": "2026-11-21T05:00:00Z"}
    cluster.kube.put(manifest)


def test_missing_nodes_are_launched_without_a_pending_pod(cluster: SimulatedCluster) -> None:
    scaled(cluster.prepare(), 2)

    found = cluster.survey("s1")[0]
    cluster.sweep("sweep-1")

    assert found["missingReplicas"] == 1
    assert found["reasons"] == ["NodePool/default lacks 2 of its replicas"]
    assert [(claim.instance_type, claim.initialized) for claim in claims(cluster)] == [("m5.large", True)] * 2
    assert cluster.kube.objects["nodepools", "", "default"]["status"]["nodes"] == 2
    assert swept(cluster, 2)["missingReplicas"] == 0
    assert len(claims(cluster)) == 2


def test_a_node_that_a_user_deletes_is_replaced(three: SimulatedCluster) -> None:
    deleted = claims(three)[0]
    retire(three, (deleted.name, "deleted"), passes=3)

    assert swept(three, 1)["missingReplicas"] == 1
    assert len(claims(three)) == 3 and deleted.name not in {claim.name for claim in claims(three)}


def test_surplus_nodes_go_empty_ones_first_then_those_whose_pods_are_cheapest_to_move(
    three: SimulatedCluster,
) -> None:
    one, two, empty = claims(three)
    for number in range(3):
        bind(three, f"one-{number}", one)
    bind(three, "two-0", two)
    scaled(three, 2)
    assert retired(looked(three, 1)[0]) == [(empty.name, "surplus")]

    scaled(three, 1)
    assert retired(looked(three, 2)[0]) == [(empty.name, "surplus"), (two.name, "surplus")]

    retire(three, (empty.name, "surplus"), passes=3)
    assert {claim.name for claim in claims(three)} == {one.name, two.name}
    assert three.ec2.instances[empty.instance_id]["State"]["Name"] == "terminated"


def test_a_node_that_has_not_registered_goes_before_an_empty_one(three: SimulatedCluster) -> None:
    three.boots = False
    scaled(three, 4)
    three.now += timedelta(minutes=1)
    before = {claim.name for claim in claims(three)}
    with pytest.raises(AssertionError, match="waits for ever"):
        three.sweep("sweep-1")
    (booting,) = {claim.name for claim in claims(three)} - before
    scaled(three, 3)

    assert retired(looked(three, 2)[0]) == [(booting, "surplus")]


def test_a_surplus_node_that_must_not_be_disrupted_stays(three: SimulatedCluster) -> None:
    for number, claim in enumerate(claims(three)):
        bind(three, f"kept-{number}", claim, annotations={names.DO_NOT_DISRUPT: "true"})
    scaled(three, 0)

    assert retired(looked(three, 1)[0]) == []


def test_a_pool_that_is_scaled_up_again_keeps_the_node_that_was_about_to_leave(three: SimulatedCluster) -> None:
    scaled(three, 2)
    ((surplus, _),) = retired(looked(three, 1)[0])
    scaled(three, 3)

    done = retire(three, (surplus, "surplus"), passes=1)

    assert done.left_out == {surplus: "NodePool/default has 3 nodes and replicas 3"}
    assert not any(claim.deleting for claim in claims(three))


def test_empty_nodes_of_a_static_pool_stay(three: SimulatedCluster) -> None:
    assert [retired(looked(three, number)[0]) for number in (1, 2, 3)] == [[], [], []]


def test_a_pool_beyond_its_limit_reports_why_nodes_are_missing_and_backs_off(cluster: SimulatedCluster) -> None:
    scaled(cluster.prepare(), 3, limits={"nodes": "2"})

    due = [swept(cluster, number)["missingReplicas"] for number in range(8)]

    assert len(claims(cluster)) == 2
    assert due == [1, 1, 1, 0, 1, 0, 0, 0]
    conditions = cluster.kube.objects["nodepools", "", "default"]["status"]["conditions"]
    (valid,) = (each for each in conditions if each["type"] == "ValidationSucceeded")
    assert valid["status"] == "True" and valid["reason"] == "WithoutEffect"
    assert valid["message"] == (
        "spec.replicas is 3: 1 of these nodes cannot be launched: its limits.nodes allows no more nodes: raise it, or "
        "lower replicas"
    )


def test_a_schedule_sets_the_replicas_while_its_window_is_open(cluster: SimulatedCluster) -> None:
    hour = cluster.now.hour
    scaled(cluster.prepare(), 1)
    window = f"{cluster.now.minute} {hour} * * * for 30m = 3"
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"metadata": {"annotations": {names.SCHEDULE: window}}})

    cluster.sweep("sweep-1")
    assert len(claims(cluster)) == 3

    cluster.now += timedelta(hours=1)
    assert [reason for _, reason in retired(looked(cluster, 2)[0])] == ["surplus", "surplus"]


def test_a_static_pool_that_is_being_deleted_gets_no_nodes(cluster: SimulatedCluster) -> None:
    scaled(cluster.prepare(), 2)
    cluster.kube.objects["nodepools", "", "default"]["metadata"]["deletionTimestamp"] = "2026-11-21T05:00:00Z"

    assert cluster.survey("s1")[0]["missingReplicas"] == 0


def test_a_node_of_a_static_pool_that_is_marked_for_disruption_is_not_replaced_by_a_scale_up(
    three: SimulatedCluster,
) -> None:
    """Its replacement has failed: the node stays. When its retirement has begun, the pool lacks a node."""
    old = claims(three)[0]
    node = three.kube.objects["nodes", "", old.node_name]
    node["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]

    three.scale_up("up-1")
    assert (len(claims(three)), three.survey("s1")[0]["missingReplicas"]) == (3, 0)

    three.kube.objects["nodeclaims", "", old.name]["metadata"]["deletionTimestamp"] = "2026-11-21T13:00:00Z"
    assert three.survey("s2")[0]["missingReplicas"] == 1
