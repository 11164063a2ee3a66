"""The checker of all disruptions sees what a function of the deployed app does to pods and nodes, as AWS and the API
server show it. What counts as a violation is in `tests/unit/test_disruption_rules.py`.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.policy_members import delete_pod
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool
from tests.e2e.test_function_rbac import as_function

pytestmark = pytest.mark.e2e

REQUIREMENTS: Final = {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]}
KEPT: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}
TAINT: Final = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


@pytest.fixture
def guarded(deployed: Actor) -> Iterator[Actor]:
    """Two nodes with a guarded pod each, of which a PodDisruptionBudget wants both, and a pod that must stay."""
    deployed.clean()
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}}
    kept = deployment("kept", cpu="100m")
    kept["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    deployed.create(
        node_class("watched"),
        node_pool("watched", REQUIREMENTS, disruption=KEPT, expireAfter="Never"),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guarded", "namespace": "default"},
            "spec": budget,
        },
        deployment("guarded", replicas=2, cpu="1100m"),
        kept,
    )
    deployed.wait_running(3)
    deployed.rest()
    yield deployed
    deployed.clean()


@pytest.mark.restless("the pods of the test are gone, and their nodes are kept")
def test_what_a_function_does_against_the_rules_is_reported(guarded: Actor) -> None:
    kube, function = guarded.world.kube, as_function(guarded, "EvictPods")
    nodes = [node["metadata"]["name"] for node in guarded.nodes()]
    (kept,), both = guarded.pods("kept"), guarded.pods("guarded")
    first = both[0]
    until(lambda: kube.items("/apis/policy/v1/poddisruptionbudgets")[0]["status"]["currentHealthy"] == 2, what="health")

    for name in nodes:
        kube.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": [TAINT]}})
    for pod in (kept, first):
        delete_pod(function, pod["metadata"]["name"])
    judge = guarded.judge_disruptions()
    assert guarded.recorder is not None
    guarded.recorder.forget()

    assert len(nodes) == 2
    assert sorted(judge.violations) == sorted(
        [
            f"2 of 2 nodes of pool watched leave or are not Ready, and its budgets allow 1: {', '.join(sorted(nodes))}",
            f"pod default/{kept['metadata']['name']} must not be disrupted, and node {kept['spec']['nodeName']} leaves",
            *(
                f"PodDisruptionBudget default/guarded allows no eviction of pod default/{pod['metadata']['name']}, and "
                f"node {pod['spec']['nodeName']} leaves"
                for pod in both
            ),
            f"pod default/{kept['metadata']['name']} was deleted on node {kept['spec']['nodeName']}, and must not be "
            "disrupted",
            f"pod default/{first['metadata']['name']} was deleted on node {first['spec']['nodeName']}, which leaves 1 "
            "healthy pods of the 2 that PodDisruptionBudget default/guarded asks for",
        ]
    )


def test_what_users_and_controllers_end_is_no_disruption(guarded: Actor) -> None:
    guarded.end("guarded", "kept")
    name = guarded.nodes()[0]["metadata"]["name"]
    guarded.world.kube.delete(f"/api/v1/nodes/{name}")
    until(lambda: len(guarded.nodes()) == len(guarded.instances()) == 1, what="the end of the deleted node", limit=90)

    judge = guarded.judge_disruptions()
    assert (judge.violations, judge.ended, judge.voluntary) == ([], [], [])
