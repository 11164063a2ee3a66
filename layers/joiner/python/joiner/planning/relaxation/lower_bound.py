"""The lower bound: the lowest possible price of a plan, and what one pod of each group is worth.

It is the relaxation (``resource_lp``) of all pending pods. It ignores topology domains, and rules between pods
except how many pods of a kind one node may hold. Free capacity of existing nodes costs nothing. Limits of pools
count if they could bind. The ignored rules can only make plans more expensive, so no plan is cheaper than the
bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from joiner.planning.arrays import Marks
from joiner.planning.relaxation.free_capacity import FreeCapacity
from joiner.planning.relaxation.limit_rows import all_rows, limit_rows_of, opening_rows_of
from joiner.planning.relaxation.lp_values import SpareCapacity
from joiner.planning.relaxation.packing_problem import PackingProblem, compile_problem
from joiner.planning.relaxation.resource_lp import ResourceLp
from joiner.planning.state.domain_assignment import DomainAssignment
from joiner.planning.state.plan_state import PlanState


@dataclass(frozen=True, slots=True)
class LowerBound:
    """``shares`` is the price of one pod of each group, by index; infinite if no offer can hold it."""

    price_per_hour: float
    shares: Mapping[int, float]


def compute_lower_bound(
    state: PlanState, *, limited: bool = False, joined: bool = False, whole: bool = True, supplied: bool = True
) -> LowerBound:
    """Return the bound for all pods that are left to place in this state.

    With ``joined``, pods may use nodes of pools with lower weight that other pods require. Without it, the price is
    that of nodes of the pools with the highest weight, which is no bound if pools have several weights. With
    ``limited``, the same, and the pools' limits admit all pods, and can exclude cheaper nodes. With ``whole``, cuts for
    whole pods are added: the bound is sharper and takes longer. Without ``supplied``, the shares are those of plans
    that use no limited supply.
    """
    groups = [group for group in state.groups.pending if state.left[group] and not group.refused]
    if not groups or not any(pool_offers.launchable for pool_offers in state.offered_pools):
        return LowerBound(0.0, {group.index: float("inf") for group in state.groups.pending})
    joined = joined or limited
    problem = compile_problem(state, DomainAssignment(), groups, overflow=joined, joined=joined)
    limit_rows = all_rows(
        limit_rows_of(state, problem) if limited else None, opening_rows_of(problem) if joined else None
    )
    able = problem.open.any(axis=0)
    spare = spare_capacity(state, problem, supplied=supplied)
    relaxed = ResourceLp(problem, spare=spare, firm_only=True, limit_rows=limit_rows).solve(
        np.where(able, problem.demand, 0), whole=whole
    )
    shares = {group.index: float("inf") for group in state.groups.pending}
    for item, members in enumerate(problem.members):
        for group, _ in members:
            shares[group.index] = float(relaxed.worth[item]) if problem.open[:, item].any() else float("inf")
    return LowerBound(
        float(max(relaxed.value * (1 - 1e-9), single_item_bound(state, problem))), shares
    )  # The result contains no numpy numbers.


def single_item_bound(state: PlanState, problem: PackingProblem) -> float:
    """Return the highest price that one item alone requires: the number of its cheapest nodes that its pods need if
    they cannot share nodes."""
    caps = np.full(problem.items, np.inf)
    for row, cap in zip(problem.capped[problem.firm], problem.caps[problem.firm], strict=True):
        caps[row] = np.minimum(caps[row], cap)
    cheapest = np.where(problem.open, problem.price[:, None], np.inf).min(axis=0, initial=np.inf)
    able = np.flatnonzero(np.isfinite(cheapest))
    hosts = np.zeros(problem.items)
    if state.existing:
        vacancies = FreeCapacity(state.existing)
        for item in able.tolist():
            group = problem.members[item][0][0]
            hosts[item] = sum(1 for node in vacancies.holding(group) if state.suits(group, node))
    for number, _, open_to in problem.choices.supplies([members[0][0] for members in problem.members]):
        hosts += np.where(open_to, number, 0)
    nodes = np.where(np.isfinite(caps), np.maximum(problem.demand / caps - hosts, 0.0), hosts == 0)
    return float((np.ceil(nodes[able] - 1e-9) * cheapest[able]).max(initial=0.0))


def spare_capacity(state: PlanState, problem: PackingProblem, *, supplied: bool = True) -> SpareCapacity | None:
    """Return the free capacity of existing nodes, added up over nodes that the same items may use; if ``supplied``,
    limited supplies are included as if they were free."""
    found: dict[bytes, tuple[list[float], Marks]] = {}
    samples = [members[0][0] for members in problem.members]
    most = (problem.demand @ problem.need).tolist()  # More is of no use, and infinite amounts are invalid for a solver.
    vacancies = FreeCapacity(state.existing)
    fitting = np.array([vacancies.marks(group) for group in samples], bool).reshape(len(samples), len(state.existing))
    for position in np.flatnonzero(fitting.any(axis=0)).tolist():
        node = state.existing[position]
        open_to = fitting[:, position].copy()
        for item in np.flatnonzero(open_to).tolist():
            open_to[item] = state.suits(samples[item], node)
        if open_to.any():
            _add(found, open_to, problem.choices.amounts(node.free), most)
    for _, amounts, open_to in problem.choices.supplies(samples) if supplied else ():
        _add(found, open_to, amounts, most)
    if not found:
        return None
    return SpareCapacity(
        np.array([node for node, _ in found.values()], float),
        np.array([open_to for _, open_to in found.values()], bool),
    )


def _add(
    found: dict[bytes, tuple[list[float], Marks]],
    open_to: Marks,
    amounts: list[float],
    most: list[float],
) -> None:
    known = found.setdefault(open_to.tobytes(), ([0.0] * len(amounts), open_to))
    for position, amount in enumerate(amounts):
        known[0][position] = min(known[0][position] + max(amount, 0.0), most[position])
