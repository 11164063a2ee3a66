"""Retiring a claim: from the taint on its node until both are gone. Which stage comes next, and what may begin at all.

    draining ▸ drained ▸ terminating ▸ terminated ▸ forgotten

Source: Karpenter, core `pkg/controllers/node/termination` and `nodeclaim/lifecycle/termination`. The truth is always
read again: a stage is only what the execution that retires knows about a claim; one that dies is continued by another,
which starts from the beginning.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Pod, Taint
from joiner.lifecycle.emptiness import find_disturbance, is_empty
from joiner.lifecycle.failed_claims import failure_reason
from joiner.pools import NodeClaim
from joiner.pools.timestamps import format_timestamp, parse_timestamp

DISRUPTED: Final = Taint(names.DISRUPTED, "NoSchedule")
EXCLUDED: Final = "karpenter"
"""The value of the label that takes a node out of load balancers; the key alone counts, and this is what Karpenter
writes.
"""

DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"

WHY_LIMIT: Final = 300
"""Characters: the reasons of a hundred claims travel between states, and a state's data end at 256 KB."""

KNOWN_TO_EC2_AFTER: Final = 300
"""Seconds after its launch from which on EC2 not knowing an instance means that it is gone."""

STILL_LAUNCHED: Final = "it may still be launched"
"""The objection that goes by itself, within seconds: what became of the launch will stand on the claim."""

VOLUMES_AWAITED: Final = timedelta(minutes=6)
"""From the last pod's end until the instance goes with volumes attached: as long as Kubernetes waits before it detaches
by force.
"""


class RetirementReason(StrEnum):
    """Why a claim is retired, as those who start a retirement say it."""

    EMPTY = "empty"
    EXPIRED = "expired"
    DELETED = "deleted"
    LOST = "lost"
    SPOT = "spot"
    NEVER_JOINED = "never-joined"
    UNINSTALLED = "uninstalled"

    @property
    def urgency(self) -> int:
        """Of several reasons the one with the highest is the one to act on: what cannot wait before what need not
        be.
        """
        return len(BY_URGENCY) - BY_URGENCY.index(self)


BY_URGENCY: Final = (
    RetirementReason.LOST,
    RetirementReason.SPOT,
    RetirementReason.DELETED,
    RetirementReason.UNINSTALLED,
    RetirementReason.NEVER_JOINED,
    RetirementReason.EXPIRED,
    RetirementReason.EMPTY,
)


class RetirementStage(StrEnum):
    """How far a retirement is."""

    DRAINING = "draining"
    DRAINED = "drained"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class RetirementRequest:
    """A claim whose retirement was asked for."""

    claim: str
    reason: RetirementReason
    instance: str = ""

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "RetirementRequest":
        return cls(str(said["claim"]), RetirementReason(said["reason"]), str(said.get("instance") or ""))


@dataclass(frozen=True, slots=True)
class RetiringClaim:
    """One claim on its way out, as the states hand it from one to the next.

    `since` is when it began, `launched` when its instance was launched, and `emptied` when its last pod was seen gone
    (epoch seconds, 0 for not known or not yet).
    """

    claim: str
    reason: RetirementReason
    kind: str = ""
    instance: str = ""
    node: str = ""
    since: int = 0
    launched: int = 0
    emptied: int = 0
    stage: RetirementStage = RetirementStage.DRAINING
    why: str = ""

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "RetiringClaim":
        return cls(
            claim=str(said["claim"]),
            reason=RetirementReason(said["reason"]),
            kind=str(said.get("kind") or ""),
            instance=str(said.get("instance") or ""),
            node=str(said.get("node") or ""),
            since=int(said.get("since") or 0),
            launched=int(said.get("launched") or 0),
            emptied=int(said.get("emptied") or 0),
            stage=RetirementStage(said["stage"]),
            why=str(said.get("why") or ""),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "reason": str(self.reason),
            "kind": self.kind,
            "instance": self.instance,
            "node": self.node,
            "since": self.since,
            "launched": self.launched,
            "emptied": self.emptied,
            "stage": str(self.stage),
            "why": self.why,
        }

    def at(self, stage: RetirementStage, why: str = "") -> "RetiringClaim":
        """The same claim, one stage on, or still there for a reason."""
        return replace(self, stage=stage, why=why[:WHY_LIMIT])

    def lost(self, why: str) -> "RetiringClaim":
        """There is nothing to drain any more."""
        return replace(self.at(RetirementStage.DRAINED, why), reason=RetirementReason.LOST)

    def found(self, why: str) -> "RetiringClaim":
        """The instance that was thought lost is there: its node is drained like any other whose claim is deleted."""
        return replace(self.at(RetirementStage.DRAINING, why), reason=RetirementReason.DELETED)

    def unknown_is_gone(self, now: datetime) -> bool:
        """Is its instance gone if EC2 does not know it?

        Where it began without claim and node nothing waits for the answer: most often another retirement came to its
        end, and an instance that EC2 shows after all is no claim's, and the sweep collects it.
        """
        forgotten = not self.kind and not self.node
        return forgotten or now.timestamp() - (self.launched or self.since) >= KNOWN_TO_EC2_AFTER


@dataclass(frozen=True, slots=True)
class RetirementContext:
    """What a decision to begin looks at. `launching` are claims that may still be launched, `pods` those of the nodes
    concerned, `slots` how many pods an assignment still counts on a claim's node for, and `kept_for` pods that will
    soon want an empty node, by its name.
    """

    pods: tuple[Pod, ...] = ()
    launching: frozenset[str] = frozenset()
    slots: Mapping[str, int] = field(default_factory=dict)
    kept_for: Mapping[str, str] = field(default_factory=dict)


