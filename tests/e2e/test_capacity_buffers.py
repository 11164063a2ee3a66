"""A CapacityBuffer on a deployed stack: nodes for its virtual pods come without a pod, stay, and go with it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, node_class, node_pool

pytestmark = pytest.mark.e2e

TEMPLATES = "/api/v1/namespaces/default/podtemplates"
BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"
SPARE = f"{BUFFERS}/spare"
LIMIT = 180
"""Seconds for one scale-up, or one retirement, on a machine that runs other tests at the same time."""


@pytest.fixture
def cleaned(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.world.kube.delete(SPARE, missing_ok=True)
    deployed.world.kube.delete(f"{TEMPLATES}/spare", missing_ok=True)
    deployed.clean()


def provisioning(actor: Actor) -> tuple[str, str]:
    """Return status and reason of the condition Provisioning."""
    conditions: list[dict[str, Any]] = actor.world.kube.get(SPARE).get("status", {}).get("conditions", [])
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "Provisioning"), ("", ""))


def provisioned_after_a_sweep(actor: Actor) -> bool:
    """Run one sweep; return whether running nodes have the capacity by the plan that it starts."""
    assert actor.sweep() == "SUCCEEDED"
    time.sleep(5)
    return provisioning(actor) == ("True", "FitsExistingCapacity")


def is_initialized(claim: dict[str, Any]) -> bool:
    conditions = claim.get("status", {}).get("conditions", [])
    return any(each["type"] == "Initialized" and each["status"] == "True" for each in conditions)


def test_capacity_is_kept_for_a_buffer_and_given_up_with_it(cleaned: Actor) -> None:
    kube = cleaned.world.kube
    pool = node_pool("spare", {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]}, class_name="spare")
    pool["spec"]["disruption"] = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}
    cleaned.create(node_class("spare"), pool)
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1500m"}}}
    kube.create(TEMPLATES, {"metadata": {"name": "spare"}, "template": {"spec": {"containers": [container]}}})
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare"},
        "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 1},
    }

    kube.create(BUFFERS, buffer)
    until(lambda: any(map(is_initialized, cleaned.claims())), what="a node without a pod", limit=LIMIT)
    until(lambda: provisioned_after_a_sweep(cleaned), what="capacity for the buffer", limit=LIMIT)
    assert kube.get(SPARE)["status"]["replicas"] == 1

    for pause in (16, 16, 5):  # the first would find the node empty, and after 15 s one would retire it
        assert cleaned.sweep() == "SUCCEEDED"
        time.sleep(pause)
    (claim,) = cleaned.claims()
    assert "deletionTimestamp" not in claim["metadata"]

    kube.merge(SPARE, {"spec": {"replicas": 2}})  # an update rings the doorbell: no sweep runs
    until(lambda: sum(map(is_initialized, cleaned.claims())) == 2, what="a node for the second pod", limit=LIMIT)
    kube.merge(f"{TEMPLATES}/spare", {"template": {"metadata": {"labels": {"app": "spare"}}}})
    until(lambda: kube.get(SPARE)["status"]["podTemplateGeneration"] == 2, what="the changed template", limit=LIMIT)

    kube.delete(SPARE)
    until(cleaned.gone_after_a_sweep, what="the nodes to go with the buffer", limit=LIMIT)
