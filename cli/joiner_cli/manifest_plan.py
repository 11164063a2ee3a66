"""Makes a plan from manifest files, for `joiner plan` and `joiner explain`.

An invalid object is reported and left out of the plan: an API server would refuse it, too, and store the others.
"""

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from joiner.catalogue.assumed_spot_offerings import lacks_spot_prices
from joiner.cluster import Pod
from joiner.names import NODE_CLASS_RESOURCES
from joiner.planning import PendingPod, Plan, Reason, Snapshot
from joiner.planning.effort import Effort
from joiner.planning.planner import plan, uncollected
from joiner.pools import InvalidManifest, ResolvedNodeClass
from joiner.pools.held_pods import find_held_pods, find_leaving_pods
from joiner_cli.assumed_classes import assume_resolved_classes, check_unnamed_classes, class_problems
from joiner_cli.catalogue_files import LoadedCatalogue, load_catalogue
from joiner_cli.catalogue_settings import apply_settings
from joiner_cli.ignored_schedules import describe_ignored_schedules
from joiner_cli.invalid_object_names import find_names_beside_errors
from joiner_cli.manifests import ManifestSet, read_documents, read_manifest_set
from joiner_cli.missing_spot_prices import close_spot_pools, report_missing_prices
from joiner_cli.region_problems import find_region_problems
from joiner_cli.selected_reservations import list_counted_reservations, remove_reservations
from joiner_cli.settings_limits import SettingsLimits, describe_unchecked
from joiner_cli.unknown_names import find_unknown_names
from joiner_cli.unknown_reservations import FreeReservations, report_missing_reservations
from joiner_cli.unknown_zone_ids import close_zone_id_pools, report_unknown_zone_ids

