"""A mass outage: up to 24,000 pods become pending at once. A round ends within its timeouts; events are few and written
after the launch.
"""

import time
from dataclasses import replace
from typing import Any

import pytest

from functions.begin_retirement import handler as begin_retirement
from functions.check_registration import handler as check_registration
from functions.forget_nodes import handler as forget_nodes
from functions.record_launches import handler as record_launches
from infra.function_configuration import CONFIGURATIONS
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.adapters.payload import Execution, Task
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest, RetirementStage, RetiringClaim
from joiner.names import FILLING
from joiner.reporting.event_limits import EVENTS_AT_ONCE
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CLUSTER, pending

LATE = TimeLeft(lambda: 1.0)
"""The time left of a function that Lambda is about to stop."""


def asked(cluster: SimulatedCluster, what: str) -> list[int]:
    """Return the positions of these among the requests of this cluster."""
    return [position for position, each in enumerate(cluster.kube.asked) if each.startswith(what)]


@pytest.mark.parametrize("pods", [3_000, pytest.param(24_000, marks=pytest.mark.long("3,000 pods"))])
def test_a_round_with_thousands_of_pending_pods_ends_within_its_timeouts(cluster: SimulatedCluster, pods: int) -> None:
    subnets = tuple(replace(each, free_ips=pods) for each in cluster.node_class.subnets)  # never short of addresses
    cluster.node_class = replace(cluster.node_class, subnets=subnets)
    cluster.prepare(*(pending(f"web-{number:05d}", cpu="10m") for number in range(pods)))
    cluster.stop_after = "record_launches"
    began = time.process_time()
    cluster.scale_up("up-1")
    took = time.process_time() - began
    names = ("find_pending_pods", "plan_capacity", "record_node_claims", "record_launches")

    assert cluster.answers["record_node_claims"]["claims"] == len(list_claims(cluster.kube).claims) >= pods // 29
    assert cluster.answers["record_launches"]["launched"] == cluster.answers["record_node_claims"]["claims"]
    assert took < sum(CONFIGURATIONS[name].timeout_seconds for name in names) * pods / 24_000
    assert asked(cluster, "POST /api/v1/namespaces/default/events") == []  # no event is written while the lease is held

    cluster.stop_after = ""
    cluster.unpublished = [
        *cluster.answers["record_node_claims"]["events"],
        *cluster.answers["record_launches"]["events"],
    ]
    cluster.check("up-1")
    events = cluster.kube.all(kinds.EVENTS)
    assert 0 < len(events) <= EVENTS_AT_ONCE
    assert f"{pods:,} Pods with different texts, for example web-" in " ".join(
        each["note"] for each in events if each["regarding"]["kind"] == "ReplicaSet"
    )


