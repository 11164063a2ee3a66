"""A plan contains Python's own numbers, so that any serialiser can write it; and its statistics are correct."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort, Meter
from joiner.planning.planner import plan
from tests.law_settings import examples
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONE, ZONES, Json, clusters, node_pool, pods, spread

SIZES = {"exact": 3, "searched": 40, "rounded": 700}
NOTHING = Effort(steps=0)
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def cluster(size: int) -> dict[str, list[Json]]:
    kinds = [
        pods(size // 3, "small", cpu="300m", memory="200Mi"),
        pods(size // 3, "large", cpu="1500m", memory="2Gi"),
        pods(size - 2 * (size // 3), "even", cpu="700m", topologySpreadConstraints=[spread(ZONE, app="even")]),
    ]
    return {"pods": [pod for kind in kinds for pod in kind], "nodepools": [node_pool()]}


def planned(size: int, effort: Effort) -> Plan:
    return plan(Snapshot.from_lists(cluster(size)), Catalogue.from_json(CATALOGUE), classes=CLASSES, effort=effort)


def values(data: Any) -> Iterator[Any]:
    """Yield every key and value, also of values that dataclasses hold."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from values(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from values(value)
    elif is_dataclass(data):
        for field in fields(data):
            yield from values(getattr(data, field.name))
    else:
        yield data


def ticking(tick: float) -> Effort:
    """Return an effort of a second, by a clock that goes on by ``tick`` seconds with each reading."""
    readings = count()
    return Effort(seconds=1.0, clock=lambda: next(readings) * tick)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_plan_can_be_written_down_by_anybody(size: int) -> None:
    written = planned(size, NOTHING).to_json()

    assert {type(value) for value in values(written)} <= {str, int, float, bool, type(None)}
    assert msgspec.json.decode(msgspec.json.encode(written)) == msgspec.json.decode(msgspec.json.encode(written))


def of_numpy(data: Any) -> list[str]:
    return [repr(value) for value in values(data) if isinstance(value, np.generic | np.ndarray)]


@examples(40)
@given(clusters(), st.sampled_from([1e-4, 1e-2, 0.1, 1.0]))
def test_no_number_of_numpy_leaves_the_planner(lists: dict[str, list[Json]], tick: float) -> None:
    """Neither in the plan nor in its JSON, wherever the deadline stops the search."""
    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES, effort=ticking(tick))

    assert of_numpy(made) == []
    assert {type(value) for value in values(made.to_json())} <= {str, int, float, bool, type(None)}


@pytest.mark.parametrize("tick", [1e-3, 5e-3, 2e-2, 0.2])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_no_number_of_numpy_leaves_the_planner_when_the_deadline_stops_it(size: int, tick: float) -> None:
    made = planned(size, ticking(tick))

    assert of_numpy(made) == []
    assert {type(value) for value in values(made.to_json())} <= {str, int, float, bool, type(None)}


def test_a_meter_keeps_no_number_of_numpy() -> None:
    """Steps are computed with numpy, and their share becomes the share of the time."""
    readings = count()
    meter = Meter(Effort(seconds=1.0, clock=lambda: float(next(readings))))
    meter.spend(np.float64(3.0))
    meter.keep_back(np.float64(0.25))

    assert [type(one) for one in (meter.used, meter.share, meter.spent(np.float64(0.5)), meter.cut_short)] == [
        float,
        float,
        bool,
        bool,
    ]
    assert meter.cut_short


@pytest.mark.parametrize("size", [3, 12, 40])
def test_no_small_plan_is_more_expensive_than_first_fit(size: int) -> None:
    for effort in (NOTHING, Effort(steps=50)):
        found = planned(size, effort)

        assert found.greedy_price_per_hour is not None
        assert found.lower_bound_per_hour <= found.price_per_hour <= found.greedy_price_per_hour


def test_more_steps_find_nothing_more_expensive_and_the_same_again() -> None:
    first, second, third = (planned(40, Effort(steps=steps)) for steps in (0, 60, 60))

    assert second.price_per_hour <= first.price_per_hour
    assert second == third


@pytest.mark.parametrize(
    "pools",
    [
        [node_pool(limits={"cpu": "40"}), node_pool("costly", requirements=[ON_DEMAND])],
        [node_pool("costly", requirements=[ON_DEMAND], weight=20), node_pool("cheap", weight=1)],
    ],
    ids=["limit", "weights"],
)
def test_a_first_plan_has_a_bound_and_a_search_raises_it(pools: list[Json]) -> None:
    waiting = [*pods(30, "large", cpu="1100m", memory="1Gi"), *pods(20, "small", cpu="700m", memory="3Gi")]
    snapshot = Snapshot.from_lists({"pods": waiting, "nodepools": pools})
    first, searched = (
        plan(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES, effort=Effort(steps=steps)) for steps in (0, 60)
    )

    assert first.pods_placed == searched.pods_placed == 50
    assert (
        0
        < first.lower_bound_per_hour
        < searched.lower_bound_per_hour
        <= searched.price_per_hour
        <= first.price_per_hour
    )


def test_a_plan_that_the_clock_cut_short_is_marked_so() -> None:
    """Each reading of this clock takes a second. No machine is that slow, and the planner still plans all pods."""
    ticks = iter(range(10**9))
    cut = planned(40, Effort(seconds=2.0, clock=lambda: float(next(ticks))))

    assert cut.cut_short
    assert cut.to_json()["cutShort"] is True
    assert cut.pods_placed == 40
    assert not planned(40, NOTHING).cut_short


def test_a_pod_that_spreads_goes_to_the_cheaper_zone_and_the_bound_knows_it() -> None:
    def costly(one: Json) -> Json:
        return {**one, "pricePerHour": one["pricePerHour"] * (2 if one["zone"] == ZONES[0] else 1)}

    costly_in_one = {
        name: {**known, "offerings": [*map(costly, known["offerings"])]} for name, known in CATALOGUE.items()
    }
    lists: dict[str, list[Json]] = {
        "pods": [*pods(1, topologySpreadConstraints=[spread(ZONE)])],
        "nodepools": [node_pool()],
    }

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(costly_in_one), classes=CLASSES)

    assert [node.zone for node in made.nodes] == [ZONES[1]]
    assert made.price_per_hour == pytest.approx(made.lower_bound_per_hour)
