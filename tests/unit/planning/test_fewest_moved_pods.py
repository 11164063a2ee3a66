"""Pods without a place on common types move as few other pods as possible to bare metal and types with devices: all
other pods keep their nodes, unless limits leave no other way to place as many pods.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort, Meter
from joiner.planning.placement.unrequested_nodes import place_on_every_offer
from joiner.planning.planner import Planner
from joiner.planning.search import search
from joiner.planning.state.plan_state import PlanState
from tests.law_settings import examples
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import CLASSES, TAINT, ZONE, Json, affinity, near, node_pool, pods
from tests.unit.planning.test_exotic_types import gpu_pod, kind, requires

ON_DEMAND_ONLY: Final = [requires("karpenter.sh/capacity-type", "on-demand")]
GPU_TYPE: Final = "g5.large"
CHEAP_GPU: Final = {"m5.large": kind("m5.large", 2, 8, 0.10), GPU_TYPE: kind(GPU_TYPE, 2, 2, 0.05, gpus=1)}
"""A common type, and a cheaper one with a GPU and less memory: a limit of memory allows more of the latter."""
ALONE: Final = {"cpu": "1500m", "memory": "1Gi"}
"""Each pod needs a node of its own."""
HOPELESS: Final = pods(1, "hopeless", **ALONE, **affinity(podAffinity=[near(ZONE, "nobody")]))


def made_of(waiting: Sequence[Json], catalogue: Mapping[str, Json] = CHEAP_GPU, **limits: str) -> Plan:
    return checked(cluster(waiting, node_pool(requirements=ON_DEMAND_ONLY, limits=limits)), catalogue=catalogue)


def types(made: Plan) -> Counter[str]:
    return Counter(one.instance_type for one in made.nodes)


@pytest.mark.parametrize(
    ("number", "memory", "expected"),
    [
        (5, "40Gi", {"m5.large": 5}),
        (6, "40Gi", {"m5.large": 4, GPU_TYPE: 2}),
        (6, "42Gi", {"m5.large": 5, GPU_TYPE: 1}),
        (9, "40Gi", {"m5.large": 3, GPU_TYPE: 6}),
        (20, "40Gi", {GPU_TYPE: 20}),
    ],
)
def test_a_limit_moves_only_as_many_pods_to_gpu_nodes_as_leave_a_place_for_all(
    number: int, memory: str, expected: Mapping[str, int]
) -> None:
    made = made_of(pods(number, **ALONE), memory=memory)

    assert (types(made), made.pending) == (expected, ())


def test_beside_a_pod_that_requests_a_gpu_a_limit_moves_no_more_pods_than_without_it() -> None:
    """All types are open to the search then, so the first plan has nodes with a GPU only."""
    made = made_of([*pods(6, **ALONE), gpu_pod("gpu", 1, **ALONE)], memory="44Gi")

    assert (types(made), made.pending) == ({"m5.large": 5, GPU_TYPE: 2}, ())


def test_of_a_limited_number_of_nodes_the_fewest_are_bare_metal() -> None:
    catalogue = {"m5.large": kind("m5.large", 2, 8, 0.1), "m5.metal": kind("m5.metal", 16, 64, 0.11)}

    made = made_of(pods(13, **ALONE), catalogue, nodes="4")

    assert Counter((one.instance_type, len(one.pods)) for one in made.nodes) == {
        ("m5.large", 1): 3,
        ("m5.metal", 10): 1,
    }


def test_a_pod_of_a_moved_node_gets_a_smaller_common_node_that_the_limit_allows() -> None:
    catalogue = {
        "m5.large": kind("m5.large", 2, 8, 0.12),
        "m5.xlarge": kind("m5.xlarge", 4, 16, 0.20),
        GPU_TYPE: kind(GPU_TYPE, 2, 2, 0.05, gpus=1),
    }

    made = made_of(pods(3, **ALONE), catalogue, memory="17Gi")

    assert (types(made), made.pending) == ({"m5.large": 1, GPU_TYPE: 2}, ())


def test_nodes_of_a_pool_without_a_limit_stay_where_pods_of_another_pool_move() -> None:
    limited = node_pool("limited", taints=[TAINT], requirements=ON_DEMAND_ONLY, limits={"memory": "16Gi"})
    free = node_pool("free", requirements=ON_DEMAND_ONLY)
    own = {"nodeSelector": {"karpenter.sh/nodepool": "limited"}, "tolerations": [{"operator": "Exists"}]}

    made = checked(
        cluster([*pods(9, "a", **ALONE), *pods(3, "own", **ALONE, **own)], free, limited), catalogue=CHEAP_GPU
    )

    assert made.pending == ()
    assert Counter((one.pool, one.instance_type) for one in made.nodes) == {
        ("NodePool/free", "m5.large"): 9,
        ("NodePool/limited", "m5.large"): 1,
        ("NodePool/limited", GPU_TYPE): 2,
    }


World = tuple[int, int, int, int, int, float]
"""Pods that ask for nothing and for a GPU; the GiB of the common type, of that with a GPU and of the limit; and the
price of the type with a GPU in $/h."""
WORLDS: Final[st.SearchStrategy[World]] = st.tuples(
    st.integers(1, 9),
    st.integers(0, 2),
    st.sampled_from([4, 8, 16]),
    st.sampled_from([2, 3]),
    st.integers(6, 60),
    st.sampled_from([0.05, 0.3]),
)


@examples(60, repeated=20)
@given(WORLDS, st.booleans())
@example((6, 0, 8, 2, 40, 0.05), True)
@example((5, 2, 8, 2, 40, 0.05), False)
def test_no_plan_of_as_many_pods_has_fewer_nodes_that_no_pod_asks_for(world: World, hopeless: bool) -> None:
    number, asking, common, small, limit, price = world
    catalogue = {"m5.large": kind("m5.large", 2, common, 0.1), GPU_TYPE: kind(GPU_TYPE, 2, small, price, gpus=1)}
    waiting = [*pods(number, **ALONE), *(gpu_pod(f"gpu-{each}", 1, **ALONE) for each in range(asking))]

    made = made_of([*waiting, *(HOPELESS if hopeless else ())], catalogue, memory=f"{limit}Gi")

    placed = sum(types(made).values())
    unrequested = sum(one.instance_type == GPU_TYPE and "gpu" not in one.pods[0] for one in made.nodes)
    possible = (
        (-usual - moved - own, moved)
        for usual in range(number + 1)
        for moved in range(number + 1 - usual)
        for own in range(asking + 1)
        if usual * common + (moved + own) * small <= limit
    )
    assert (-placed, unrequested) == min(possible)


SEVERAL: Final = {
    "m5.large": kind("m5.large", 2, 8, 0.10),
    "r5.large": kind("r5.large", 2, 16, 0.13),
    "m5.2xlarge": kind("m5.2xlarge", 8, 32, 0.40),
    GPU_TYPE: kind(GPU_TYPE, 2, 4, 0.06, gpus=1),
    "g5.2xlarge": kind("g5.2xlarge", 8, 14, 0.2, gpus=1),
    "m5.metal": kind("m5.metal", 16, 64, 0.7),
}


@examples(60, repeated=20)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([400, 900, 1700, 3000])), min_size=1, max_size=3),
    st.one_of(
        st.builds(lambda limit: {"memory": limit}, st.integers(8, 96)),
        st.builds(lambda limit: {"nodes": limit}, st.integers(1, 5)),
        st.just({}),
    ),
    st.booleans(),
)
def test_no_common_type_has_room_for_the_pods_of_a_node_that_none_of_them_asks_for(
    apps: Sequence[tuple[int, int]], limits: Mapping[str, int], hopeless: bool
) -> None:
    waiting: list[Any] = [
        one for at, (number, cpu) in enumerate(apps) for one in pods(number, f"a{at}", cpu=f"{cpu}m", memory="1Gi")
    ]
    written = {name: f"{limit}Gi" if name == "memory" else str(limit) for name, limit in limits.items()}

    made = made_of([*waiting, *(HOPELESS if hopeless else ())], SEVERAL, **written)

    used = sum(gib_of(one.instance_type) for one in made.nodes)
    for one in made.nodes:
        if not one.instance_type.startswith(("g5", "m5.metal")):
            continue
        for name in common_types(one.pods, apps):
            assert used - gib_of(one.instance_type) + gib_of(name) > limits.get("memory", 10**6)


def gib_of(name: str) -> int:
    return int(SEVERAL[name]["capacity"]["memory"].removesuffix("Gi"))


def common_types(several: Sequence[str], apps: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield the common types of which a node holds these pods."""
    names = [one.removeprefix("default/") for one in several]
    cpu = sum(apps[int(name[1])][1] for name in names)
    for name in ("m5.large", "r5.large", "m5.2xlarge"):
        vcpus = int(SEVERAL[name]["capacity"]["cpu"])
        if cpu <= vcpus * 1000 - 80 and 1024 * len(names) <= gib_of(name) * 1024 - 400:
            yield name