def test_claims_for_which_no_time_is_left_are_not_written_and_planned_again(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{number}") for number in range(3)))
    cluster.times_to_record = iter([LATE, UNBOUNDED])

    assert cluster.scale_up("up-1")

    assert list(cluster.times_to_record) == [], "the plan is recorded twice"
    assert len(list_claims(cluster.kube).claims) == 3
    assert all(pod["spec"].get("nodeName") for pod in cluster.kube.all(kinds.PODS))


def test_a_launch_for_which_the_time_ends_is_recorded_by_two_passes(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{number:02}", cpu="3500m") for number in range(20)))
    cluster.stop_after = "launch_instances"
    cluster.scale_up("up-1")
    lease = cluster.ledger.lease()
    task = Task(Execution("up-1", lease.holder, ""), CLUSTER, lease.number, 1)
    looks = iter(range(10_000))

    def record(time_left: TimeLeft) -> dict[str, Any]:
        recording = record_launches.LaunchRecording(
            cluster.kube, cluster.ledger, cluster.known, cluster.store, time_left
        )
        return recording.answer(task, "", cluster.now, 0)

    first = record(TimeLeft(lambda: 100.0 if next(looks) < 7 else 1.0))
    some = [claim for claim in list_claims(cluster.kube).claims if claim.launched]
    second = record(TimeLeft())

    assert len(some) == 7
    assert (first["launched"], first["again"], first["waiting"]) == (0, True, 7)
    assert (second["launched"], second["again"], second["waiting"]) == (20, False, 20)
    assert all(claim.launched for claim in list_claims(cluster.kube).claims)
    assert cluster.ledger.unrecorded_launches() == []


def test_pods_for_which_no_time_is_left_are_bound_in_the_next_pass_and_their_node_stays_closed(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1"))
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after = ""
    cluster.boot()
    first = check_registration.RegistrationCheck(cluster.kube, cluster.ledger, time_left=LATE).answer(
        "up-1", cluster.now
    )
    (node,) = cluster.kube.all(kinds.NODES)

    assert (first["done"], first["waiting"], first["postponed"], first["podsPlaced"]) == (False, 1, 1, 0)
    assert FILLING in {taint["key"] for taint in node["spec"]["taints"]}
    assert cluster.check("up-1")["done"]
    assert [pod["spec"]["nodeName"] for pod in cluster.kube.all(kinds.PODS)] == [node["metadata"]["name"]]


@pytest.mark.parametrize("looks", [0, 2, 4, 8, 10, 12, 14, 16, 20])
def test_whenever_the_time_of_a_check_ends_the_next_ones_open_the_nodes_with_their_pods(
    cluster: SimulatedCluster, looks: int
) -> None:
    cluster.prepare(*(pending(f"web-{number}", cpu="3500m") for number in range(4)))
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after = ""
    cluster.boot()
    left = iter([100.0] * looks)
    first = check_registration.RegistrationCheck(
        cluster.kube, cluster.ledger, time_left=TimeLeft(lambda: next(left, 1.0))
    ).answer("up-1", cluster.now)
    opened = [node for node in cluster.kube.all(kinds.NODES) if not node["spec"].get("taints")]

    assert first["initialized"] == len(opened)
    assert first["done"] == (len(opened) == 4)
    last = first if first["done"] else [cluster.check("up-1") for _ in range(2)][-1]
    assert last["done"]
    assert all(pod["spec"].get("nodeName") for pod in cluster.kube.all(kinds.PODS))
    assert not any(node["spec"].get("taints") for node in cluster.kube.all(kinds.NODES))


def test_a_retirement_for_which_no_time_is_left_changes_nothing_and_is_reported(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    assert cluster.scale_up("up-1")
    (claim,) = list_claims(cluster.kube).claims
    retiring = RetirementExecution(cluster, "retire-1")
    beginning = begin_retirement.RetirementStart(*retiring.parts, time_left=LATE)
    task = _task(retiring)
    left = beginning.answer(task, [RetirementRequest(claim.name, RetirementReason.DELETED)], cluster.now, 0)

    assert left["skipped"] == [{"claim": claim.name, "why": "no time was left; the sweep asks again"}]
    assert left["waves"] == []
    assert list_claims(cluster.kube).claims == (claim,)


def test_nodes_for_which_no_time_is_left_are_forgotten_in_the_next_look(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    assert cluster.scale_up("up-1")
    (claim,) = list_claims(cluster.kube).claims
    retiring = RetirementExecution(cluster, "retire-1")
    begun = begin_retirement.RetirementStart(*retiring.parts)
    ((entry,),) = begun.answer(_task(retiring), [RetirementRequest(claim.name, RetirementReason.LOST)], cluster.now, 0)[
        "waves"
    ]
    entries = [RetiringClaim.from_json(entry).at(RetirementStage.TERMINATED)]
    late = forget_nodes.NodeRemoval(cluster.kube, cluster.ledger, retiring.retirements, LATE).answer(
        retiring.execution, entries, cluster.now
    )

    assert (late["forgotten"], late["claims"][0]["why"]) == (0, "no time was left in this pass")
    assert len(list_claims(cluster.kube).claims) == 1
    after = forget_nodes.NodeRemoval(cluster.kube, cluster.ledger, retiring.retirements).answer(
        retiring.execution, entries, cluster.now
    )
    assert after["forgotten"] == 1
    assert list_claims(cluster.kube).claims == ()


def test_a_cluster_beyond_the_supported_size_is_reported_in_the_sweep_and_on_its_pools(
    cluster: SimulatedCluster,
) -> None:
    nodes = (
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{n}"},
            "spec": {"providerID": f"aws:///a/i-{n}"},
        }
        for n in range(2_001)
    )
    cluster.prepare(*nodes)
    survey, _ = cluster.survey("1")

    assert survey["reasons"][0].startswith("2,001 nodes exceed the supported size of 2,000")
    (events,) = [each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "ClusterTooLarge"]
    assert events["regarding"]["name"] == "default"
    assert not isinstance(events, KubeError)


def _task(retiring: RetirementExecution) -> Any:
    from joiner.adapters.payload import Task
    from tests.unit.functions.small_account import CLUSTER

    return Task(retiring.execution, CLUSTER, 0, 1)
