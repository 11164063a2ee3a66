"""Replacements that fail, from outside: EC2 refuses their launch, or their node never joins. The old nodes are as they
were before, no pod was evicted, no scale-up launched a node for the pods that still run, and the pool waits. After the
wait the same nodes are replaced.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import ApiError, Object
from joiner_local.demo.change_watch import until
from tests.e2e.changing_pools import (
    AT_ONCE,
    POOLS,
    UNTOUCHED,
    ChangingPool,
    claims_of,
    condition_of,
    disrupted_nodes,
    instance_of,
    launch,
    node_of,
    notes_on,
)
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import node_class
from tests.e2e.test_consolidated_nodes import disruptions
from tests.e2e.test_launches_that_fail import items
from tests.e2e.test_pools_side_by_side import disrupt, disrupt_until

pytestmark = pytest.mark.e2e

CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
REFUSED: Final = "m5.large"
SILENT: Final = "c5.large"
CONFLICT: Final = 409
LIMIT: Final = 150.0
ALONE: Final = 120.0
"""Seconds for which nothing else is disrupted while a replacement is awaited."""
ONE: Final = {"budgets": [{"nodes": "1"}]}


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    mend(deployed)
    deployed.clean()


def mend(actor: Actor) -> None:
    """Let EC2 launch all types, and let their nodes join."""
    actor.knob("capacity", clear=True)
    actor.world.stack.agent_knob("faults", {"clear": True})


def drift(actor: Actor, pool: ChangingPool) -> None:
    changed = {"metadata": {"labels": {"team": "a"}}}
    actor.world.kube.merge(f"{POOLS}/{pool.name}", {"spec": {"template": changed}})


def widen(actor: Actor, pool: ChangingPool) -> None:
    pool.widen(actor)


def begin(actor: Actor, pool: str, old: set[str]) -> Object:
    """Run sweeps until a replacement of the pool is launched; return its claim."""

    def look() -> Object | None:
        if not actor.knob("running-executions")["executions"]:
            actor.forget("PROPOSED")
            assert actor.sweep() == "SUCCEEDED"
        made = (claim for name, claim in claims_of(actor, pool).items() if name not in old)
        return next((one for one in made if condition_of(one, "Launched")[0] == "True"), None)

    return until(look, what="a launched replacement", limit=LIMIT)


def let_registration_time_out(actor: Actor, claim: str) -> None:
    """Let a claim have been launched 16 minutes ago: from then on its node has 15 minutes to register."""
    launched = f"{datetime.now(UTC) - timedelta(minutes=16):%Y-%m-%dT%H:%M:%SZ}"
    path = f"{CLAIMS}/{claim}"

    def is_written() -> bool:
        found = actor.world.kube.get(path)
        conditions = [
            {**each, "lastTransitionTime": launched} if each["type"] == "Launched" else each
            for each in found["status"]["conditions"]
        ]
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            actor.world.kube.merge(f"{path}/status", {"metadata": version, "status": {"conditions": conditions}})
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            return False
        return True

    until(is_written, what="an older launch", limit=10)


def state_of(claim: Object) -> tuple[bool, str]:
    """Return whether a claim is deleted, and what it states about a disruption."""
    return "deletionTimestamp" in claim["metadata"], condition_of(claim, "DisruptionReason")[1]


def tries(actor: Actor, pool: str) -> Any:
    return actor.item("BACKOFF", f"disruption#NodePool/{pool}")["tries"]["N"]


@pytest.mark.parametrize(
    ("before", "disruption", "change", "reason"),
    [
        (("m5.large", "c5.large"), {**UNTOUCHED, **ONE}, drift, "Drifted"),
        (("m5.xlarge", "c5.xlarge"), {**AT_ONCE, **ONE}, widen, "Underutilized"),
    ],
    ids=["drift", "consolidation"],
)
def test_replacements_that_fail_change_nothing_and_succeed_after_the_wait(
    actor: Actor,
    before: tuple[str, str],
    disruption: dict[str, Any],
    change: Callable[[Actor, ChangingPool], None],
    reason: str,
) -> None:
    refused = ChangingPool("refused", [before[0]], [REFUSED], disruption=disruption)
    silent = ChangingPool("silent", [before[1]], [SILENT], disruption=disruption)
    launch(actor, refused, silent)
    [kept], [waiting] = (set(claims_of(actor, each.name)) for each in (refused, silent))
    places = actor.placed()
    ever, ended, planned = actor.instances_ever(), len(disruptions(actor)), actor.executions()
    known = {one["metadata"]["name"] for one in actor.events()}
    actor.knob("capacity", instanceType=REFUSED, available=0)
    actor.world.stack.agent_knob("faults", {"fault": "never-boots", "instanceType": SILENT})
    for each in (refused, silent):
        change(actor, each)

    with watched_evictions(actor) as watched:
        new = begin(actor, "silent", {waiting})
        until(
            lambda: "could not be launched" in notes_on(actor, kept),
            what="the event of the refused launch",
            limit=LIMIT,
        )
        assert disrupted_nodes(actor) == {node_of(claims_of(actor, "silent")[waiting])}
        assert state_of(claims_of(actor, "silent")[waiting]) == (False, reason)
        let_registration_time_out(actor, new["metadata"]["name"])
        until(lambda: "RegistrationTimeout" in notes_on(actor, waiting), what="the event of the lost node", limit=LIMIT)
        actor.rest(limit=LIMIT)
        disrupt_until(actor, lambda: set(claims_of(actor, "silent")) == {waiting}, what="the lost instance gone")
        disrupt(actor)  # in the wait: nothing is tried again

    assert watched.evicted == set()
    assert actor.plans_since(planned) == {}, "no scale-up plans a node: the pods run"
    told = [one for one in actor.events() if one["metadata"]["name"] not in known]
    assert [one["note"] for one in told if one["reason"] == "NotTriggerScaleUp"] == []
    assert (disrupted_nodes(actor), actor.placed()) == (set(), places)
    claims = {**claims_of(actor, "refused"), **claims_of(actor, "silent")}
    assert {name: state_of(claim) for name, claim in claims.items()} == {kept: (False, ""), waiting: (False, "")}
    assert actor.instances_ever() - ever == {instance_of(new)}
    assert (tries(actor, "refused"), tries(actor, "silent")) == ("1", "1")
    assert (items(actor, "DISRUPTION"), items(actor, "MOVED")) == ([], [])
    outcomes = disruptions(actor)[ended:]
    assert [len(each["marked"]) for each in outcomes if each["marked"]] == [2]
    undone = {claim: one["why"] for each in outcomes for one in each["undone"] for claim in one["claims"]}
    assert {claim: why.rpartition(" ")[2] for claim, why in undone.items()} == {
        kept: "launched",
        waiting: "RegistrationTimeout",
    }

    mend(actor)
    actor.forget("BACKOFF", "HELD", "UNAVAILABLE")  # the waits end
    with watched_evictions(actor) as watched:
        disrupt_until(
            actor,
            lambda: not {kept, waiting} & {claim["metadata"]["name"] for claim in actor.claims()},
            what="both nodes replaced",
        )
    assert {name.split("-")[0] for name in watched.evicted} == {"refused", "silent"}
    assert len(actor.claims()) == 2
    actor.wait_running(2)


@pytest.mark.long("the turn that is given back, with scripted functions")
def test_a_replacement_that_does_not_come_keeps_no_other_pool_from_its_turn(actor: Actor) -> None:
    disruption = {**AT_ONCE, **ONE}
    silent = ChangingPool("silent", ["c5.xlarge"], [SILENT], disruption=disruption)
    other = ChangingPool("other", ["m5.xlarge"], ["m5.large"], disruption=disruption)
    launch(actor, silent, other)
    [waiting], [going] = (set(claims_of(actor, each.name)) for each in (silent, other))
    actor.world.stack.agent_knob("faults", {"fault": "never-boots", "instanceType": SILENT})
    silent.widen(actor)
    new = begin(actor, "silent", {waiting})
    other.widen(actor)

    def is_replaced() -> bool:
        actor.forget("PROPOSED")
        assert actor.sweep() == "SUCCEEDED"
        there = claims_of(actor, "other")
        return going not in there and len(there) == 1

    with watched_evictions(actor) as watched:
        until(is_replaced, what="the node of the other pool replaced", limit=LIMIT + ALONE)
        assert state_of(claims_of(actor, "silent")[waiting]) == (False, "Underutilized"), "its replacement is awaited"
        owners = {one["execution"]["S"] for one in items(actor, "DISRUPTION") if {"S": waiting} in one["claims"]["L"]}
        states = actor.world.client("stepfunctions")
        assert [states.describe_execution(executionArn=each)["status"] for each in owners] == ["RUNNING"]
        assert new["metadata"]["name"] in claims_of(actor, "silent")
    assert {name.split("-")[0] for name in watched.evicted} == {"other"}

    let_registration_time_out(actor, new["metadata"]["name"])
    until(lambda: "RegistrationTimeout" in notes_on(actor, waiting), what="the event of the lost node", limit=LIMIT)
    actor.rest(limit=LIMIT)
    disrupt_until(actor, lambda: set(claims_of(actor, "silent")) == {waiting}, what="the lost instance gone")
    assert (disrupted_nodes(actor), items(actor, "DISRUPTION")) == (set(), [])
    actor.wait_running(2)
