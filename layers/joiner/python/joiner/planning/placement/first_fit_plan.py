"""The plan of a first-fit packing: when it is made, and whether it is a valid plan."""

from dataclasses import dataclass

from joiner.planning.arrays import Whole
from joiner.planning.effort import Meter
from joiner.planning.packing.first_fit import pack_first_fit
from joiner.planning.packing.node_filling import NO_PACKING, Packing
from joiner.planning.placement.realize_packing import PackingRealizer
from joiner.planning.relaxation.lp_values import Relaxation
from joiner.planning.relaxation.packing_problem import PackingProblem
from joiner.planning.state.checkpoint import ScoredPlan, score_plan
from joiner.planning.state.domain_assignment import DomainAssignment
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import FEW_PODS, FIRST_FIT_SECONDS_OF_PAIR, FIRST_FIT_SHARE, MOST_FIRST_FIT_PODS


@dataclass(frozen=True, slots=True)
class FirstFit:
    """The first-fit packing of all pods that are left after the existing nodes were filled."""

    packing: Packing
    problem: PackingProblem
    assignment: DomainAssignment

    @property
    def price_per_hour(self) -> float:
        """Return the price of its nodes in $/h."""
        return self.packing.price

    def realize(self, state: PlanState) -> tuple[ScoredPlan, bool]:
        """Place the pods of the packing; return the plan, and whether it is the packing: every pod is placed as packed,
        within limits and rules. The existing nodes must be filled, and there must be no new nodes."""
        realizer = PackingRealizer(state, self.problem, self.assignment)
        realizer.realize(self.packing)
        realizer.finish()
        made = score_plan(state)
        return made, not made.missing and made.score[0] == 0.0 and abs(state.price - self.packing.price) < 1e-9


def pack_for_comparison(problem: PackingProblem, demand: Whole, relaxation: Relaxation, meter: Meter) -> Packing:
    """Return the first-fit packing; NO_PACKING if that would take too long, or if some pod fits no offer."""
    pods, seconds = int(demand.sum()), FIRST_FIT_SECONDS_OF_PAIR * problem.items * float(relaxation.nodes.sum())
    allowed = pods <= MOST_FIRST_FIT_PODS and meter.allowance > 0 and seconds <= FIRST_FIT_SHARE * meter.time_left
    return pack_first_fit(problem, demand) if allowed or pods <= FEW_PODS else NO_PACKING


def accepts_every_packing(state: PlanState) -> bool:
    """Return whether no limit and no rule between pods can exclude a packing."""
    limited = any(pool_offers.pool.limits for pool_offers in state.offered_pools) or state.left_of_ceilings != (
        None,
        None,
    )
    return not limited and not state.narrow and all(state.rules[group.index].free for group in state.groups.pending)