def is_voluntary(reason: RetirementReason, claim: NodeClaim | None) -> bool:
    """Would nothing be wrong if it did not happen? Then it gives way to pods, and happens under the lease.

    An expired NodeClaim must go whatever runs there; an expired Machine gave way to pods that must not be evicted.
    """
    return reason is RetirementReason.EMPTY or (
        reason is RetirementReason.EXPIRED and claim is not None and claim.kind == "Machine"
    )


def find_objection(
    reason: RetirementReason, claim: NodeClaim | None, node: Node | None, world: RetirementContext
) -> str:
    """Why the retirement may not begin now; empty if it may."""
    if claim is None:
        return "its claim is gone" if reason in (RetirementReason.EMPTY, RetirementReason.EXPIRED) else ""
    if not claim.launched and claim.name in world.launching:
        return STILL_LAUNCHED
    if reason is RetirementReason.NEVER_JOINED and claim.registered and not (claim.deleting or failure_reason(claim)):
        return "its node joined"
    if claim.deleting or node is None or not is_voluntary(reason, claim):
        return ""
    if why := find_disturbance(claim, node, world.pods, slots=world.slots.get(claim.name, 0)):
        return why
    return _landed(node, world.pods) or _wanted(node, world.kept_for) if reason is RetirementReason.EMPTY else ""


def _landed(node: Node, pods: Iterable[Pod]) -> str:
    return "" if is_empty(node, pods) else "its node is not empty"


def _wanted(node: Node, kept_for: Mapping[str, str]) -> str:
    return f"pod {kept_for[node.name]} has to move and may want its node" if node.name in kept_for else ""


def first_stage(reason: RetirementReason, instance: str, node: Node | None) -> RetirementStage:
    """Where a retirement begins: nobody can be asked to leave a node that is gone, or that never was."""
    if node is not None and reason is not RetirementReason.LOST:
        return RetirementStage.DRAINING
    return RetirementStage.DRAINED if instance else RetirementStage.TERMINATED


def taint_patch(node: Node) -> dict[str, Any] | None:
    """The merge patch that closes a node to pods and takes it out of load balancers; None if that is done."""
    there = any(taint.matches(DISRUPTED) for taint in node.taints)
    if there and names.EXCLUDE_FROM_LOAD_BALANCERS in node.labels:
        return None
    taints = node.taints if there else (*node.taints, DISRUPTED)
    return _patch(node, taints, node.labels.get(names.EXCLUDE_FROM_LOAD_BALANCERS, EXCLUDED))


def untaint_patch(node: Node) -> dict[str, Any] | None:
    """The merge patch that takes both back."""
    taints = tuple(taint for taint in node.taints if not taint.matches(DISRUPTED))
    label = node.labels.get(names.EXCLUDE_FROM_LOAD_BALANCERS)
    if taints == node.taints and label != EXCLUDED:
        return None
    return _patch(node, taints, None if label == EXCLUDED else label)


def _patch(node: Node, taints: Iterable[Taint], label: str | None) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": node.resource_version, "labels": {names.EXCLUDE_FROM_LOAD_BALANCERS: label}},
        "spec": {"taints": [taint.to_kube() for taint in taints]},
    }


def drain_deadline(claim: NodeClaim | None, noted: int) -> datetime | None:
    """Until when its node may drain: what was noted (epoch seconds, 0 for nothing), or what the claim allows, whichever
    comes first.
    """
    found = [datetime.fromtimestamp(noted, UTC)] if noted else []
    if claim is not None and claim.deletion is not None and claim.termination_grace_period is not None:
        found.append(claim.deletion + timedelta(seconds=claim.termination_grace_period))
    if claim is not None:
        said = _time(claim.annotations.get(names.TERMINATION_TIMESTAMP))
        found += [said] if said is not None else []
    return min(found, default=None)


def _time(said: str | None) -> datetime | None:
    try:
        moment = parse_timestamp(said)
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def as_draining(claim: NodeClaim, blockers: Iterable[str], *, at: datetime) -> NodeClaim:
    """The claim while its node is drained."""
    return claim.with_condition(DRAINED, "Unknown", "Draining", "; ".join(blockers)[:512], at=at)


def as_detaching(claim: NodeClaim, volumes: Iterable[str], *, at: datetime) -> NodeClaim:
    """The claim whose node is drained, while volumes are being detached."""
    drained = claim.with_condition(DRAINED, "True", DRAINED, at=at)
    return drained.with_condition(
        VOLUMES_DETACHED, "Unknown", "AwaitingVolumeDetachment", "; ".join(volumes)[:512], at=at
    )


def as_terminating(claim: NodeClaim, *, in_time: bool, at: datetime) -> NodeClaim:
    """The claim whose instance is terminated next; `in_time` says that volumes were detached rather than the deadline
    over.
    """
    drained = claim.with_condition(DRAINED, "True", DRAINED, at=at)
    if in_time:
        detached = drained.with_condition(VOLUMES_DETACHED, "True", VOLUMES_DETACHED, at=at)
    else:
        detached = drained.with_condition(VOLUMES_DETACHED, "False", "TerminationGracePeriodElapsed", at=at)
    return detached.with_condition(INSTANCE_TERMINATING, "True", INSTANCE_TERMINATING, at=at)


def with_deadline(claim: NodeClaim) -> NodeClaim | None:
    """A deleted claim that says until when its node may drain, where it does not say so yet and its pool sets a
    time.
    """
    if (
        claim.deletion is None
        or claim.termination_grace_period is None
        or names.TERMINATION_TIMESTAMP in claim.annotations
    ):
        return None
    moment = format_timestamp(claim.deletion + timedelta(seconds=claim.termination_grace_period))
    return replace(claim, annotations={**claim.annotations, names.TERMINATION_TIMESTAMP: moment})
