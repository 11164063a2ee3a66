"""Tiny clusters in which some pods cannot be placed, against all possible plans: the other pods are placed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.brute_force import (
    TYPES,
    App,
    Existing,
    Spread,
    TinyCluster,
    better_division,
    placed_by_priority,
)
from tests.unit.planning.drawn_clusters import APPS, HOST, ZONE, ZONES, planned

MOST_PODS = 7
MOST_EACH = 4
KEYS = st.sampled_from([ZONE, HOST])


@st.composite
def apps(draw: st.DrawFn, name: str, named: tuple[str, ...], most: int) -> App:
    rules = draw(st.lists(st.sampled_from(["level", "apart", "beside", "beside", "full", "port", "zone"]), max_size=2))
    kinds = Counter(rules)
    spreads = [Spread(draw(KEYS), draw(st.integers(1, 2))) for _ in range(kinds["level"])]
    spreads += [Spread(ZONE, 1, draw(st.integers(2, 4)))] * (kinds["full"] > 0)
    return App(
        name,
        draw(st.integers(1, most)),
        draw(st.sampled_from([100, 500, 900, 1800, 2500, 9000])),
        draw(st.sampled_from([64, 64, 1024, 3072])),
        priority=draw(st.sampled_from([0, 0, 0, 10])),
        zone=draw(st.sampled_from(ZONES)) if kinds["zone"] else "",
        port=kinds["port"] > 0,
        spreads=tuple({one.key: one for one in spreads}.values()),
        apart=tuple((draw(KEYS), draw(st.sampled_from(named))) for _ in range(kinds["apart"])),
        beside=tuple({draw(KEYS): draw(st.sampled_from(named)) for _ in range(kinds["beside"])}.items()),
    )


@st.composite
def clusters(draw: st.DrawFn) -> TinyCluster:
    named, waiting, left = APPS[: draw(st.integers(1, 3))], [], MOST_PODS
    for position, name in enumerate(named):
        waiting.append(draw(apps(name, named, min(MOST_EACH, left - (len(named) - 1 - position)))))
        left -= waiting[-1].pods
    nodes = [
        Existing(
            f"node-{number}",
            draw(st.sampled_from(ZONES)),
            draw(st.sampled_from([1, 2, 4])),
            4,
            tuple(draw(st.lists(st.sampled_from(named), max_size=1))),
        )
        for number in range(draw(st.sampled_from([0, 0, 1, 2])))
    ]
    limits = draw(st.sampled_from([(), (), (("cpu", 3),), (("cpu", 6),), (("nodes", 1),), (("nodes", 2),)]))
    return TinyCluster(
        tuple(waiting),
        tuple(draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=2, max_size=4, unique=True))),
        ZONES[: draw(st.integers(1, 3))],
        limits,
        tuple(nodes),
    )


@examples(60)
@given(clusters())
def test_a_pod_stays_pending_only_if_no_plan_places_more_pods(cluster: TinyCluster) -> None:
    lists, catalogue = cluster.lists, cluster.catalogue
    plan = planned(lists, catalogue)
    pending = Counter(one.pod.rpartition("/")[2].rpartition("-")[0] for one in plan.pending)
    placed = Counter({app.name: app.pods - pending[app.name] for app in cluster.apps})

    assert check_plan(lists, catalogue, plan.to_json()) == []
    better = better_division(cluster, placed)
    assert better is None, f"{placed_by_priority(cluster, placed)} pods by priority"
