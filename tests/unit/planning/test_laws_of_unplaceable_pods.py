"""Tiny clusters in which some pods cannot be placed, against all possible plans: the other pods are placed."""

from collections import Counter
from dataclasses import replace

from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

from joiner.planning import Plan
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.brute_force import (
    TYPES,
    App,
    Existing,
    Spread,
    TinyCluster,
    better_division,
    cheapest_price,
    placed_by_priority,
)
from tests.unit.planning.drawn_clusters import APPS, HOST, ZONE, ZONES, planned
from tests.unit.planning.reachable_plans import ReachablePlans, TooMany

FEW_PODS = 7
MOST_EACH = 4
MORE_PODS = (8, 12)
MOST_PLANS = 5_000
"""A cluster with more plans than this is left out."""
SPOT_SHARE = 0.35
"""The price of a spot node by that of an on-demand node of its type."""
NAMES = ("api", "db", "job", "log", "web")
KEYS = st.sampled_from([ZONE, HOST])
RULES = ("level", "apart", "beside", "beside", "full", "port", "zone", "claim")


@st.composite
def apps(draw: st.DrawFn, name: str, named: tuple[str, ...], most: int) -> App:
    rules = draw(st.lists(st.sampled_from(RULES), max_size=2))
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
        claim=draw(st.sampled_from(("own", f"of-{name}"))) if kinds["claim"] else "",
    )


ONE_ZONE_OF_TWO = TinyCluster(
    (
        App("web", 4, 1500, 64),
        App("api", 2, 500, 64, spreads=(Spread(ZONE, 2),)),
        App("db", 3, 250, 1024, beside=((ZONE, "api"),)),
        App("job", 2, 500, 3072, apart=((ZONE, "api"),), beside=((HOST, "job"),)),
    ),
    ("t.small", "c.xlarge", "m.2xlarge"),
    ZONES[:1],
    (),
    (Existing("node-0", ZONES[1], 4, 4),),
)
"""All pods have a node if the `api` and `db` pods leave the only zone of the pool to the `job` pods."""
LAST_NODE = TinyCluster(
    (
        App("api", 1, 100, 1024, zone=ZONES[0]),
        App("db", 1, 900, 1024),
        App("web", 3, 750, 64, zone=ZONES[1]),
        App("job", 3, 1500, 3072, spreads=(Spread(HOST, 2),)),
    ),
    ("m.xlarge",),
    ZONES,
    (("nodes", 1),),
    (Existing("node-0", ZONES[2], 1, 4), Existing("node-1", ZONES[2], 1, 4)),
)
"""The only new node holds four pods in one zone, and fewer in the others."""

BESIDE_A_CLAIM = TinyCluster(
    (App("api", 3, 300, 64, claim="own"), App("web", 4, 700, 64, beside=((HOST, "api"),))),
    ("t.small", "s.large", "c.xlarge", "m.2xlarge"),
    ZONES,
)
"""One `api` pod can have the claim; all `web` pods need its node."""
FEW_BESIDE_A_CLAIM = TinyCluster(
    (App("api", 4, 900, 64, claim="own"), App("web", 2, 1900, 64, beside=((HOST, "api"),))),
    ("t.small", "s.large", "c.xlarge", "m.2xlarge"),
    ZONES,
)
TWO_OR_ONE = TinyCluster(
    (App("web", 2, 900, 64, apart=((HOST, "db"),)), App("db", 1, 1900, 64)),
    ("t.small", "s.large"),
    ZONES[:1],
    (("cpu", 2),),
)
"""The limit suffices for both `web` pods, or for the `db` pod."""
ONE_OF_TWO_KINDS = TinyCluster(
    (
        App("api", 2, 900, 64, beside=((HOST, "api"),)),
        App("web", 3, 2500, 64, beside=((ZONE, "api"),)),
    ),
    ("t.small", "s.large", "c.xlarge"),
    ZONES[:2],
    (("cpu", 8),),
)
"""Three pods have a node: two `web` pods on nodes of four vCPUs, or one of them and both `api` pods."""


@st.composite
def clusters(draw: st.DrawFn) -> TinyCluster:
    """Draw a cluster of few pods."""
    named, waiting, left = APPS[: draw(st.integers(1, 3))], [], FEW_PODS
    for position, name in enumerate(named):
        waiting.append(draw(apps(name, named, min(MOST_EACH, left - (len(named) - 1 - position)))))
        left -= waiting[-1].pods
    return cluster_of(draw, named, waiting)


@st.composite
def larger_clusters(draw: st.DrawFn) -> TinyCluster:
    """Draw a cluster of 8 to 12 pods in two to five apps."""
    named = NAMES[: draw(st.integers(2, len(NAMES)))]
    pods = draw(st.integers(*MORE_PODS))
    numbers = Counter(draw(st.sampled_from(named)) for _ in range(pods - len(named)))
    waiting = [replace(draw(apps(name, named, 1)), pods=1 + numbers[name]) for name in named]
    return cluster_of(draw, named, waiting)


def cluster_of(draw: st.DrawFn, named: tuple[str, ...], waiting: list[App]) -> TinyCluster:
    """Draw nodes, limits, types and zones for these apps."""
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


@examples(60, repeated=30)
@given(clusters())
@example(BESIDE_A_CLAIM)
def test_a_pod_stays_pending_only_if_no_plan_places_more_pods(cluster: TinyCluster) -> None:
    placed = pods_by_app(cluster, checked_plan(cluster))

    better = better_division(cluster, placed)
    assert better is None, f"{placed_by_priority(cluster, placed)} pods by priority"


@examples(30, repeated=20)
@given(larger_clusters())
@example(ONE_ZONE_OF_TWO)
@example(LAST_NODE)
@example(FEW_BESIDE_A_CLAIM)
def test_of_up_to_twelve_pods_too_one_stays_pending_only_if_no_plan_places_more(cluster: TinyCluster) -> None:
    placed = placed_by_priority(cluster, pods_by_app(cluster, checked_plan(cluster)))

    try:
        better = ReachablePlans(cluster, MOST_PLANS).better_than(placed)
    except TooMany:
        reject()
    assert better is None, f"{placed} pods by priority"


@examples(40, repeated=20)
@given(clusters().filter(lambda one: not one.nodes and one.limits))
@example(TWO_OR_ONE)
@example(ONE_OF_TWO_KINDS)
def test_no_plan_for_as_many_pods_is_cheaper_beside_pods_that_a_limit_keeps_out(cluster: TinyCluster) -> None:
    plan = checked_plan(cluster)
    assume(plan.pending)

    cheapest = cheapest_price(cluster, pods_by_app(cluster, plan))
    assert plan.price_per_hour <= round(SPOT_SHARE * cheapest, 4) + 1e-4


def checked_plan(cluster: TinyCluster) -> Plan:
    """Return a plan that the checker accepts."""
    lists, catalogue = cluster.lists, cluster.catalogue
    plan = planned(lists, catalogue)
    assert check_plan(lists, catalogue, plan.to_json()) == []
    return plan


def pods_by_app(cluster: TinyCluster, plan: Plan) -> Counter[str]:
    """Return how many pods of each app the plan places."""
    pending = Counter(one.pod.rpartition("/")[2].rpartition("-")[0] for one in plan.pending)
    return Counter({app.name: app.pods - pending[app.name] for app in cluster.apps})
