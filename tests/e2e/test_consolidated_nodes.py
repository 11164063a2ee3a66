"""Consolidation on the deployed stack: a node is replaced when that is cheaper, and nothing else happens to its pods.
How nodes are merged, and what keeps them, is in `test_pools_side_by_side`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from joiner_cli.node_decisions import DecisionBucket, NodeDecision, Outcomes, find_decisions
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

LIMIT = 150.0
POOL: Final = "/apis/karpenter.sh/v1/nodepools/dense"
DISRUPTION: Final = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "1s",
    "budgets": [{"nodes": "1"}],
}


def dense_pool(*types: str, capacity_type: str = "on-demand", policy: str = "WhenEmptyOrUnderutilized") -> Object:
    requirements = {CAPACITY_TYPE: [capacity_type], INSTANCE_TYPE: types}
    disruption = {**DISRUPTION, "consolidationPolicy": policy}
    return node_pool("dense", requirements, disruption=disruption, expireAfter="Never")


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("dense"))
    yield deployed
    deployed.knob("capacity", clear=True)
    deployed.clean()


def types(actor: Actor) -> list[str]:
    return sorted(instance["InstanceType"] for instance in actor.instances())


def swept(actor: Actor) -> None:
    assert actor.sweep() == "SUCCEEDED"


def disruptions(actor: Actor) -> list[Mapping[str, Any]]:
    """Return the outputs of the disruptions that ended, oldest first."""
    client = actor.world.client("stepfunctions")
    listed = client.list_executions(stateMachineArn=actor.outputs["DisruptArn"], statusFilter="SUCCEEDED")["executions"]
    ended = sorted(listed, key=lambda each: each["startDate"])
    return [json.loads(client.describe_execution(executionArn=each["executionArn"])["output"]) for each in ended]


def sweep_until(actor: Actor, done: Any, *, what: str) -> None:
    """Run sweeps, each after the executions of the last have ended, until `done`."""

    def look() -> bool:
        swept(actor)
        actor.rest(limit=LIMIT)
        return bool(done())

    until(look, what=what, limit=LIMIT)


def reasons(actor: Actor) -> set[str]:
    return {event["reason"] for event in actor.events()}


def tainted(actor: Actor) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in actor.nodes()
        if any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", []))
    ]


def an_oversized_node(actor: Actor, pool: Object | None = None, **annotations: str) -> None:
    """Leave a small pod, with these annotations, on a node that is twice as large as it has to be."""
    actor.create(pool or dense_pool("m5.large", "m5.xlarge"))
    small = deployment("small", cpu="500m")
    small["spec"]["template"]["metadata"]["annotations"] = annotations
    actor.create(deployment("large", cpu="2500m"), small)
    actor.wait_running(1, "small")
    actor.wait_running(1, "large")
    actor.rest()
    assert types(actor) == ["m5.xlarge"]
    actor.end("large")


def test_an_oversized_node_is_replaced_by_a_cheaper_one_which_comes_first(actor: Actor) -> None:
    an_oversized_node(actor)
    [old], [large] = actor.pods("small"), actor.world.kube.items("/apis/karpenter.sh/v1/nodeclaims")
    overlapping: list[bool] = []

    def one_is_left() -> bool:
        if not actor.knob("running-executions")["executions"]:
            swept(actor)  # the first one notes that a pod left, and consolidateAfter counts from there
        overlapping.append(len(actor.nodes()) == 2)
        return types(actor) == ["m5.large"]

    with watched_evictions(actor) as watched:
        until(
            one_is_left,
            what="the cheaper node alone",
            limit=LIMIT,
        )
        actor.rest(limit=LIMIT)

    assert any(overlapping), "both nodes exist for a while"
    assert watched.evicted == {old["metadata"]["name"]}
    actor.wait_running(1, "small")
    assert {"DisruptionLaunching", "DisruptionTerminating"} <= reasons(actor)
    explained = decisions_about(actor, large["metadata"]["name"])
    [chosen] = [one for one in explained if one.outcome.startswith("executed")]
    assert chosen.message.startswith("Underutilized: removes 1 node, launches 1 first (m5.large), saves $")
    assert f"default/{old['metadata']['name']} to a new m5.large" in chosen.moves


def decisions_about(actor: Actor, name: str) -> Sequence[NodeDecision]:
    """Return what `joiner explain node` shows of a node."""
    s3, states = actor.world.client("s3"), actor.world.client("stepfunctions")
    stored = DecisionBucket(s3, actor.outputs["BucketName"]).read_since(datetime.now(UTC) - timedelta(hours=1))
    return find_decisions(name, stored, Outcomes(states, actor.outputs["DisruptArn"])).decisions


@pytest.mark.long("executed state machines")
def test_a_replacement_without_capacity_is_undone_and_the_pods_stay(actor: Actor) -> None:
    an_oversized_node(actor)
    [before] = actor.pods("small")
    actor.knob("capacity", instanceType="m5.large", available=0)

    with watched_evictions(actor) as watched:
        sweep_until(actor, lambda: "DisruptionFailed" in reasons(actor), what="a disruption that is undone")

    assert watched.evicted == set()
    [after] = actor.pods("small")
    assert (after["metadata"]["uid"], after["spec"]["nodeName"]) == (
        before["metadata"]["uid"],
        before["spec"]["nodeName"],
    )
    assert (tainted(actor), types(actor)) == ([], ["m5.xlarge"])
    [claim] = actor.claims()
    assert "DisruptionReason" not in {each["type"] for each in claim["status"]["conditions"]}
    assert actor.item("BACKOFF", "disruption#NodePool/dense")["tries"] == {"N": "1"}
    [outcome] = [outcome for outcome in disruptions(actor) if outcome["undone"]]
    assert "could not be launched" in outcome["undone"][0]["why"]


def notes(actor: Actor, reason: str) -> str:
    """Return the texts of all events with this reason."""
    return "\n".join(event["note"] for event in actor.events() if event["reason"] == reason)


@pytest.mark.long("executed state machines")
def test_a_balanced_pool_moves_no_costly_pod_for_a_small_saving(actor: Actor) -> None:
    an_oversized_node(
        actor,
        dense_pool("m5.large", "m5.xlarge", policy="Balanced"),
        **{"controller.kubernetes.io/pod-deletion-cost": "2147483647"},
    )
    actor.create(deployment("beside", cpu="1500m", nodeSelector={INSTANCE_TYPE: "m5.large"}))
    actor.wait_running(1, "beside")
    actor.rest()

    with watched_evictions(actor) as watched:
        sweep_until(actor, lambda: "policy Balanced" in notes(actor, "Unconsolidatable"), what="a refused saving")
        assert (watched.evicted, types(actor)) == (set(), ["m5.large", "m5.xlarge"])
        actor.world.kube.merge(POOL, {"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}}})
        sweep_until(actor, lambda: types(actor) == ["m5.large", "m5.large"], what="the saving with the other policy")

    assert [name.split("-")[0] for name in watched.evicted] == ["small"]


@pytest.mark.long("executed state machines")
def test_a_spot_node_is_replaced_by_a_cheaper_one_only_if_the_fleet_may_choose_among_enough_types(
    actor: Actor,
) -> None:
    pool = dense_pool("m5.large", "m5a.large", "m5.xlarge", capacity_type="spot")
    pool["metadata"]["annotations"] = {"joiner.dev/spot-to-spot-consolidation": "true"}
    an_oversized_node(actor, pool)

    with watched_evictions(actor) as watched:
        sweep_until(actor, lambda: "15" in notes(actor, "Unconsolidatable"), what="a replacement with too few types")
        assert (watched.evicted, types(actor)) == (set(), ["m5.xlarge"])
        actor.world.kube.merge(POOL, {"metadata": {"annotations": {"joiner.dev/spot-to-spot-least-types": "2"}}})
        sweep_until(actor, lambda: types(actor) != ["m5.xlarge"] and len(types(actor)) == 1, what="the cheaper node")

    (instance,) = actor.instances()
    assert instance["InstanceType"] in ("m5.large", "m5a.large")
    assert instance["InstanceLifecycle"] == "spot"
    assert [name.split("-")[0] for name in watched.evicted] == ["small"]
