"""HiGHS, as the planner uses it: silent, on one thread, and with an end."""

from typing import Any, Final

import highspy

INFINITE: Final = highspy.kHighsInf
PERTURBATION: Final = "primal_simplex_bound_perturbation_multiplier"
CIRCLES: Final = 8
"""More iterations for each row are useless; usually two or three are needed."""


def quiet_solver() -> Any:  # The solver's type stubs lack half of its methods.
    """Return a solver with one thread, no output, and settings for programs of this size."""
    make: Any = highspy.Highs
    solver = make()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("presolve", "off"),
        ("simplex_scale_strategy", 0),
        ("simplex_strategy", 0),  # Primal simplex while the previous basis is feasible, as after offers are added.
        (PERTURBATION, 0.0),
    ):
        solver.setOptionValue(name, value)
    return solver


def run_solver(solver: Any) -> None:
    """Solve the program in the solver.

    Simplex is faster without perturbation, and can cycle if many solutions are equally good. In that case it starts
    again, with perturbation from then on.
    """
    solver.setOptionValue("simplex_iteration_limit", CIRCLES * (solver.getNumRow() + 100))
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kIterationLimit:
        solver.clearSolver()
        solver.setOptionValue("simplex_iteration_limit", highspy.kHighsIInf)
        solver.setOptionValue(PERTURBATION, 1.0)
        solver.run()
