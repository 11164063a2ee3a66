"""Pods that disruptions move, as the limits of later proposals count them."""

from dataclasses import replace
from datetime import timedelta

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.disruption_items import count_evictions, find_last_moves, find_moves
from joiner.disruption.proposal import DisruptionAction
from tests.unit.functions.disruption_execution import (
    REMOVED,
    marked,
    records,
    settled,
)
from tests.unit.functions.simulated_cluster import SimulatedCluster


def test_pods_that_drift_moves_start_a_cool_down_and_are_no_evictions_of_consolidation(
    grown: SimulatedCluster,
) -> None:
    drifted = replace(REMOVED, reason="Drifted")
    marked(grown, drifted, DisruptionAction("Underutilized", ("default-2",), moves={"default/web-2": "node-1"}))
    assert len(settled(grown)["retire"]) == 2
    for name in ("default-1", "default-2"):
        grown.kube.delete(kinds.NODECLAIMS, name)
    assert settled(grown)["finished"] == 2

    moved = records(grown).moves(int(grown.now.timestamp()))

    assert {one.reason: one.pods for one in moved} == {
        "Drifted": {"NodePool/default": 1},
        "Underutilized": {"NodePool/default": 1},
    }
    assert count_evictions(moved) == {"NodePool/default": 1}
    assert count_evictions(one for one in moved if one.reason == "Drifted") == {}
    assert find_last_moves(moved) == {"default/ReplicaSet/web": grown.now}


def moves_at_a_proposal(cluster: SimulatedCluster, *draining: str) -> list[tuple[str, int]]:
    """Return the claims and pods that the limits of a proposal count, all of them as moved now."""
    at = int(cluster.now.timestamp())
    counted = find_moves(records(cluster).moves(at), records(cluster).all(), draining, at)
    assert {one.at for one in counted} <= {at}
    return sorted((one.claim, sum(one.pods.values())) for one in counted)


def test_pods_count_as_moved_from_the_mark_until_their_node_is_gone_and_not_if_it_stays(
    grown: SimulatedCluster,
) -> None:
    both = replace(REMOVED, claims=("default-1", "default-2"), moves={"default/web-1": "n", "default/web-2": "n"})
    marked(grown, both)
    assert moves_at_a_proposal(grown) == [("default-1", 1), ("default-2", 1)]
    assert len(settled(grown)["retire"]) == 2
    grown.kube.delete(kinds.NODECLAIMS, "default-1")
    settled(grown)
    grown.now += timedelta(hours=2)
    assert moves_at_a_proposal(grown, "default-1") == [("default-1", 1), ("default-2", 1)], "its drain is slow"

    grown.kube.objects["nodes", "", "node-2"]["spec"]["taints"] = []  # its retirement was refused
    [undone] = settled(grown)["undone"]

    assert undone["claims"] == ["default-2"]
    assert moves_at_a_proposal(grown, "default-1") == [("default-1", 1)]


def test_the_moves_of_a_disruption_that_an_earlier_version_marked_count_once(grown: SimulatedCluster) -> None:
    marked(grown, REMOVED)
    [record] = records(grown).all()
    pods, names = '{"NodePool/default": 3}', ("default/ReplicaSet/web",)
    values = {":pods": pods, ":workloads": names}
    records(grown)._update("DISRUPTION", record.id, "SET pods = :pods, workloads = :workloads REMOVE moves", values)
    settled(grown)
    grown.kube.delete(kinds.NODECLAIMS, "default-1")
    settled(grown)

    [moved] = records(grown).moves(int(grown.now.timestamp()))

    assert (moved.claim, moved.pods, moved.workloads) == ("", {"NodePool/default": 3}, names)
