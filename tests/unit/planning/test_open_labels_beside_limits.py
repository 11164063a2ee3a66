"""Many values of open labels beside a limit that is used up: what they have in common is computed once."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import Planner, plan
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.relaxation.offer_cover import ABOUT, cover_classes
from joiner.planning.search import search
from joiner.planning.state.excluded_types import all_accepted, only_opened
from joiner.planning.state.plan_state import PlanState
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, Json, node_pool, pod
from tests.unit.planning.open_labels import rule
from tests.unit.planning.test_cuts import few
from tests.unit.planning.test_exotic_types import kind
from tests.unit.planning.test_work_of_explanations import code, counted_calls

POOL: Final = [rule("tenant", "Exists")]


def of_tenants(number: int, **limits: str) -> dict[str, Sequence[Json]]:
    waiting = [pod(f"p{each}", cpu="500m", memory="1Gi", nodeSelector={"tenant": f"t{each}"}) for each in range(number)]
    return cluster(waiting, node_pool(requirements=POOL, limits=limits))


def state_of(lists: Mapping[str, Sequence[Json]]) -> PlanState:
    return Planner().state(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES)


def test_the_offers_of_all_tenants_are_compared_once_and_searched_once_beside_a_limit_that_is_used_up() -> None:
    """The type with a GPU is open to pods that have no other place, but larger than what the limit leaves."""
    catalogue = Catalogue.from_json({**CATALOGUE, "g5.4xlarge": kind("g5.4xlarge", 16, 64, 0.9, gpus=1)})
    snapshot = Snapshot.from_lists(of_tenants(40, cpu="8"))

    with counted_calls() as calls:
        made = plan(snapshot, catalogue, classes=CLASSES)

    assert (len(made.nodes), len(made.pending)) == (4, 36)
    assert calls[code(OfferFrontier.__init__)] == 1
    assert calls[code(search)] == 1


def test_the_plan_beside_a_limit_keeps_every_rule_and_says_what_is_used_up() -> None:
    made = checked(of_tenants(12, cpu="8"))

    assert len(made.nodes) + len(made.pending) == 12
    assert all(reason.over_limit for one in made.pending for reason in one.reasons)


def test_the_frontier_is_made_once_for_the_same_offers() -> None:
    state = state_of(of_tenants(3))

    usual = OfferFrontier.find(state)
    with all_accepted(state):
        widest = OfferFrontier.find(state)
    with only_opened(state):
        opened = OfferFrontier.find(state)
    with all_accepted(state):
        again = OfferFrontier.find(state)

    assert again is widest
    assert OfferFrontier.find(state) is usual
    assert len({id(usual), id(widest), id(opened)}) == 3


def test_the_choices_of_a_group_are_those_that_accept_it_the_cheapest_first() -> None:
    shared = [pod(f"shared-{each}", cpu="1", memory="1Gi") for each in range(2)]
    lists = of_tenants(5)
    state = state_of({**lists, "pods": [*lists["pods"], *shared]})
    frontier = OfferFrontier.find(state)

    for group in state.groups.pending:
        (found,) = frontier.by_weight(group)
        (tier,) = [choices for _, choices in frontier.tiers]
        assert found == [one for one in tier if one.groups >> group.index & 1]


@pytest.mark.parametrize("seed", range(20))
def test_each_class_is_covered_at_about_its_lowest_cost(seed: int) -> None:
    problem = few(seed, items=6)
    usable, active = np.arange(len(problem.price)), np.flatnonzero(problem.open.any(axis=0))

    picked = cover_classes(problem, problem.need, problem.open, usable=usable, active=active)

    def cost(offer: int, item: int) -> float:
        shares = problem.need[item] / np.maximum(problem.free[offer], 1e-9)
        return float(max(shares.max(), 1e-9) * problem.price[offer]) if problem.open[offer, item] else float("inf")

    for item in active.tolist():
        least = min(cost(offer, item) for offer in usable.tolist())
        assert min(cost(offer, item) for offer in picked.tolist()) <= least * ABOUT * (1 + 1e-9)


def test_long_after_the_deadline_pods_that_need_a_slower_method_wait_for_the_next_plan() -> None:
    lists = of_tenants(12, cpu="8")
    snapshot, catalogue = Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE)

    def made(seconds: float) -> Plan:
        looks = itertools.count()
        effort = Effort(seconds=1.0, clock=lambda: next(looks) * seconds)
        return plan(snapshot, catalogue, classes=CLASSES, effort=effort)

    late, quick = made(60.0), made(1e-6)

    assert (late.cut_short, quick.cut_short) == (True, False)
    assert 0 < len(late.nodes) <= len(quick.nodes)
    assert _placed(late) <= _placed(quick)


def _placed(made: Plan) -> int:
    return sum(len(one.pods) for one in made.nodes)


def test_a_function_without_a_clock_makes_the_same_plan_as_one_in_time() -> None:
    lists = of_tenants(12, cpu="8")
    snapshot, catalogue = Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE)

    timed = Effort(seconds=60.0, steps=250, clock=lambda: 0.0)

    assert plan(snapshot, catalogue, classes=CLASSES, effort=timed) == plan(snapshot, catalogue, classes=CLASSES)