SLOW_IMPORTS: Final = (
    "highspy",
    "joiner.planning.planner",
    "joiner.planning.output.plan_assembly",
    "joiner.planning.search",
)
"""Imported before the deadline starts to count: numpy and the solver load slowly."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The input of a plan: manifest files, the catalogue, the limits of the search and those of the settings.
    ``deadline`` is in seconds. ``instance_prices`` leaves out what nodes cost beside their instances.
    """

    files: tuple[str, ...]
    catalogue: Path | None = None
    region: str | None = None
    deadline: float = 1.0
    seed: int = 0
    limits: SettingsLimits = field(default_factory=SettingsLimits)
    instance_prices: bool = False


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """A plan and what it was made from. ``errors`` are the objects that it leaves out; durations are in seconds."""

    request: PlanRequest
    manifests: ManifestSet
    catalogue: LoadedCatalogue
    classes: Mapping[str, ResolvedNodeClass]
    plan: Plan
    read_seconds: float
    plan_seconds: float

    @property
    def errors(self) -> tuple[InvalidManifest, ...]:
        """Return the mistakes for which objects are left out: invalid manifests, and NodeOverlays that contradict
        others."""
        return tuple(one for one in self.plan.problems if one.severity == "error")

    @property
    def exit_code(self) -> int:
        """0: every pod is placed. 2: pods stay pending, or nodes of claims and static pools are not launched. 1: the
        plan leaves out invalid objects, or NodeOverlays that contradict others."""
        return 1 if self.errors else 2 if self.plan.pending or self.plan.unlaunched else 0

    @property
    def unused_overlays(self) -> frozenset[str]:
        """The valid NodeOverlays that the plan does not use, because they contradict others."""
        contradicted = {one.object for one in self.errors}
        invalid = {one.object for one in self.manifests.errors}
        return frozenset(each for each in contradicted - invalid if each.startswith("NodeOverlay/"))

    @property
    def invalid(self) -> frozenset[str]:
        """The objects that the plan leaves out because they are invalid, or in a part of a file that is unreadable."""
        return frozenset(one.object for one in self.errors) - self.unused_overlays

    @property
    def empty(self) -> bool:
        """Whether the plan has no nodes and lacks none."""
        return not (self.plan.nodes or self.plan.existing or self.plan.pending or self.plan.unlaunched)

    def to_json(self) -> dict[str, Any]:
        """Return the plan's JSON with the seconds that reading and planning took."""
        seconds = {"read": round(self.read_seconds, 4), "plan": round(self.plan_seconds, 4)}
        return {**self.plan.to_json(), "seconds": seconds}


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What a plan of manifests is made from. ``began`` is when reading them began, by ``time.perf_counter``."""

    request: PlanRequest
    manifests: ManifestSet
    catalogue: LoadedCatalogue
    classes: Mapping[str, ResolvedNodeClass]
    free: FreeReservations
    began: float

    @property
    def snapshot(self) -> Snapshot:
        """Return the state of the cluster that the manifests describe."""
        return self.manifests.snapshot


def plan_manifests(request: PlanRequest) -> ManifestPlan:
    """Read the files and make the plan.

    Raises ``UnreadableInput`` if the catalogue cannot be read; unreadable manifests become ``errors`` of the result.
    """
    inputs = read_inputs(request)
    snapshot, read = inputs.snapshot, time.perf_counter()
    made = add_unplanned_pods(plan_snapshot(request, snapshot, inputs.catalogue, inputs.classes), snapshot)
    made = report_missing_prices(made, snapshot) if lacks_spot_prices(inputs.catalogue.catalogue) else made
    made = report_missing_reservations(made, snapshot, inputs.free)
    made = report_unknown_zone_ids(made, snapshot, inputs.classes)
    seconds = time.perf_counter() - read
    return ManifestPlan(request, inputs.manifests, inputs.catalogue, inputs.classes, made, read - inputs.began, seconds)


def read_inputs(request: PlanRequest) -> PlanInputs:
    """Read the files; errors are those of ``plan_manifests``."""
    for module in SLOW_IMPORTS:
        importlib.import_module(module)
    began = time.perf_counter()
    found = load_catalogue(request.catalogue, request.region)
    catalogue, notes = apply_settings(found.catalogue, request.limits)
    found = replace(found, catalogue=catalogue, problems=(*found.problems, *notes))
    with uncollected():  # manifests hold no reference cycles, and there may be millions of small objects
        documents = read_documents(request.files)
        manifest_set = read_manifest_set(documents, default_spreads=request.limits.default_spreads)
    manifests = [each for plural in NODE_CLASS_RESOURCES for each in manifest_set.lists.get(plural, ())]
    reserved, zones = list_counted_reservations(found.catalogue), found.zones
    found = replace(found, catalogue=remove_reservations(found.catalogue))
    classes = assume_resolved_classes(
        manifest_set.snapshot,
        manifests,
        zones,
        unready=manifest_set.unready_classes,
        ceilings=request.limits.policy,
        overhead_price=request.limits.overhead_price,
        reserved=reserved,
    )
    if request.instance_prices:
        classes = {key: replace(one, costs=None) for key, one in classes.items()}
    snapshot = _with_problems(request, manifest_set, found, classes)
    snapshot = close_zone_id_pools(snapshot, classes)
    free = FreeReservations(found.catalogue, classes, counted=bool(reserved))
    if lacks_spot_prices(found.catalogue):
        snapshot = close_spot_pools(snapshot, free.has)
    snapshot = hold_pods(snapshot, datetime.now(UTC))
    return PlanInputs(request, replace(manifest_set, snapshot=snapshot), found, classes, free, began)


def hold_pods(snapshot: Snapshot, now: datetime) -> Snapshot:
    """Return the snapshot in which pods that a drain will not evict soon need no node yet."""
    leaving = find_leaving_pods(snapshot.pods, snapshot.nodes, snapshot.claims)
    budgets = snapshot.disruption_budgets
    return snapshot.holding(find_held_pods(leaving, snapshot.nodes, snapshot.claims, budgets, now))


def _with_problems(
    request: PlanRequest, manifests: ManifestSet, found: LoadedCatalogue, classes: Mapping[str, ResolvedNodeClass]
) -> Snapshot:
    """Return the snapshot with the problems of its classes, regions, names, catalogue and settings."""
    foreign = find_region_problems(
        found.regions,
        settings=request.limits.region,
        nodes=manifests.lists.get("nodes", ()),
        classes=[each for plural in NODE_CLASS_RESOURCES for each in manifests.lists.get(plural, ())],
    )
    unknown = [
        *find_unknown_names(manifests.pending, manifests.snapshot, found.catalogue),
        *find_names_beside_errors(manifests.invalid, manifests.snapshot, found.catalogue),
    ]
    checked = {**classes, **check_unnamed_classes(manifests.snapshot, classes, request.limits.policy)}
    of_classes = class_problems(checked.values(), _by_key(manifests))
    unchecked = describe_unchecked(
        request.limits, [one for one in manifests.snapshot.classes if one.key in checked and not one.conditions.items]
    )
    scheduled = describe_ignored_schedules(manifests.lists)
    problems = (*manifests.snapshot.problems, *of_classes, *foreign, *unknown, *found.problems, *unchecked, *scheduled)
    return replace(manifests.snapshot, problems=problems)


def _by_key(manifests: ManifestSet) -> dict[str, Mapping[str, Any]]:
    """Return the manifests of the node classes, and of the Provisioners with classes of their own, by kind and name."""
    listed = (one for plural in (*NODE_CLASS_RESOURCES, "provisioners") for one in manifests.lists.get(plural, ()))
    return {f"{one.get('kind')}/{one['metadata']['name']}": one for one in listed}


def plan_snapshot(
    request: PlanRequest, snapshot: Snapshot, found: LoadedCatalogue, classes: Mapping[str, ResolvedNodeClass]
) -> Plan:
    """Return the plan for a snapshot, with the request's deadline and seed."""
    effort = Effort(seconds=request.deadline, seed=request.seed, clock=time.perf_counter)
    return plan(
        snapshot,
        found.catalogue,
        classes=classes,
        ceilings=request.limits.ceilings,
        effort=effort,
        tolerances=request.limits.tolerances,
        policies=request.limits.policies,
    )


