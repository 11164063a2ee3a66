"""Many doorbell calls: a call during a scale-up is neither lost nor served twice."""

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from joiner_local.demo.change_watch import states, until
from tests.e2e.repeated_actions import steadily
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

ENOUGH: Final = 10
"""Deployments, each created at another moment of an execution."""


def test_a_second_scale_up_while_one_runs_launches_nothing_twice(pool: Actor) -> None:
    known = pool.executions()
    pool.create(deployment("first", replicas=3))
    until(lambda: pool.plans_since(known), what="the first plan")
    pool.create(deployment("second", replicas=3))
    pool.wait_running(6)
    pool.rest()
    summaries = [launched(pool, e["executionArn"]) for e in pool.since(known)]
    assert sum(summaries) == len(pool.instances()) == len(pool.claims()) == len(pool.nodes())
    assert len(pool.plans_since(known)) == 2  # the first plan knew nothing of the second Deployment
    assert planned_on(pool, known) == Counter(pool.placed().values())
    pool.assert_at_rest()


def launched(actor: Actor, arn: str) -> int:
    """Return the number of launched instances in an execution's summary."""
    output = actor.world.client("stepfunctions").describe_execution(executionArn=arn).get("output")
    return int(json.loads(output).get("launched", 0)) if output else 0


def test_two_hundred_pods_in_twenty_deployments_are_planned_by_at_most_two_executions(pool: Actor) -> None:
    known = pool.executions()
    pool.create(*(deployment(f"crowd-{i}", replicas=10, cpu="250m") for i in range(20)))
    pool.wait_running(200, limit=150)
    pool.rest()
    begun = pool.since(known)
    names = {e["name"]: pool.states_of(e["executionArn"]) for e in begun}
    planned = {name for name, entered in names.items() if "Plan capacity" in entered}
    assert 1 <= len(planned) <= 2, names.keys()
    for name in set(names) - planned:
        assert "Joined the running scale-up" in names[name] or "Find pending pods" in names[name], name
    assert sum(launched(pool, e["executionArn"]) for e in begun) == len(pool.instances()) == len(pool.nodes())
    pool.assert_at_rest()

    as_planned, as_placed = planned_on(pool, known), placed(pool)
    by_scheduler = bound_by_the_scheduler(pool)
    by_joiner = Counter(claim for pod, claim in as_placed.items() if pod not in by_scheduler)
    assert len(as_placed) == 200
    assert by_joiner - as_planned == Counter()
    # The scheduler binds a pod that fits on an open node; the place of a planned pod then stays free.
    assert (as_planned - by_joiner).total() <= len(by_scheduler) <= 20
    assert {claim["metadata"]["name"] for claim in pool.claims()} == set(as_placed.values())
    assert {place.execution for _, place in pool.places_since(known)} <= planned


def placed(actor: Actor) -> dict[str, str]:
    """Return the claim of each running pod; a pod that its kubelet refused has failed, and has a successor."""
    running = {pod["metadata"]["name"] for pod in actor.pods() if pod["status"].get("phase") == "Running"}
    return {pod: claim for pod, claim in actor.placed().items() if pod.partition("/")[2] in running}


def bound_by_the_scheduler(actor: Actor) -> set[str]:
    """Return the pods that kube-scheduler bound, as namespace/name; Joiner binds the others."""
    return {
        f"{event['regarding']['namespace']}/{event['regarding']['name']}"
        for event in actor.events()
        if event["reason"] == "Scheduled" and event.get("reportingController") == "default-scheduler"
    } & actor.placed().keys()


def planned_on(actor: Actor, known: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Count the pods that the plans since then put on each claim's node.

    All pods are of one class, so any of them may have the place of another.
    """
    return Counter(place.claim for _, place in actor.places_since(known))


def test_a_call_at_any_moment_of_an_execution_needs_no_sweep(pool: Actor) -> None:
    number = itertools.count()

    def one_more() -> None:
        pool.create(deployment(f"drip-{next(number)}", cpu="100m"))

    known = pool.executions()
    pool.create(deployment("start", cpu="100m"))
    with steadily(one_more, seconds=0.2) as acts:
        pool.wait_running(1, "start")
        until(lambda: len(acts) > ENOUGH, what="calls at many moments")
    pool.wait_running(len(acts) + 1)
    pool.rest()
    assert [e["name"] for e in pool.since(known) if e["name"].endswith("-sweep")] == []
    pool.assert_at_rest()


def test_an_execution_releases_the_lease_before_its_nodes_boot(pool: Actor) -> None:
    known = pool.executions()
    pool.create(deployment("one"))
    pool.wait_running(1)
    pool.rest()
    entered = [[state.name for state in states(pool.world, e["executionArn"])] for e in pool.since(known)]
    watching = [names for names in entered if "Check registration" in names]  # the others found nothing to do
    assert len(watching) >= 1
    for names in watching:
        assert names.index("Release the lease") < names.index("Check registration")


@pytest.mark.long("nodes that register during launches, in executed state machines")
def test_a_node_gets_its_pods_while_another_launch_has_no_answer(pool: Actor) -> None:
    known = pool.executions()
    pool.knob("faults/set", caller="launch_instances", call="ec2 CreateFleet", nth=2, how="slow", after=30)
    kinds = {"first": "c5.large", "second": "m5.large"}
    pool.create(
        *(deployment(name, nodeSelector={"node.kubernetes.io/instance-type": kind}) for name, kind in kinds.items())
    )
    try:
        pool.wait_running(1)
        (launched,) = pool.instances()
    finally:
        pool.knob("faults/set")
    entered = [state for each in pool.since(known) for state in pool.states_of(each["executionArn"])]
    assert "Check registration so far" in entered
    assert not {"Record launches", "Release the lease"} & set(entered)

    pool.wait_running(2)
    pool.rest()
    assert launched["InstanceId"] in {each["InstanceId"] for each in pool.instances()}
    assert len(pool.instances()) == len(pool.claims()) == len(pool.nodes()) == 2
    pool.assert_at_rest()
