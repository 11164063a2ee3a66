"""The reasons of pods that no node can hold cost little: the work depends on the instance types and the settings of
classes, and not on the number of pods and pools."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest

from joiner.catalogue import Catalogue, compute_allocatable
from joiner.planning import Offer, Snapshot
from joiner.planning.output.explanation import explain_pending
from joiner.planning.planner import Planner
from tests.unit.cli.command_runs import node_class
from tests.unit.planning.drawn_clusters import CLASSES, Json, instance_type, node_pool, pod

TYPES = Catalogue.from_json(
    {f"t{number}.large": instance_type(f"t{number}.large", 4, 16, 0.1 + number / 100) for number in range(20)}
)
KUBELET = {
    "maxPods": 0,
    "kubeReserved": {"cpu": "200m", "memory": "1Gi"},
    "systemReserved": {"cpu": "100m", "memory": "200Mi"},
    "evictionHard": {"memory.available": "5%"},
}
SETTINGS = len(KUBELET)


@contextmanager
def counted_calls() -> Iterator[Counter[CodeType]]:
    """Count the calls of every Python function, by its code."""
    counts: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counts
    finally:
        sys.setprofile(before)


def code(function: Callable[..., Any]) -> CodeType:
    return function.__code__


def count_work(
    waiting: list[dict[str, Any]], pools: int = 1, planner: Planner | None = None, **spec: Any
) -> tuple[int, int]:
    """Return how many capacities of nodes are computed and how many offers are compared for the reasons of pods."""
    lists: dict[str, list[Json]] = {
        "pods": [*waiting],
        "nodepools": [node_pool(f"pool-{number}") for number in range(pools)],
        "ec2nodeclasses": [node_class(**spec)],
    }
    state = (planner or Planner()).state(Snapshot.from_lists(lists), TYPES, classes=CLASSES)
    with counted_calls() as calls:
        reasons = explain_pending(state, TYPES)
    assert [len(each) for each in reasons.values()] == [pools] * len(waiting)
    assert all("has enough resources" in str(reason) for each in reasons.values() for reason in each)
    return calls[code(compute_allocatable)], calls[code(Offer.__lt__)]


def different(count: int, **requests: str) -> list[dict[str, Any]]:
    """Return so many pods with different requests."""
    found = []
    for number in range(count):
        one = pod(f"web-{number}", memory=f"{number + 1}Mi")
        one["spec"]["containers"][0]["resources"]["requests"].update(requests)
        found.append(one)
    return found


PODS: dict[str, Json] = {"cpu": {"cpu": "200"}, "no pods": {}, "storage": {"ephemeral-storage": "1Ti"}}


@pytest.mark.parametrize("requests", PODS.values(), ids=PODS)
def test_thirty_kinds_of_pods_cost_as_many_computed_capacities_as_one(requests: dict[str, str]) -> None:
    one, _ = count_work(different(1, **requests), kubelet=KUBELET)
    many, _ = count_work(different(30, **requests), kubelet=KUBELET)

    assert many == one <= len(TYPES.types) * (SETTINGS + 2)


def test_a_pod_that_is_larger_than_every_type_costs_no_computed_capacity() -> None:
    assert count_work(different(30, cpu="200"), kubelet=KUBELET)[0] == 0


def test_pools_of_one_class_share_its_capacities() -> None:
    one, _ = count_work(different(3), kubelet=KUBELET)
    many, _ = count_work(different(3), pools=10, kubelet=KUBELET)

    assert many == one > 0


def test_the_next_plan_of_a_planner_computes_nothing_again() -> None:
    planner = Planner()
    first, _ = count_work(different(3), planner=planner, kubelet=KUBELET)

    assert (first > 0, count_work(different(5), planner=planner, kubelet=KUBELET)) == (True, (0, 0))


def test_the_offers_are_sorted_once_for_all_pods() -> None:
    _, one = count_work(different(1, cpu="200"))
    _, many = count_work(different(30, cpu="200"))

    assert many == one > 0
