"""A scale-up from pending pods to nodes that run them: every function with its real input, over fakes that behave."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.check_registration import handler as check_registration
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.ledger_items import OfferingKey
from joiner.planning.effort import Effort
from tests.unit.functions.launched_nodes import launched
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.small_account import pending

CREATES_CLAIM = "POST /apis/karpenter.sh/v1/nodeclaims"


def reasons(cluster: SimulatedCluster, kind: str, name: str) -> list[str]:
    """Return the reasons of the events on one object, in their order."""
    return [
        event["reason"]
        for event in cluster.kube.all(kinds.EVENTS)
        if (event["regarding"]["kind"], event["regarding"]["name"]) == (kind, name)
    ]


def types(cluster: SimulatedCluster) -> list[str]:
    return sorted(instance["InstanceType"] for instance in cluster.ec2.instances.values())


def test_pending_pods_get_their_nodes(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"))

    assert cluster.scale_up("up-1")

    assert cluster.answers["find_pending_pods"]["pods"] == 2
    registration = cluster.answers["check_registration"]
    assert (registration["done"], registration["podsPlaced"], registration["placedAsPlanned"]) == (True, 2, 1.0)
    assert (
        sum(node["pricePerHour"] for node in registration["nodes"]) == cluster.answers["plan_capacity"]["pricePerHour"]
    )
    nothing_is_left(cluster)


def test_a_plan_keeps_the_effort_of_the_function(cluster: SimulatedCluster) -> None:
    looks = itertools.count()
    cluster.effort = Effort(seconds=1.0, clock=lambda: float(next(looks)))
    cluster.prepare(pending("web-1"))

    assert cluster.scale_up("up-1")

    assert next(looks) > 1


def replica_set(replicas: int, created: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas},
        "status": {"replicas": created},
    }


def test_a_deployment_whose_pods_all_exist_is_planned_at_the_first_look(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set(2, 2), pending("web-1"), pending("web-2"))
    assert cluster.scale_up("up-1")

    assert cluster.answers["find_pending_pods"]["gathering"] == {"waited": 1, "pods": 2, "idle": 0}
    before_claims = cluster.kube.asked[: cluster.kube.asked.index(CREATES_CLAIM)]
    assert before_claims.count("GET /api/v1/pods") == 2  # those without a node, and then all
    assert before_claims.count("GET /api/v1/nodes") == 1


def test_a_deployment_whose_pods_come_in_portions_gets_one_plan(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set(2, 1), pending("web-1"))

    def arrives(_method: str, path: str, act: Callable[[], Any]) -> Any:
        answer = act()
        if path.endswith("/replicasets/web"):  # the rest is created right after the first look at the controller
            cluster.kube.put(replica_set(2, 2))
            cluster.kube.put(pending("web-2"))
        return answer

    cluster.kube.fault = arrives
    assert cluster.scale_up("up-1")

    assert cluster.answers["find_pending_pods"]["pods"] == 2
    assert cluster.answers["plan_capacity"]["pods"] == 2
    assert len(list_claims(cluster.kube).claims) == 2


def test_pods_claims_and_nodes_have_the_events_of_a_scale_up(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.scale_up("up-1")
    (claim,) = list_claims(cluster.kube).claims

    assert sorted(reasons(cluster, "Pod", "web-1")) == ["Scheduled", "TriggeredScaleUp"]
    assert sorted(reasons(cluster, "NodeClaim", claim.name)) == ["Initialized", "Launched", "Registered"]
    assert sorted(reasons(cluster, "Node", claim.node_name)) == ["Initialized", "Registered"]


def test_the_claim_and_the_pool_show_what_was_launched(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.scale_up("up-1")
    (claim,) = list_claims(cluster.kube).claims
    pool = cluster.kube.get(kinds.NODEPOOLS, "default")

    assert (claim.instance_type, claim.zone, claim.image_id) == ("m5.large", "us-east-1a", "ami-1")
    assert claim.annotations["joiner.dev/price-per-hour"] == "0.096"
    assert claim.conditions.true("Ready")
    assert pool["status"]["resources"]["cpu"] == "2"
    assert {each["type"]: each["status"] for each in pool["status"]["conditions"]}["Ready"] == "True"


def test_instances_carry_their_claim_and_their_launch(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.scale_up("up-1")
    (claim,) = list_claims(cluster.kube).claims
    (instance,) = cluster.ec2.instances.values()
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}

    assert tags["karpenter.sh/nodeclaim"] == tags["Name"] == claim.name
    assert tags["joiner.dev/execution"] == "up-1"
    assert tags["joiner.dev/launch"].startswith("l-")
    assert tags["kubernetes.io/cluster/demo"] == "owned"


def test_a_second_scale_up_while_one_runs_joins_it(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster._take_lease("up-1")

    assert cluster.scale_up("up-2")
    assert cluster.kube.asked == []


def test_pods_whose_nodes_are_on_their_way_are_not_planned_again(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after = ""
    cluster.machine.break_lease(arn("up-1"), 1)
    cluster.kube.put(pending("web-3"))
    cluster.scale_up("up-2")

    assert cluster.answers["find_pending_pods"]["pods"] == 1
    assert len(cluster.ec2.instances) == 3
    cluster.now += timedelta(seconds=60)
    cluster.sweep("up-3")
    nothing_is_left(cluster)


def test_pods_of_a_rollout_take_the_room_of_those_they_replace(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("old-1"), pending("old-2"))
    cluster.boots = False
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after, cluster.boots = "", True
    for name in ("old-1", "old-2"):
        cluster.kube.delete(kinds.PODS, name, namespace="default")
    for name in ("new-1", "new-2"):
        cluster.kube.put(pending(name))
    for _ in range(2):
        cluster.now += timedelta(seconds=60)
        cluster.sweep(f"up-sweep-{cluster.now:%M}")

    assert len(cluster.ec2.instances) == 2
    nothing_is_left(cluster)


def test_the_next_offering_is_taken_in_the_same_execution_when_one_is_short(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.ec2.short = {("m5.large", "us-east-1a"), ("m5.large", "us-east-1b")}

    cluster.scale_up("up-1")

    assert types(cluster) == ["m5.xlarge"]
    nothing_is_left(cluster)
    marks = {mark.offering for mark in cluster.ledger.unavailable(int(cluster.now.timestamp()))}
    assert marks <= {
        OfferingKey("on-demand", "m5.large", "us-east-1a"),
        OfferingKey("on-demand", "m5.large", "us-east-1b"),
    }


def test_a_claim_that_was_deleted_meanwhile_leaves_the_wave(cluster: SimulatedCluster) -> None:
    launched(cluster)
    (claim,) = list_claims(cluster.kube).claims
    cluster.kube.delete(kinds.NODECLAIMS, claim.name)

    assert cluster.check("up-1")["done"]


def test_a_node_that_never_joins_is_reported_after_a_quarter_of_an_hour(cluster: SimulatedCluster) -> None:
    launched(cluster)
    (claim,) = list_claims(cluster.kube).claims
    assert cluster.check("up-1")["waiting"] == 1
    cluster.now += timedelta(minutes=16)

    answer = cluster.check("up-1")

    assert (answer["done"], answer["failed"]) == (True, [claim.name])
    assert "RegistrationTimeout" in reasons(cluster, "NodeClaim", claim.name)


def test_the_rings_of_a_wave_are_noted_before_anything_is_listed(cluster: SimulatedCluster) -> None:
    launched(cluster)

    def ring_meanwhile(_method: str, _path: str, do: Any) -> Any:
        cluster.kube.fault = None
        cluster.machine.ring_wave("up-1", at=0.0)
        return do()

    cluster.kube.fault = ring_meanwhile

    assert cluster.check("up-1")["rings"] == 0
    assert cluster.check("up-1")["rings"] == 1


def test_a_look_right_after_a_ring_waits_until_what_it_rang_for_is_stored(cluster: SimulatedCluster) -> None:
    launched(cluster)
    slept: list[float] = []
    check = check_registration.RegistrationCheck(cluster.kube, cluster.ledger, slept.append)

    cluster.machine.ring_wave("up-1", at=cluster.now.timestamp() - 10.0)
    check.answer("up-1", cluster.now)
    assert slept == []
    cluster.machine.ring_wave("up-1", at=cluster.now.timestamp() - 0.1)
    check.answer("up-1", cluster.now)
    cluster.machine.ring_wave("up-1", at=cluster.now.timestamp() + 0.05)
    check.answer("up-1", cluster.now)
    cluster.machine.ring_wave("up-1", at=cluster.now.timestamp() + 3600)
    check.answer("up-1", cluster.now)
    assert slept == [pytest.approx(0.4), pytest.approx(0.55), 1.0]


def test_a_snapshot_keeps_no_environment_and_no_command(cluster: SimulatedCluster) -> None:
    pod = pending("web-1")
    pod["spec"]["containers"][0] |= {"env": [{"name": "PASSWORD", "value": "hunter2"}], "command": ["run", "hunter2"]}
    pod["metadata"]["annotations"] = {"token": "hunter2"}
    cluster.prepare(pod)
    cluster.scale_up("up-1")

    assert "hunter2" not in str(cluster.store.get("snapshots/up-1/1.json.gz"))
    assert documents.get_snapshot(cluster.store, "snapshots/up-1/1.json.gz").pods[0].name == "web-1"


def test_a_snapshot_that_lacks_a_claim_the_ledger_knows_is_read_again(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.machine.assign("default-unseen", {"x": 1}, lease_number=1)
    cluster.scale_up("up-1")

    # twice for the snapshot, once for each recording
    assert cluster.kube.asked.count("GET /apis/karpenter.sh/v1/nodeclaims") >= 4
    nothing_is_left(cluster)


def test_what_one_round_writes_again_is_the_same(cluster: SimulatedCluster) -> None:
    """The state machine retries a function whose response was lost."""
    cluster.prepare(pending("web-1"))
    seen: list[str] = []

    def lose_the_end(_method: str, path: str, do: Any) -> Any:
        answer = do()
        if "/events" in path and not seen:
            seen.append(path)
            raise RuntimeError("the sandbox died after all was written")
        return answer

    cluster.kube.fault = lose_the_end
    cluster.scale_up("up-1")

    assert seen
    assert len(cluster.ec2.instances) == 1
    nothing_is_left(cluster)
