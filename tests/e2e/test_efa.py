"""A pod that requests EFA: its node is launched with an EFA interface, and registers it for the pod."""

from collections.abc import Iterator

import pytest

from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

EFA = "vpc.amazonaws.com/efa"


@pytest.fixture
def clustered(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()


def test_a_pod_that_requests_efa_runs_on_a_node_with_an_efa_interface(clustered: Actor) -> None:
    pool = node_pool("bounded", {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["c5n.9xlarge"]})
    workload = deployment("mpi")
    resources = workload["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"][EFA] = "1"
    resources["limits"] = {EFA: "1"}

    clustered.create(node_class("bounded"), pool, workload)
    clustered.wait_running(1, "mpi")

    (instance,) = clustered.instances()
    assert [(nic["Attachment"]["DeviceIndex"], nic["InterfaceType"]) for nic in instance["NetworkInterfaces"]] == [
        (0, "efa")
    ]
    registered = [node["status"]["allocatable"].get(EFA) for node in clustered.nodes()]
    assert [count for count in registered if count] == ["1"]
