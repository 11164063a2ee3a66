"""Cuts from whole pods: inequalities that no node violates, nodes that no other node improves on, and bounds that no
plan is below.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.planning.arrays import Floats
from joiner.planning.effort import Effort, Meter
from joiner.planning.packing.column_generation import MasterProblem, generate_columns
from joiner.planning.packing.column_pricing import ColumnPricer
from joiner.planning.packing.exact_dp import pack_exactly
from joiner.planning.packing.node_filling import NodeFiller, NodePattern
from joiner.planning.packing.search_context import SearchContext
from joiner.planning.packing.solve import first_packing
from joiner.planning.relaxation.cuts import dual_feasible_shares
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.relaxation.resource_lp import ResourceLp
from joiner.planning.relaxation.worth_scaling import worth_to_price_ratio
from tests.unit.planning.test_kernel import compiled, problem


def contents(known: PackingProblem, offer: int) -> Iterator[tuple[int, ...]]:
    """Return everything that fits onto one node of an offer."""

    def add(item: int, held: tuple[int, ...], free: Floats) -> Iterator[tuple[int, ...]]:
        if item == known.items:
            yield held
            return
        for number in range(int(known.demand[item]) + 1):
            left = free - number * known.need[item]
            if (left < 0).any() or (number and not known.open[offer, item]):
                break
            yield from add(item + 1, (*held, number), left)

    yield from add(0, (), known.free[offer])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(10, 60))
def test_no_node_holds_more_than_one_node_however_its_pods_are_counted(sizes: list[int], free: int) -> None:
    fitting = [size for size in sizes if size <= free]
    counts = dual_feasible_shares(np.array(fitting, float), float(free))
    for held in itertools.product(*(range(free // size + 1) for size in fitting)):
        if sum(number * size for number, size in zip(held, fitting, strict=True)) <= free:
            assert (counts @ np.array(held, float) <= 1 + 1e-9).all()


def few(seed: int, *, items: int = 4) -> PackingProblem:
    """Draw a problem that can be solved exactly: few pods, and an offer that each of them may use. Some pods request
    devices, which some offers lack.
    """
    rng = np.random.default_rng(seed)
    made = problem(seed, items=items, offers=5, rules=0)
    devices, there = rng.integers(0, 2, items) * (seed % 3), rng.integers(0, 3, 5) * 2
    there[-1] = 4
    need = np.concatenate([made.need, devices[:, None]], axis=1).astype(float)
    free = np.concatenate([made.free, there[:, None]], axis=1).astype(float)
    open_to = made.open & (devices[None] <= there[:, None])
    return replace(made, demand=rng.integers(1, 3, items), need=need, free=free, open=open_to)


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_with_whole_pods_is_higher_and_no_packing_is_below_it(seed: int) -> None:
    known = few(seed)
    fractions, whole = (ResourceLp(known).solve(known.demand, whole=each).value for each in (False, True))

    assert fractions - 1e-6 <= whole <= pack_exactly(known, known.demand).price + 1e-6


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("items", [1, 2, 3, 30])
def test_offers_that_were_left_out_would_change_nothing(seed: int, items: int) -> None:
    known = problem(seed, items=items, offers=25, rules=0)
    every = np.arange(len(known.price))
    for whole in (False, True):
        some, all_of_them = (
            ResourceLp(known, offers=each).solve(known.demand, whole=whole).value for each in (every[:0], every)
        )

        assert some <= all_of_them * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_one_more_offer_raises_no_bound(seed: int) -> None:
    known = problem(seed, items=20, offers=12, rules=0)
    for new in range(len(known.price) - 1):  # every pod may use the last one
        rest = np.arange(len(known.price)) != new
        without = replace(
            known, free=known.free[rest], price=known.price[rest], open=known.open[rest], domain=known.domain[rest]
        )
        before, after = (ResourceLp(each).solve(each.demand, whole=True).value for each in (without, known))

        assert after <= before * (1 + 1e-6)


def test_an_offer_comes_in_although_whole_pods_alone_set_the_prices() -> None:
    base = problem(0, items=1, offers=2, rules=0)
    known = replace(
        base,
        need=np.array([[60.0]]),
        free=np.array([[100.0], [120.0]]),
        price=np.array([1.0, 1.3]),
        demand=np.array([1000]),
    )
    known = replace(known, open=np.ones((2, 1), bool))

    assert ResourceLp(known).solve(known.demand).value == pytest.approx(600.0)
    assert ResourceLp(known).solve(known.demand, whole=True).value == pytest.approx(650.0)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold_where_sizes_cost_nearly_what_they_hold(seed: int) -> None:
    """As in the cloud: twice the capacity at about twice the price."""
    rng = np.random.default_rng(seed)
    size, mix = np.repeat([2, 4, 8, 16, 32, 64], 3), np.tile([2.0, 4.0, 8.0], 6)
    order = np.argsort(price := size * (1 + 0.12 * mix) * rng.uniform(0.97, 1.03, 18))
    free = np.stack([size * 1000.0 - 80, np.floor(size * mix * 1000 * 0.9)], axis=1)[order]
    need = np.stack([rng.integers(100, 1900, 3), rng.integers(100, 7000, 3)], axis=1).astype(float)
    base = problem(0, items=3, offers=18, rules=0)
    known = replace(
        base, need=need, free=free, price=price[order], demand=rng.integers(1, 400, 3), open=np.ones((18, 3), bool)
    )
    some, every = (
        ResourceLp(known, offers=each).solve(known.demand, whole=True).value
        for each in (np.zeros(0, np.int64), np.arange(18))
    )

    assert some == pytest.approx(every, rel=1e-6)


def test_whole_pods_raise_the_bound_where_sizes_do_not_divide() -> None:
    base = problem(0, items=1, offers=1, rules=0)
    known = replace(
        base, need=np.array([[60.0]]), free=np.array([[100.0]]), price=np.array([1.0]), demand=np.array([10])
    )
    known = replace(known, open=np.ones((1, 1), bool), asks=base.asks[:, :1], counts=base.counts[:, :1])

    assert ResourceLp(known).solve(known.demand).value == pytest.approx(6.0)
    assert ResourceLp(known).solve(known.demand, whole=True).value == pytest.approx(10.0)


@pytest.mark.parametrize("rates", [[0.0, 1.0], [0.0, 0.0]], ids=["other free", "none"])
def test_an_offer_whose_capacity_costs_nothing_at_these_prices_is_not_left_out(rates: list[float]) -> None:
    """The offer holds ten pods worth five, for twenty."""
    worth, free, need, ways, way = (
        np.array([5.0]),
        np.array([[100.0, 0.0]]),
        np.array([[10.0, 0.0]]),
        np.ones((1, 1), bool),
        np.zeros(1, int),
    )

    assert worth_to_price_ratio(
        free, np.array([20.0]), ways, way, need=need, worth=worth, rates=np.array([rates])
    ).tolist() == [2.5]


@compiled
@pytest.mark.parametrize("seed", range(40))
def test_no_node_is_worth_more_than_the_best_that_was_found(seed: int) -> None:
    known = few(seed, items=5)
    worth = np.random.default_rng(seed).uniform(0.5, 2.0, known.items) * known.need.sum(axis=1)
    pricer = _pricer(known)
    highest = {
        offer: max(float(worth @ np.array(held)) for held in contents(known, offer))
        for offer in range(len(known.price))
    }
    worthy = {offer: value for offer, value in highest.items() if value > known.price[offer] * (1 + 1e-5)}
    # a second search at the offer's own prices follows the first; the last case needs only the first
    for patience, quick_steps in ((1, 1), (20, 5), (10**6, 3), (1, 10**6)):
        priced = pricer.price(worth, patience, quick_steps)

        assert priced.most >= max(value / known.price[offer] for offer, value in highest.items())
        for one in priced.patterns:
            held = np.zeros(known.items, np.int64)
            held[one.items] = one.counts
            assert tuple(held) in set(contents(known, one.offer))
            assert known.price[one.offer] < float(worth @ held) <= known.price[one.offer] * priced.likely * (1 + 1e-9)
        assert priced.likely <= priced.most
        if max(patience, quick_steps) == 10**6:
            assert _best(known, worth, priced.patterns) == pytest.approx(worthy)


def _best(known: PackingProblem, worth: Floats, patterns: Sequence[NodePattern]) -> dict[int, float]:
    """Return, by offer, the value of the best of these nodes, if it exceeds the offer's price by more than rounding
    errors.
    """
    found: dict[int, float] = {}
    for one in patterns:
        found[one.offer] = max(float(worth[one.items] @ one.counts), found.get(one.offer, 0.0))
    return {offer: value for offer, value in found.items() if value > known.price[offer] * (1 + 1e-5)}


def _pricer(known: PackingProblem) -> ColumnPricer:
    found = ColumnPricer.of(NodeFiller(known), known.demand, ResourceLp(known).solve(known.demand))
    assert found is not None
    return found


@compiled
@pytest.mark.parametrize("seed", range(30))
def test_what_columns_prove_no_packing_is_below(seed: int) -> None:
    known = few(seed)
    chance = SearchContext.of(known, seed, Meter(Effort(steps=400)))
    relaxation = ResourceLp(known).solve(known.demand)
    made = generate_columns(
        known,
        known.demand,
        relaxation,
        first_packing(known, known.demand, relaxation, chance),
        chance,
        share=1.0,
        good_enough=0.0,
    )
    least = pack_exactly(known, known.demand).price

    assert relaxation.value * (1 - 1e-5) <= chance.proven_for(known.demand) <= least + 1e-6 <= made.price + 2e-6
    assert chance.proven_for(known.demand) <= _cheapest_mix(known) * (1 + 1e-9)


def _cheapest_mix(known: PackingProblem) -> float:
    """Solve the program over every set of pods that one node of each offer can hold."""
    master = MasterProblem(known, known.demand)
    for offer in range(len(known.price)):
        for held in contents(known, offer):
            counts = np.array(held)
            inside = np.flatnonzero(counts)
            if len(inside):
                master.add(NodePattern(offer, inside, counts[inside], 1))
    return master.solve()[0]


def test_there_is_no_pricer_where_rules_tie_several_kinds_of_pods_on_one_node() -> None:
    known = problem(3)

    assert ColumnPricer.of(NodeFiller(known), known.demand, ResourceLp(known).solve(known.demand)) is None
