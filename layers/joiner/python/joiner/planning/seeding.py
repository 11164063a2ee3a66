"""What rows of nodes begin with when the relaxation's mix is rounded: so many pods of each item, drawn at random; and who comes first."""

from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.packing import Bench
from joiner.planning.problem import Problem

FIRST_SERVED: Final = 0.5
"""Pods that may go to few of the nodes that could hold them are worth up to so much more while nodes are filled: who may go anywhere finds
a place in the end, and fills what others leave."""


def urgency(problem: Problem, offers: Whole, nodes: Floats) -> Floats:
    """For each item how much more it is worth while nodes are filled, where so many nodes of these offers are being made: by how many of
    the nodes that could hold it are closed to it."""
    number = np.bincount(offers, weights=nodes, minlength=len(problem.price))
    used = np.flatnonzero(number)
    large = np.ones((len(used), problem.items), bool)
    for room, need in zip(problem.room[used].T, problem.need.T, strict=True):
        large &= need <= room[:, None]
    share: Floats = number[used] @ problem.open[used] / np.maximum(number[used] @ large, 1e-9)
    return 1 + FIRST_SERVED * np.maximum(1 - share, 0)


def seeds(bench: Bench, dice: np.random.Generator, offers: Whole, active: Whole, *, mean: Floats, demand: Whole) -> Whole:
    """The mean mix, rounded at random, with what is too much for a cap or for the node left out at random."""
    some = np.flatnonzero(mean > 0)
    seed = np.zeros(mean.shape)
    seed.ravel()[some] = np.floor(mean.ravel()[some] + dice.random(len(some)))
    np.minimum(seed, np.minimum(demand, bench.most[active]), out=seed)
    if len(bench.caps):
        asks, counts = bench.asks[:, active], bench.counts[:, active]
        for node, rule in np.argwhere((seed @ counts.T > bench.caps) & (seed @ asks.T > 0)).tolist():
            there = np.flatnonzero(asks[rule] & (seed[node] > 0))
            kept = int(bench.caps[rule]) - int(seed[node, counts[rule]].sum() - seed[node, there].sum())
            seed[node, dice.permutation(there)[max(kept, 0) :]] = 0
    room, need = bench.room[offers], bench.need[active]
    over = np.flatnonzero((seed @ need > room).any(axis=1))
    if len(over):
        seed[over] = _as_far_as_fits(seed[over], need, room[over], dice)
    return seed.astype(np.int64)


def _as_far_as_fits(seed: Floats, need: Floats, room: Floats, dice: np.random.Generator) -> Floats:
    """Of each row its items in random order, until one of them does not fit."""
    row, item = np.nonzero(seed)
    order = np.argsort(row + dice.random(len(row)), kind="stable")
    item = item[order]  # the rows stay in their order
    taken = seed[row, item][:, None] * need[item]
    together = np.cumsum(taken, axis=0)
    begins = np.searchsorted(row, row)
    within: Marks = np.logical_and.reduce(together - together[begins] + taken[begins] <= room[row], axis=1)
    kept = np.zeros_like(seed)
    kept[row[within], item[within]] = seed[row[within], item[within]]
    return kept
