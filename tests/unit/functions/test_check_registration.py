"""Checks of a wave that has problems: a pod that cannot be parsed, nodes that never join, disappear or never become
ready, startup taints that stay.
"""

from datetime import timedelta
from typing import Any

import pytest

from functions.check_registration.handler import EVENTS_WHILE_NODES_WAIT
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.kube_errors import KubeError
from joiner.cluster import Pod
from joiner.names import FILLING, INITIALIZED, NODEPOOL
from joiner.pools import Conditions, NodeClaim
from tests.unit.functions.scale_up import SimulatedCluster, pending
from tests.unit.lifecycle.joining_nodes import LINGERING


def launched(cluster: SimulatedCluster, *others: dict[str, Any]) -> SimulatedCluster:
    """Return a cluster with one pod, and others, whose nodes were launched and have not booted; no check has run."""
    cluster.prepare(pending("web-1"), *others)
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after = ""
    return cluster


def the_claim(cluster: SimulatedCluster) -> NodeClaim:
    (claim,) = list_claims(cluster.kube).claims
    return claim


def the_node(cluster: SimulatedCluster) -> dict[str, Any]:
    (node,) = cluster.kube.all(kinds.NODES)
    return node


def taints(node: dict[str, Any]) -> list[str]:
    return [taint["key"] for taint in node["spec"]["taints"]]


def node_of(cluster: SimulatedCluster, pod: str) -> str:
    return str(cluster.kube.get(kinds.PODS, pod, namespace="default")["spec"].get("nodeName", ""))


def closed_node(name: str, created: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {NODEPOOL: "default"}, "creationTimestamp": created},
        "spec": {"providerID": f"aws:///us-east-1a/{name}", "taints": [{"key": FILLING, "effect": "NoSchedule"}]},
    }


def test_a_check_that_leaves_nodes_to_the_next_one_writes_few_events(cluster: SimulatedCluster) -> None:
    launched(cluster, *(pending(f"api-{number:03d}") for number in range(99)))
    cluster.unpublished = list(cluster.answers["record_node_claims"]["events"])
    answer = cluster.check("up-1")

    events = cluster.kube.all(kinds.EVENTS)
    assert (answer["done"], len(events)) == (False, EVENTS_WHILE_NODES_WAIT)
    assert any("100 Pods, for example " in each["note"] for each in events)


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


def waits_for_another_node(cluster: SimulatedCluster, manifest: dict[str, Any]) -> None:
    """Return a pod for which a node is in flight that does not boot in this test."""
    cluster.kube.put(manifest)
    cluster.ledger.assign("another", {Pod.from_kube(manifest).class_key: 1}, 1)


def urgent(created: str = "") -> dict[str, Any]:
    """Return a pod that preempts others."""
    manifest = pending("urgent")
    manifest["spec"]["priority"] = 1000
    if created:
        manifest["metadata"]["creationTimestamp"] = created
    return manifest


def now(cluster: SimulatedCluster) -> str:
    return cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")


def ready_at(cluster: SimulatedCluster, time: str) -> None:
    the_node(cluster)["status"]["conditions"][0]["lastTransitionTime"] = time


