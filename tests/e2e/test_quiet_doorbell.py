"""Many pods at once: few calls of the doorbell, hardly any refused; a pod that no execution has listed still rings."""

import itertools
from collections import Counter

import pytest

from bench.workloads import webhook_calls
from joiner_local.demo.change_watch import until
from tests.e2e.repeated_actions import steadily
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/joiner:listed-pods"


def pod_calls(actor: Actor) -> Counter[str]:
    """Count the calls of the pods' webhook by HTTP status, from the API server's metrics; 0 is a call without an
    answer in time."""
    return Counter(webhook_calls(actor.world.kube.call("GET", "/metrics")["text"]).get("pods", {}))


def listed(actor: Actor) -> set[str]:
    """Return the uids of the pods whose events do not ring."""
    rules = actor.world.kube.call("GET", ROLE).get("rules") or ()
    return {uid for rule in rules for uid in rule["resourceNames"]}


def until_listed(actor: Actor, app: str) -> None:
    """Wait until an execution has recorded pods of this app; the record may have pods of an earlier test."""

    def recorded() -> bool:
        return bool(listed(actor) & {pod["metadata"]["uid"] for pod in actor.pods(app)})

    until(recorded, what=f"a record of pods of {app}", limit=90)


def test_of_ten_pods_less_than_one_call_is_refused_and_a_pod_rings_less_than_twice(pool: Actor) -> None:
    before, known = pod_calls(pool), pool.executions()
    cpu = sum(map(float, pool.knob("function-cpu")["seconds"].values()))
    pool.create(*(deployment(f"many-{each}", replicas=75, cpu="250m") for each in range(2)))
    took = pool.wait_running(150, limit=150)
    calls = pod_calls(pool) - before
    used = sum(map(float, pool.knob("function-cpu")["seconds"].values())) - cpu
    print(f"{took:.1f} s, calls {dict(calls)}, {used:.1f} s of CPU, executions {len(pool.since(known))}")
    # A pod rings until an execution has listed it. On a quiet machine half of them do; on a busy one, some ring again.
    assert calls.total() < 300
    assert calls.total() - calls["200"] < 15

    pool.create(deployment("lonely", cpu="100m"))
    pool.wait_running(1, "lonely", limit=90)
    pool.rest()
    assert [each["name"] for each in pool.since(known) if each["name"].endswith("-sweep")] == []
    pool.sweep()
    assert listed(pool) == set()


def test_pods_that_come_while_others_are_planned_ring_and_need_no_sweep(pool: Actor) -> None:
    number, known = itertools.count(), pool.executions()

    def one_more() -> None:
        pool.create(deployment(f"drip-{next(number)}", cpu="100m"))

    pool.create(deployment("many", replicas=60, cpu="250m"))
    until_listed(pool, "many")
    with steadily(one_more, seconds=0.5) as acts:
        pool.wait_running(60, "many", limit=60)
    pool.wait_running(60 + len(acts), limit=60)
    pool.rest()
    assert [each["name"] for each in pool.since(known) if each["name"].endswith("-sweep")] == []


def test_after_a_crash_the_sweep_finds_the_listed_pods_and_lets_them_ring_again(pool: Actor) -> None:
    known = pool.executions()
    pool.create(deployment("many", replicas=30, cpu="250m"))
    until_listed(pool, "many")
    (running,) = (each["executionArn"] for each in pool.since(known) if each["status"] == "RUNNING")
    pool.stop(running)
    for _ in range(2):
        assert pool.sweep() == "SUCCEEDED"
        pool.rest()
    pool.wait_running(30)
    pool.sweep()
    assert listed(pool) == set()
