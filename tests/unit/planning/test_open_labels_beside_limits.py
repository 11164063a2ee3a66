"""Many values of open labels beside a limit that is used up: what they have in common is computed once."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any, Final

import numpy as np
import pytest

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import DEFAULT_STEPS, GRACE_SECONDS, Effort, Meter
from joiner.planning.packing.limited_packing import pack_within_limits
from joiner.planning.placement.domain_repair import clear_blocked_domains
from joiner.planning.placement.pending_repair import place_pending
from joiner.planning.planner import LEFT_FOR_TIME, Planner, plan
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


def of_tenant(number: int) -> dict[str, Any]:
    return {"nodeSelector": {"tenant": f"t{number}"}}


def of_tenants(number: int, **limits: str) -> dict[str, Sequence[Json]]:
    waiting = [pod(f"p{each}", cpu="500m", memory="1Gi", **of_tenant(each)) for each in range(number)]
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
        assert [one.one.offer for one in tier] == sorted(one.one.offer for one in tier)
        assert found == [one for one in tier if one.groups >> group.index & 1]


@pytest.mark.parametrize("seed", range(20))
def test_few_offers_cover_each_class_at_about_its_lowest_cost(seed: int) -> None:
    problem = few(seed, items=6)
    usable, active = np.arange(len(problem.price)), np.flatnonzero(problem.open.any(axis=0))

    picked = cover_classes(problem, problem.need, problem.open, usable=usable, active=active)

    def cost(offer: int, item: int) -> float:
        shares = problem.need[item] / np.maximum(problem.free[offer], 1e-9)
        return float(max(shares.max(), 1e-9) * problem.price[offer]) if problem.open[offer, item] else float("inf")

    assert len(picked) <= len(active)
    for item in active.tolist():
        least = min(cost(offer, item) for offer in usable.tolist())
        assert min(cost(offer, item) for offer in picked.tolist()) <= least * ABOUT * (1 + 1e-9)


def search_of(effort: Effort) -> tuple[Plan, Counter[CodeType]]:
    """Return the plan of pods of which a limit excludes some, and the calls of functions."""
    snapshot, catalogue = Snapshot.from_lists(of_tenants(40, cpu="8")), Catalogue.from_json(CATALOGUE)
    with counted_calls() as calls:
        return plan(snapshot, catalogue, classes=CLASSES, effort=effort), calls


def slow(step: float, **effort: Any) -> Effort:
    """Return an effort whose clock goes on by these seconds each time that it is read."""
    looks = itertools.count()
    return Effort(clock=lambda: next(looks) * step, **effort)


PLACING: Final = (place_pending, pack_within_limits, clear_blocked_domains)
"""Methods that place more pods."""


def test_long_after_the_deadline_no_method_begins_that_places_more_pods_and_the_plan_says_so() -> None:
    late, of_late = search_of(slow(60.0, seconds=1.0))
    quick, of_quick = search_of(slow(1e-6, seconds=1.0))

    assert [of_late[code(one)] for one in PLACING] == [0, 0, 0]
    assert all(of_quick[code(one)] for one in PLACING)
    assert (len(late.nodes) > 0, late.cut_short, late.warnings) == (True, True, LEFT_FOR_TIME)
    assert (quick.cut_short, quick.warnings) == (False, ())


def test_shortly_after_the_deadline_methods_begin_that_place_more_pods() -> None:
    late = itertools.chain([0.0], itertools.repeat(1.0 + GRACE_SECONDS / 2))

    made, calls = search_of(Effort(seconds=1.0, clock=lambda: next(late)))

    assert calls[code(pack_within_limits)] > 0
    assert made.warnings == ()


@pytest.mark.parametrize("seconds", [1.0, 10.0, 19.0])
def test_a_slow_machine_finds_the_same_plan_until_a_clock_that_is_a_backstop_ends_the_search(seconds: float) -> None:
    waiting = [
        pod(f"p{each}", cpu=f"{300 + 37 * each % 1400}m", memory=f"{200 + 131 * each % 6000}Mi", **of_tenant(each % 5))
        for each in range(100)
    ]
    snapshot = Snapshot.from_lists(cluster(waiting, node_pool(requirements=POOL)))
    catalogue, times = Catalogue.from_json(CATALOGUE), itertools.chain([0.0], itertools.repeat(seconds))
    effort = Effort(seconds=20.0, steps=DEFAULT_STEPS, clock=lambda: next(times), backstop=True)

    made = plan(snapshot, catalogue, classes=CLASSES, effort=effort)

    assert made.seconds == seconds
    assert replace(made, seconds=0.0) == plan(snapshot, catalogue, classes=CLASSES)


def test_a_search_that_begins_late_is_as_late_as_the_one_before() -> None:
    times = itertools.chain([0.0], itertools.repeat(1.0 + GRACE_SECONDS * 2))
    meter = Meter(Effort(seconds=1.0, clock=lambda: next(times)))

    more = meter.renewed()

    assert (meter.too_late(), more.too_late(), more.renewed().too_late()) == (True, True, True)
    assert not Meter(Effort(seconds=1.0)).renewed().too_late()
