"""The replicas of a static pool by time of day."""

from datetime import UTC, datetime, timedelta

from joiner.pools import NodeClassRef, NodePool
from joiner.pools.pool_planning import PoolPlanning
from joiner.pools.replica_schedule import ReplicaSchedule
from joiner.pools.scheduled_pools import apply_schedules

OFFICE = ReplicaSchedule.parse(
    "Europe/Oslo: 0 8 * * mon-fri for 10h = 6; 0 12 * * * for 1h = 9; 0 10 * * sat for 4h = 2"
)
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)  # Oslo is an hour ahead of UTC


def test_a_window_opens_and_closes_at_its_minute_in_its_time_zone() -> None:
    times = ("06:59", "07:00", "16:59", "17:00")
    found = [OFFICE.replicas_at(datetime.fromisoformat(f"2026-11-23T{time}:00+00:00")) for time in times]

    assert found == [None, 6, 6, None]


def test_a_window_follows_the_clocks_of_summer() -> None:
    monday = datetime(2026, 7, 6, tzinfo=UTC)  # Oslo is two hours ahead of UTC
    assert [OFFICE.replicas_at(monday + timedelta(hours=hour)) for hour in (5, 6, 15, 16)] == [None, 6, 6, None]


def test_of_several_open_windows_the_first_counts() -> None:
    noon, saturday = timedelta(hours=11), timedelta(days=5)

    assert OFFICE.replicas_at(MONDAY + noon) == 6
    assert OFFICE.replicas_at(MONDAY + saturday + noon) == 9
    assert OFFICE.replicas_at(MONDAY + saturday + noon + timedelta(hours=1)) == 2


def test_a_window_that_never_begins_is_not_open_and_the_others_count() -> None:
    mixed = ReplicaSchedule.parse("0 0 31 2 * for 1h = 2; 0 8 * * mon-fri for 10h = 6")
    idle = ReplicaSchedule.parse("0 0 31 2 * for 1h = 2")

    assert [mixed.replicas_at(MONDAY + timedelta(hours=hour)) for hour in (7, 8)] == [None, 6]
    assert [idle.replicas_at(MONDAY + timedelta(days=day)) for day in range(366)] == [None] * 366
    assert (mixed.opens, idle.opens) == (True, False)


def test_only_static_pools_with_an_open_window_change() -> None:
    reference, planning = NodeClassRef("EC2NodeClass", "default"), PoolPlanning(schedule=OFFICE)
    static, dynamic = (
        NodePool("static", reference, replicas=1, planning=planning),
        NodePool("dynamic", reference, planning=planning),
    )

    assert [pool.replicas for pool in apply_schedules([static, dynamic], MONDAY + timedelta(hours=9))] == [6, None]
    assert [pool.replicas for pool in apply_schedules([static, dynamic], MONDAY)] == [1, None]
