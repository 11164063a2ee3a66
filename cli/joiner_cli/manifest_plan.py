"""From files to a plan: what `joiner plan` and `joiner explain` have in common.

What cannot be used is told, and the plan is made without it: a cluster would refuse it, too, and go on with the rest.
"""

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from joiner.cluster import Pod
from joiner.planning import PendingPod, Plan, Reason, Snapshot, plan
from joiner.planning.effort import Effort
from joiner.planning.planner import uncollected
from joiner.pools import InvalidManifest, ResolvedNodeClass
from joiner_cli.catalogue_files import LoadedCatalogue, assume_resolved_classes, load_catalogue
from joiner_cli.manifests import ManifestSet, read_documents, read_manifests

SLOW_IMPORTS: Final = ("highspy", "joiner.planning.planner", "joiner.planning.result", "joiner.planning.searching")
"""Imported when a plan is wanted, and before the clock runs: numpy and the solver take a while to load."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is asked: the files, the catalogue, and how hard to look. ``deadline`` in seconds."""

    files: tuple[str, ...]
    catalogue: Path | None = None
    region: str | None = None
    deadline: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The plan, and what it is without (``errors``); seconds that reading and planning took."""

    question: PlanRequest
    world: ManifestSet
    market: LoadedCatalogue
    classes: Mapping[str, ResolvedNodeClass]
    plan: Plan
    read_seconds: float
    plan_seconds: float

    @property
    def errors(self) -> tuple[InvalidManifest, ...]:
        return self.world.errors

    @property
    def exit_code(self) -> int:
        """0 all placed, 2 something stays pending, 1 the plan is without something that cannot be used."""
        return 1 if self.errors else 2 if self.plan.pending else 0

    @property
    def empty(self) -> bool:
        """Whether there was nothing to plan for."""
        return not (self.plan.nodes or self.plan.existing or self.plan.pending)

    def to_json(self) -> dict[str, Any]:
        """The plan's own JSON, and how long it took."""
        seconds = {"read": round(self.read_seconds, 4), "plan": round(self.plan_seconds, 4)}
        return {**self.plan.to_json(), "seconds": seconds}


def plan_manifests(question: PlanRequest) -> ManifestPlan:
    """Reads and plans; Unreadable if the catalogue cannot be read."""
    for module in SLOW_IMPORTS:
        importlib.import_module(module)
    began = time.perf_counter()
    found = load_catalogue(question.catalogue, question.region)
    with uncollected():  # manifests hold no cycles, and there may be millions of small objects
        world = read_manifests(read_documents(question.files))
    manifests = [*world.lists.get("ec2nodeclasses", ()), *world.lists.get("awsnodetemplates", ())]
    snapshot = world.snapshot
    classes = assume_resolved_classes(
        {pool.class_ref for pool in snapshot.pools}, snapshot.classes, manifests, found.zones
    )
    read = time.perf_counter()
    made = add_unplanned_pods(plan_snapshot(question, snapshot, found, classes), snapshot)
    return ManifestPlan(question, world, found, classes, made, read - began, time.perf_counter() - read)


def plan_snapshot(
    question: PlanRequest, snapshot: Snapshot, found: LoadedCatalogue, classes: Mapping[str, ResolvedNodeClass]
) -> Plan:
    """The plan for this snapshot, under the question's deadline and seed."""
    effort = Effort(seconds=question.deadline, seed=question.seed, clock=time.perf_counter)
    return plan(snapshot, found.catalogue, classes=classes, effort=effort)


def add_unplanned_pods(made: Plan, snapshot: Snapshot) -> Plan:
    """The plan with those pending pods, too, that no node could help: each with the reason."""
    told = {one.pod for one in made.pending}
    told.update(*(node.pods for node in made.nodes), *(one.pods for one in made.existing))
    more = [
        PendingPod(pod.key, (Reason("", why),))
        for pod in snapshot.pods
        if pod.key not in told and (why := _reason_not_planned(pod))
    ]
    return replace(made, pending=tuple(sorted((*made.pending, *more), key=lambda one: one.pod)))


def _reason_not_planned(pod: Pod) -> str:
    """Why a pod without a node is nothing to plan for; empty if it needs none."""
    if pod.node_name or pod.terminal or pod.deletion or pod.stays_with_node:
        return ""
    if pod.gates:
        return (
            f"it has scheduling gates: {', '.join(pod.gates)}; its scheduler will not look at it before they are gone"
        )
    if pod.nominated_node:
        return f"it waits for pods to leave node {pod.nominated_node}, which its scheduler preempts for it"
    if pod.constraints.scheduler != "default-scheduler":
        return f"it is left to its own scheduler, {pod.constraints.scheduler}"
    return "it is not planned for: no new node would make its scheduler place it"


def problem_lines(problems: Sequence[InvalidManifest], where: Mapping[str, str]) -> list[str]:
    """One line a problem, with the file that it stands in."""
    return [
        f"{where[one.object]}: {one}" if one.object in where and where[one.object] not in one.object else str(one)
        for one in problems
    ]
