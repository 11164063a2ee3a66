"""The solver behind the bound terminates, also where it would cycle."""

from typing import Any

import numpy as np
import pytest

from joiner.planning.relaxation.lp_solver import PERTURBATION, quiet_solver
from joiner.planning.relaxation.resource_lp import ResourceLp
from tests.unit.planning.test_kernel import problem


class Circling:
    """A solver that makes no progress, not one step, until it is perturbed."""

    def __init__(self) -> None:
        self._solver = quiet_solver()
        self.restarts = 0

    def setOptionValue(self, name: str, value: Any) -> None:
        stuck = name == "simplex_iteration_limit" and not self._solver.getOptionValue(PERTURBATION)[1]
        self._solver.setOptionValue(name, 0 if stuck and not self.restarts else value)

    def clearSolver(self) -> None:
        self.restarts += 1
        self._solver.clearSolver()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)


def test_a_program_whose_solver_cycles_is_started_again_and_solved() -> None:
    known, made = problem(1, items=60, offers=20, rules=0), list[Circling]()
    usual = ResourceLp(known).solve(known.demand)

    def stuck() -> Circling:
        made.append(Circling())
        return made[-1]

    found = ResourceLp(known, make_solver=stuck).solve(known.demand)

    assert [one.restarts for one in made] == [1]
    assert found.value == pytest.approx(usual.value)
    assert np.bincount(found.item, weights=found.flow, minlength=known.items) == pytest.approx(known.demand)
