"""A scale-up for a buffer of which a call fails."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters.kube import Manifest
from joiner.adapters.kube_errors import NotFound
from tests.unit.functions.buffered_cluster import BUFFER, conditions, put_buffer, put_template, settle
from tests.unit.functions.call_faults import Fault, Trouble
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import claims, node_of


def test_a_cluster_without_the_definition_has_no_buffers(cluster: SimulatedCluster) -> None:
    def missing(_method: str, path: str, answer: Any) -> Manifest:
        if "autoscaling.x-k8s.io" in path:
            raise NotFound("the server could not find the requested resource", status=404)
        found: Manifest = answer()
        return found

    cluster.prepare(pending("web-1"))
    cluster.kube.fault = missing

    cluster.sweep("sweep-1")

    assert node_of(cluster, "web-1")


def test_a_cluster_that_serves_only_the_alpha_version_is_served(cluster: SimulatedCluster) -> None:
    def alpha_only(_method: str, path: str, answer: Any) -> Manifest:
        if "autoscaling.x-k8s.io/v1beta1" in path:
            raise NotFound("the server could not find the requested resource", status=404)
        found: Manifest = answer()
        return found

    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, replicas=1)
    cluster.kube.objects[BUFFER]["apiVersion"] = "autoscaling.x-k8s.io/v1alpha1"
    cluster.kube.fault = alpha_only

    settle(cluster)

    assert conditions(cluster)["Provisioning"] == "True FitsExistingCapacity: 1 pod fit on running nodes"


def test_a_launch_without_an_answer_counts_as_capacity_of_the_buffer(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    put_template(cluster)
    put_buffer(cluster, replicas=2)
    cluster.stop_after = "launch_instances"
    assert not cluster.scale_up("up-1")
    cluster.stop_after = ""
    cluster.now += timedelta(minutes=5)

    cluster.scale_up("up-2")
    settle(cluster)

    assert len(claims(cluster)) == 2 and len(cluster.ec2.instances) == 2


def with_a_pod_and_a_buffer(make_cluster: MakeCluster) -> SimulatedCluster:
    cluster = make_cluster().prepare(pending("web-1"))
    put_template(cluster)
    put_buffer(cluster, replicas=2)
    return cluster


def calls_for_buffers(calls: Sequence[str]) -> list[int]:
    """Return the positions of the calls that only a buffer causes: its lists, its template, its record of nodes (the
    last update before the first claim) and its status."""
    created = next(number for number, call in enumerate(calls) if call.startswith("POST") and "nodeclaims" in call)
    record = max(number for number, call in enumerate(calls[:created]) if call == "update_item")
    own = [number for number, call in enumerate(calls) if "autoscaling.x-k8s.io" in call or "podtemplates" in call]
    return sorted({record, *own})


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: str(fault.value))
def test_whatever_call_for_a_buffer_fails_it_gets_its_nodes_and_no_more(
    make_cluster: MakeCluster, fault: Fault
) -> None:
    with Trouble(clean := with_a_pod_and_a_buffer(make_cluster)) as recorded:
        clean.scale_up("up-1")
    numbers = calls_for_buffers(recorded.calls)
    assert {recorded.calls[number].partition(" ")[0] for number in numbers} == {"GET", "update_item", "PATCH"}
    assert len(claims(clean)) == 3

    wrong = []
    for number in numbers:
        cluster = with_a_pod_and_a_buffer(make_cluster)
        cluster.stop_after = "nothing" if fault.kills else ""
        with Trouble(cluster, fault, number) as trouble:
            cluster.scale_up("up-1")
        cluster.stop_after = ""
        settle(cluster)
        try:
            nothing_is_left(cluster)
            assert len(claims(cluster)) == len(cluster.ec2.instances) == 3
            assert conditions(cluster)["Provisioning"] == "True FitsExistingCapacity: 2 pods fit on running nodes"
        except AssertionError as reason:
            wrong.append(f"{number} {trouble.calls[number]}: {reason}")

    assert wrong == []
