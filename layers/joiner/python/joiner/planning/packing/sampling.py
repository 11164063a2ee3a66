"""Random node contents for randomized rounding, and which pods are packed first."""

from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Whole
from joiner.planning.packing.node_filling import NodeFiller
from joiner.planning.relaxation.packing_problem import PackingProblem

FIRST_SERVED: Final = 0.5
"""The maximum increase of the worth of an item while nodes are filled, for items that only few of the suitable nodes
accept. Pods without restrictions fit on some node in the end, and use what other pods leave."""


def scarcity_factors(problem: PackingProblem, offers: Whole, nodes: Floats) -> Floats:
    """Return for each item the factor of its worth while this many nodes of each offer are filled, by the share of
    suitable nodes that are closed to it."""
    number = np.bincount(offers, weights=nodes, minlength=len(problem.price))
    used = np.flatnonzero(number)
    large = np.ones((len(used), problem.items), bool)
    for free, need in zip(problem.free[used].T, problem.need.T, strict=True):
        large &= need <= free[:, None]
    share: Floats = number[used] @ problem.open[used] / np.maximum(number[used] @ large, 1e-9)
    return 1 + FIRST_SERVED * np.maximum(1 - share, 0)


def sample_contents(
    filler: NodeFiller, rng: np.random.Generator, offers: Whole, active: Whole, *, mean: Floats, demand: Whole
) -> Whole:
    """Return the mean mix, rounded at random, as far as capacity and caps allow, in random order of items."""
    if filler.kernel:
        return filler.kernel.seed(offers, active, mean, demand.astype(float), rng.integers(1, 2**63, 1, np.uint64))
    wanted = np.minimum(
        np.where(mean > 0, np.floor(mean + rng.random(mean.shape)), 0), np.minimum(demand, filler.most[active])
    )
    return np.stack(
        [_as_far_as_fits(filler, rng, offer, active, row) for offer, row in zip(offers, wanted, strict=True)]
    )


def _as_far_as_fits(filler: NodeFiller, rng: np.random.Generator, offer: int, active: Whole, wanted: Floats) -> Whole:
    """Return one row of that mix."""
    free, taken = filler.free[offer].copy(), np.zeros(len(wanted), np.int64)
    used, asked = np.zeros((2, len(filler.caps)), np.int64)
    for at in rng.permutation(np.flatnonzero(wanted)).tolist():
        item = int(active[at])
        need, counts, asks, still = filler.need[item], filler.counts[:, item], filler.asks[:, item], filler.caps - used
        binding = counts & (asks | (asked > 0))
        most = min(
            wanted[at],
            (free[need > 0] / need[need > 0] + 1e-9).min(initial=np.inf),
            still[binding].min(initial=wanted[at]),
        )
        if most >= 1 and not (asks & (still < 0)).any():
            taken[at] = int(most)
            free -= taken[at] * need
            used += taken[at] * counts
            asked += taken[at] * asks
    return taken
