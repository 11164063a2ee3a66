"""Events of a plan: on each pod, its planned node and price, or the reason why it has none.

Events on pools and classes report their mistakes.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from joiner.cluster import Pod
from joiner.lifecycle.node_deadlines import registration_deadline
from joiner.planning import ExistingNode, PendingPod, Plan, PlannedNode, Reason
from joiner.pools import InvalidManifest, NodeClaim, NodeClass, ResolvedNodeClass
from joiner.pools.timestamps import format_timestamp
from joiner.reporting.events import Event, Subject

if TYPE_CHECKING:  # most functions group no launches, and start without that module
    from joiner.launching.launch_grouping import RefusedClaim

REASONS_SHOWN = 6
AMOUNT = re.compile(r"\d+(\.\d+)?")

NewNode = tuple[NodeClaim, PlannedNode]
"""A planned node and the claim that was created for it."""


def list_planned_pods(plan: Plan, new: Iterable[NewNode]) -> set[str]:
    """Return the keys of the pods that get an event of the plan."""
    existing = {key for node in plan.existing for key in node.pods}
    return existing | {key for _, node in new for key in node.pods} | {pending.pod for pending in plan.pending}


def report_plan(
    plan: Plan, new: Iterable[NewNode], pods: Mapping[str, Pod], claims: Mapping[str, NodeClaim], execution: str
) -> list[Event]:
    """Return the event of each planned pod of `pods`. `claims` are those that existed before the plan."""
    created = [
        report_new_node(pods[key], claim, node, execution) for claim, node in new for key in node.pods if key in pods
    ]
    nominated = [
        report_nominated(pods[key], node, claims.get(node.claim))
        for node in plan.existing
        for key in node.pods
        if key in pods
    ]
    unplaceable = [report_no_node(pods[pending.pod], pending) for pending in plan.pending if pending.pod in pods]
    return [*created, *nominated, *unplaceable]


def report_mistakes(
    manifests: Iterable[Mapping[str, Any]],
    problems: Collection[InvalidManifest],
    refused: "Iterable[tuple[NodeClaim, RefusedClaim]]",
) -> list[Event]:
    """Return the events of pools and classes: mistakes in their manifests, and claims that could not be created."""
    subjects = {
        f"{manifest['kind']}/{manifest['metadata']['name']}": Subject(
            manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"], manifest["metadata"].get("uid", "")
        )
        for manifest in manifests
    }
    mistakes = [
        event
        for key, subject in subjects.items()
        for event in report_invalid_manifests(subject, [problem for problem in problems if problem.object == key])
    ]
    return mistakes + [
        report_refused_claim(subjects[claim.pool_key], refusal.reason, refusal.message)
        for claim, refusal in refused
        if claim.pool_key in subjects
    ]


def report_new_node(pod: Pod, claim: NodeClaim, node: PlannedNode, execution: str) -> Event:
    """Return the event of a pod for which a node is launched."""
    price = f"${node.price_per_hour:.4f}/h"
    note = (
        f"{claim.kind} {claim.name} is made for it: {node.instance_type} in {node.zone}, "
        f"{node.capacity_type}, {price} ({execution})"
    )
    return Event(Subject.pod(pod), "TriggeredScaleUp", "ScaleUp", note, owner=Subject.owner_of(pod))


def report_nominated(pod: Pod, existing: ExistingNode, claim: NodeClaim | None = None) -> Event:
    """Return the event of a pod that fits an existing node or one that is being launched.

    ``claim`` is the claim of a node that has not joined yet, if it is known.
    """
    where = f"node {existing.node}" if existing.node else f"the node of claim {existing.claim}, which is on its way"
    deadline = registration_deadline(claim) if claim is not None and not existing.node else None
    if claim is not None and deadline is not None:
        where += f" (instance {claim.instance_id}; it is given up if it has not joined by {format_timestamp(deadline)})"
    return Event(Subject.pod(pod), "Nominated", "ScaleUp", f"It fits {where}", owner=Subject.owner_of(pod))


def report_no_node(pod: Pod, pending: PendingPod) -> Event:
    """Return the event of a pod that no plan can place, with the reason of each pool.

    Pools that have offers for such a pod come first: they are the nearest to holding it, and a long note is cut. Pools
    that the pod itself excludes come last.
    The news omits what changes every minute: the execution, the used amounts of a limit, and the nearest offering.
    Otherwise each minute would make a new event.
    """
    reasons = sorted(pending.reasons, key=lambda reason: (reason.chosen_by_pod, reason.nearest is None))
    news = AMOUNT.sub("", _reasons([str(reason) for reason in reasons]))
    note = f"No node can be made for it. {_reasons([_with_nearest(reason) for reason in reasons])}"
    return Event(
        Subject.pod(pod), "NotTriggerScaleUp", "ScaleUp", note, "Warning", news=news, owner=Subject.owner_of(pod)
    )


def _reasons(reasons: Sequence[str]) -> str:
    hidden = len(reasons) - REASONS_SHOWN
    more = f"; and {hidden} more pool{'s' if hidden > 1 else ''}" if hidden > 0 else ""
    return f"{'; '.join(reasons[:REASONS_SHOWN]) or 'there is no NodePool'}{more}"


def _with_nearest(reason: Reason) -> str:
    """Return the reason. For a pod that is too large it names the closest offering and what that lacks."""
    return f"{reason} ({reason.near})" if reason.nearest and reason.lacks else str(reason)


def report_invalid_manifests(subject: Subject, problems: Iterable[InvalidManifest]) -> list[Event]:
    """Return one event for each mistake in an object. Assumptions are only in its status."""
    return [
        Event(
            subject,
            "ValidationFailed" if each.severity == "error" else "WithoutEffect",
            "Validate",
            each.message,
            "Warning",
            lasting=True,
        )
        for each in problems
        if each.severity != "info"
    ]


def report_class_not_ready(node_class: NodeClass, resolved: ResolvedNodeClass) -> list[Event]:
    """Return one event for each AWS resource that a class names and that does not exist."""
    return [
        Event(Subject.node_class(node_class), each.reason, "Resolve", each.message, "Warning", lasting=True)
        for each in resolved.problems
        if each.severity == "error"
    ]


def report_refused_claim(subject: Subject, reason: str, message: str) -> Event:
    """Return the event of a claim that could not be created."""
    return Event(subject, reason, "ScaleUp", message, "Warning")
