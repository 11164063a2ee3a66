"""Events of retirements: on the node, on its claim, and on the evicted pods."""

import re
from collections.abc import Iterable
from typing import Final

from joiner.cluster import Node
from joiner.lifecycle.boot_failures import ENDED_AT_LAUNCH, BootFailure
from joiner.lifecycle.drain_blockers import list_remedies
from joiner.lifecycle.draining import DrainingPod
from joiner.lifecycle.node_health import describe_condition, find_bad_conditions
from joiner.lifecycle.retirement import RetirementReason, RetiringClaim
from joiner.names import DO_NOT_DISRUPT, DRAIN, TERMINATION_FINALIZER, TERMINATION_TIMESTAMP
from joiner.pools import NodeClaim
from joiner.reporting.events import Event, Subject

CODE: Final = re.compile(r"(Client|Server)\.[\w.]+\w")  # an error code in EC2's StateReason

WHY = {
    RetirementReason.EMPTY: "it is empty",
    RetirementReason.CONSOLIDATED: "its pods fit on other or cheaper nodes",
    RetirementReason.DRIFTED: "it differs from what its pool or node class describes",
    RetirementReason.EXPIRED: "it has reached the age limit of its pool (expireAfter)",
    RetirementReason.AGED: "it has reached the age limit of its pool (expireAfter), and its replacement runs",
    RetirementReason.SURPLUS: "its pool has more nodes than its replicas",
    RetirementReason.DELETED: "it was deleted",
    RetirementReason.LOST: "its instance is gone",
    RetirementReason.SPOT: "its spot instance is about to be interrupted",
    RetirementReason.UNHEALTHY: "its node is unhealthy",
    RetirementReason.IMPAIRED: "EC2's status checks of its instance have failed for two minutes",
    RetirementReason.RESERVATION: "its capacity reservation is about to be reclaimed",
    RetirementReason.MAINTENANCE: "AWS has scheduled maintenance, a stop or the retirement of its instance",
    RetirementReason.REBALANCE: "EC2 recommends to replace its spot instance, and its pool drains such nodes",
    RetirementReason.RECOMMENDED: "EC2 recommends to replace its spot instance, and its replacement runs",
    RetirementReason.NEVER_JOINED: "its node never joined",
    RetirementReason.UNINSTALLED: "Joiner is being uninstalled (joiner uninstall --nodes drain)",
}

NEVER_READY: Final = "its node joined and never became ready for pods"
"""Why a claim whose node registered is retired for the reason NEVER_JOINED."""


def report_ended_at_launch(claim: NodeClaim, message: str) -> list[Event]:
    """Return the events of an instance that ended at its launch, on the claim and on its pool, if it has one."""
    legacy = claim.kind == "Machine"
    kind, version = ("Provisioner", "karpenter.sh/v1alpha5") if legacy else ("NodePool", "karpenter.sh/v1")
    pool = Subject(version, kind, claim.pool, claim.pool_uid)
    news = CODE.search(message)
    own = Event(Subject.claim(claim), ENDED_AT_LAUNCH, "Launch", message, "Warning")
    if not claim.pool:
        return [own]
    # Instances that end for the same reason get one event, so the news omits their ids
    return [own, Event(pool, ENDED_AT_LAUNCH, "Launch", message, "Warning", news=news.group() if news else message)]


def report_boot_failure(claim: NodeClaim, failure: BootFailure) -> Event:
    """Return the event of an instance whose node never registered."""
    return Event(Subject.claim(claim), failure.reason, "Register", failure.message, "Warning")


def report_retirement(claim: NodeClaim, node: Node | None, reason: RetirementReason) -> list[Event]:
    """Return the events of a retirement that begins: no more pods are scheduled."""
    never_ready = reason is RetirementReason.NEVER_JOINED and claim.registered
    note = f"Retiring: {NEVER_READY if never_ready else WHY[reason]}"
    if reason is RetirementReason.UNHEALTHY and node is not None:
        note += f" ({'; '.join(map(describe_condition, find_bad_conditions(node)))})"
    events = [Event(Subject.claim(claim), "DisruptionTerminating", "Retire", note)]
    return events + ([Event(Subject.node(node), "DisruptionTerminating", "Retire", note)] if node is not None else [])


def report_beginning(
    claim: NodeClaim | None,
    node: Node | None,
    reason: RetirementReason,
    launch_failure: str,
    boot_failure: BootFailure | None,
) -> list[Event]:
    """Return the events of a retirement that begins, and of the failure of an instance whose node never registered.

    `launch_failure` is EC2's reason for an instance that ended at its launch; it replaces the boot failure. There is no
    event without a claim.
    """
    if claim is None:
        return []
    events = report_retirement(claim, node, reason)
    if launch_failure:
        return events + report_ended_at_launch(claim, launch_failure)
    return events + ([report_boot_failure(claim, boot_failure)] if boot_failure else [])


def report_refused_taint(claim: NodeClaim | None, node: Node, refusal: str) -> list[Event]:
    """Return the events of a node that never registered and that cannot be tainted.

    The cluster refuses the taint, so the instance is terminated without a drain.
    """
    note = (
        f"Node {node.name} never registered. Its instance is terminated without a drain, because the "
        f"cluster refuses to taint it: {refusal}"
    )
    subjects = [Subject.node(node), *([Subject.claim(claim)] if claim is not None else [])]
    return [Event(subject, "FailedDraining", "Retire", note, "Warning") for subject in subjects]


