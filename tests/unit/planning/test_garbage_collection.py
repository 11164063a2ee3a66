"""The planner runs without the cyclic garbage collector: its state is restored afterwards, and the collector would have
found nothing.
"""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.planner import plan
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, HOST, Json, node, node_pool, pods, spread

ROOT = Path(__file__).parents[3]
RULES: dict[str, list[Json]] = {
    "pods": [
        *pods(9, topologySpreadConstraints=[spread()]),
        *pods(6, "db", topologySpreadConstraints=[spread(HOST, app="db")]),
    ],
    "nodes": [node("there")],
    "nodepools": [node_pool()],
}


class BrokenClock(Exception):
    pass


def broken() -> float:
    raise BrokenClock


def made(effort: Effort) -> Plan:
    return plan(Snapshot.from_lists(RULES), Catalogue.from_json(CATALOGUE), classes=CLASSES, effort=effort)


@pytest.fixture(params=[True, False], ids=["on", "off"])
def on(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Set whether the collector is on before the test; it is on again at the end."""
    (gc.enable if request.param else gc.disable)()
    yield request.param
    gc.enable()


def test_the_collector_is_as_it_was_once_there_is_a_plan(on: bool) -> None:
    seen: list[bool] = []

    def clock() -> float:
        seen.append(gc.isenabled())
        return 0.0

    made(Effort(steps=0, clock=clock))

    assert set(seen) == {False}
    assert gc.isenabled() is on


def test_the_collector_is_as_it_was_where_there_is_no_plan(on: bool) -> None:
    with pytest.raises(BrokenClock):
        made(Effort(clock=broken))

    assert gc.isenabled() is on


def test_a_plan_leaves_no_cycles_with_what_it_was_made_of() -> None:
    """In an interpreter of its own: other tests, and the threads that run them, leave cycles at any time."""
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import count_cycles; print(*count_cycles())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["0", "0"]


def count_cycles() -> tuple[int, int]:
    """Return the groups of pods that a plan leaves, and the objects that only the collector frees."""
    gc.disable()
    made(Effort(steps=0))  # what is loaded or cached only once exists from here on
    gc.collect()
    made(Effort(steps=0))
    return len([one for one in gc.get_objects() if isinstance(one, PodGroup)]), gc.collect()
