"""When a node that got its pods opens to the scheduler: at once, after a pause, or only after other pods that might
take its place.
"""

from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.cluster import Pod
from joiner.names import FILLING
from tests.unit.functions.launched_nodes import launched, node_of, taints, the_node
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


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
    ((second, pause),) = [(number, call) for number, call in enumerate(asked) if call.startswith("sleep ")]
    assert 0.5 < float(pause.split()[1]) <= 1.0  # the rest of a second
    nodes = [f"PATCH /api/v1/nodes/{node['metadata']['name']}" for node in cluster.kube.all(kinds.NODES)]
    last_binding = max(number for number, call in enumerate(asked) if call.endswith("/binding"))
    openings = [max(number for number, call in enumerate(asked) if call == patch) for patch in nodes]
    assert len(nodes) == 2
    assert last_binding < second < min(openings)


def test_while_other_nodes_boot_a_filled_node_stays_closed_for_five_seconds(cluster: SimulatedCluster) -> None:
    """Its check ends at once: the next one begins after a ring of the other node, or when the five seconds end."""
    launched(cluster, pending("web-2"))
    cluster.boot()
    first, other = cluster.kube.all(kinds.NODES)
    first["status"]["conditions"][0]["lastTransitionTime"] = now(cluster)
    other["status"]["conditions"][0]["status"] = "False"

    filled = cluster.check("up-1")

    assert (filled["done"], filled["settling"], filled["initialized"]) == (False, 0, 0)
    assert taints(cluster.kube.get(kinds.NODES, first["metadata"]["name"])) == [FILLING]
    assert len([pod for pod in ("web-1", "web-2") if node_of(cluster, pod) == first["metadata"]["name"]]) == 1
    assert not any(call.startswith("sleep") for call in cluster.kube.asked)

    cluster.now += timedelta(seconds=6)
    opened = cluster.check("up-1")

    assert (opened["done"], opened["settling"], opened["initialized"]) == (False, 0, 1)
    assert taints(cluster.kube.get(kinds.NODES, first["metadata"]["name"])) == []


def test_the_nodes_of_a_wave_open_after_the_last_binding(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-2"))
    cluster.boot()
    first, other = cluster.kube.all(kinds.NODES)
    first["status"]["conditions"][0]["lastTransitionTime"] = now(cluster)
    other["status"]["conditions"][0]["status"] = "False"
    cluster.check("up-1")
    cluster.kube.asked.clear()
    cluster.now += timedelta(seconds=3)
    cluster.check("up-1")  # after a ring of another node, for example
    other["status"]["conditions"][0]["status"] = "True"

    assert cluster.check("up-1")["done"]

    opened = {f"PATCH /api/v1/nodes/{node['metadata']['name']}" for node in (first, other)}
    assert opened <= set(cluster.kube.asked)
    last_binding = max(number for number, call in enumerate(cluster.kube.asked) if call.endswith("/binding"))
    assert not opened & set(cluster.kube.asked[:last_binding])


@pytest.mark.parametrize(("seconds", "closed"), [(1, [FILLING]), (6, [])])
def test_a_filled_node_opens_after_a_node_that_registers_has_its_pods_or_after_five_seconds(
    cluster: SimulatedCluster, seconds: int, closed: list[str]
) -> None:
    """Each opening makes the scheduler try the other pods again, which fit on none of these nodes."""
    launched(cluster, pending("web-2")).boot()
    first, other = cluster.kube.all(kinds.NODES)
    first["status"]["conditions"][0]["lastTransitionTime"] = now(cluster)
    other["status"]["conditions"][0]["status"] = "False"
    cluster.kube.objects.pop(("nodes", "", other["metadata"]["name"]))
    assert cluster.check("up-1")["initialized"] == 0
    cluster.kube.put(other)
    cluster.now += timedelta(seconds=seconds)

    cluster.check("up-1")

    assert taints(cluster.kube.get(kinds.NODES, first["metadata"]["name"])) == closed


def test_a_node_opens_in_the_next_check_while_its_execution_launches_others(cluster: SimulatedCluster) -> None:
    launched(cluster).boot()

    assert cluster.check("up-1", launching=True)["settling"] == 1
    assert taints(the_node(cluster)) == [FILLING]
    assert cluster.check("up-1", launching=True)["settling"] == 0
    assert taints(the_node(cluster)) == []