MANY: Final = pods(301, cpu="300m", memory="300Mi")
UNTOLERATED: Final = node_pool("foreign", taints=[TAINT], requirements=ON_DEMAND_ONLY, limits={"nodes": "0"})
CLOSED: Final = node_pool("closed", requirements=ON_DEMAND_ONLY, limits={"nodes": "0"})
OPEN: Final = node_pool(requirements=ON_DEMAND_ONLY)
TOO_LARGE: Final = pods(2, cpu="1", memory="6Gi")
"""Pods that the type with a GPU cannot hold."""


def test_of_many_pods_those_of_a_pool_without_a_limit_stay_where_pods_of_another_pool_move() -> None:
    own = {"nodeSelector": {"karpenter.sh/nodepool": "limited"}, "tolerations": [{"operator": "Exists"}]}
    limited = node_pool("limited", taints=[TAINT], requirements=ON_DEMAND_ONLY, limits={"nodes": "1"})
    catalogue = {"m5.large": kind("m5.large", 2, 8, 0.1), "m5.metal": kind("m5.metal", 16, 64, 0.3)}
    waiting = [*MANY, *pods(25, "own", cpu="100m", memory="64Mi", **own)]

    made = checked(cluster(waiting, OPEN, limited), catalogue=catalogue)

    assert made.pending == ()
    assert {(one.pool, one.instance_type) for one in made.nodes} == {
        ("NodePool/default", "m5.large"),
        ("NodePool/limited", "m5.metal"),
    }


