"""The windows of budgets as the checker of the end-to-end tests reads them, by their definition and beside Joiner's."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.pools import DisruptionBudget
from joiner.pools.disruption_budgets import is_active
from tests.e2e.allowed_disruptions import is_open
from tests.law_settings import examples

NOON: Final = datetime(2026, 11, 28, 12, tzinfo=UTC)  # a Saturday
FIELDS: Final = (
    st.sampled_from(["*", "0", "*/15", "10-50/20", "5,35"]),
    st.sampled_from(["*", "12", "*/6", "9-17", "22,3"]),
    st.sampled_from(["*", "1", "28", "10-20"]),
    st.sampled_from(["*", "11", "jan-mar", "6,12"]),
    st.sampled_from(["*", "sat", "mon-fri", "0", "7", "1-3"]),
)


@pytest.mark.parametrize(
    ("schedule", "duration", "open_"),
    [
        ("0 11 * * *", "1h", False),
        ("0 11 * * *", "1h1m", True),
        ("0 12 * * *", "1m", True),
        ("*/45 * * * *", "15m", True),
        ("*/45 * * * *", "14m", True),
        ("45 * * * *", "15m", False),
        ("45 * * * *", "16m", True),
        ("@hourly", "1m", True),
        ("@daily", "12h", False),
        ("@daily", "13h", True),
        ("0 12 1 * sat", "1m", True),
        ("0 12 1 * *", "1m", False),
        ("0 12 * * 0", "1m", False),
        ("0 12 * dec sat", "1m", False),
    ],
)
def test_a_window_is_open_for_its_duration_after_each_start(schedule: str, duration: str, open_: bool) -> None:
    assert is_open({"schedule": schedule, "duration": duration}, NOON, UTC) == open_


@examples(60)
@given(st.tuples(*FIELDS), st.integers(1, 30), st.integers(0, 60 * 24 * 60))
def test_the_checker_and_joiner_read_windows_alike(fields: tuple[str, ...], hours: int, minutes: int) -> None:
    schedule, at = " ".join(fields), NOON + timedelta(minutes=minutes, seconds=30)
    joiners = DisruptionBudget("0", schedule=schedule, duration=hours * 3600)
    assert is_open({"schedule": schedule, "duration": f"{hours}h"}, at, UTC) == is_active(joiners, at)
