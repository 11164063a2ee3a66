"""Evictions that the API server refuses, many at a time."""

import pytest

from functions.evict_pods.handler import ASKED_AT_ONCE
from joiner.adapters import kube_kinds as kinds
from tests.unit.functions.grown_cluster import add_node, running
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster

FULL = ASKED_AT_ONCE // 110 + 1
"""Nodes with 110 pods each whose evictions are more than one pass requests."""


@pytest.mark.parametrize("nodes", [FULL, 2 * FULL], ids=["of one pass", "of two passes"])
def test_many_pods_that_may_not_be_evicted_do_not_keep_other_nodes_from_being_drained(
    cluster: SimulatedCluster, nodes: int
) -> None:
    """More refused evictions than a pass requests, all of them before the pod that may be evicted."""
    cluster.prepare()
    count = (nodes, 110)
    for node in range(count[0]):
        add_node(cluster, f"default-{node}", f"i-{node}", f"node-{node}")
        for pod in range(count[1]):
            cluster.kube.put(running({"name": f"held-{node}-{pod}", "namespace": "default"}, f"node-{node}"))
            cluster.kube.held.add(f"held-{node}-{pod}")
    add_node(cluster, "default-free", "i-free", "node-free")
    free = running({"name": "free", "namespace": "default"}, "node-free")
    cluster.kube.put({**free, "spec": {**free["spec"], "priority": 1}})

    retire(cluster, *((f"default-{name}", "deleted") for name in (*range(count[0]), "free")), passes=nodes // FULL + 1)

    assert [each for each in cluster.kube.all(kinds.PODS) if each["metadata"]["name"] == "free"] == []