@pytest.mark.parametrize(
    ("waiting", "pools", "searches"),
    [
        ([*MANY, *HOPELESS], [OPEN], 1),
        ([*MANY, *HOPELESS], [OPEN, UNTOLERATED], 1),
        ([*MANY, *HOPELESS], [OPEN, CLOSED], 1),
        ([*MANY, *HOPELESS], [node_pool(requirements=ON_DEMAND_ONLY, limits={"nodes": "50"})], 1),
        (TOO_LARGE, [node_pool(requirements=ON_DEMAND_ONLY, limits={"memory": "8Gi"})], 0),
        (MANY, [UNTOLERATED], 0),
    ],
    ids=["open", "untolerated", "closed", "used-up", "too-large", "no-pool"],
)
def test_many_pods_are_searched_once_more_only_if_other_types_could_hold_the_pods_that_are_left(
    waiting: Sequence[Json], pools: Sequence[Json], searches: int
) -> None:
    snapshot = Snapshot.from_lists(cluster(waiting, *pools))
    catalogue = Catalogue.from_json({**CHEAP_GPU, GPU_TYPE: kind(GPU_TYPE, 2, 4, 0.3, gpus=1)})
    state = Planner().state(snapshot, catalogue, classes=CLASSES)
    pods_of: list[int] = []

    def counted(state: PlanState) -> None:
        pods_of.append(state.pods_left)
        search(state, Meter(Effort(steps=0)), 0)

    counted(state)
    assert state.pods_left > 0
    place_on_every_offer(state, counted)

    assert len(pods_of) == 1 + searches
