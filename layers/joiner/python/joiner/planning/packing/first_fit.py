"""First-fit as other autoscalers pack, on the same arrays: the price of plans is compared with it and is never higher.

Karpenter's order: pods by CPU, then memory, the largest first. Each pod goes to the first node for which some
instance type still fits, the emptiest nodes first. At the end, a node becomes the cheapest offer that holds all of
its pods. Domains are assigned before, as for the search.
"""

import numpy as np

from joiner.cluster.resources import CPU, MEMORY
from joiner.planning.arrays import Floats, Marks, Whole
from joiner.planning.packing.node_filling import NO_PACKING, NodePattern, Packing
from joiner.planning.relaxation.packing_problem import PackingProblem


def pack_first_fit(problem: PackingProblem, demand: Whole) -> Packing:
    """Pack all of this demand, pod after pod; return NOTHING_FOUND if some pod fits no offer."""
    columns = [problem.resources.index(name) for name in (CPU, MEMORY) if name in problem.resources]
    order = np.lexsort((np.arange(problem.items), *(-problem.need[:, column] for column in reversed(columns))))
    counts: list[Whole] = []
    needs: list[Floats] = []
    ables: list[Marks] = []
    sizes: list[int] = []
    for item in order.tolist():
        for _ in range(int(demand[item])):
            own, one = problem.need[item], np.eye(1, problem.items, item, dtype=np.int64)[0]
            for node in sorted(range(len(counts)), key=sizes.__getitem__):
                able = ables[node] & problem.open[:, item]
                able &= (problem.room >= needs[node] + own).all(axis=1)
                if able.any() and not problem.clashing((counts[node] + one)[None, :])[0]:
                    ables[node] = able
                    break
            else:
                able = problem.open[:, item].copy()
                if not able.any():
                    return NO_PACKING
                node = len(counts)
                counts.append(np.zeros(problem.items, dtype=np.int64))
                needs.append(np.zeros(problem.need.shape[1]))
                ables.append(able)
                sizes.append(0)
            counts[node][item] += 1
            needs[node] = needs[node] + own
            sizes[node] += 1
    patterns, price = [], 0.0
    for row, able in zip(counts, ables, strict=True):
        offers = np.flatnonzero(able)
        offer = int(offers[problem.price[offers].argmin()])
        inside = np.flatnonzero(row)
        patterns.append(NodePattern(offer, inside, row[inside], 1))
        price += float(problem.price[offer])
    return Packing(price, tuple(patterns))