def report_evicted(pod: DrainingPod, node: str) -> Event:
    """Return the event of an evicted pod."""
    subject = Subject("v1", "Pod", pod.name, pod.uid, pod.namespace)
    return Event(subject, "Evicted", "Evict", f"Evicted from node {node}, which is being retired")


def report_rollout(pod: DrainingPod, deployment: str) -> Event:
    """Return the event of a pod whose Deployment is restarted instead of an eviction."""
    subject = Subject("v1", "Pod", pod.name, pod.uid, pod.namespace)
    note = f"Deployment {deployment} is restarted: the new pod is available before this one leaves its retiring node"
    return Event(subject, "RolloutRestarted", "Restart", note)


def report_no_rollout(pod: DrainingPod, why: str) -> Event:
    """Return the event of a pod that asks for a rollout and is evicted."""
    subject = Subject("v1", "Pod", pod.name, pod.uid, pod.namespace)
    note = f"Evicted although {DRAIN} asks for a rollout: {why}"
    return Event(subject, "RolloutNotPossible", "Evict", note[:1024], "Warning")


def report_invalid_protection(pod: DrainingPod) -> list[Event]:
    """Return the event of an evicted pod whose annotation against disruption has a value without meaning."""
    if not pod.invalid_protection:
        return []
    subject = Subject("v1", "Pod", pod.name, pod.uid, pod.namespace)
    note = (
        f"The annotation {DO_NOT_DISRUPT}: {pod.invalid_protection[:64]!r} did not protect this pod: "
        "set true, or a duration such as 2h30m"
    )
    return [Event(subject, "InvalidDoNotDisruptAnnotation", "Evict", note, "Warning")]


def report_deleted(pod: DrainingPod, node: str, grace: int) -> Event:
    """Return the event of a pod that is deleted, because it would run past the deadline."""
    subject = Subject("v1", "Pod", pod.name, pod.uid, pod.namespace)
    note = f"Deleted with a grace period of {grace} s: node {node} must be drained by its deadline"
    return Event(subject, "Evicted", "Delete", note, "Warning")


def report_blocked_drain(retiring: RetiringClaim, claim: NodeClaim | None, blockers: Iterable[str]) -> list[Event]:
    """Return the events of a drain that is blocked, with the reasons and their remedies.

    The note names at most three reasons, so that it stays the same while these do.
    """
    shown = sorted(blockers)[:3]
    note = f"Drain is blocked: {'; '.join(shown)}"
    if remedies := list_remedies(shown):
        deadline = f"annotate {retiring.kind.lower()} {retiring.claim} {TERMINATION_TIMESTAMP}=TIME"
        example = "TIME in UTC, such as 2026-12-31T18:00:00Z"
        limit = f"; or set a time after which it is drained in any case: kubectl {deadline}, {example}"
        limit = limit if retiring.kind else ""
        note = f"{note}. To go on: {'; '.join(remedies)}{limit}"
    return _both(retiring, claim, "FailedDraining", note, "Warning")


def report_detaching(retiring: RetiringClaim, claim: NodeClaim | None, volumes: Iterable[str]) -> list[Event]:
    """Return the events of a drained node whose volumes are not detached yet."""
    return _both(
        retiring, claim, "AwaitingVolumeDetachment", f"Waits for volumes: {', '.join(sorted(volumes)[:5])}", "Normal"
    )


def report_terminating(retiring: RetiringClaim, claim: NodeClaim | None) -> list[Event]:
    """Return the events of an instance that is terminated next."""
    return _both(
        retiring, claim, "InstanceTerminating", f"Drained; instance {retiring.instance} is terminated", "Normal"
    )


def report_unreleased(claim: NodeClaim, reason: str) -> Event:
    """Return the event of a claim whose instance is gone, and whose finalizer the API server does not let go."""
    note = (
        f"Its instance is gone, and the API server refused to remove the finalizer {TERMINATION_FINALIZER}: {reason}. "
        "It is tried again, and nothing else waits for it"
    )
    return Event(Subject.claim(claim), "ClaimNotDeleted", "Retire", note, "Warning")


def report_kept_by_others(claim: NodeClaim) -> list[Event]:
    """Return the event of a claim that Joiner has released and that finalizers of other controllers keep.

    The finalizers of the API server's own garbage collector are left out: they end with the claim's Node.
    """
    others = [each for each in claim.finalizers if each != TERMINATION_FINALIZER and "/" in each]
    if not others:
        return []
    kept = f"Finalizers of other controllers keep it: {', '.join(others)}"
    note = f"Its instance is gone, and Joiner has released it. {kept}"
    return [Event(Subject.claim(claim), "ClaimNotDeleted", "Retire", note[:1024])]


def _both(retiring: RetiringClaim, claim: NodeClaim | None, reason: str, note: str, kind: str) -> list[Event]:
    subjects = [Subject("v1", "Node", retiring.node, retiring.node)] if retiring.node else []
    subjects += [Subject.claim(claim)] if claim is not None else []
    return [
        Event(subject, reason, "Retire", note, "Warning" if kind == "Warning" else "Normal") for subject in subjects
    ]
