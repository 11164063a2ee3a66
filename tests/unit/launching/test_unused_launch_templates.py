"""Which launch templates may be deleted."""

from datetime import UTC, datetime, timedelta

import pytest

from joiner.launching.unused_launch_templates import (
    UNUSED_FOR,
    StoredLaunchTemplate,
    find_unused_launch_templates,
    list_requested_templates,
)

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def template(number: int, age: timedelta) -> StoredLaunchTemplate:
    return StoredLaunchTemplate(f"lt-{number}", f"joiner/demo/{number}", NOON - age)


OLD, OLDER = template(1, UNUSED_FOR), template(2, timedelta(days=3))
YOUNG = template(3, UNUSED_FOR - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("requested", "launched_from", "unused"),
    [
        ((), (), [OLDER, OLD]),
        ((OLD.name,), (), [OLDER]),
        ((), (OLDER.id,), [OLD]),
        ((OLD.name,), (OLDER.id,), []),
        ((OLD.id,), (OLDER.name,), [OLDER, OLD]),
    ],
    ids=["nothing in use", "an open launch", "a recent instance", "both", "ids are no names"],
)
def test_only_old_templates_that_no_launch_and_no_recent_instance_uses_are_unused(
    requested: tuple[str, ...], launched_from: tuple[str, ...], unused: list[StoredLaunchTemplate]
) -> None:
    found = find_unused_launch_templates(
        [YOUNG, OLD, OLDER], requested=requested, launched_from=launched_from, now=NOON
    )

    assert found == unused


def test_a_recorded_launch_has_no_request_and_names_no_template() -> None:
    assert list_requested_templates("") == set()
