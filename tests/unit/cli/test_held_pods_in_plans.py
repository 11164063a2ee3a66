"""`joiner plan` has a node for the pod of a node that is being drained, unless its drain will not evict it soon."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from joiner.pools.timestamps import format_timestamp
from tests.unit.cli.command_runs import joiner, node_class, pod, pool, write

KEY = "karpenter.sh/do-not-disrupt"
DRAINING = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "going", "uid": "1", "labels": {"karpenter.sh/nodepool": "default"}},
    "spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "2", "memory": "7Gi", "pods": "29"}},
}


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


@pytest.mark.parametrize(
    ("annotations", "beside", "nodes"),
    [
        ({}, [], 1),
        ({KEY: "9m"}, [], 1),
        ({KEY: "24h"}, [], 0),
        ({KEY: "23.5h"}, [], 0),
        ({KEY: "true"}, [], 0),
        ({}, [budget(maxUnavailable=1)], 1),
        ({}, [budget(maxUnavailable=0)], 0),
        ({}, [budget(minAvailable="100%")], 0),
    ],
)
def test_a_pod_that_its_drain_will_not_evict_soon_has_no_node_in_the_plan(
    tmp_path: Path, catalogue: Path, annotations: dict[str, str], beside: list[dict[str, Any]], nodes: int
) -> None:
    leaving = pod("web")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True}
    leaving["metadata"] |= {"annotations": annotations, "labels": {"app": "web"}, "ownerReferences": [owner]}
    leaving["spec"]["nodeName"] = "going"
    leaving["status"] = {"phase": "Running", "startTime": format_timestamp(datetime.now(UTC))}
    files = write(tmp_path, pool(), node_class(), DRAINING, leaving, *beside)

    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert len(answer.json["nodes"]) == nodes
