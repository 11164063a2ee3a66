"""When the clock stops the search before the effort limit does: at the deadline, or earlier by the time that the next
step takes.
"""

import itertools
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort, Meter
from joiner.planning.planner import plan
from tests.unit.planning.call_clock import CallClock
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONE, affinity, near, pod, pods, spread
from tests.unit.planning.test_exotic_types import HOST


def after(seconds: float, effort_seconds: float | None) -> Meter:
    """Return a meter after this number of seconds, with this deadline."""
    times = iter([100.0, *[100.0 + seconds] * 9])
    return Meter(Effort(seconds=effort_seconds, clock=lambda: next(times)))


@pytest.mark.parametrize(
    ("seconds", "more", "overdue"),
    [(0.5, 0.0, False), (0.5, 0.4, False), (0.5, 0.6, True), (0.9, 0.2, True), (1.1, 0.0, True)],
)
def test_what_would_end_after_the_deadline_is_overdue_and_the_plan_shows_it(
    seconds: float, more: float, overdue: bool
) -> None:
    meter = after(seconds, 1.0)

    assert (meter.overdue(more), meter.cut_short) == (overdue, overdue)


def test_the_search_leaves_time_for_realizing_the_packing() -> None:
    meter = after(0.7, 1.0)
    meter.keep_back(0.4)

    assert not meter.overdue(0.2)
    assert not meter.cut_short
    assert meter.spent()


def test_a_search_that_used_up_the_steps_of_a_short_deadline_is_cut_short() -> None:
    brief, default, counted = (Meter(Effort(seconds=0.01)), Meter(Effort(seconds=0.25)), Meter(Effort(steps=10)))
    for meter in (brief, default, counted):
        meter.spend(meter.allowance)

    assert [(meter.spent(), meter.cut_short) for meter in (brief, default, counted)] == [
        (True, True),
        (True, False),
        (True, False),
    ]


def test_nothing_is_overdue_without_a_deadline_or_a_clock() -> None:
    assert not after(9.0, None).overdue(9.0)
    assert not Meter(Effort(seconds=1.0)).overdue(9.0)


def test_a_machine_that_reads_more_slowly_finds_the_same_plan_unless_it_is_cut_short() -> None:
    lists = cluster(
        [
            pod(f"p{number}", cpu=f"{300 + 37 * number % 1400}m", memory=f"{200 + 131 * number % 6000}Mi")
            for number in range(100)
        ]
    )
    snapshot, catalogue = Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE)

    def found(late: float) -> Plan:
        """Return the plan under a clock that shows zero once and then stays at ``late`` seconds."""
        times = iter([0.0])
        return plan(snapshot, catalogue, classes=CLASSES, effort=Effort(seconds=0.25, clock=lambda: next(times, late)))

    quick, slow = found(0.0), found(0.1)

    assert not quick.cut_short
    assert not slow.cut_short
    assert [one.pods for one in quick.nodes] == [one.pods for one in slow.nodes]


def test_a_search_ends_at_the_plan_that_is_proven_to_be_optimal() -> None:
    web = pods(9, memory="1Gi", topologySpreadConstraints=[spread()])
    beside = affinity(podAntiAffinity=[near(HOST, "cache")], podAffinity=[near(ZONE, "web")])
    snapshot = Snapshot.from_lists(cluster([*web, *pods(3, "cache", cpu="1", memory="2Gi", **beside)]))
    looks = itertools.count()
    effort = Effort(seconds=60, clock=lambda: next(looks) / 1000)

    made = plan(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES, effort=effort)

    assert (made.optimal, made.cut_short) == (True, False)
    # Each further attempt looks at the clock dozens of times: a search of all of them, more than 800 times
    assert next(looks) < 100


@pytest.mark.parametrize(
    ("kinds", "deadline", "workloads"),
    [(40, 0.25, 0), (40, 0.5, 0), (300, 2.0, 0), (20, 1.0, 5), (40, 0.4, 5), (40, 2.0, 5), (100, 1.0, 100)],
)
def test_a_search_ends_at_most_ten_percent_after_its_deadline(kinds: int, deadline: float, workloads: int) -> None:
    """The pods of each workload are spread over zones, and those of every fifth workload over hosts.

    Without a search, a plan of 40 such pods takes 0.3 s of this clock, and one of 100 of them 0.5 s, so shorter
    deadlines cannot be met.
    """
    lists = cluster(
        [
            pod(f"p{number}", cpu=f"{300 + 37 * number % 1400}m", memory=f"{200 + 131 * number % 6000}Mi", **between)
            for number in range(kinds)
            for between in [of_rules(number % workloads) if workloads else {}]
        ]
    )
    snapshot, catalogue = Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE)
    plan(snapshot, catalogue, classes=CLASSES, effort=Effort(steps=0))  # imports and caches are no part of a search

    with CallClock() as clock:
        made = plan(snapshot, catalogue, classes=CLASSES, effort=Effort(deadline, steps=10**9, clock=clock))

    assert made.cut_short
    assert clock() <= deadline * 1.1


def of_rules(workload: int) -> dict[str, Any]:
    app = f"app-{workload}"
    apart = affinity(podAntiAffinity=[near(HOST, app)]) if workload % 5 == 0 else {}
    return {"app": app, "topologySpreadConstraints": [spread(ZONE, app=app)], **apart}
