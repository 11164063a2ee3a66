"""The default topology spread constraints of the settings, from the lists to the plan and the bindings."""

from collections.abc import Sequence
from typing import Any

import pytest

from functions.find_candidates import handler as find_candidates
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import PLANNED, SELECTING, ListedCluster
from joiner.adapters.payload import Execution, Task
from tests.unit.functions.grown_cluster import grow
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CLUSTER, pending

ZONE = "topology.kubernetes.io/zone"
SNAPSHOT = "snapshots/up-1/1.json.gz"
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}


def defaults(when: str, skew: int = 1, key: str = ZONE) -> list[dict[str, Any]]:
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when}]


def web(name: str) -> dict[str, Any]:
    one = pending(name, cpu="100m")
    one["metadata"]["labels"] = {"app": "web"}
    return one


def listed(cluster: SimulatedCluster) -> set[str]:
    return {kind.plural for kind in SELECTING if f"GET {kind.path()}" in cluster.kube.asked}


def test_without_the_setting_no_owner_of_pods_is_listed(cluster: SimulatedCluster) -> None:
    cluster.prepare(web("web-1"), web("web-2"))
    cluster.kube.put(SERVICE)
    cluster.scale_up("up-1")

    assert listed(cluster) == set()
    assert len(cluster.ec2.instances) == 1


def test_with_the_setting_pods_are_spread_and_the_stored_snapshot_can_be_planned_again(
    cluster: SimulatedCluster,
) -> None:
    cluster.default_spreads = defaults("DoNotSchedule", key="kubernetes.io/hostname")
    cluster.prepare(web("web-1"), web("web-2"))
    cluster.kube.put(SERVICE)
    cluster.scale_up("up-1")

    assert listed(cluster) == {kind.plural for kind in SELECTING}
    assert len(cluster.ec2.instances) == 2
    nodes = [pod["spec"]["nodeName"] for pod in cluster.kube.all(kinds.PODS)]
    assert len(set(nodes)) == 2, "each node got its pod"
    stored = cluster.store.get(SNAPSHOT)
    assert stored["defaultSpreads"] == cluster.default_spreads
    assert stored["lists"]["services"] == [
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    ]
    for pod in documents.get_snapshot(cluster.store, SNAPSHOT).pods:
        assert [one.topology_key for one in pod.constraints.spreads] == ["kubernetes.io/hostname"]


@pytest.mark.parametrize(("when", "kinds_listed"), [("DoNotSchedule", SELECTING), ("ScheduleAnyway", ())])
def test_a_check_of_registration_lists_owners_only_for_constraints_that_keep_pods_from_nodes(
    cluster: SimulatedCluster, when: str, kinds_listed: Sequence[kinds.Kind]
) -> None:
    cluster.default_spreads = defaults(when, skew=2)
    cluster.prepare(web("web-1"))
    cluster.kube.put(SERVICE)
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after = ""
    cluster.boot()
    cluster.kube.asked.clear()
    cluster.check("up-1")

    assert listed(cluster) == {kind.plural for kind in kinds_listed}


def test_a_list_of_candidates_stores_the_constraints_and_the_owners(cluster: SimulatedCluster) -> None:
    grown, task = grow(cluster), Task(Execution("disrupt-1", "arn:aws:states:::disrupt-1", ""), CLUSTER, 0, 2)
    grown.kube.put(SERVICE)
    spreads = defaults("DoNotSchedule")
    listing = find_candidates.CandidateListing(
        ListedCluster(grown.kube, (*find_candidates.DISRUPTED, *SELECTING)),
        grown.ledger,
        grown.store,
        AutoscalerDetection(grown.kube),
        default_spreads=spreads,
    )
    stored = grown.store.get(listing.answer(task, grown.now, 0)["snapshot"])

    assert stored["defaultSpreads"] == spreads
    assert [one["metadata"]["name"] for one in stored["lists"]["services"]] == ["web"]


def test_a_set_that_a_buffer_names_keeps_its_template_beside_the_selectors_of_the_others(
    cluster: SimulatedCluster,
) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    for name in ("named", "other"):
        cluster.kube.put(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
            }
        )
    cluster.kube.put(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"},
            "spec": {"scalableRef": {"apiGroup": "apps", "kind": "ReplicaSet", "name": "named"}, "percentage": 50},
        }
    )
    sets = ListedCluster(cluster.kube, (*PLANNED, *SELECTING)).lists()["replicasets"]

    assert {one["metadata"]["name"]: sorted(one["spec"]) for one in sets} == {
        "named": ["replicas", "selector", "template"],
        "other": ["selector"],
    }
