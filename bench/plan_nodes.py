"""Compare the number of nodes before and after the last step of planning: ``python -m bench.plan_nodes``.

Each case is planned three times with the same search: as the search leaves it, with merges that cost nothing, and with
the default tolerances. A node costs nothing beside its instance. The first column is the plan without that step.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.cases import CLASSES, RecordedCase, add_case_arguments, read_catalogue, select_cases
from joiner.catalogue import Catalogue
from joiner.planning import Plan, PlanTolerances
from joiner.planning.effort import Effort
from joiner.planning.planner import Planner
from tests.plan_checker import check_plan

FREE = PlanTolerances(fewer_nodes=0.0, zones=0.0)


@dataclass(frozen=True, slots=True)
class CaseNodes:
    """One case: the plan of the search, and what the last step makes of it. ``wrong`` counts broken rules."""

    case: RecordedCase
    found: Plan
    free: Plan
    tolerant: Plan
    wrong: int

    @property
    def more_expensive(self) -> bool:
        """Return whether fewer nodes cost more than the plan before."""
        return self.free.price_per_hour > self.found.price_per_hour + 1e-6


def measured(case: RecordedCase, catalogue: Catalogue, steps: int, *, check: bool) -> CaseNodes:
    """Return the plans of one case without and with tolerances; with `check`, the independent checker checks them."""
    snapshot, planner = case.snapshot(), Planner()

    def within(tolerances: PlanTolerances | None) -> Plan:
        return planner.plan(snapshot, catalogue, classes=CLASSES, effort=Effort(steps=steps), tolerances=tolerances)

    found, free, tolerant = within(None), within(FREE), within(PlanTolerances())
    wrong = sum(
        len(check_plan(case.lists(), catalogue.to_json(), made.to_json())) for made in (free, tolerant) if check
    )
    return CaseNodes(case, found, free, tolerant, wrong)


def lines(rows: Sequence[CaseNodes]) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{'case':28}{'pods':>6}{'nodes':>7}{'$/h':>10}{'free':>7}{'$/h':>10}{'0.5 %':>7}{'$/h':>10}{'zones':>7}"
    for row in rows:
        shown = "".join(
            f"{len(made.nodes):7}{made.price_per_hour:10.3f}" for made in (row.found, row.free, row.tolerant)
        )
        zones = len({node.zone for node in row.tolerant.nodes})
        note = f"  {row.wrong} wrong" if row.wrong else ""
        yield f"{row.case.name:28}{row.case.pods:6}{shown}{zones:7}{note}"
    nodes = [sum(len(getattr(row, name).nodes) for row in rows) for name in ("found", "free", "tolerant")]
    prices = [sum(getattr(row, name).price_per_hour for row in rows) for name in ("found", "free", "tolerant")]
    yield (
        f"together: {nodes[0]} nodes for {prices[0]:.3f} $/h; merged at no cost {nodes[1]} for {prices[1]:.3f}; "
        f"within the default tolerances {nodes[2]} for {prices[2]:.3f} ({prices[2] / prices[0] - 1:+.2%}); "
        f"{sum(row.more_expensive for row in rows)} cases more expensive by merges at no cost"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan_nodes", description=(__doc__ or "").splitlines()[0])
    add_case_arguments(parser, most_pods=1100)
    parser.add_argument("--steps", type=int, default=250, help="effort of the search")
    parser.add_argument("--check", action="store_true", help="check every plan with the independent checker")
    options = parser.parse_args(arguments)
    cases, catalogue = select_cases(options), read_catalogue(options.cases)
    rows = []
    for case in cases:
        rows.append(measured(case, catalogue, options.steps, check=options.check))
        print(list(lines(rows[-1:]))[1], file=sys.stderr, flush=True)
    print("\n".join(lines(rows)))
    return 1 if any(row.wrong or row.more_expensive for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
