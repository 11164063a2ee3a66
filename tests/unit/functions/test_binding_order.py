"""The order of one pass: pods are bound while other nodes are registered, and nothing is listed that no rule needs."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from functions.check_registration.assigned_pods import BINDINGS_AT_ONCE
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import POOLED
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.parallel_calls import WORKERS
from joiner.names import REGISTERED
from tests.unit.functions.launched_nodes import launched, node_of
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending

ZONE = "topology.kubernetes.io/zone"
PATIENCE = 10.0  # seconds until a call that waits for another one gives up
NODES = "GET /api/v1/nodes"
PODS = "GET /api/v1/pods"
NAMESPACES = "GET /api/v1/namespaces"
NODECLAIMS = "GET /apis/karpenter.sh/v1/nodeclaims"
MACHINES = "GET /apis/karpenter.sh/v1alpha5/machines"


def one_ready_and_one_new(cluster: SimulatedCluster) -> tuple[str, str]:
    """Return the names of a node that is registered and became Ready since, and of one that no check has read."""
    launched(cluster, pending("web-2")).boot()
    first, other = (node["metadata"]["name"] for node in cluster.kube.all(kinds.NODES))
    manifest = cluster.kube.objects.pop(("nodes", "", other))
    become_ready(cluster, first, False)
    assert cluster.check("up-1")["registered"] == 1
    become_ready(cluster, first, True)
    cluster.kube.put(manifest)
    become_ready(cluster, other, False)
    cluster.kube.asked.clear()
    return first, other


def spread(name: str) -> dict[str, Any]:
    """Return a pod of a workload with as many pods in each zone."""
    pod = pending(name)
    pod["metadata"]["labels"] = {"app": "api"}
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "api"}},
        }
    ]
    return pod


def become_ready(cluster: SimulatedCluster, node: str, ready: bool) -> None:
    cluster.kube.objects["nodes", "", node]["status"]["conditions"][0]["status"] = str(ready)


def filled_nodes(cluster: SimulatedCluster) -> list[str]:
    return sorted({node_of(cluster, pod) for pod in ("web-1", "web-2")} - {""})


def is_registered(cluster: SimulatedCluster, node: str) -> bool:
    return REGISTERED in cluster.kube.get(kinds.NODES, node)["metadata"]["labels"]


def test_a_ready_node_gets_its_pods_while_the_registration_of_another_waits(cluster: SimulatedCluster) -> None:
    first, other = one_ready_and_one_new(cluster)
    bound, in_time = threading.Event(), list[bool]()

    def register_after_the_binding(method: str, path: str, do: Callable[[], Any]) -> Any:
        if method == "PATCH" and path.endswith(f"/nodes/{other}"):
            in_time.append(bound.wait(PATIENCE))
        answer = do()
        if path.endswith("/binding"):
            bound.set()
        return answer

    cluster.kube.fault = register_after_the_binding
    cluster.check("up-1")

    assert in_time == [True]
    assert (filled_nodes(cluster), is_registered(cluster, other)) == ([first], True)


def test_a_node_is_registered_while_the_bindings_of_another_wait(cluster: SimulatedCluster) -> None:
    _, other = one_ready_and_one_new(cluster)
    registered, in_time = threading.Event(), list[bool]()

    def bind_after_the_registration(method: str, path: str, do: Callable[[], Any]) -> Any:
        if path.endswith("/binding"):
            in_time.append(registered.wait(PATIENCE))
        answer = do()
        if method == "PATCH" and path.endswith(f"/nodes/{other}"):
            registered.set()
        return answer

    cluster.kube.fault = bind_after_the_registration
    cluster.check("up-1")

    assert in_time == [True]


@pytest.mark.parametrize("status", [409, 503])
def test_a_registration_that_is_refused_keeps_no_pod_from_its_node(cluster: SimulatedCluster, status: int) -> None:
    first, other = one_ready_and_one_new(cluster)

    def refuse(method: str, path: str, do: Callable[[], Any]) -> Any:
        if method == "PATCH" and path.endswith(f"/nodes/{other}"):
            raise KubeError("refused", status=status)
        return do()

    cluster.kube.fault = refuse
    answer = cluster.check("up-1")

    assert (answer["done"], answer["registered"], filled_nodes(cluster)) == (False, 1, [first])


def test_pods_that_cannot_be_listed_keep_no_node_unregistered(cluster: SimulatedCluster) -> None:
    _, other = one_ready_and_one_new(cluster)

    def no_pods(_method: str, path: str, do: Callable[[], Any]) -> Any:
        if path.endswith("/pods"):
            raise KubeError("too busy", status=503)
        return do()

    cluster.kube.fault = no_pods
    with pytest.raises(Exception, match="too busy"):
        cluster.check("up-1")

    assert is_registered(cluster, other)


def test_a_new_node_that_is_ready_at_once_gets_its_pods_in_the_pass_that_registers_it(
    cluster: SimulatedCluster,
) -> None:
    first, other = one_ready_and_one_new(cluster)
    become_ready(cluster, other, True)

    answer = cluster.check("up-1")

    assert (answer["done"], answer["initialized"], answer["podsPlaced"]) == (True, 2, 2)
    assert filled_nodes(cluster) == sorted([first, other])


def test_pods_of_a_spread_do_not_wait_for_a_pass_after_the_one_that_registers_their_zone(
    cluster: SimulatedCluster,
) -> None:
    launched(cluster, *(spread(f"api-{number}") for number in range(6))).boot()
    for zone in ("us-east-1a", "us-east-1b"):
        assert [node for node in cluster.kube.all(kinds.NODES) if node["metadata"]["labels"][ZONE] == zone]
    late = [node for node in cluster.kube.all(kinds.NODES) if node["metadata"]["labels"][ZONE] == "us-east-1b"]
    early = [node for node in cluster.kube.all(kinds.NODES) if node not in late]
    for node in early:
        become_ready(cluster, node["metadata"]["name"], False)
    for node in late:
        cluster.kube.objects.pop(("nodes", "", node["metadata"]["name"]))
    cluster.check("up-1")
    for node in early:
        become_ready(cluster, node["metadata"]["name"], True)
    for node in late:
        cluster.kube.put(node)

    cluster.check("up-1")

    assert all(node_of(cluster, f"api-{number}") for number in range(6))


def test_a_pass_lists_every_kind_at_most_once_and_none_that_no_rule_needs(cluster: SimulatedCluster) -> None:
    one_ready_and_one_new(cluster)

    cluster.check("up-1")

    lists = [call for call in cluster.kube.asked if call in (NODES, PODS, NAMESPACES, NODECLAIMS, MACHINES)]
    assert lists == [NODECLAIMS, NODES, PODS]


def test_namespaces_are_listed_if_an_anti_affinity_selects_them_by_labels(cluster: SimulatedCluster) -> None:
    lonely = pending("lonely")
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "web"}},
    }
    lonely["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    lonely["spec"]["nodeName"] = "elsewhere"
    launched(cluster).boot()
    cluster.kube.put(lonely)
    cluster.kube.asked.clear()

    cluster.check("up-1")

    assert cluster.kube.asked.count(NAMESPACES) == 1


def test_all_calls_of_a_pass_have_a_connection_that_is_kept_open() -> None:
    assert BINDINGS_AT_ONCE + WORKERS <= POOLED
