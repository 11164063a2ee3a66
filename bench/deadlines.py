"""How long searches take that their deadline ends: ``python -m bench.deadlines`` (`make deadline-test`).

Each line is a generated cluster, the columns are deadlines in seconds. The values are the CPU time until the plan as a
multiple of the deadline, with ``ended`` for a search that ended by itself. The goal is 1.1. A plan without a search
takes the seconds in the column `least`, whatever the deadline is. The exit code is 1 if a plan takes more than ``MOST``
times its deadline, and more than ``MOST`` times twice that: a search begins with the first plan, and ends by realizing
another one.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.growth import ZONES, GeneratedLists, catalogue_of, lists_of, raw_pods
from joiner.catalogue import Catalogue
from joiner.names import HOSTNAME, ZONE
from joiner.planning import Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet

DEADLINES: Final = (0.25, 0.5, 1.0, 2.0)
MOST: Final = 1.5
"""The largest multiple that is accepted: CPU time varies on a machine that does something else."""
UNLIMITED: Final = 10**9
"""Steps that no search uses up."""


@dataclass(frozen=True, slots=True)
class Case:
    """One generated cluster. With `rules`, each workload is spread over the zones, and every third one over hosts."""

    generated: GeneratedLists
    rules: bool = False


CASES: Final = tuple(
    Case(GeneratedLists(pods=pods, classes=classes, types=300), rules)
    for rules in (False, True)
    for pods, classes in ((40, 40), (300, 300), (1_000, 200))
)


def add_rules(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod with a topology spread, and with an anti-affinity if its workload is every third one."""
    labels = pod["metadata"]["labels"]
    alike = {"labelSelector": {"matchLabels": {"app": labels["app"]}}}
    zones = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **alike}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOSTNAME, **alike}]}
    hosts = {"affinity": {"podAntiAffinity": apart}} if int(labels["app"].rpartition("-")[2]) % 3 == 0 else {}
    return {**pod, "spec": {**pod["spec"], "topologySpreadConstraints": [zones], **hosts}}


@dataclass(frozen=True, slots=True)
class Measured:
    """The CPU seconds of a plan without a search, and of the plan with each deadline, with whether it was cut short."""

    least: float
    plans: Mapping[float, tuple[float, bool]]

    @property
    def late(self) -> bool:
        """Return whether a plan takes too long."""
        return any(took > MOST * max(deadline, 2 * self.least) for deadline, (took, _) in self.plans.items())


def measure(case: Case, deadlines: Sequence[float]) -> Measured:
    """Return how long plans of this cluster take."""
    subnets = tuple(Subnet(f"subnet-{zone}", zone) for zone in ZONES)
    classes = {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}
    pods = [pod for page in raw_pods(case.generated) for pod in json.loads(page)["items"]]
    ruled = [add_rules(pod) for pod in pods] if case.rules else pods
    snapshot = Snapshot.from_lists({**lists_of(case.generated), "pods": ruled})
    catalogue = Catalogue.from_json(catalogue_of(case.generated.types))
    plan(snapshot, catalogue, classes=classes, effort=Effort(steps=0))  # what is computed once a process

    def timed(effort: Effort) -> tuple[float, bool]:
        began = time.process_time()
        made = plan(snapshot, catalogue, classes=classes, effort=effort)
        return time.process_time() - began, made.cut_short

    least, _ = timed(Effort(steps=0))
    limited = {each: Effort(seconds=each, steps=UNLIMITED, clock=time.process_time) for each in deadlines}
    return Measured(least, {deadline: timed(effort) for deadline, effort in limited.items()})


def main() -> int:
    """Print the table; return 1 if a search ends too late."""
    heads = [f"{deadline:g} s" for deadline in DEADLINES]
    shown = Table("pods", "different", "rules", "least", *heads, box=None, padding=(0, 2))
    late = False
    for case in CASES:
        found = measure(case, DEADLINES)
        late |= found.late
        plans = found.plans.items()
        cells = [f"{took / deadline:.2f}{'' if cut_short else ' ended'}" for deadline, (took, cut_short) in plans]
        sizes = (f"{case.generated.pods:,}", f"{case.generated.classes:,}", "yes" if case.rules else "no")
        shown.add_row(*sizes, f"{found.least:.2f} s", *cells)
    Console().print(shown)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
