"""Limits of pools and ceilings of the cluster as rows over offers: what one node of an offer uses, and how much is
left.
"""

import numpy as np

from joiner.planning.relaxation.lp_values import LimitRows, Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.state.plan_state import PlanState


def limit_rows_of(state: PlanState, problem: PackingProblem) -> LimitRows | None:
    """Return the limits for the offers of this problem, or None if no limit exists. Existing and in-flight nodes are
    already subtracted."""
    pools, rows, left = problem.choices.pools(), [], []
    for number, pool_offers in enumerate(state.offered_pools):
        used, own = state.limits.used.get(pool_offers.pool.key, {}), pools == number
        for name, limit in pool_offers.pool.limits.items() if own.any() else ():
            each = np.ones(len(own)) if name == "nodes" else problem.choices.capacity(name)
            rows.append(np.where(own, each, 0.0))
            left.append(float(max(limit - used.get(name, 0), 0)))
    nodes, price = state.left_of_ceilings
    for spare, each in ((nodes, np.ones(len(pools))), (price, problem.price)):
        if spare is not None:
            rows.append(each)
            left.append(max(float(spare), 0.0))
    return LimitRows(np.array(rows), np.array(left)) if rows else None


def opening_rows_of(problem: PackingProblem) -> LimitRows | None:
    """Return the numbers of nodes that pools of lower weight may have, as limits; None if all pools have one weight.

    Each such node holds a pod that requires it (``PackingProblem.required``), so there are no more of these nodes than
    such pods.
    """
    tiers = problem.choices.tiers()
    rows, left = [], []
    for tier in np.unique(tiers)[1:].tolist():
        lower = tiers >= tier
        openers = problem.required[lower].any(axis=0)
        rows.append(np.where(lower, 1.0, 0.0))
        left.append(float(problem.demand[openers].sum()))
    return LimitRows(np.array(rows), np.array(left)) if rows else None


def all_rows(*parts: LimitRows | None) -> LimitRows | None:
    """Return the limits of all parts."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return LimitRows(np.concatenate([part.each for part in known]), np.concatenate([part.left for part in known]))


def is_within_limits(limit_rows: LimitRows | None, found: Relaxation) -> bool:
    """Return whether these nodes are within the limits, so that a relaxation with the limits would not be more
    expensive."""
    return limit_rows is None or bool(
        (limit_rows.each[:, found.offers] @ found.nodes <= limit_rows.left * (1 + 1e-9)).all()
    )
