"""Count the choices that plans give to EC2's spot fleets: ``python -m bench.spot_alternatives [--cases FOLDER]``.

The recorded cases are planned with pools that allow spot and on-demand. Recorded spot prices do not exist for them, so
each offering gets a share of its on-demand price that follows from its name, between 28 and 48 percent.
"""

import argparse
import hashlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.cases import CLASSES, RecordedCase, add_case_arguments, read_catalogue, select_cases
from joiner import names
from joiner.catalogue import Catalogue, Offering
from joiner.cluster import ValueSet
from joiner.planning import Plan, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan

LEAST_SHARE: Final = 0.28
SPAN: Final = 0.20


@dataclass(frozen=True, slots=True)
class Choices:
    """The number of instance types for each node of a case."""

    case: str
    types: tuple[int, ...]


def with_spot(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with a spot offering beside each on-demand offering."""
    return Catalogue.of(
        kind.with_offerings([*kind.offerings, *(_spot(name, one) for one in kind.offerings)])
        for name, kind in catalogue.types.items()
    )


def _spot(name: str, one: Offering) -> Offering:
    digest = hashlib.sha256(f"{name}/{one.zone}".encode()).digest()
    return replace(one, capacity_type=names.SPOT, price_per_hour=one.price_per_hour * share_of(digest))


def share_of(digest: bytes) -> float:
    """Return the share of the on-demand price.

    >>> share_of(bytes([0, 0])), round(share_of(bytes([255, 255])), 2)
    (0.28, 0.48)
    """
    return LEAST_SHARE + SPAN * int.from_bytes(digest[:2]) / 65_535


def open_to_spot(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with pools that allow both capacity types."""
    both = ValueSet.of(names.SPOT, names.ON_DEMAND)
    pools = tuple(
        replace(pool, requirements=type(pool.requirements)({**pool.requirements, names.CAPACITY_TYPE: both}))
        for pool in snapshot.pools
    )
    return replace(snapshot, pools=pools)


def count_choices(case: RecordedCase, made: Plan) -> Choices:
    """Return the number of instance types that each spot node of the plan may use."""
    nodes = (node for node in made.nodes if node.capacity_type == names.SPOT)
    return Choices(case.name, tuple(len({one.instance_type for one in node.alternatives}) for node in nodes))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.spot_alternatives", description=(__doc__ or "").splitlines()[0]
    )
    add_case_arguments(parser, most_pods=1_000)
    options = parser.parse_args(arguments)
    cases, catalogue = select_cases(options), with_spot(read_catalogue(options.cases))
    rows = []
    for case in cases:
        made = plan(open_to_spot(case.snapshot()), catalogue, classes=CLASSES, effort=Effort(seconds=0.2))
        rows.append(count_choices(case, made))
        if types := rows[-1].types:
            counts = f"types: least {min(types)}, median {statistics.median(types)}"
            print(f"{case.name:<44} {len(types):>5} nodes, {counts}")
    every = [count for row in rows for count in row.types]
    print(f"{len(rows)} cases, {len(every)} spot nodes: median {statistics.median(every)} types", file=sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
