"""Every kind of consolidation from outside, of several pools at a time: n nodes by one, one by n, a group packed anew,
on-demand by spot; and what an action must save.

All nodes run before cheaper types are allowed, so that only consolidation explains the result.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.changing_pools import (
    AT_ONCE,
    POOLS,
    ChangingPool,
    claims_of,
    disrupt_to,
    disrupted_nodes,
    instance_of,
    launch,
    notes_on,
    types_by_pool,
    types_of,
)
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import node_class
from tests.e2e.test_consolidated_nodes import notes
from tests.e2e.test_pools_side_by_side import disrupt, disrupt_until

pytestmark = pytest.mark.e2e

BALANCED: Final = {**AT_ONCE, "consolidationPolicy": "Balanced"}
COSTLY: Final = {"controller.kubernetes.io/pod-deletion-cost": "2147483647"}
PROTECTED: Final = {"karpenter.sh/do-not-disrupt": "true"}


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    deployed.knob("capacity", clear=True)
    deployed.clean()


def test_nodes_are_joined_split_packed_anew_and_replaced_by_spot(actor: Actor) -> None:
    pools = (
        ChangingPool("joined", ["m5.large"], ["c5.xlarge"], replicas=2),
        ChangingPool("split", ["m5.2xlarge"], ["m5.large"], replicas=2, cpu="1500m"),
        # two pods a node at first; three fit on a c5.xlarge, and two of these are cheaper only than three r5.large
        ChangingPool("packed", ["r5.large"], ["c5.xlarge"], replicas=6, cpu="900m", memory="2100Mi"),
        ChangingPool("pinned", ["m5.xlarge"], ["m5.large"], capacity_types=("spot", "on-demand")),
    )
    launch(actor, *pools)
    before = types_by_pool(actor)
    assert before == {
        "joined": ["m5.large"] * 2,
        "split": ["m5.2xlarge"],
        "packed": ["r5.large"] * 3,
        "pinned": ["m5.xlarge"],
    }
    for each in pools:
        each.widen(actor)
    wanted = {
        "joined": ["c5.xlarge"],
        "split": ["m5.large"] * 2,
        "packed": ["c5.xlarge"] * 2,
        "pinned": ["m5.large"],
    }

    with watched_evictions(actor) as watched:
        disrupt_to(actor, wanted)

    actor.wait_running(11)
    assert sorted({name.split("-")[0] for name in watched.evicted}) == ["joined", "packed", "pinned", "split"]
    instances = {each["InstanceId"]: each.get("InstanceLifecycle", "") for each in actor.instances()}
    lifecycle = {
        pool.name: {instances[instance_of(claim)] for claim in claims_of(actor, pool.name).values()} for pool in pools
    }
    assert lifecycle == {"joined": {""}, "split": {""}, "packed": {""}, "pinned": {"spot"}}


def test_a_replacement_that_may_be_spot_fails_without_spot_capacity_and_is_not_launched_on_demand(
    actor: Actor,
) -> None:
    pool = ChangingPool("short", ["c5a.xlarge"], ["c5a.large"], capacity_types=("spot", "on-demand"))
    launch(actor, pool)
    [old] = claims_of(actor, "short")
    for kind in ("c5a.large", "c5a.xlarge"):
        actor.knob("capacity", instanceType=kind, lifecycle="spot", available=0)
    ever = actor.instances_ever()
    pool.widen(actor)

    with watched_evictions(actor) as watched:
        disrupt_until(actor, lambda: "could not be launched" in notes_on(actor, old), what="a replacement that fails")

    assert set(claims_of(actor, "short")) == {old}
    assert actor.instances_ever() <= ever
    assert (watched.evicted, disrupted_nodes(actor)) == (set(), set())
    assert actor.item("BACKOFF", "disruption#NodePool/short")["tries"] == {"N": "1"}
    actor.wait_running(1)


def test_an_action_must_save_what_its_pools_ask_for_and_every_balanced_pool_must_accept_it(actor: Actor) -> None:
    least, percent = "joiner.dev/consolidation-least-saving-per-hour", "joiner.dev/consolidation-least-saving-percent"
    halved: Mapping[str, Any] = {"before": ["m5.xlarge"], "then": ["m5.large"]}
    # Of a c5.xlarge most memory is used: two of them fit on one r5.large together only
    memory: Mapping[str, Any] = {
        "before": ["c5.xlarge"],
        "then": ["r5.large"],
        "cpu": "800m",
        "memory": "4500Mi",
        "disruption": BALANCED,
    }
    one_node: Mapping[str, Any] = {"limits": {"cpu": "4"}}
    first = (
        ChangingPool("saving", **halved, annotations={least: "0.05", percent: "40"}),
        ChangingPool("dollars", **halved, annotations={least: "0.5"}),
        ChangingPool("percent", **halved, annotations={percent: "60"}),
        ChangingPool("near", **memory, **one_node, team="agreed"),
        ChangingPool("left", **memory, **one_node, team="disputed"),
    )
    second = (
        ChangingPool("far", **memory, team="agreed"),
        ChangingPool("right", **memory, team="disputed", pod_annotations=COSTLY),
    )
    cheap = ChangingPool("protected", **memory, team="disputed", pod_annotations=PROTECTED)
    launch(actor, *first)
    launch(actor, *second)  # the limits of the pools of the first pods are reached
    actor.create(cheap.deployment())  # a second node of the pool `right`
    actor.wait_running(8)
    actor.rest()
    one = ["c5.xlarge"]
    assert {each: types_by_pool(actor)[each] for each in ("near", "far", "left", "right")} == {
        "near": one,
        "far": one,
        "left": one,
        "right": [*one, *one],
    }
    for each in (*first, *second):
        each.widen(actor)

    with watched_evictions(actor) as watched:
        disrupt_until(actor, lambda: "r5.large" in types_of(actor, "near", "far"), what="the agreed action")
        disrupt(actor)
        types = types_by_pool(actor)
        assert types_of(actor, "near", "far") == ["r5.large"]
        assert types_of(actor, "left", "right") == ["c5.xlarge"] * 3
        assert (types["saving"], types["dollars"], types["percent"]) == (["m5.large"], ["m5.xlarge"], ["m5.xlarge"])
        told = notes(actor, "Unconsolidatable")
        assert "less than the $0.5/h (joiner.dev/consolidation-least-saving-per-hour) of NodePool/dollars" in told
        assert "less than the 60 % (joiner.dev/consolidation-least-saving-percent) of NodePool/percent" in told
        assert "is below 0.5 (policy Balanced)" in told

        any_saving = {"consolidationPolicy": "WhenEmptyOrUnderutilized"}
        actor.world.kube.merge(f"{POOLS}/right", {"spec": {"disruption": any_saving}})
        disrupt_until(
            actor,
            lambda: types_of(actor, "left", "right") == ["c5.xlarge", "r5.large"],
            what="the disputed action, which only one pool refused",
        )

    until(lambda: actor.running() == 8, what="all pods")
    assert {name.split("-")[0] for name in watched.evicted} == {"saving", "near", "far", "left", "right"}
