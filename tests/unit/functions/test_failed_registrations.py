"""Conditions and events of a launch that goes wrong: of the pool, and of claims with twin nodes or missing devices."""

from datetime import timedelta

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Conditions
from tests.unit.functions.launched_nodes import launched, the_claim, the_node
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


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
    held = cluster.ledger.pool_holds()
    assert [(hold.device, hold.failures, cause in hold.cause) for hold in held] == [("nvidia.com/gpu", 1, True)]


@pytest.mark.parametrize(
    ("startup", "taint", "reason", "said"),
    [
        (
            [{"key": "boot", "effect": "NoSchedule"}],
            {"key": "boot", "effect": "NoSchedule"},
            "StartupTaintsExist",
            "has the startup taint boot:NoSchedule: what removes this taint must run and tolerate it",
        ),
        (
            [],
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
            "KnownEphemeralTaintsExist",
            "has the taint node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule: what removes this taint "
            "must run",
        ),
    ],
)
def test_a_taint_that_nobody_removes_from_a_ready_node_is_the_cause_on_the_claim_after_two_minutes(
    startup: list[dict[str, str]], taint: dict[str, str], reason: str, said: str, cluster: SimulatedCluster
) -> None:
    launched(cluster).boot()
    manifest = cluster.kube.get(kinds.NODECLAIMS, the_claim(cluster).name)
    manifest["spec"]["startupTaints"] = startup
    cluster.kube.put(manifest)
    node = the_node(cluster)
    node["spec"].setdefault("taints", []).append(taint)
    cluster.kube.put(node)

    cluster.check("up-1")
    cluster.now += timedelta(minutes=1)
    cluster.check("up-1")
    assert the_claim(cluster).conditions["Initialized"].reason == "NodeNotReady"

    cluster.now += timedelta(minutes=2)
    cluster.check("up-1")
    cluster.check("up-1")
    found = the_claim(cluster).conditions["Initialized"]
    cause = f"node {node['metadata']['name']} is Ready and {said}"
    assert (found.status, found.reason, found.message) == ("Unknown", reason, cause)
    assert [each["note"] for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == reason] == [cause]

    node = the_node(cluster)
    node["spec"]["taints"] = [each for each in node["spec"]["taints"] if each["key"] != taint["key"]]
    cluster.kube.put(node)
    assert cluster.check("up-1")["done"]


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
