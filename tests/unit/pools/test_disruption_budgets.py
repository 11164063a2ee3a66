"""Disruption budgets: how many nodes of a pool may be disrupted at one time."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import Node
from joiner.pools import Disruption, DisruptionBudget, NodeClaim, NodeClassRef, NodePool, read_manifests
from joiner.pools.cron_schedules import CronSchedule
from joiner.pools.disruption_budgets import (
    count_allowed_disruptions,
    count_remaining_disruptions,
    is_active,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday
HOURS = 3600


@pytest.mark.parametrize(
    ("share", "nodes", "may_go"),
    [("10%", 0, 0), ("10%", 1, 1), ("10%", 11, 2), ("100%", 7, 7), ("0%", 9, 0), ("3", 2, 3)],
)
def test_a_percentage_is_rounded_up_and_a_number_is_taken_as_it_is(share: str, nodes: int, may_go: int) -> None:
    assert count_allowed_disruptions([DisruptionBudget(share)], "Empty", nodes=nodes, now=NOON) == may_go


def test_the_strictest_budget_counts() -> None:
    assert (
        count_allowed_disruptions(
            [DisruptionBudget("100%"), DisruptionBudget("2"), DisruptionBudget("50%")], "Empty", nodes=10, now=NOON
        )
        == 2
    )


def test_a_budget_of_zero_allows_no_disruption() -> None:
    assert count_allowed_disruptions([DisruptionBudget("0")], "Empty", nodes=100, now=NOON) == 0


def test_a_budget_for_other_reasons_does_not_count() -> None:
    budgets = [DisruptionBudget("0", reasons=("Drifted", "Underutilized")), DisruptionBudget("5", reasons=("Empty",))]

    assert count_allowed_disruptions(budgets, "Empty", nodes=100, now=NOON) == 5
    assert count_allowed_disruptions(budgets, "Drifted", nodes=100, now=NOON) == 0


def test_without_a_matching_budget_all_nodes_may_be_disrupted() -> None:
    assert (
        count_allowed_disruptions(
            [DisruptionBudget("0", schedule="0 9 * * mon-fri", duration=8 * HOURS)], "Empty", nodes=7, now=NOON
        )
        == 7
    )


@pytest.mark.parametrize(
    ("times", "hours", "active"),
    [
        ("0 12 * * *", 1, True),
        ("0 11 * * *", 1, False),  # it began an hour ago, and has ended
        ("1 11 * * *", 1, True),
        ("0 9 * * sat", 8, True),
        ("0 9 * * 6", 8, True),
        ("0 9 * * mon-fri", 8, False),
        ("0 0 1 * *", 24 * 21, True),
        ("0 0 1 * *", 24 * 20, False),
        ("0 0 31 feb *", 24 * 300, False),
        ("@daily", 13, True),
        ("@yearly", 24 * 30, False),
        ("*/7 * * * *", 1, True),
        ("0 12 1 * sat", 1, True),  # where both days are given, either of them matches
        ("0 12 21 * sun", 1, True),
        ("0 12 20 * sun", 1, False),
        ("0 12 */2 * sun", 1, True),  # a step of two restricts the days, so either list suffices
        ("0 12 */2 * mon", 1, True),
        ("0 12 */1 * mon", 1, False),  # a step of one does not
        ("0 12 ? * sat", 1, True),
        ("0 12 ? * sun", 1, False),
        ("0 12 * * 7", 24, False),
    ],
)
def test_a_budget_is_active_for_its_duration_after_each_start_of_its_schedule(
    times: str, hours: int, active: bool
) -> None:
    assert is_active(DisruptionBudget("0", schedule=times, duration=hours * HOURS), NOON) is active


def test_a_budget_is_active_from_the_minute_it_begins_to_the_minute_it_ends() -> None:
    budget = DisruptionBudget("0", schedule="30 11 * * *", duration=HOURS)
    minutes = [minute for minute in range(-120, 121) if is_active(budget, NOON + timedelta(minutes=minute))]

    assert minutes == list(range(-30, 30))


def test_schedules_are_in_utc_for_any_time_zone_of_now() -> None:
    elsewhere = NOON.astimezone(datetime.fromisoformat("2026-01-01T00:00:00+09:00").tzinfo)

    assert is_active(DisruptionBudget("0", schedule="0 12 * * *", duration=60), elsewhere)


@pytest.mark.parametrize(
    "times",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "5-1 * * * *",
        "*/0 * * * *",
        "mon * * * *",
        "* * * * *  *",
    ],
)
def test_a_budget_with_an_invalid_schedule_allows_no_disruption(times: str) -> None:
    with pytest.raises(ValueError, match=r"field|within|literal"):
        CronSchedule.parse(times)
    assert (
        count_allowed_disruptions(
            [DisruptionBudget("100%", schedule=times, duration=HOURS)], "Empty", nodes=9, now=NOON
        )
        == 0
    )


# Time zones

OSLO = ZoneInfo("Europe/Oslo")


def hours_of(budget: DisruptionBudget, first: datetime, zone: Any, count: int = 24) -> list[int]:
    """Return the hours after `first` at which the budget is active."""
    return [hour for hour in range(count) if is_active(budget, first + timedelta(hours=hour), zone)]


def test_a_schedule_is_in_the_time_zone_of_its_pool_in_winter_and_in_summer() -> None:
    office = DisruptionBudget("0", schedule="0 9 * * mon-fri", duration=8 * HOURS)
    winter, summer = datetime(2026, 1, 12, tzinfo=UTC), datetime(2026, 7, 13, tzinfo=UTC)

    assert hours_of(office, winter, UTC) == hours_of(office, summer, UTC) == list(range(9, 17))
    assert hours_of(office, winter, OSLO) == list(range(8, 16))
    assert hours_of(office, summer, OSLO) == list(range(7, 15))


def test_the_day_of_the_week_is_that_of_the_time_zone() -> None:
    monday = DisruptionBudget("0", schedule="0 6 * * mon", duration=2 * HOURS)
    sunday_in_utc = datetime(2026, 7, 12, tzinfo=UTC)

    assert hours_of(monday, sunday_in_utc, ZoneInfo("Asia/Tokyo")) == [21, 22]


def test_a_skipped_local_time_is_no_start_and_a_repeated_one_is_two() -> None:
    budget = DisruptionBudget("0", schedule="30 2 * * *", duration=HOURS // 2)
    forward, back = datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)

    def starts(first: datetime) -> list[int]:
        minutes = (minute for minute in range(6 * 60) if is_active(budget, first + timedelta(minutes=minute), OSLO))
        return sorted({minute // 30 for minute in minutes})

    assert starts(forward) == []
    assert starts(back) == [1, 3]  # 00:30 and 01:30 in UTC are both 02:30 in Oslo


def test_in_an_unknown_time_zone_every_budget_with_a_schedule_is_active() -> None:
    office = DisruptionBudget("0", schedule="0 9 * * mon-fri", duration=HOURS)

    assert count_allowed_disruptions([office], "Drifted", nodes=7, now=NOON, zone=None) == 0
    assert count_allowed_disruptions([office], "Drifted", nodes=7, now=NOON) == 7


def test_an_unknown_time_zone_is_a_warning_with_its_remedy() -> None:
    manifest = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "annotations": {"joiner.dev/budget-time-zone": "Europe/Olso"}},
        "spec": {
            "template": {
                "spec": {
                    "requirements": [],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                }
            },
            "disruption": {"budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]},
        },
    }
    found = read_manifests([manifest])

    assert found.pools[0].disruption.settings.time_zone is None
    assert [each.message for each in found.problems if each.severity == "warning"] == [
        "spec.disruption.budgets[0].schedule is 61 * * * *: '61' is not within 0 and 59; while it is not valid, "
        "the budget allows no disruption",
        "metadata.annotations[joiner.dev/budget-time-zone] is Europe/Olso: no such time zone is known, so every "
        'budget with a schedule is active; use a name such as "Europe/Oslo"',
    ]


# Nodes that are in disruption already


def remaining(*nodes: Node, budget: str = "3", reason: Any = "Drifted", **arguments: Any) -> int:
    """Return the answer for a pool whose nodes are these; `claims` changes claims by name."""
    changed: Mapping[str, Any] = arguments.pop("claims", {})
    pool = NodePool("default", REF, disruption=Disruption(budgets=(DisruptionBudget(budget),)))
    claims = [changed.get(node.name, _claim(node.name)) for node in nodes]
    by_claim = {claim.key: node for claim, node in zip(claims, nodes, strict=True)}
    return count_remaining_disruptions(pool, reason, claims, by_claim, now=NOON, **arguments)


REF = NodeClassRef("EC2NodeClass", "default")


def _claim(name: str, **fields: Any) -> NodeClaim:
    claim = NodeClaim(name, REF, pool="default", **fields)
    for condition in ("Launched", "Registered", "Initialized"):
        claim = claim.with_condition(condition, "True", at=NOON)
    return claim


def _node(name: str, **fields: Any) -> Node:
    return Node(name, **{"ready": True, **fields})


def test_nodes_that_are_not_ready_or_leave_for_any_reason_use_the_budget() -> None:
    healthy = [_node(name) for name in "abcdef"]

    assert remaining(*healthy) == 3
    assert remaining(_node("g", ready=False), *healthy) == 2
    assert remaining(_node("g", deletion="2026-11-21T11:59:00Z"), *healthy) == 2
    assert remaining(_node("g"), *healthy, claims={"g": _claim("g", deletion=NOON)}) == 2
    assert remaining(*healthy, leaving={"a", "b"}) == 1
    assert remaining(*(_node(name, ready=False) for name in "abcdef")) == 0


def test_a_percentage_is_of_the_initialized_nodes_whose_instances_are_not_being_terminated() -> None:
    ending = _claim("k", deletion=NOON).with_condition("InstanceTerminating", "True", at=NOON)
    booting = NodeClaim("l", REF, pool="default")
    nodes = [_node(name) for name in "abcdefghijkl"]

    assert remaining(*nodes, budget="20%", claims={"k": ending, "l": booting}) == 2
    assert remaining(*nodes, budget="20%") == 3


def test_graceful_expiration_uses_the_budgets_of_drift() -> None:
    budgets = [DisruptionBudget("1", reasons=("Drifted",)), DisruptionBudget("5", reasons=("Empty",))]

    assert [
        count_allowed_disruptions(budgets, reason, nodes=9, now=NOON)
        for reason in ("Drifted", "Expired", "Empty", "Rebalance")
    ] == [1, 1, 5, 9]


@given(
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=3),
    duration=st.integers(1, 3 * 24 * 60),
    at=st.integers(0, 400 * 24 * 60),
    zone=st.sampled_from([UTC, OSLO, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")]),
)
def test_a_budget_is_active_if_one_of_the_minutes_of_its_duration_is_a_start(
    minutes: set[int], hours: set[int], duration: int, at: int, zone: Any
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=at)
    budget = DisruptionBudget(
        "0", schedule=f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *", duration=duration * 60
    )
    walls = ((now - timedelta(minutes=back)).astimezone(zone) for back in range(duration))

    assert is_active(budget, now, zone) is any(wall.minute in minutes and wall.hour in hours for wall in walls)
