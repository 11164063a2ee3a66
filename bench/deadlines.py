"""How long searches take that their deadline ends: ``python -m bench.deadlines``.

Each line is a generated cluster, the columns are deadlines in seconds. The values are the CPU time until the plan as a
multiple of the deadline, with ``ended`` for a search that ended by itself. The goal is 1.1.
"""

import json
import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.growth import ZONES, GeneratedLists, catalogue_of, lists_of, raw_pods
from joiner.catalogue import Catalogue
from joiner.planning import Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet

DEADLINES: Final = (0.25, 0.5, 1.0, 2.0)
CLUSTERS: Final = tuple(
    GeneratedLists(pods=pods, classes=classes, types=300) for pods, classes in ((40, 40), (300, 300), (1_000, 200))
)
UNLIMITED: Final = 10**9
"""Steps that no search uses up."""


def measure(generated: GeneratedLists, deadlines: Sequence[float]) -> list[str]:
    """Return how long a plan of this cluster takes with each of these deadlines, as multiples of it."""
    subnets = tuple(Subnet(f"subnet-{zone}", zone) for zone in ZONES)
    classes = {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}
    pods = [pod for page in raw_pods(generated) for pod in json.loads(page)["items"]]
    snapshot = Snapshot.from_lists({**lists_of(generated), "pods": pods})
    catalogue = Catalogue.from_json(catalogue_of(generated.types))
    plan(snapshot, catalogue, classes=classes, effort=Effort(steps=0))  # what is computed once a process
    found = []
    for deadline in deadlines:
        effort = Effort(seconds=deadline, steps=UNLIMITED, clock=time.process_time)
        began = time.process_time()
        made = plan(snapshot, catalogue, classes=classes, effort=effort)
        took = (time.process_time() - began) / deadline
        found.append(f"{took:.2f}" if made.cut_short else f"{took:.2f} ended")
    return found


def main() -> None:
    """Print the table."""
    shown = Table("pods", "different", *(f"{deadline:g} s" for deadline in DEADLINES), box=None, padding=(0, 2))
    for generated in CLUSTERS:
        shown.add_row(f"{generated.pods:,}", f"{generated.classes:,}", *measure(generated, DEADLINES))
    Console().print(shown)


if __name__ == "__main__":
    main()
