"""What whole pods say of a node: inequalities that no node breaks, nodes that nothing beats, and bounds that no plan is below."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.planning.arrays import Floats
from joiner.planning.columns import generate
from joiner.planning.effort import Effort, Meter
from joiner.planning.exact import cheapest
from joiner.planning.packing import Bench
from joiner.planning.pricing import Pricer
from joiner.planning.problem import Problem
from joiner.planning.proposing import first
from joiner.planning.resource_lp import Programme, attraction
from joiner.planning.rounding import Chance
from joiner.planning.whole_pods import counted
from tests.unit.planning.test_kernel import compiled, problem


def contents(known: Problem, offer: int) -> Iterator[tuple[int, ...]]:
    """Everything that fits onto one node of an offer."""

    def add(item: int, held: tuple[int, ...], room: Floats) -> Iterator[tuple[int, ...]]:
        if item == known.items:
            yield held
            return
        for number in range(int(known.demand[item]) + 1):
            left = room - number * known.need[item]
            if (left < 0).any() or (number and not known.open[offer, item]):
                break
            yield from add(item + 1, (*held, number), left)

    yield from add(0, (), known.room[offer])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(10, 60))
def test_no_node_holds_more_than_one_node_however_its_pods_are_counted(sizes: list[int], room: int) -> None:
    fitting = [size for size in sizes if size <= room]
    counts = counted(np.array(fitting, float), float(room))
    for held in itertools.product(*(range(room // size + 1) for size in fitting)):
        if sum(number * size for number, size in zip(held, fitting, strict=True)) <= room:
            assert (counts @ np.array(held, float) <= 1 + 1e-9).all()


def few(seed: int, *, items: int = 4) -> Problem:
    """A problem that can be solved exactly: few pods, and an offer that every one of them may use."""
    return replace(problem(seed, items=items, offers=5, rules=0), demand=np.random.default_rng(seed).integers(1, 3, items))


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_with_whole_pods_is_higher_and_no_packing_is_below_it(seed: int) -> None:
    known = few(seed)
    fractions, whole = (Programme(known).solve(known.demand, whole=each).value for each in (False, True))

    assert fractions - 1e-6 <= whole <= cheapest(known, known.demand).price + 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_offers_that_were_left_out_would_change_nothing(seed: int) -> None:
    known = problem(seed, items=30, offers=25, rules=0)
    every = np.arange(len(known.price))
    for whole in (False, True):
        some, all_of_them = (Programme(known, offers=each).solve(known.demand, whole=whole).value for each in (every[:0], every))

        assert some <= all_of_them * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_one_more_offer_raises_no_bound(seed: int) -> None:
    known = problem(seed, items=20, offers=12, rules=0)
    for new in range(len(known.price) - 1):  # the last one is open to everybody
        rest = np.arange(len(known.price)) != new
        without = replace(known, room=known.room[rest], price=known.price[rest], open=known.open[rest], domain=known.domain[rest])
        before, after = (Programme(each).solve(each.demand, whole=True).value for each in (without, known))

        assert after <= before * (1 + 1e-6)


def test_whole_pods_raise_the_bound_where_sizes_do_not_divide() -> None:
    base = problem(0, items=1, offers=1, rules=0)
    known = replace(base, need=np.array([[60.0]]), room=np.array([[100.0]]), price=np.array([1.0]), demand=np.array([10]))
    known = replace(known, open=np.ones((1, 1), bool), asks=base.asks[:, :1], counts=base.counts[:, :1])

    assert Programme(known).solve(known.demand).value == pytest.approx(6.0)
    assert Programme(known).solve(known.demand, whole=True).value == pytest.approx(10.0)


def test_an_offer_whose_room_costs_nothing_at_these_prices_is_not_known_to_be_of_no_use() -> None:
    gpus_only, worth = np.array([[0.0, 1.0]]), np.array([5.0])
    room, need, open_to = np.array([[100.0, 0.0]]), np.array([[10.0, 0.0]]), np.ones((1, 1), bool)

    assert attraction(room, np.array([20.0]), open_to, need=need, worth=worth, rates=gpus_only).tolist() == [np.inf]


@compiled
@pytest.mark.parametrize("seed", range(40))
def test_no_node_is_worth_more_than_the_best_that_was_found(seed: int) -> None:
    known = few(seed, items=5)
    worth = np.random.default_rng(seed).uniform(0.5, 2.0, known.items) * known.need.sum(axis=1)
    pricer = _pricer(known)
    dearest = {offer: max(float(worth @ np.array(held)) for held in contents(known, offer)) for offer in range(len(known.price))}
    for patience in (1, 20, 10**6):
        priced = pricer.look(worth, patience)

        assert priced.most >= max(value / known.price[offer] for offer, value in dearest.items())
        for one in priced.patterns:
            held = np.zeros(known.items, np.int64)
            held[one.items] = one.counts
            assert tuple(held) in set(contents(known, one.offer))
            assert float(worth @ held) > known.price[one.offer]
    worthy = {offer for offer, value in dearest.items() if value > known.price[offer] * (1 + 1e-5)}
    found = {one.offer: float(worth[one.items] @ one.counts) for one in priced.patterns}
    assert worthy <= found.keys()
    best = [max(float(worth[one.items] @ one.counts) for one in priced.patterns if one.offer == offer) for offer in sorted(worthy)]
    assert best == pytest.approx([dearest[offer] for offer in sorted(worthy)])


def _pricer(known: Problem) -> Pricer:
    found = Pricer.of(Bench(known), known.demand, Programme(known).solve(known.demand))
    assert found is not None
    return found


@compiled
@pytest.mark.parametrize("seed", range(30))
def test_what_columns_prove_no_packing_is_below(seed: int) -> None:
    known = few(seed)
    chance = Chance.of(known, seed, Meter(Effort(steps=400)))
    relaxation = Programme(known).solve(known.demand)
    made = generate(known, known.demand, relaxation, first(known, known.demand, relaxation, chance), chance, share=1.0, good_enough=0.0)
    least = cheapest(known, known.demand).price

    assert relaxation.value - 1e-6 <= chance.proven_for(known.demand) <= least + 1e-6 <= made.price + 2e-6


def test_rules_about_several_kinds_of_pods_on_one_node_are_none_of_its_business() -> None:
    known = problem(3)

    assert Pricer.of(Bench(known), known.demand, Programme(known).solve(known.demand)) is None
