"""What must hold after a case of the crash table, and what must have held all the time: values in, sentences out."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.e2e.crash.fault_scenarios import FaultScenario
from tests.e2e.crash.starting_clusters import STAGES
from tests.e2e.eviction_checker import EvictionRecord

PODS: Final = 3
NODES: Final = 3
KEPT: Final = {
    "LEASE",
    "CLUSTER",
    "DOORBELL",
    "UNAVAILABLE",
    "ANSWERED",
    "BACKOFF",
    "HELD",
    "LAUNCH",
    "DRIFT",
    "PROPOSED",
    "MOVED",
    "INTERRUPTED",
}
"""Kinds of items that may outlive all claims: locks, secrets, history. All others are about a claim, an instance or an
execution, and go with it: a `DISRUPTION` that is left keeps nodes tainted.
"""

OF_CLAIMS: Final = {"RETIREMENT", "EMPTY", "RECOMMENDED"}
OF_INSTANCES: Final = {"INSTANCE", "IMPAIRED"}


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the table. `recorded` is of launches."""

    kind: str
    id: str
    recorded: bool = True


def wanted_counts(scenario: FaultScenario) -> Mapping[str, tuple[int, int]]:
    """Return the least and the most of each kind of thing at the end."""
    if scenario.stage:
        stage = STAGES[scenario.stage]
        nodes, pods = (stage.least, stage.most), (stage.replicas,) * 2
    else:
        nodes, pods = ((NODES,) * 2, (PODS,) * 2) if scenario.goes_up else ((0, 0), (0, 0))
    return {"pods": pods, "running": pods, "nodes": nodes, "claims": nodes, "instances": nodes}


def left_in_memory(
    items: Iterable[Item], claims: Collection[str], alive: Collection[str], scenario: FaultScenario
) -> list[str]:
    """Return a sentence for each item whose object is gone; `alive` are the instances.

    A sweep records an absence, the next one acts on it, and the one after that deletes the record: it is left after a
    scenario that begins with orphans.
    """
    kept = KEPT | {"ABSENT"} if scenario.swept else KEPT
    about = dict.fromkeys(OF_CLAIMS, claims) | dict.fromkeys(OF_INSTANCES, alive)
    left = [each for each in items if each.kind not in kept and each.id not in about.get(each.kind, ())]
    open_launches = [each.id for each in items if each.kind == "LAUNCH" and not each.recorded]
    return [
        *(f"launch {each} is not recorded" for each in open_launches),
        *(f"{each.kind} {each.id} is left" for each in left),
    ]


def too_many_launches(scenario: FaultScenario, launched: Collection[str]) -> list[str]:
    """Return a sentence if more instances were launched than the scenario needs, even if they have ended since."""
    most = STAGES[scenario.stage].launches if scenario.stage else NODES if scenario.goes_up else 0
    return [f"{len(launched)} instances were launched, not {most}"] if len(launched) > most else []


def disrupted_wrongly(scenario: FaultScenario, watched: EvictionRecord) -> list[str]:
    """Return a sentence for each rule that a disruption broke at any time."""
    most = STAGES[scenario.stage].evictions if scenario.stage else len(watched.evicted)
    more = [f"{len(watched.evicted)} pods were evicted, not {most}"] if len(watched.evicted) > most else []
    return [*sorted(watched.violations), *more]
