"""The status and the events of CapacityBuffers after a plan.

Conditions are those of SIG Autoscaling, as Karpenter sets them: ``ReadyForProvisioning`` is whether the virtual pods
are known, ``Provisioning`` whether running nodes have capacity for all of them now, and ``LimitedByQuotas`` whether
limits of pools or the ceilings of the settings keep some of them without a node (absent until they do).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from joiner.planning import Plan
from joiner.planning.inputs.capacity_buffers import (
    ACTIVE_CAPACITY,
    ResolvedBuffer,
    is_buffer_pod,
)
from joiner.pools import Conditions
from joiner.pools.pool_status import MESSAGE_LIMIT
from joiner.reporting.events import Event, Subject

READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
FITS: Final = "FitsExistingCapacity"
REQUIRES_NEW: Final = "RequiresNewCapacity"
NOT_READY: Final = "NotReadyForProvisioning"
EMPTY: Final = "BufferEmpty"
LIMITED: Final = "LimitedByQuotas"
LIMITS_EXCEEDED: Final = "LimitsExceeded"
WITHIN_LIMITS: Final = "WithinLimits"
REASONS_SHOWN: Final = 3
LEFT_OUT: Final = "the template has a value that cannot be read; correct it"

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BufferPlacement:
    """Where a plan puts the virtual pods of one buffer: how many fit on running nodes and on nodes that are being
    launched, how many the plan launches nodes for (``planned``, with a description of each node), and why others have
    no node; ``limits`` are those of the reasons that are limits of pools."""

    running: int = 0
    coming: int = 0
    planned: int = 0
    nodes: tuple[str, ...] = ()
    missing: int = 0
    reasons: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


def place_buffer(buffer: ResolvedBuffer, plan: Plan) -> BufferPlacement:
    """Return where the plan puts the virtual pods of the buffer."""
    own = frozenset(buffer.pod_keys)
    if not own:
        return BufferPlacement()
    coming = sum(len(own.intersection(node.pods)) for node in plan.existing if not node.node)
    running = sum(len(own.intersection(node.pods)) for node in plan.existing if node.node)
    new = [(node, len(own.intersection(node.pods))) for node in plan.nodes]
    planned = sum(number for _, number in new)
    pending = [one for one in plan.pending if one.pod in own]
    missing = len(own) - running - coming - planned
    reasons = dict.fromkeys(str(reason) for one in pending for reason in one.reasons)
    limits = dict.fromkeys(str(reason) for one in pending for reason in one.reasons if reason.over_limit)
    if missing > len(pending):
        reasons = {f"the plan leaves out {_count(missing - len(pending))}: {LEFT_OUT}": None, **reasons}
    return BufferPlacement(
        running,
        coming,
        planned,
        tuple(f"{node.instance_type} in {node.zone}, {node.capacity_type}" for node, number in new if number),
        missing,
        tuple(reasons)[:REASONS_SHOWN],
        tuple(limits)[:REASONS_SHOWN],
    )


def buffer_status(manifest: Manifest, buffer: ResolvedBuffer, placement: BufferPlacement, at: datetime) -> Manifest:
    """Return the status of a buffer after a plan; `manifest` has its previous conditions."""
    generation = manifest["metadata"].get("generation")
    spec: Manifest = manifest.get("spec") or {}
    before = Conditions.from_kube((manifest.get("status") or {}).get("conditions"))
    problem = buffer.problem.message if buffer.problem else ""
    notes = "; ".join(each.message for each in buffer.notes)
    status, reason, message = _provisioning(buffer, placement)
    conditions = before.set(
        READY,
        "False" if buffer.problem else "True",
        buffer.reason,
        (problem or notes)[:MESSAGE_LIMIT],
        at=at,
        generation=generation,
    ).set(PROVISIONING, "True" if status else "False", reason, message[:MESSAGE_LIMIT], at=at, generation=generation)
    if placement.limits:
        limits = "; ".join(placement.limits)[:MESSAGE_LIMIT]
        conditions = conditions.set(LIMITED, "True", LIMITS_EXCEEDED, limits, at=at, generation=generation)
    elif before.true(LIMITED):
        conditions = conditions.set(LIMITED, "False", WITHIN_LIMITS, at=at, generation=generation)
    return {
        "conditions": conditions.to_kube(),
        "replicas": len(buffer.pods),
        "provisioningStrategy": spec.get("provisioningStrategy") or ACTIVE_CAPACITY,
        "podTemplateRef": {"name": buffer.template} if buffer.template else None,
        "podTemplateGeneration": buffer.template_generation,
    }


def changed_status(manifest: Manifest, status: Manifest) -> Manifest | None:
    """Return the merge patch that gives the buffer this status; None if it has it."""
    present: Manifest = manifest.get("status") or {}
    changes = {name: value for name, value in status.items() if present.get(name) != value}
    return {"status": changes} if changes else None


def report_buffer(manifest: Manifest, buffer: ResolvedBuffer, placement: BufferPlacement) -> list[Event]:
    """Return the events of a buffer: the nodes that are launched for it, and why capacity is missing."""
    if buffer.problem:
        return []  # the sweep reports it
    metadata = manifest["metadata"]
    subject = Subject(
        str(manifest.get("apiVersion") or "autoscaling.x-k8s.io/v1beta1"),
        "CapacityBuffer",
        buffer.name,
        str(metadata.get("uid") or ""),
        buffer.namespace,
    )
    events = []
    if placement.planned:
        note = f"{_count(placement.planned)} of it need new nodes: {'; '.join(placement.nodes)}"
        events.append(Event(subject, "TriggeredScaleUp", "ScaleUp", note, news=str(placement.planned)))
    if placement.missing:
        note = f"No node can be made for {_count(placement.missing)} of it. {'; '.join(placement.reasons)}"
        events.append(Event(subject, "NotTriggerScaleUp", "ScaleUp", note, "Warning", news="missing"))
    return events


def _provisioning(buffer: ResolvedBuffer, placement: BufferPlacement) -> tuple[bool, str, str]:
    """Return status, reason and message of ``Provisioning``."""
    if buffer.problem:
        return False, NOT_READY, f"{READY} names the reason"
    if not buffer.pods:
        return False, EMPTY, "its replicas, percentage or limits allow no pod"
    if placement.running == len(buffer.pods):
        return True, FITS, f"{_count(placement.running)} fit on running nodes"
    parts = [f"{placement.running} of {_count(len(buffer.pods))} fit on running nodes"]
    if placement.coming + placement.planned:
        parts.append(f"nodes are launched for {placement.coming + placement.planned}")
    if placement.missing:
        parts.append(f"no node can be made for {placement.missing}: {'; '.join(placement.reasons)}")
    return False, REQUIRES_NEW, "; ".join(parts)


def _count(number: int) -> str:
    """Return the number with its noun.

    >>> _count(1), _count(2)
    ('1 pod', '2 pods')
    """
    return f"{number} {'pod' if number == 1 else 'pods'}"


def find_buffered_claims(plan: Plan, planned: Mapping[str, str], claims: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the claims whose nodes have capacity for a buffer.

    `planned` gives the claim of each planned node by the node's name in the plan, `claims` the claim of each joined
    node by the node's name.
    """
    from_plan = {planned.get(node.name, "") for node in plan.nodes if _has_buffer(node.pods)}
    existing = {node.claim or claims.get(node.node, "") for node in plan.existing if _has_buffer(node.pods)}
    return frozenset((from_plan | existing) - {""})


def _has_buffer(pods: Sequence[str]) -> bool:
    return any(map(is_buffer_pod, pods))