def test_a_pod_that_its_scheduler_wrote_to_meanwhile_is_bound_all_the_same(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    written: list[str] = []

    def write_first(_method: str, path: str, do: Any) -> Any:
        if path.endswith("/binding") and not written:
            written.append(path)
            cluster.kube.patch(kinds.PODS, "web-1", {"metadata": {"labels": {"seen": "again"}}}, namespace="default")
        return do()

    cluster.kube.fault = write_first
    cluster.kube.asked.clear()
    answer = cluster.check("up-1")

    assert (len(written), answer["podsPlaced"], answer["placedAsPlanned"]) == (1, 1, 1.0)
    assert sorted(asked for asked in cluster.kube.asked if "/pods/web-1" in asked) == [
        "PATCH /api/v1/namespaces/default/pods/web-1",  # the scheduler
        "POST /api/v1/namespaces/default/pods/web-1/binding",
    ]


def test_a_filled_node_stays_closed_for_half_a_minute_to_a_pod_that_is_meant_for_another(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster).boot()
    ready_at(cluster, "2026-11-21T12:00:00Z")
    waits_for_another_node(cluster, pending("small", cpu="200m"))

    assert not cluster.check("up-1")["done"]
    assert (
        cluster.kube.get(kinds.PODS, "web-1", namespace="default")["spec"]["nodeName"]
        == the_node(cluster)["metadata"]["name"]
    )
    assert taints(the_node(cluster)) == [FILLING]
    cluster.now += timedelta(seconds=29)
    assert not cluster.check("up-1")["done"]
    cluster.now += timedelta(seconds=2)
    assert cluster.check("up-1")["placedAsPlanned"] == 1.0
    assert taints(the_node(cluster)) == []


def test_a_filled_node_stays_closed_for_a_boot_to_a_more_important_pod_that_would_push_out_what_runs(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster).boot()
    ready_at(cluster, "2026-11-21T12:00:00Z")
    waits_for_another_node(cluster, urgent())

    cluster.now += timedelta(seconds=60)
    assert not cluster.check("up-1")["done"]
    assert taints(the_node(cluster)) == [FILLING]
    cluster.now += timedelta(seconds=61)
    assert cluster.check("up-1")["done"]
    assert taints(the_node(cluster)) == []


def test_a_filled_node_stays_closed_until_its_scheduler_may_have_seen_where_a_more_important_pod_went(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster, urgent()).boot()

    assert not cluster.check("up-1")["done"]
    nodes = {
        name: cluster.kube.get(kinds.PODS, name, namespace="default")["spec"]["nodeName"]
        for name in ("web-1", "urgent")
    }
    closed = {name: taints(cluster.kube.get(kinds.NODES, node)) for name, node in nodes.items()}
    assert closed == {"web-1": [FILLING], "urgent": []}
    assert cluster.check("up-1")["done"]
    assert taints(cluster.kube.get(kinds.NODES, nodes["web-1"])) == []


def test_a_filled_node_stays_closed_for_a_moment_to_a_more_important_pod_that_no_plan_has_seen(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster).boot()
    ready_at(cluster, now(cluster))
    cluster.kube.put(urgent(now(cluster)))

    cluster.now += timedelta(seconds=19)
    assert not cluster.check("up-1")["done"]
    assert taints(the_node(cluster)) == [FILLING]
    cluster.now += timedelta(seconds=2)
    assert cluster.check("up-1")["done"]
    assert taints(the_node(cluster)) == []


def test_new_pods_that_keep_coming_keep_no_node_closed_for_long(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    ready_at(cluster, now(cluster))
    cluster.now += timedelta(seconds=31)
    cluster.kube.put(urgent(now(cluster)))

    assert cluster.check("up-1")["done"]
    assert taints(the_node(cluster)) == []


def test_a_filled_node_opens_at_once_where_nobody_else_fits(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    ready_at(cluster, "2026-11-21T12:00:00Z")
    waits_for_another_node(cluster, pending("large"))

    assert cluster.check("up-1")["done"]
    assert taints(the_node(cluster)) == []


def test_a_node_gets_its_pods_while_another_launch_runs_and_counts_in_the_whole_wave(cluster: SimulatedCluster) -> None:
    bound: list[list[str]] = []

    def list_bound() -> None:
        pods = cluster.kube.list(kinds.PODS)
        bound.append(sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")))

    cluster.after_each_launch = list_bound
    cluster.prepare(pending("web"), pending("db", cpu="3500m"))

    assert cluster.scale_up("up-1")

    assert [len(names) for names in bound] == [1, 2]
    answer = cluster.answers["check_registration"]
    assert (answer["initialized"], answer["podsPlaced"], answer["placedAsPlanned"]) == (2, 2, 1.0)
    assert cluster.ledger.waves() == []
    reasons = [(each["reason"], each["regarding"]["kind"]) for each in cluster.kube.list(kinds.EVENTS)]
    assert reasons.count(("Launched", "NodeClaim")) == reasons.count(("Initialized", "NodeClaim")) == 2


def test_a_record_reports_whether_launches_of_its_round_may_still_run(cluster: SimulatedCluster) -> None:
    launching: list[bool] = []

    def end_launches() -> None:
        launching.append(cluster.answers["record_launches"]["launching"])
        lease = cluster.ledger.lease()
        ended = f"{lease.number}/1" if len(launching) == 1 else f"{lease.number}/2"
        cluster.machine._update("LEASE", "scale-up", "SET launchesEnded = :ended", {":ended": ended})

    cluster.after_each_launch = end_launches
    cluster.prepare(pending("web"), pending("db", cpu="3500m"))

    assert cluster.scale_up("up-1")

    assert launching == [True, False]
    assert cluster.answers["record_launches"]["launching"] is True  # of round 2 only


def test_a_node_opens_a_second_after_all_its_bindings(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-2"))
    cluster.boot()
    cluster.kube.asked.clear()

    answer = cluster.check("up-1")

    assert (answer["done"], answer["settling"], answer["podsPlaced"]) == (True, 0, 2)
    asked = cluster.kube.asked
    second = asked.index("sleep 1")
    nodes = [f"PATCH /api/v1/nodes/{node['metadata']['name']}" for node in cluster.kube.all(kinds.NODES)]
    last_binding = max(number for number, call in enumerate(asked) if call.endswith("/binding"))
    openings = [max(number for number, call in enumerate(asked) if call == patch) for patch in nodes]
    assert len(nodes) == 2
    assert last_binding < second < min(openings)


def test_while_other_nodes_boot_a_filled_node_opens_in_the_next_check(cluster: SimulatedCluster) -> None:
    """Its check ends at once, so that a node that becomes Ready now gets its pods soon."""
    launched(cluster, pending("web-2"))
    cluster.boot()
    first, other = cluster.kube.all(kinds.NODES)
    other["status"]["conditions"][0]["status"] = "False"

    filled = cluster.check("up-1")

    assert (filled["done"], filled["settling"], filled["initialized"]) == (False, 1, 0)
    assert taints(cluster.kube.get(kinds.NODES, first["metadata"]["name"])) == [FILLING]
    assert len([pod for pod in ("web-1", "web-2") if node_of(cluster, pod) == first["metadata"]["name"]]) == 1
    assert "sleep 1" not in cluster.kube.asked

    opened = cluster.check("up-1")

    assert (opened["done"], opened["settling"], opened["initialized"]) == (False, 0, 1)
    assert taints(cluster.kube.get(kinds.NODES, first["metadata"]["name"])) == []


def test_a_node_opens_in_the_next_check_while_its_execution_launches_others(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()

    assert cluster.check("up-1", launching=True)["settling"] == 1
    assert taints(the_node(cluster)) == [FILLING]
    assert cluster.check("up-1", launching=True)["settling"] == 0
    assert taints(the_node(cluster)) == []


def health(cluster: SimulatedCluster) -> tuple[str, str, list[str]]:
    """Return status and reason of the pool's condition, and the outcomes in its status."""
    status = cluster.kube.get(kinds.NODEPOOLS, "default")["status"]
    found = Conditions.from_kube(status["conditions"])["NodeRegistrationHealthy"]
    return found.status, found.reason, status["lastRegistrations"]


def events_of_the_pool(cluster: SimulatedCluster) -> list[str]:
    return [each["reason"] for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == "NodePool"]


def test_a_pool_shows_whether_its_last_launched_nodes_registered(cluster: SimulatedCluster) -> None:
    launched(cluster)
    assert health(cluster) == ("Unknown", "NoRegistrations", [])

    cluster.boot()
    cluster.check("up-1")
    assert health(cluster) == ("True", "Registered", ["Registered"])

    cluster.check("up-1")
    assert health(cluster) == ("True", "Registered", ["Registered"])
    assert "NodeRegistrationHealthy" not in events_of_the_pool(cluster)


def test_a_pool_is_unhealthy_after_two_launched_nodes_did_not_register_and_gets_one_event(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster, pending("web-2"))
    cluster.now += timedelta(minutes=16)

    cluster.check("up-1")
    cluster.check("up-1")

    assert health(cluster) == ("False", "RegistrationTimeout", ["RegistrationTimeout"] * 2)
    assert events_of_the_pool(cluster).count("NodeRegistrationUnhealthy") == 1


def test_two_nodes_of_one_instance_are_the_cause_on_the_claim_and_no_pod_is_bound(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    twin = the_node(cluster)
    own, twin["metadata"]["name"] = twin["metadata"]["name"], "twin"
    cluster.kube.put({**twin, "metadata": {**twin["metadata"], "uid": "uid-of-twin"}})
    cluster.kube.put({**twin, "metadata": {**twin["metadata"], "name": own}})
    cause = (
        f"several nodes have the provider id of its instance: {', '.join(sorted((own, 'twin')))}. "
        "Delete those that are not its own"
    )

    assert cluster.check("up-1")["waiting"] == 1
    cluster.check("up-1")

    found = the_claim(cluster).conditions["Registered"]
    assert (found.status, found.reason, found.message) == ("Unknown", "MultipleNodesFound", cause)
    events = [each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "MultipleNodesFound"]
    assert [(each["regarding"]["kind"], each["note"]) for each in events] == [("NodeClaim", cause)]

    cluster.now += timedelta(minutes=16)
    cluster.check("up-1")
    found = the_claim(cluster).conditions["Registered"]
    assert (found.status, found.reason) == ("False", "RegistrationTimeout")
    assert found.message.endswith(f"has not joined the cluster in 15 minutes. {cause}")


def test_a_claim_whose_twin_node_was_deleted_registers(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()
    node = the_node(cluster)
    cluster.kube.put({**node, "metadata": {**node["metadata"], "name": "twin", "uid": "uid-of-twin"}})
    cluster.check("up-1")
    cluster.kube.delete(kinds.NODES, "twin")

    assert cluster.check("up-1")["done"]
    assert the_claim(cluster).conditions["Registered"].reason == "Registered"


def test_a_ready_node_without_the_requested_device_is_the_cause_on_the_claim_after_two_minutes(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster).boot()
    claim = the_claim(cluster)
    manifest = cluster.kube.get(kinds.NODECLAIMS, claim.name)
    manifest["spec"].setdefault("resources", {}).setdefault("requests", {})["nvidia.com/gpu"] = "1"
    cluster.kube.put(manifest)

    cluster.check("up-1")
    cluster.now += timedelta(minutes=1)
    cluster.check("up-1")
    assert the_claim(cluster).conditions["Initialized"].reason == "NodeNotReady"

    cluster.now += timedelta(minutes=2)
    cluster.check("up-1")
    found, node = the_claim(cluster).conditions["Initialized"], the_node(cluster)["metadata"]["name"]
    cause = (
        f"node {node} is Ready and has not registered nvidia.com/gpu: the NVIDIA device plug-in must run on the node, "
        "and its image must have its driver"
    )
    assert (found.status, found.reason, found.message) == ("Unknown", "ResourceNotRegistered", cause)

    cluster.now += timedelta(minutes=13)
    cluster.check("up-1")
    found = the_claim(cluster).conditions["Initialized"]
    assert (found.status, found.reason) == ("False", "InitializationTimeout")
    assert cause in found.message


def opened_in_a_wave_that_goes_on(cluster: SimulatedCluster) -> None:
    """Open the node of one pod while the execution still launches, so that its wave keeps the claim."""
    launched(cluster).boot()
    cluster.check("up-1", launching=True)
    cluster.now += timedelta(seconds=2)
    cluster.check("up-1", launching=True)
    assert the_claim(cluster).conditions.true("Initialized")


def test_a_twin_of_a_node_that_takes_pods_is_an_event_and_its_claim_is_never_given_up(
    cluster: SimulatedCluster,
) -> None:
    opened_in_a_wave_that_goes_on(cluster)
    node = the_node(cluster)
    before = the_claim(cluster).conditions.to_kube()
    cluster.kube.put({**node, "metadata": {**node["metadata"], "name": "twin", "uid": "uid-of-twin"}})

    cluster.check("up-1", launching=True)
    cluster.check("up-1", launching=True)
    cluster.now += timedelta(minutes=16)
    cluster.check("up-1", launching=True)

    assert the_claim(cluster).conditions.to_kube() == before
    found = [
        each["regarding"]["kind"] for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "MultipleNodesFound"
    ]
    assert found == ["NodeClaim"] * 2  # one in each ten minutes


def test_a_node_that_lost_its_initialized_label_and_its_device_keeps_the_condition_of_its_claim(
    cluster: SimulatedCluster,
) -> None:
    opened_in_a_wave_that_goes_on(cluster)
    manifest = cluster.kube.get(kinds.NODECLAIMS, the_claim(cluster).name)
    manifest["spec"].setdefault("resources", {}).setdefault("requests", {})["nvidia.com/gpu"] = "1"
    cluster.kube.put(manifest)
    node = the_node(cluster)
    del node["metadata"]["labels"]["karpenter.sh/initialized"]
    cluster.kube.put(node)
    before = the_claim(cluster).conditions.to_kube()

    cluster.now += timedelta(minutes=16)
    cluster.check("up-1", launching=True)

    assert the_claim(cluster).conditions.to_kube() == before
    assert "ResourceNotRegistered" in [each["reason"] for each in cluster.kube.all(kinds.EVENTS)]
