"""The cheapest packing of a few pods, by dynamic programming over all subsets of the batch.

The price of every subset on one node is computed first; then the cheapest way to combine subsets to the whole batch,
and of equally cheap ways that with the fewest nodes. Resources, offers and rules about hosts are kept; other rules are
checked in ``placement``.
"""

from typing import Final

import numpy as np

from joiner.planning.arrays import Floats, Whole
from joiner.planning.packing.node_filling import NO_PACKING, NodePattern, Packing
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.tuning import MOST_EXACT_PARTS

NODE_COST: Final = 1e-10
"""What a node costs beside its price, in $/h: of the packings of one price, that with the fewest nodes is the cheapest.
"""


def count_parts(demand: Whole) -> int:
    """Return the number of parts of this demand, the empty and the whole included; at most MOST_EXACT_PARTS + 1."""
    parts = 1
    for number in demand[demand > 0].tolist():
        parts *= number + 1
        if parts > MOST_EXACT_PARTS:
            return MOST_EXACT_PARTS + 1
    return parts


def pack_exactly(problem: PackingProblem, demand: Whole) -> Packing:
    """Return the optimum; NOTHING_FOUND if some item fits no offer."""
    items = np.flatnonzero(demand)
    if not len(items):
        return Packing(0.0, ())
    items = items[np.argsort(demand[items], kind="stable")]
    sizes = demand[items] + 1
    digits = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1)
    price, offer = _on_one_node(problem, items, digits)
    best, last = _made_up(digits, sizes, price)
    if not np.isfinite(best):
        return NO_PACKING
    patterns, left = [], len(digits) - 1
    while left:
        part = int(last[left])
        inside = np.flatnonzero(digits[part])
        patterns.append(NodePattern(int(offer[part]), items[inside], digits[part, inside].astype(np.int64), 1))
        left -= part
    return Packing(best - NODE_COST * len(patterns), tuple(patterns))


def _on_one_node(problem: PackingProblem, items: Whole, digits: Whole) -> tuple[Floats, Whole]:
    """Return the price of each part on one node (infinite if no offer holds it), and the offer."""
    need = digits @ problem.need[items]
    held = np.ones((len(digits), len(problem.price)), bool)
    for resource in range(need.shape[1]):
        held &= need[:, resource, None] <= problem.free[None, :, resource]
    for position, item in enumerate(items):
        if not problem.open[:, item].all():
            held[digits[:, position] > 0] &= problem.open[:, item]
    contents = np.zeros((len(digits), problem.items), dtype=np.int64)
    contents[:, items] = digits
    held[problem.clashing(contents)] = False
    prices = np.where(held, problem.price[None, :] + NODE_COST, np.inf)
    offer = prices.argmin(axis=1)
    return prices[np.arange(len(digits)), offer], offer


def _made_up(digits: Whole, sizes: Whole, price: Floats) -> tuple[float, Whole]:
    """Return the price of the whole batch, and for each needed part the part that is removed from it first. One of the
    parts of a batch contains its first item; the remainder without it has fewer pods of that item."""
    best, last = np.full(len(digits), np.inf), np.zeros(len(digits), dtype=np.int64)
    best[0] = 0.0
    usable, every = np.flatnonzero(np.isfinite(price)), np.arange(len(digits))
    usable = usable[usable > 0]
    packed, guards = _packed(digits, sizes)
    rest, prices = packed[usable], price[usable]
    # Parts with the same first item are adjacent.
    starts = np.searchsorted(usable, np.append(0, _first_of_its_kind(digits[1:], sizes)))
    ends = np.searchsorted(usable, every, side="right")
    asked = every[(every > 0) & ((digits[:, 0] < sizes[0] - 1) | (every == every[-1]))]
    for whole, start, end, free in np.stack([every, starts, ends, packed | guards], axis=1)[asked].tolist():
        inside = start + ((free - rest[start:end]) & guards == guards).nonzero()[0]
        if len(inside):
            costs = prices[inside] + best[whole - usable[inside]]  # Part numbers subtract like parts.
            choice = int(costs.argmin())
            best[whole], last[whole] = costs[choice], usable[inside[choice]]
    return float(best[-1]), last


def _packed(digits: Whole, sizes: Whole) -> tuple[Whole, int]:
    """Return each part as one number, and a mask with one bit above each digit. A subtraction of a larger part borrows
    from such a bit."""
    widths = [int(size - 1).bit_length() + 1 for size in sizes]
    shifts = np.cumsum([0, *widths])
    packed: Whole = (digits << shifts[:-1]).sum(axis=1)
    return packed, sum(1 << int(end) - 1 for end in shifts[1:])


def _first_of_its_kind(digits: Whole, sizes: Whole) -> Whole:
    """Return, for each part except the empty one, the number of the smallest part with the same first item."""
    strides = np.append(np.cumprod(sizes[::-1])[-2::-1], 1)
    first: Whole = strides[(digits > 0).argmax(axis=1)]
    return first