def add_unplanned_pods(made: Plan, snapshot: Snapshot) -> Plan:
    """Add the pods that the planner leaves out, as pending pods with the reason."""
    reported = {one.pod for one in made.pending}
    reported.update(*(node.pods for node in made.nodes), *(one.pods for one in made.existing))
    more = [
        PendingPod(pod.key, (Reason("", why),))
        for pod in snapshot.pods
        if pod.key not in reported and (why := _reason_not_planned(pod))
    ]
    return replace(made, pending=tuple(sorted((*made.pending, *more), key=lambda one: one.pod)))


def _reason_not_planned(pod: Pod) -> str:
    """Return why the planner leaves out a pod without a node; empty if the pod needs no node."""
    if pod.node_name or pod.terminal or pod.deletion or pod.stays_with_node:
        return ""
    if pod.gates:
        return f"it has scheduling gates: {', '.join(pod.gates)}; its scheduler ignores it until they are removed"
    if pod.nominated_node:
        return f"it waits for pods to leave node {pod.nominated_node}, which its scheduler preempts for it"
    if pod.constraints.scheduler != "default-scheduler":
        return f"its schedulerName is {pod.constraints.scheduler}, which Joiner does not plan for"
    return "no new node would make it schedulable"


def problem_lines(problems: Sequence[InvalidManifest], where: Mapping[str, str]) -> list[str]:
    """Return one line for each problem, with the file of its object."""
    return [
        f"{where[one.object]}: {one}" if one.object in where and where[one.object] not in one.object else str(one)
        for one in problems
    ]
