"""What it costs to evict a pod: its annotation `pod-deletion-cost` and its priority, as Karpenter weighs them."""

from typing import Any

import pytest

from joiner.cluster import Pod
from joiner.cluster.eviction_costs import eviction_cost

HIGHEST = 2**31 - 1


def pod(annotations: dict[str, str] | None = None, priority: int = 0) -> Pod:
    manifest: dict[str, Any] = {
        "metadata": {"name": "web-0", "namespace": "shop", "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "resources": {}}], "priority": priority},
    }
    return Pod.from_kube(manifest)


def cost(value: str) -> float:
    return eviction_cost(pod({"controller.kubernetes.io/pod-deletion-cost": value}))


def test_a_pod_with_a_higher_deletion_cost_costs_more_and_one_with_a_negative_cost_less() -> None:
    assert cost("-1000000000") < cost("-1") < eviction_cost(pod()) == cost("0") < cost("1") < cost(str(HIGHEST))


def test_a_pod_of_higher_priority_costs_more() -> None:
    assert eviction_cost(pod(priority=-1000)) < eviction_cost(pod()) < eviction_cost(pod(priority=1000))


@pytest.mark.parametrize("value", ["", "many", "1.5"])
def test_a_deletion_cost_that_the_api_server_would_refuse_counts_as_none(value: str) -> None:
    assert cost(value) == eviction_cost(pod())
