"""Mark the pods that are held on nodes that are being drained (`joiner.pools.held_pods`), in lists and a snapshot.

PodDisruptionBudgets that are not listed are read only if a drain makes pods move.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from joiner.adapters import kube_kinds as kinds
from joiner.planning import Snapshot
from joiner.planning.inputs.snapshot import HELD
from joiner.pools.held_pods import find_held_pods, find_leaving_pods

BUDGETS: Final = kinds.POD_DISRUPTION_BUDGETS.plural
Lists = Mapping[str, Sequence[Mapping[str, Any]]]


def mark_held_pods(
    lists: Lists, world: Snapshot, now: datetime, read_budgets: Callable[[], Sequence[Mapping[str, Any]]] | None = None
) -> tuple[dict[str, Sequence[Mapping[str, Any]]], Snapshot]:
    """Return the lists with a list of the held pods, and their snapshot (`world`) with the same pods held."""
    leaving = find_leaving_pods(world.pods, world.nodes, world.claims)
    if not leaving:
        return dict(lists), world
    known = Snapshot.from_lists({BUDGETS: read_budgets()}) if read_budgets else world
    held = find_held_pods(leaving, world.nodes, world.claims, known.disruption_budgets, now)
    named = [{"metadata": {"namespace": pod.namespace, "name": pod.name}} for pod in leaving if pod.key in held]
    return {**lists, HELD: named}, world.holding(held)
