"""The compiled loops against their numpy equivalents: the same nodes as numpy's, and plans that are never more
expensive and lose no pod.
"""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from joiner.planning.arrays import Floats, Whole
from joiner.planning.effort import Effort, Meter
from joiner.planning.packing.kernel.compiled_kernel import FOLDER, PROCESSORS, library_path, supported_processors
from joiner.planning.packing.node_filling import FillSettings, NodeFiller, NodePattern, Packing
from joiner.planning.packing.ruin_recreate import ruin_and_recreate
from joiner.planning.packing.sampling import sample_contents
from joiner.planning.packing.search_context import SearchContext
from joiner.planning.relaxation.offer_table import OfferChoices
from joiner.planning.relaxation.packing_problem import PackingProblem

compiled = pytest.mark.skipif(not supported_processors(), reason="the kernel is not compiled for this machine")


def problem(seed: int, *, items: int = 12, offers: int = 9, rules: int = 4) -> PackingProblem:
    """Draw items and offers of every size, some incompatible, with host rules of every kind."""
    rng = np.random.default_rng(seed)
    need = np.stack([rng.integers(1, 40, items), rng.integers(1, 90, items), np.ones(items)], axis=1).astype(float)
    free = np.stack(
        [rng.integers(50, 200, offers), rng.integers(90, 400, offers), rng.integers(8, 30, offers)], axis=1
    ).astype(float)
    open_to = (rng.random((offers, items)) < 0.8) & (need[None] <= free[:, None]).all(axis=2)
    open_to[-1] = True
    return PackingProblem(
        need=need,
        demand=rng.integers(1, 9, items),
        free=free,
        price=np.sort(free.sum(axis=1) * rng.uniform(0.9, 1.1, offers)),
        open=open_to,
        asks=rng.random((rules, items)) < 0.3,
        counts=rng.random((rules, items)) < 0.4,
        caps=rng.integers(0, 3, rules),
        firm=np.zeros(rules, bool),
        members=(),
        choices=cast(OfferChoices, None),
        domain=np.zeros(offers, np.int64),
    )


def contents(known: PackingProblem, counts: Whole, active: Whole) -> Whole:
    whole = np.zeros((len(counts), known.items), np.int64)
    whole[:, active] = counts
    return whole


@compiled
@pytest.mark.parametrize("seed", range(40))
def test_the_compiled_loop_fills_as_numpy_does(seed: int) -> None:
    known, rng = problem(seed), np.random.default_rng(seed)
    active = np.flatnonzero(rng.random(known.items) < 0.8)
    offers = rng.integers(0, len(known.price), 20)
    worth: Floats = rng.uniform(0.5, 2.0, len(active)) * known.need[active].sum(axis=1)
    noise, weights = (
        np.exp(0.2 * rng.standard_normal((20, len(active)))),
        np.exp(0.5 * rng.standard_normal((20, 3))),
    )
    ways = (
        FillSettings(),
        FillSettings(1.0, noise),
        FillSettings(rng.choice([0.34, 1.0], 20), noise, weights),
    )

    for way in ways:
        *fast, slow = (
            NodeFiller(known, compiled=each).fill(offers, active, known.demand[active], worth, way=way)
            for each in (*supported_processors(), None)
        )

        assert all(each.tolist() == slow.tolist() for each in fast)


@pytest.mark.parametrize("native", [pytest.param("", marks=compiled), None])
@pytest.mark.parametrize("seed", range(20))
def test_a_filled_node_holds_its_pods_and_breaks_no_rule(seed: int, native: str | None) -> None:
    known, active = problem(seed), np.arange(12)
    offers = np.arange(9)
    counts = NodeFiller(known, compiled=native).fill(offers, active, known.demand, known.need.sum(axis=1))

    assert (counts @ known.need <= known.free).all()
    assert (counts <= known.demand).all()
    assert not counts[~known.open].any()
    assert not known.clashing(contents(known, counts, active)).any()


@pytest.mark.parametrize("native", [pytest.param("", marks=compiled), None])
@pytest.mark.parametrize("seed", range(20))
def test_rows_begin_with_what_fits_and_breaks_no_rule(seed: int, native: str | None) -> None:
    known, active, offers = problem(seed), np.arange(12), np.repeat(np.arange(9), 4)
    mean = np.random.default_rng(seed).uniform(0, 4, (36, 12)) * known.open[offers]
    counts = sample_contents(
        NodeFiller(known, compiled=native), np.random.default_rng(seed), offers, active, mean=mean, demand=known.demand
    )

    assert counts.any()
    assert (counts @ known.need <= known.free[offers]).all()
    assert (counts <= np.minimum(known.demand, np.floor(mean + 1))).all()
    assert not counts[~known.open[offers]].any()
    assert not known.clashing(contents(known, counts, active)).any()


@pytest.mark.parametrize("native", [pytest.param("", marks=compiled), None])
def test_rows_begin_with_the_mean_where_nothing_stands_in_its_way(native: str | None) -> None:
    known = replace(problem(1, rules=0), free=np.full((9, 3), 1e6), demand=np.full(12, 50), open=np.ones((9, 12), bool))
    mean = np.broadcast_to(np.linspace(0.05, 3.3, 12), (4000, 12)).copy()
    counts = sample_contents(
        NodeFiller(known, compiled=native),
        np.random.default_rng(1),
        np.zeros(4000, np.int64),
        np.arange(12),
        mean=mean,
        demand=known.demand,
    )

    assert counts.mean(axis=0) == pytest.approx(mean[0], abs=0.03)


@compiled
@pytest.mark.parametrize("seed", range(10))
def test_ruin_and_recreate_never_raises_the_price_and_loses_no_pod(seed: int) -> None:
    known = problem(seed, rules=0)
    alone = Packing(
        float(known.price[-1] * known.demand.sum()),
        tuple(
            NodePattern(len(known.price) - 1, np.array([item]), np.array([1]), int(known.demand[item]))
            for item in range(known.items)
        ),
    )
    known.free[-1] = known.free.max(axis=0)
    chance = SearchContext.of(known, seed, Meter(Effort(steps=20)))
    made = ruin_and_recreate(known, alone, known.need.sum(axis=1), chance, share=1.0, good_enough=0.0)

    held = np.zeros(known.items, np.int64)
    for one in made.patterns:
        held[one.items] += one.times * one.counts
        assert (one.counts @ known.need[one.items] <= known.free[one.offer]).all()
        assert known.open[one.offer, one.items].all()
    assert held.tolist() == known.demand.tolist()
    assert made.price < alone.price
    assert made.price == pytest.approx(sum(one.times * known.price[one.offer] for one in made.patterns))


@pytest.mark.parametrize("machine", PROCESSORS)
def test_the_libraries_were_compiled_from_the_source_beside_them(machine: str) -> None:
    """If this fails, run ``python -m bench.build_kernel``."""
    digest = hashlib.sha256((Path(FOLDER) / "fill.c").read_bytes()).hexdigest()

    assert digest.encode() in Path(library_path(machine)).read_bytes()
