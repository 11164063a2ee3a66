"""Pods on nodes that are being drained: those that their drain will not evict soon need no room yet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner.cluster import Node, Pod, PodDisruptionBudget, Toleration
from joiner.cluster.pod_constraints import PodConstraints
from joiner.cluster.taints import DISRUPTED_TAINT
from joiner.lifecycle.retirement import as_draining
from joiner.pools import NodeClaim, NodeClassRef
from joiner.pools.held_pods import find_held_pods, find_leaving_pods

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
STARTED = "2026-11-21T11:00:00Z"
NODE = Node("going", provider_id="aws:///a/i-1", taints=(DISRUPTED_TAINT,))
CLAIM = replace(
    NodeClaim("c", NodeClassRef("EC2NodeClass", "default"), provider_id=NODE.provider_id, created=NOON), deletion=NOON
)
WEB = Pod("shop", "web", node_name="going", owner_kind="ReplicaSet", labels={"app": "web"}, phase="Running")
WEB = replace(WEB, started=STARTED)


def budget(name: str = "web", *, healthy: int = 1, **spec: Any) -> PodDisruptionBudget:
    selector = {"selector": {"matchLabels": {"app": "web"}}}
    return PodDisruptionBudget.from_kube(
        {
            "metadata": {"namespace": "shop", "name": name},
            "spec": {**selector, **spec},
            "status": {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": 1},
        }
    )


def is_held(
    pod: Pod = WEB,
    *budgets: PodDisruptionBudget,
    claim: NodeClaim | None = CLAIM,
    node: Node = NODE,
    now: datetime = NOON,
) -> bool:
    claims = [claim] if claim is not None else []
    leaving = find_leaving_pods([pod], [node], claims)
    return pod.key in find_held_pods(leaving, [node], claims, budgets, now)


@pytest.mark.parametrize(
    ("lasts", "held"), [("24h", True), ("71m", True), ("70.5m", True), ("70m", False), ("61m", False), ("1h", False)]
)
def test_a_pod_is_held_while_its_annotation_has_longer_to_run_than_a_node_needs_to_join(lasts: str, held: bool) -> None:
    assert is_held(replace(WEB, protection=lasts)) is held
    assert is_held(replace(WEB, protection=lasts), claim=None) is held


def test_a_pod_that_has_not_started_is_held() -> None:
    assert is_held(replace(WEB, protection="11m", started=""))


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"minAvailable": "100%"}, True),
        ({"maxUnavailable": 1}, False),
        ({"maxUnavailable": "10%"}, False),
        ({"minAvailable": 1}, False),
        ({"minAvailable": "99%"}, False),
        ({}, False),
    ],
)
def test_a_pod_is_held_by_a_budget_whose_numbers_never_allow_an_eviction(spec: dict[str, Any], held: bool) -> None:
    assert is_held(WEB, budget(**spec)) is held
    assert not is_held(replace(WEB, labels={"app": "other"}), budget(**spec))
    assert not is_held(replace(WEB, namespace="other"), budget(**spec))


def test_a_pod_that_is_not_ready_is_held_only_by_budgets_that_count_it() -> None:
    sick = replace(WEB, ready=False)

    assert is_held(sick, budget(maxUnavailable=0, healthy=0))
    assert not is_held(sick, budget(maxUnavailable=0, healthy=1))
    assert not is_held(sick, budget(maxUnavailable=0, healthy=0, unhealthyPodEvictionPolicy="AlwaysAllow"))


def test_a_pod_with_two_budgets_is_held_because_the_eviction_api_refuses_it() -> None:
    assert is_held(WEB, budget("one", maxUnavailable=1), budget("two", maxUnavailable=1))


HELD_IN_TWO_WAYS = [(replace(WEB, protection="24h"), ()), (WEB, (budget(maxUnavailable=0),))]


@pytest.mark.parametrize(("pod", "budgets"), HELD_IN_TWO_WAYS, ids=["by its annotation", "by a budget"])
def test_a_pod_is_not_held_once_its_drain_ends_soon(pod: Pod, budgets: tuple[PodDisruptionBudget, ...]) -> None:
    limited = replace(CLAIM, termination_grace_period=3600)
    interrupted = as_draining(CLAIM, ("pod shop/web",), at=NOON, until=NOON + timedelta(minutes=2))
    dated = replace(CLAIM, annotations={"karpenter.sh/nodeclaim-termination-timestamp": "2026-11-21T12:02:00Z"})

    assert is_held(pod, *budgets, claim=limited)
    assert not is_held(pod, *budgets, claim=limited, now=NOON + timedelta(minutes=50))
    assert not is_held(pod, *budgets, claim=replace(CLAIM, termination_grace_period=600))
    assert not is_held(pod, *budgets, claim=interrupted)
    assert not is_held(pod, *budgets, claim=dated)


@pytest.mark.parametrize(
    "pod",
    [
        replace(WEB, protection="24h", constraints=PodConstraints(tolerations=(Toleration(operator="Exists"),))),
        replace(WEB, protection="24h", owner_kind="DaemonSet"),
        replace(WEB, protection="24h", node_name="another"),
    ],
    ids=["outlasts the drain", "of a daemon set", "on another node"],
)
def test_pods_that_no_drain_makes_move_are_not_held(pod: Pod) -> None:
    assert not is_held(pod)


def test_a_held_pod_does_not_move() -> None:
    assert WEB.moves
    assert not replace(WEB, held=True).moves
