"""Checks of a wave that has problems: a pod that cannot be parsed, nodes that never join, disappear or never become
ready, startup taints that stay.
"""

from datetime import timedelta
from typing import Any

import pytest

from functions.check_registration.handler import EVENTS_WHILE_NODES_WAIT
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import KubeError
from joiner.names import FILLING, INITIALIZED
from tests.unit.functions.launched_nodes import closed_node, launched, node_of, taints, the_claim, the_node
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending
from tests.unit.lifecycle.joining_nodes import LINGERING


def test_a_check_that_leaves_nodes_to_the_next_one_writes_few_events(cluster: SimulatedCluster) -> None:
    launched(cluster, *(pending(f"api-{number:03d}") for number in range(99)))
    cluster.unpublished = list(cluster.answers["record_node_claims"]["events"])
    answer = cluster.check("up-1")

    events = cluster.kube.all(kinds.EVENTS)
    assert (answer["done"], len(events)) == (False, EVENTS_WHILE_NODES_WAIT)
    assert any("100 Pods with different texts, for example " in each["note"] for each in events)


def test_a_pod_that_cannot_be_read_closes_no_node(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    expression = {"key": "x", "operator": "Gt", "values": ["abc"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    odd = pending("odd")
    odd["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    cluster.kube.put(odd)

    answer = cluster.check("up-1")

    assert (answer["done"], answer["podsPlaced"]) == (True, 1)
    assert taints(the_node(cluster)) == []


def test_a_node_that_was_closed_for_too_long_opens_before_any_pod_is_listed(cluster: SimulatedCluster) -> None:
    """If the function is killed while it lists pods, the node is already open."""
    launched(cluster).boot()
    cluster.kube.put(closed_node("forgotten", "2026-11-21T11:54:00Z"))
    cluster.kube.asked.clear()
    cluster.check("up-1")

    asked = cluster.kube.asked
    assert asked.index("PATCH /api/v1/nodes/forgotten") < asked.index("GET /api/v1/pods")


def test_a_node_opens_in_time_even_if_filling_another_fails(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    cluster.kube.put(closed_node("forgotten", "2026-11-21T11:54:00Z"))

    def no_pods(_method: str, path: str, do: Any) -> Any:
        if path.endswith("/pods"):
            raise RuntimeError("too large to list")
        return do()

    cluster.kube.fault = no_pods
    with pytest.raises(Exception, match="too large to list"):
        cluster.check("up-1")

    assert taints(cluster.kube.get(kinds.NODES, "forgotten")) == []


@pytest.mark.parametrize("wave", ["up-1", "ended"])
def test_nodes_of_ours_open_after_five_minutes_whatever_their_claim(cluster: SimulatedCluster, wave: str) -> None:
    launched(cluster)
    cluster.kube.put(closed_node("old", "2026-11-21T11:54:00Z"))
    cluster.kube.put(closed_node("young", "2026-11-21T11:58:00Z"))

    cluster.check(wave)

    assert taints(cluster.kube.get(kinds.NODES, "old")) == []
    assert taints(cluster.kube.get(kinds.NODES, "young")) == [FILLING]


def test_a_claim_whose_node_never_comes_is_given_up_and_its_pod_planned_for_anew(cluster: SimulatedCluster) -> None:
    launched(cluster)
    first = the_claim(cluster).name
    cluster.now += timedelta(minutes=16)

    assert cluster.check("up-1")["failed"] == [first]
    assert cluster.check("up-1")["done"]

    condition = the_claim(cluster).conditions["Registered"]
    assert (condition.status, condition.reason) == ("False", "RegistrationTimeout")
    assert "console output" in condition.message
    assert cluster.ledger.assignments() == {}
    survey = cluster.sweep("up-2")
    assert (survey["pendingPods"], survey["unwatchedClaims"]) == (1, 0)
    assert cluster.kube.get(kinds.PODS, "web-1", namespace="default")["spec"]["nodeName"]
    quiet = cluster.sweep("up-3")
    assert (quiet["pendingPods"], quiet["unwatchedClaims"], len(cluster.ec2.instances)) == (0, 0, 2)


def test_a_claim_whose_node_is_gone_is_given_up(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    the_node(cluster)["status"]["conditions"][0]["status"] = "False"
    assert cluster.check("up-1")["registered"] == 1
    cluster.kube.delete(kinds.NODES, the_node(cluster)["metadata"]["name"])

    assert cluster.check("up-1")["failed"] == [the_claim(cluster).name]
    assert cluster.check("up-1")["done"]

    assert the_claim(cluster).conditions["Registered"].reason == "NodeGone"
    assert cluster.ledger.assignments() == {}


def test_a_claim_whose_node_never_takes_pods_is_given_up_and_its_node_plans_no_pods(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    the_node(cluster)["status"]["conditions"][0]["status"] = "False"
    assert not cluster.check("up-1")["done"]
    cluster.now += timedelta(minutes=16)
    first = the_claim(cluster)

    assert cluster.check("up-1")["failed"] == [first.name]

    condition = the_claim(cluster).conditions["Initialized"]
    assert (condition.status, condition.reason) == ("False", "InitializationTimeout")
    assert "the node is not Ready" in condition.message
    assert taints(the_node(cluster)) == []
    survey = cluster.sweep("up-2")
    assert (survey["pendingPods"], survey["unwatchedClaims"]) == (1, 0)
    assert len(cluster.ec2.instances) == 2
    bound = cluster.kube.get(kinds.PODS, "web-1", namespace="default")["spec"]["nodeName"]
    assert bound != first.node_name


def test_what_could_not_be_given_up_is_tried_again(cluster: SimulatedCluster) -> None:
    launched(cluster)
    cluster.now += timedelta(minutes=16)

    def refuse_status(method: str, path: str, do: Any) -> Any:
        if method == "PATCH" and path.endswith("/status"):
            raise KubeError("busy", status=503)
        return do()

    cluster.kube.fault = refuse_status
    assert not cluster.check("up-1")["done"]
    cluster.kube.fault = None

    assert cluster.check("up-1")["done"]
    assert the_claim(cluster).conditions["Registered"].reason == "RegistrationTimeout"


def test_a_node_that_could_not_be_registered_now_is_counted_for_a_check_that_follows_soon(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster)
    booting = cluster.check("up-1")
    cluster.boot()

    def refuse_node(method: str, path: str, do: Any) -> Any:
        if method == "PATCH" and "/nodes/" in path:
            raise KubeError("busy", status=503)
        return do()

    cluster.kube.fault = refuse_node
    refused = cluster.check("up-1")
    cluster.kube.fault = None
    joined = cluster.check("up-1")

    assert [(each["waiting"], each["joining"]) for each in (booting, refused, joined)] == [(1, 0), (1, 1), (0, 0)]


def test_a_node_without_the_filling_taint_is_left_to_the_scheduler(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    the_node(cluster)["spec"]["taints"] = [
        taint for taint in the_node(cluster)["spec"]["taints"] if taint["key"] != FILLING
    ]

    answer = cluster.check("up-1")

    assert (answer["done"], answer["initialized"], answer["podsPlaced"]) == (True, 1, 0)
    assert the_node(cluster)["metadata"]["labels"][INITIALIZED] == "true"
    assert "nodeName" not in cluster.kube.get(kinds.PODS, "web-1", namespace="default")["spec"]
    assert cluster.ledger.assignments() == {}


def test_pods_run_before_the_node_controller_takes_its_taint_off_and_the_node_opens_after(
    cluster: SimulatedCluster,
) -> None:
    patient, hasty = pending("patient"), pending("hasty")
    # as the API server writes it
    patient["spec"]["tolerations"] = [{**LINGERING, "operator": "Exists", "tolerationSeconds": 300}]
    hasty["spec"]["tolerations"] = [{**LINGERING, "operator": "Exists", "tolerationSeconds": 0}]
    cluster.prepare(patient, hasty)
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.boot()
    for node in cluster.kube.all(kinds.NODES):
        node["spec"]["taints"].append(LINGERING)

    cluster.check("up-1")
    assert not node_of(cluster, "patient")  # its kubelet may not have observed yet that the node is registered

    answer = cluster.check("up-1")
    assert (answer["done"], answer["registered"], answer["initialized"]) == (False, 2, 0)
    assert node_of(cluster, "patient") and not node_of(cluster, "hasty")
    for node in cluster.kube.all(kinds.NODES):
        assert taints(node) == [FILLING, LINGERING["key"]]
        node["spec"]["taints"].remove(LINGERING)
    answer = cluster.check("up-1")
    assert (answer["done"], answer["podsPlaced"], answer["placedAsPlanned"]) == (True, 2, 1.0)
    assert node_of(cluster, "hasty")
    assert [taints(node) for node in cluster.kube.all(kinds.NODES)] == [[], []]


def test_a_taint_that_lingers_for_ever_keeps_no_claim_waiting_for_ever(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    the_node(cluster)["spec"]["taints"].append(LINGERING)
    assert not cluster.check("up-1")["done"]
    cluster.now += timedelta(minutes=16)

    assert cluster.check("up-1")["failed"] == [the_claim(cluster).name]
    assert LINGERING["key"] in the_claim(cluster).conditions["Initialized"].message
