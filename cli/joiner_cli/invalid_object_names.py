"""Finds names that the catalogue does not have in invalid pools and pods: those of valid ones are found by the plan and
by ``unknown_names``."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from joiner.catalogue import Catalogue, find_idle_exclusions, find_unknown_limits, find_unknown_values
from joiner.planning import Snapshot
from joiner.pools import InvalidManifest
from joiner_cli.manifests.invalid_objects import InvalidObject
from joiner_cli.manifests.validation.independent_errors import may_be_consequence
from joiner_cli.unknown_names import find_unknown_names


def find_names_beside_errors(
    invalid: Iterable[InvalidObject], snapshot: Snapshot, catalogue: Catalogue
) -> Iterator[InvalidManifest]:
    """Yield a warning for each unknown name of these objects, unless one of their errors may be its cause."""
    for one in invalid:
        reported = [problem for problem in snapshot.problems if problem.object == one.subject]
        for problem in _find(one, snapshot, catalogue):
            if not may_be_consequence(problem, reported, one.doubts):
                yield problem


def _find(one: InvalidObject, snapshot: Snapshot, catalogue: Catalogue) -> Iterator[InvalidManifest]:
    if one.pending:
        yield from find_unknown_names([one.pending], snapshot, catalogue)
    if pool := one.pool:
        found = (
            *find_unknown_values([pool], catalogue),
            *find_idle_exclusions([pool], catalogue),
            *find_unknown_limits([pool], catalogue, snapshot.overlays.resources),
        )
        yield from (replace(problem, object=one.subject) for problem in found)
