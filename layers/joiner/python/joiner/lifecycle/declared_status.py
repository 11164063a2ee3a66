"""The conditions of pools, node classes and NodeOverlays: whether each can be used, and if not, how to fix it.

Invalid objects get conditions, too, although only their name and status can be read: their authors read the status. A
pool without a node count gets the count zero, because an empty column would not show it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from joiner.pools import (
    Conditions,
    InvalidManifest,
    NodeClaim,
    NodeClass,
    NodePool,
    ResolvedNodeClass,
    compute_pool_conditions,
)
from joiner.pools.absent_classes import TERMINATING, explain_absent_class
from joiner.pools.node_class import CLASS_API_VERSION
from joiner.pools.node_pool import PoolKind
from joiner.pools.pool_status import MESSAGE_LIMIT
from joiner.pools.registration_health import FIELD, reset_registrations, with_registration_health

POOLS = frozenset(get_args(PoolKind))
OVERLAY = "NodeOverlay"
CONFLICT = "Conflict"
CLASS_IS_DELETED = (
    "it is being deleted: nothing is launched, and it stays until its claims are gone, which its events name"
)

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StatusPatch:
    """A merge patch for the status of one object."""

    kind: str
    name: str
    changes: Manifest


def find_status_patch(
    manifest: Manifest,
    *,
    pools: Mapping[str, NodePool],
    classes: Mapping[str, ResolvedNodeClass],
    problems: Sequence[InvalidManifest],
    at: datetime,
    declared: Iterable[NodeClass] = (),
    claims: Iterable[NodeClaim] = (),
) -> StatusPatch | None:
    """Return the patch for one manifest (with its `kind`); None if its status would not change.

    Pools and resolved classes are by key (``Kind/name``). `declared` are the classes that exist, and `claims` the
    claims: they explain why a pool has no resolved class.
    """
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    key = f"{kind}/{name}"
    own = [problem for problem in problems if problem.object == key]
    present: Manifest = manifest.get("status") or {}
    before = Conditions.from_kube(present.get("conditions"))
    generation = int(manifest["metadata"].get("generation") or 0)
    if key in pools:
        pool = pools[key]
        absent = ("", "")
        if pool.class_ref.key not in classes:
            absent = _explain_absence(pool.class_ref.key, problems, declared, claims)
        changes = _of_pool(pool, own, classes, present, at, absent=absent)
    elif kind in CLASS_API_VERSION and manifest["metadata"].get("deletionTimestamp"):
        after = before.set("Ready", "False", TERMINATING, CLASS_IS_DELETED, at=at, generation=generation)
        changes = {"conditions": after.to_kube()}
    elif key in classes:
        changes = classes[key].status_to_kube(before, at=at, declared=own)["status"]
    elif kind == OVERLAY:
        changes = _of_overlay(own, before, generation, at)
    elif any(problem.severity == "error" for problem in own):
        changes = _of_broken(own, before, generation, at)
    else:
        return None  # a class that no pool names is not resolved
    if kind in POOLS and "nodes" not in present:
        return StatusPatch(kind, name, {"status": {**changes, "nodes": 0}})
    if any(present.get(field) != value for field, value in changes.items() if value or present.get(field)):
        return StatusPatch(kind, name, {"status": changes})
    return None


def _of_pool(
    pool: NodePool,
    own: Sequence[InvalidManifest],
    classes: Mapping[str, ResolvedNodeClass],
    present: Manifest,
    at: datetime,
    *,
    absent: tuple[str, str],
) -> dict[str, Any]:
    after = compute_pool_conditions(
        Conditions.from_kube(present.get("conditions")),
        problems=own,
        node_class=classes.get(pool.class_ref.key),
        class_key=pool.class_ref.key,
        absent=absent,
        generation=pool.generation,
        at=at,
        legacy=pool.legacy,
    )
    resolved = classes.get(pool.class_ref.key)
    if pool.legacy:
        return {"conditions": after.to_kube()}
    seen = {"nodeClassObservedGeneration": resolved.generation} if resolved else {}
    outcomes = reset_registrations(
        present, generation=pool.generation, class_generation=resolved.generation if resolved else None
    )
    after = with_registration_health(after, outcomes, generation=pool.generation, at=at)
    return {"conditions": after.to_kube(), **seen, FIELD: list(outcomes)}


def _explain_absence(
    key: str, problems: Sequence[InvalidManifest], declared: Iterable[NodeClass], claims: Iterable[NodeClaim]
) -> tuple[str, str]:
    own = next((one for one in declared if one.key == key), None)
    return explain_absent_class(key, own, problems, claims=sum(claim.class_ref.key == key for claim in claims))


def _of_broken(own: Sequence[InvalidManifest], before: Conditions, generation: int, at: datetime) -> dict[str, Any]:
    message = "; ".join(problem.message for problem in own if problem.severity == "error")[:MESSAGE_LIMIT]
    after = before.set("ValidationSucceeded", "False", "ValidationFailed", message, at=at, generation=generation)
    return {"conditions": after.with_ready("ValidationSucceeded", at=at, generation=generation).to_kube()}


def _of_overlay(own: Sequence[InvalidManifest], before: Conditions, generation: int, at: datetime) -> dict[str, Any]:
    """Return the conditions of a NodeOverlay. A conflict with another one concerns no single field."""
    errors = [problem for problem in own if problem.severity == "error"]
    reason = CONFLICT if any(not problem.field for problem in errors) else "RuntimeValidation"
    message = "; ".join(problem.message for problem in own)[:MESSAGE_LIMIT]
    after = before.set(
        "ValidationSucceeded",
        "False" if errors else "True",
        reason if errors else "ValidationSucceeded",
        message,
        at=at,
        generation=generation,
    )
    return {"conditions": after.with_ready("ValidationSucceeded", at=at, generation=generation).to_kube()}


def count_outdated_overlays(overlays: Sequence[Manifest]) -> int:
    """Return the number of NodeOverlays without a condition for their generation, and of those whose condition names a
    conflict with an overlay that no longer exists."""
    names = [str(manifest["metadata"]["name"]) for manifest in overlays]
    return sum(_answered(manifest) is not True or _has_old_conflict(manifest, names) for manifest in overlays)


def _has_old_conflict(manifest: Manifest, names: Sequence[str]) -> bool:
    found = Conditions.from_kube((manifest.get("status") or {}).get("conditions"))["ValidationSucceeded"]
    return found.reason == CONFLICT and not any(f"{OVERLAY}/{name} has" in found.message for name in names)


def count_unreported(pools: Iterable[Manifest], classes: Iterable[Manifest]) -> int:
    """Return the number of pools without a condition for their generation, and of classes that changed since theirs.

    >>> status = {"conditions": [{"type": "Ready", "observedGeneration": 1}]}
    >>> count_unreported([{"metadata": {"generation": 2}, "status": status}], [])
    1
    """
    answered = [_answered(manifest) for manifest in classes]
    return sum(_answered(manifest) is not True for manifest in pools) + answered.count(False)


def _answered(manifest: Manifest) -> bool | None:
    """Return whether its Ready condition is about its present generation; None if it has no such condition."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    ready = next((each for each in conditions if each.get("type") == "Ready"), None)
    return None if ready is None else ready.get("observedGeneration") == manifest["metadata"].get("generation")
