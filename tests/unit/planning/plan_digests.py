"""Digests of the plans of recorded cases: they show that a change of the planner's code changes no plan.

``python -m tests.unit.planning.plan_digests`` writes the file; do that only after a change that plans should follow.
The effort is limited in steps, so no plan depends on the clock. The digests are the same for all x86-64 processors: the
kernel's libraries return the same bits, and so do the plans with each of OpenBLAS's and numpy's code paths.

The cases are those of Karpenter's scheduler (``tests/data/oracle``) and the small ones of the benchmark
(``bench/data``).
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.cases import CLASSES, SHIPPED, read_cases, read_catalogue
from joiner.planning import Plan
from joiner.planning.effort import Effort
from joiner.planning.planner import plan
from tests.unit.planning.oracle import CASES, OracleCase

DIGESTS: Final = Path(__file__).parents[2] / "data" / "plan_digests.json"
MOST_PODS: Final = 36
"""Larger cases of the benchmark take longer than a unit test should."""
EFFORTS: Final = (Effort(steps=0), Effort(steps=40))
"""A first plan, and a plan with a search."""


def digest(made: Plan) -> str:
    """Return the digest of all that a plan says, the bound and the reasons of pending pods included."""
    return hashlib.blake2b(json.dumps(made.to_json(), sort_keys=True).encode(), digest_size=8).hexdigest()


def digests() -> Iterator[tuple[str, str]]:
    """Yield the name of each case, with its effort in steps, and the digest of its plan."""
    for path in sorted(CASES.glob("*.json")):
        yield path.stem, digest(OracleCase.read(path).plan())
    catalogue = read_catalogue(SHIPPED)
    for case in read_cases(SHIPPED):
        for effort in EFFORTS if case.pods <= MOST_PODS else ():
            made = plan(case.snapshot(), catalogue, classes=CLASSES, effort=effort)
            yield f"{case.name} {effort.steps}", digest(made)


if __name__ == "__main__":
    DIGESTS.write_text(json.dumps(dict(digests()), indent=1) + "\n", encoding="utf-8")
    sys.exit(0)
