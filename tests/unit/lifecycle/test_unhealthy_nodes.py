"""Node repair: which nodes have been unhealthy for too long, and when nothing is repaired."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from joiner.cluster import Node, NodeCondition
from joiner.lifecycle.checks.check_registry import RETIREMENTS
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.checks.unhealthy_nodes import UNHEALTHY, find_blocked_pools
from joiner.lifecycle.retirement import (
    RetirementContext,
    RetirementReason,
    find_objection,
    is_voluntary,
    with_deadline,
)
from joiner.pools import Disruption, DisruptionBudget, NodeClaim, NodeClassRef, NodePool, read_manifests
from joiner.pools.disruption_settings import DisruptionSettings, RepairSettings
from joiner.pools.timestamps import format_timestamp
from joiner.reporting.retirement_events import report_retirement
from tests.unit.lifecycle.joining_nodes import NOON, claim, node

AGO = NOON - timedelta(hours=5)


def bad(condition: str, status: str, minutes: float) -> NodeCondition:
    return NodeCondition(condition, status, format_timestamp(NOON - timedelta(minutes=minutes)))


def running(name: str, **annotations: str) -> NodeClaim:
    made = claim(name, provider_id=f"aws:///us-east-1a/i-{name}", created=AGO)
    if annotations.get("booting"):
        return made.with_condition("Launched", "True", at=AGO).as_registered(f"node-{name}", at=AGO)
    return made.with_condition("Launched", "True", at=AGO).as_registered(f"node-{name}", at=AGO).as_initialized(at=AGO)


def its_node(name: str, *conditions: NodeCondition) -> Node:
    made = node(f"node-{name}", provider_id=f"aws:///us-east-1a/i-{name}", taints=[])
    return replace(made, conditions=conditions or (bad("Ready", "True", 60),))


def survey(
    *unhealthy: Node, healthy: int = 9, repair: RepairSettings | None = None, now: datetime = NOON
) -> ClusterSurvey:
    """Return a survey of a pool with these nodes and some healthy ones, with a budget that allows nothing."""
    settings = DisruptionSettings(repair=repair or RepairSettings())
    pool = NodePool(
        "default",
        NodeClassRef("EC2NodeClass", "default"),
        disruption=Disruption(budgets=(DisruptionBudget("0"),), settings=settings),
    )
    nodes = (*unhealthy, *(its_node(f"h{number}") for number in range(healthy)))
    claims = tuple(running(each.name.removeprefix("node-")) for each in nodes)
    return ClusterSurvey(now=now, nodes=nodes, claims=claims, pools=(pool,))


def found(seen: ClusterSurvey) -> list[tuple[str, str]]:
    return [(due.claim.name, due.reason) for due in UNHEALTHY.find(seen)]


@pytest.mark.parametrize(
    ("condition", "status", "minutes", "goes"),
    [
        ("Ready", "False", 30, True),
        ("Ready", "False", 29.9, False),
        ("Ready", "Unknown", 30, True),
        ("Ready", "Unknown", 29.9, False),
        ("Ready", "True", 600, False),
        ("AcceleratedHardwareReady", "False", 10, True),
        ("AcceleratedHardwareReady", "False", 9.9, False),
        ("AcceleratedHardwareReady", "Unknown", 600, False),
        ("StorageReady", "False", 30, True),
        ("NetworkingReady", "False", 30, True),
        ("KernelReady", "False", 30, True),
        ("ContainerRuntimeReady", "False", 30, True),
        ("ContainerRuntimeReady", "False", 29.9, False),
        ("DiskPressure", "True", 600, False),
    ],
)
def test_a_node_goes_when_a_condition_has_been_bad_for_as_long_as_karpenter_tolerates(
    condition: str, status: str, minutes: float, goes: bool
) -> None:
    assert found(survey(its_node("a", bad(condition, status, minutes)))) == ([("a", "unhealthy")] if goes else [])


def test_a_fifth_of_a_pool_rounded_up_is_repaired_and_more_is_reported() -> None:
    def seen(unhealthy: int, healthy: int) -> ClusterSurvey:
        return survey(
            *(its_node(f"a{number}", bad("Ready", "False", 45)) for number in range(unhealthy)), healthy=healthy
        )

    assert [len(found(seen(unhealthy, 10 - unhealthy))) for unhealthy in (1, 2, 3, 10)] == [1, 2, 0, 0]
    assert found(seen(1, 0)) == [("a0", "unhealthy")]
    assert find_blocked_pools(seen(2, 8)) == {}
    assert find_blocked_pools(seen(3, 8)) == {}
    assert find_blocked_pools(seen(3, 7)) == {
        "NodePool/default": "3 of 10 nodes are unhealthy, more than 20 %: none is repaired"
    }


def test_nodes_that_are_unhealthy_for_a_short_time_count_among_the_unhealthy_and_do_not_go() -> None:
    long, short = its_node("a", bad("Ready", "False", 45)), [its_node(each, bad("Ready", "False", 1)) for each in "bc"]

    assert found(survey(long, short[0], healthy=8)) == [("a", "unhealthy")]
    assert found(survey(long, *short, healthy=7)) == []


def test_a_node_that_boots_is_not_unhealthy() -> None:
    seen = survey(
        its_node("a", bad("Ready", "False", 45)), *(its_node(each, bad("Ready", "False", 1)) for each in "bc")
    )
    booting = tuple(running(each.name, booting="yes") if each.name in "bc" else each for each in seen.claims)

    assert found(replace(seen, claims=booting)) == [("a", "unhealthy")]


def test_a_node_that_leaves_already_is_not_asked_for_again_and_still_counts() -> None:
    leaving = replace(its_node("a", bad("Ready", "False", 45)), deletion="2026-11-21T11:59:00Z")

    assert found(survey(leaving)) == []
    assert found(survey(leaving, its_node("b", bad("Ready", "False", 45)), healthy=3)) == []
    assert found(survey(leaving, its_node("b", bad("Ready", "False", 45)), healthy=4)) == [("b", "unhealthy")]


def test_a_pool_sets_its_own_tolerances_and_may_repair_nothing() -> None:
    ready, storage = its_node("a", bad("Ready", "False", 12)), its_node("b", bad("StorageReady", "False", 600))
    mine = RepairSettings(tolerances={"Ready": 600, "StorageReady": None})

    assert found(survey(ready, storage)) == [("b", "unhealthy")]
    assert found(survey(ready, storage, repair=mine)) == [("a", "unhealthy")]
    assert found(survey(ready, storage, repair=RepairSettings(enabled=False))) == []


def test_tolerances_are_read_from_the_annotations_of_a_pool() -> None:
    def read(annotations: dict[str, str]) -> tuple[RepairSettings, list[str]]:
        manifest = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": {"spec": {}}}}
        problems = read_manifests([{**manifest, "metadata": {"name": "default", "annotations": annotations}}]).problems
        class_ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        usable = {**manifest, "spec": {"template": {"spec": {"nodeClassRef": class_ref, "requirements": []}}}}
        pools = read_manifests([{**usable, "metadata": {"name": "default", "annotations": annotations}}]).pools
        warnings = [each.message for each in problems if each.severity == "warning"]
        return pools[0].disruption.settings.repair, warnings

    assert read({}) == (RepairSettings(), [])
    assert read({"joiner.dev/node-repair": "disabled"}) == (RepairSettings(enabled=False), [])
    repair, warnings = read(
        {"joiner.dev/node-repair-tolerances": "Ready=20m, StorageReady=Never,Raedy=5m,KernelReady=soon"}
    )
    assert {name: repair.tolerances[name] for name in ("Ready", "StorageReady", "KernelReady")} == {
        "Ready": 1200,
        "StorageReady": None,
        "KernelReady": 1800,
    }
    assert [each.partition(": ")[2].partition(";")[0] for each in warnings] == [
        "'Raedy=5m' has no effect",
        "'KernelReady=soon' has no effect",
    ]
    assert 'did you mean "Ready"?' in warnings[0]


def test_the_repair_is_no_choice_and_comes_before_expiration() -> None:
    checks = [check.name for check in RETIREMENTS]

    assert not is_voluntary(RetirementReason.UNHEALTHY, running("a"))
    assert checks.index("unhealthy") < checks.index("expired")


def test_a_repair_does_not_begin_if_the_node_is_healthy_again_and_goes_on_if_it_has_begun() -> None:
    context, healthy, still = RetirementContext(NOON), its_node("a"), its_node("a", bad("Ready", "Unknown", 30))
    unhealthy = RetirementReason.UNHEALTHY

    assert find_objection(unhealthy, running("a"), healthy, context) == "its node is healthy again"
    assert find_objection(unhealthy, running("a"), still, context) == ""
    assert find_objection(unhealthy, replace(running("a"), deletion=NOON), healthy, context) == ""


def test_an_unhealthy_node_has_no_time_to_drain() -> None:
    deleted = replace(running("a"), deletion=NOON, termination_grace_period=3600)

    def deadline(reason: RetirementReason) -> str:
        dated = with_deadline(deleted, reason)
        assert dated is not None
        return dated.annotations["karpenter.sh/nodeclaim-termination-timestamp"]

    assert deadline(RetirementReason.UNHEALTHY) == "2026-11-21T12:00:00Z"
    assert deadline(RetirementReason.DELETED) == "2026-11-21T13:00:00Z"
    unlimited = replace(deleted, termination_grace_period=None)
    assert with_deadline(unlimited, RetirementReason.UNHEALTHY) is not None
    assert with_deadline(unlimited, RetirementReason.DELETED) is None


def test_the_event_of_a_repair_names_the_condition() -> None:
    sick = its_node("a", replace(bad("Ready", "Unknown", 30), message="Kubelet stopped posting node status."))

    assert {event.note for event in report_retirement(running("a"), sick, RetirementReason.UNHEALTHY)} == {
        "Retiring: its node is unhealthy (condition Ready is Unknown since 2026-11-21T11:30:00Z: "
        "Kubelet stopped posting node status.)"
    }
