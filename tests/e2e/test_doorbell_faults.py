"""A doorbell that is down, slow, throttled or answers invalid data: the cluster does not wait for it, and the sweep
does the work.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

WEBHOOK_TIMEOUT = 2  # seconds, manifests/webhooks/doorbell.yaml
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SLOW = 25  # seconds, longer than a sweep takes on a busy machine, so that the ring comes after the sweep
FAULTS: dict[str, dict[str, Any]] = {
    "hangs up": {"hangUp": True},
    "is slow": {"delay": SLOW},
    "answers rubbish": {"status": 200, "body": "<html>rubbish</html>"},
    "answers a review without an answer": {
        "status": 200,
        "body": '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
    },
    "throttles": {"status": 429, "body": "{}"},
    "fails": {"status": 500, "body": "{}"},
}
WHILE_NODES_JOIN = ("is slow", pytest.param("fails", marks=pytest.mark.long("a doorbell that is slow")))


@pytest.fixture
def faulty(request: pytest.FixtureRequest, deployed: Actor) -> Iterator[Actor]:
    """A cluster with a faulty doorbell; the parameter names the fault."""
    deployed.knob("door", fault=FAULTS[request.param])
    yield deployed
    deployed.knob("door", fault=None)


@pytest.fixture
def pool_with_a_faulty_doorbell(request: pytest.FixtureRequest, deployed: Actor) -> Iterator[Actor]:
    """Scenario c's pool in an empty cluster with a faulty doorbell."""
    deployed.clean()
    deployed.apply("c-template.yaml")
    deployed.rest()
    deployed.knob("door", fault=FAULTS[request.param])
    yield deployed
    deployed.knob("door", fault=None)
    deployed.clean()


def failed_scheduling(name: str) -> Object:
    """Return the event that a scheduler writes for an unschedulable pod."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{name}-", "namespace": "default"},
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "type": "Warning",
        "note": "a test",
        "regarding": {"kind": "Pod", "namespace": "default", "name": name},
        "reportingController": "default-scheduler",
        "reportingInstance": "test",
    }


@pytest.mark.parametrize("faulty", FAULTS, indirect=True)
def test_a_faulty_doorbell_delays_no_request_beyond_the_timeout(faulty: Actor) -> None:
    began = time.monotonic()
    faulty.world.kube.create("/apis/events.k8s.io/v1/namespaces/default/events", failed_scheduling("anybody"))
    assert time.monotonic() - began < SLOW
    webhooks = [each for found in faulty.world.kube.items(WEBHOOKS) for each in found["webhooks"]]
    assert {each["timeoutSeconds"] for each in webhooks} == {WEBHOOK_TIMEOUT}


@pytest.mark.parametrize("pool_with_a_faulty_doorbell", WHILE_NODES_JOIN, indirect=True)
def test_without_the_doorbell_the_sweep_launches_the_node(pool_with_a_faulty_doorbell: Actor) -> None:
    actor = pool_with_a_faulty_doorbell
    known = actor.executions()
    actor.create(deployment("patient", cpu="500m"))
    until(lambda: actor.pods("patient"), what="the deployment's pod")
    assert actor.since(known) == []
    assert actor.sweep() == "SUCCEEDED"
    actor.wait_running(1, "patient")
    assert actor.since(known)[0]["name"].endswith("-sweep")  # a slow doorbell rings all the same, later
