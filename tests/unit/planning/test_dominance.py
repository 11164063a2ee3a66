"""Offers that others dominate, against the definition: all pairs are compared."""

import numpy as np
import pytest

from joiner.planning.arrays import Floats, Marks, distinct_columns
from joiner.planning.relaxation.offer_table import _maximal


def drawn(seed: int) -> tuple[Floats, Marks]:
    """Return rows of price, way and sizes, many of them equal, and the ways that cover others."""
    rng = np.random.default_rng(seed)
    kinds, _ = distinct_columns(rng.random((3, int(rng.integers(1, 9)))) < 0.5)
    covers: Marks = ~np.logical_or.reduce(kinds[:, None, :] & ~kinds[:, :, None], axis=0)
    ways = rng.integers(0, kinds.shape[1], (80, 1))
    return np.concatenate([rng.integers(1, 5, (80, 1)), ways, rng.integers(1, 4, (80, 2))], axis=1).astype(
        float
    ), covers


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_out_is_dominated_by_what_is_kept_and_nothing_else_is(seed: int) -> None:
    rows, covers = drawn(seed)

    def dominates(one: int, other: int) -> bool:
        (price, way, *sizes), (its_price, its_way, *its_sizes) = rows[one], rows[other]
        larger = all(mine >= its for mine, its in zip(sizes, its_sizes, strict=True))
        return bool(price <= its_price and larger and covers[int(way), int(its_way)])

    kept = _maximal(rows, covers).tolist()

    for other in set(range(len(rows))) - set(kept):
        assert any(dominates(one, other) for one in kept)
    both = [(one, other) for one in kept for other in kept if one != other and dominates(one, other)]
    assert all((rows[one, [0, 2, 3]] == rows[other, [0, 2, 3]]).all() for one, other in both)  # in another way, wider


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 30])
def test_columns_are_distinct_and_each_is_found(rows: int) -> None:
    marks = np.random.default_rng(rows).random((rows, 200)) < 0.3

    ways, way = distinct_columns(marks)

    assert (ways[:, way] == marks).all()
    assert len({column.tobytes() for column in ways.T.copy()}) == ways.shape[1]
