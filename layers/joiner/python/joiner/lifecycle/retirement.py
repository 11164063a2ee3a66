"""Retiring a claim: from the taint on its node until both are deleted; the stages, and when a retirement may begin.

    draining ▸ drained ▸ terminating ▸ terminated ▸ forgotten

Source: Karpenter, core `pkg/controllers/node/termination` and `nodeclaim/lifecycle/termination`. The state
is always read again: a stage is only what one execution knows about a claim. If that execution stops, another one
starts from the first stage.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Pod
from joiner.lifecycle.emptiness import find_disturbance, is_empty
from joiner.lifecycle.failed_claims import failure_reason
from joiner.lifecycle.node_health import find_bad_conditions
from joiner.pools import NodeClaim
from joiner.pools.disruption_protection import ignores_pods
from joiner.pools.retiring_nodes import DRAINED, ENDS_SOON, SOON, find_drain_limit
from joiner.pools.timestamps import format_timestamp

RETIRED_AT_ONCE: Final = 100
"""Maximum of claims in one execution; the next one retires the others. All entries are one result; 256 KiB hold about
250 of the longest.
"""

VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"

DISRUPTION_REASON: Final = "DisruptionReason"
"""The condition of a claim whose node was chosen for disruption; its reason is the reason of the disruption."""

WHY_LIMIT: Final = 300
"""Characters: the reasons of 100 claims are passed between states, and a state's data is limited to 256 KB."""

KNOWN_TO_EC2_AFTER: Final = 300
"""Seconds after its launch from which an instance that EC2 does not know is gone."""

STILL_LAUNCHED: Final = "it may still be launched"
"""An objection that ends by itself within seconds: the outcome of the launch will be on the claim."""


class RetirementReason(StrEnum):
    """The reason of a retirement, as given by its requester."""

    EMPTY = "empty"
    CONSOLIDATED = "consolidated"
    DRIFTED = "drifted"
    EXPIRED = "expired"
    AGED = "aged"
    SURPLUS = "surplus"
    DELETED = "deleted"
    LOST = "lost"
    IMPAIRED = "impaired"
    SPOT = "spot"
    RESERVATION = "reservation"
    MAINTENANCE = "maintenance"
    REBALANCE = "rebalance"
    RECOMMENDED = "recommended"
    NEVER_JOINED = "never-joined"
    UNHEALTHY = "unhealthy"
    UNINSTALLED = "uninstalled"

    @property
    def urgency(self) -> int:
        """Return the urgency: of several reasons, the one with the highest applies."""
        return len(BY_URGENCY) - BY_URGENCY.index(self)


BY_URGENCY: Final = (
    RetirementReason.LOST,
    RetirementReason.IMPAIRED,
    RetirementReason.SPOT,
    RetirementReason.RESERVATION,
    RetirementReason.MAINTENANCE,
    RetirementReason.UNHEALTHY,
    RetirementReason.DELETED,
    RetirementReason.UNINSTALLED,
    RetirementReason.NEVER_JOINED,
    RetirementReason.REBALANCE,
    RetirementReason.RECOMMENDED,
    RetirementReason.EXPIRED,
    RetirementReason.AGED,
    RetirementReason.DRIFTED,
    RetirementReason.SURPLUS,
    RetirementReason.CONSOLIDATED,
    RetirementReason.EMPTY,
)

EVENTUAL: Final = frozenset({RetirementReason.DRIFTED, RetirementReason.AGED, RetirementReason.RECOMMENDED})
"""Reasons that pods can only delay if the claim has a terminationGracePeriod, as in Karpenter."""

OF_A_DISRUPTION: Final = frozenset({RetirementReason.CONSOLIDATED, *EVENTUAL})
"""Reasons of nodes that DISRUPT chose within the budgets, and whose replacements run. They hold while the nodes have
its mark, the taint and the condition DisruptionReason: without them, the disruption was undone."""


class RetirementStage(StrEnum):
    """The stage of a retirement."""

    DRAINING = "draining"
    DRAINED = "drained"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class RetirementRequest:
    """A claim whose retirement was requested. `not_before` is its earliest time (epoch seconds, 0 for now)."""

    claim: str
    reason: RetirementReason
    instance: str = ""
    not_before: int = 0

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "RetirementRequest":
        """Read one claim of an execution's input. ValueError for an unknown reason."""
        reason, not_before = RetirementReason(raw["reason"]), int(raw.get("notBefore") or 0)
        return cls(str(raw["claim"]), reason, str(raw.get("instance") or ""), not_before)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        reason = str(self.reason)
        return {"claim": self.claim, "reason": reason, "instance": self.instance, "notBefore": self.not_before}


@dataclass(frozen=True, slots=True)
class RetiringClaim:
    """One claim that is being retired, as passed between states.

    `uid` is that of the claim, empty if it was gone when the retirement began: another claim may get its name.
    `since` is the start, `launched` the launch of its instance, `emptied` the time when its last pod was seen gone, and
    `closed_at` the time when this execution saw its node tainted (epoch seconds, 0 for unknown or not yet). `opened_at`
    is the time since which each pass found its node without the taint and without pods, 0 if it is tainted. `restarted`
    are the pods whose Deployments were restarted, by the first characters of their uids. `refused_at`: when the API
    server last refused all evictions of a pass (epoch seconds, 0 if it granted one since).
    """

    claim: str
    reason: RetirementReason
    _: KW_ONLY
    kind: str = ""
    uid: str = ""
    instance: str = ""
    node: str = ""
    since: int = 0
    launched: int = 0
    emptied: int = 0
    closed_at: int = 0
    opened_at: int = 0
    stage: RetirementStage = RetirementStage.DRAINING
    why: str = ""
    restarted: tuple[str, ...] = ()
    refused_at: int = 0

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "RetiringClaim":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            claim=str(raw["claim"]),
            reason=RetirementReason(raw["reason"]),
            kind=str(raw.get("kind") or ""),
            uid=str(raw.get("uid") or ""),
            instance=str(raw.get("instance") or ""),
            node=str(raw.get("node") or ""),
            since=int(raw.get("since") or 0),
            launched=int(raw.get("launched") or 0),
            emptied=int(raw.get("emptied") or 0),
            closed_at=int(raw.get("closed_at") or 0),
            opened_at=int(raw.get("opened_at") or 0),
            stage=RetirementStage(raw["stage"]),
            why=str(raw.get("why") or ""),
            restarted=tuple(map(str, raw.get("restarted") or ())),
            refused_at=int(raw.get("refused_at") or 0),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "claim": self.claim,
            "reason": str(self.reason),
            "kind": self.kind,
            "uid": self.uid,
            "instance": self.instance,
            "node": self.node,
            "since": self.since,
            "launched": self.launched,
            "emptied": self.emptied,
            "stage": str(self.stage),
            "why": self.why,
            **({"closed_at": self.closed_at} if self.closed_at else {}),
            **({"opened_at": self.opened_at} if self.opened_at else {}),
            **({"restarted": list(self.restarted)} if self.restarted else {}),
            **({"refused_at": self.refused_at} if self.refused_at else {}),
        }

    def find_mismatch(self, instance: str, owners: Collection[str]) -> str:
        """Return whose the node of this claim's node name is, as a sentence; empty if it is the claim's node.

        Names come from private IP addresses, which EC2 uses again. A node without an instance id (`instance` is empty)
        belongs to the claim that is one of its `owners`.
        """
        if not self.instance or instance == self.instance or (not instance and self.claim in owners):
            return ""
        whose = f"instance {instance}" if instance else "no instance of this claim"
        return f"node {self.node} belongs to {whose} now"

    def is_its_node(self, provider_id: str, name: str) -> bool:
        """Return whether a node belongs to the claim's instance; without an instance, whether it has the name of the
        claim's node.
        """
        if self.instance:
            return provider_id.rpartition("/")[2] == self.instance
        return bool(self.node) and name == self.node

    def at(self, stage: RetirementStage, why: str = "") -> "RetiringClaim":
        """Return the claim with this stage and reason."""
        return replace(self, stage=stage, why=why[:WHY_LIMIT])

    def lost(self, why: str) -> "RetiringClaim":
        """Return the claim after the loss of its instance: nothing remains to drain."""
        return replace(self.at(RetirementStage.DRAINED, why), reason=RetirementReason.LOST)

    def found(self, why: str) -> "RetiringClaim":
        """Return the claim after EC2 showed its instance: its node is drained like that of a deleted claim."""
        return replace(self.at(RetirementStage.DRAINING, why), reason=RetirementReason.DELETED)

    def unknown_is_gone(self, now: datetime) -> bool:
        """Return whether its instance is gone if EC2 does not know it.

        For a retirement that began without claim and node, nothing depends on the answer: usually another retirement
        finished. If EC2 shows the instance after all, it has no claim, and the sweep collects it.
        """
        forgotten = not self.kind and not self.node
        return forgotten or now.timestamp() - (self.launched or self.since) >= KNOWN_TO_EC2_AFTER


@dataclass(frozen=True, slots=True)
class RetirementContext:
    """The input of the decision to begin.

    `now` is the time of the reading, `launching` are claims that may still be launched, `pods` those of the nodes
    concerned, `slots` the number of pods that an assignment still expects on a claim's node, `kept_for` the pods that
    will soon need an empty node, by its name, and `over_budget` the empty nodes that the budgets of their pools do not
    allow any more, by claim, with the reason, and `kept_by_pool` those that their pools keep. `needed` are claims of
    static pools that are no surplus any more, with the reason.
    """

    now: datetime
    pods: tuple[Pod, ...] = ()
    launching: frozenset[str] = frozenset()
    slots: Mapping[str, int] = field(default_factory=dict)
    kept_for: Mapping[str, str] = field(default_factory=dict)
    over_budget: Mapping[str, str] = field(default_factory=dict)
    kept_by_pool: Mapping[str, str] = field(default_factory=dict)
    needed: Mapping[str, str] = field(default_factory=dict)


def is_voluntary(reason: RetirementReason, claim: NodeClaim | None) -> bool:
    """Return whether the retirement is optional: then pods can prevent it, and it needs the lease.

    An expired NodeClaim must be retired regardless of its pods; if its pool replaces such nodes gracefully, DISRUPT
    chooses it (AGED). An expired Machine stays for pods that must not be evicted.
    """
    if reason is not RetirementReason.EXPIRED:
        return reason in (RetirementReason.EMPTY, RetirementReason.SURPLUS, *OF_A_DISRUPTION)
    return claim is not None and claim.kind == "Machine"


def find_objection(
    reason: RetirementReason, claim: NodeClaim | None, node: Node | None, world: RetirementContext
) -> str:
    """Return why the retirement may not begin now; empty if it may."""
    if claim is None:
        gone_already = (RetirementReason.EMPTY, RetirementReason.EXPIRED, RetirementReason.SURPLUS, *OF_A_DISRUPTION)
        return "its claim is gone" if reason in gone_already else ""
    if not claim.launched and claim.name in world.launching:
        return STILL_LAUNCHED
    if why := _recovered(reason, claim, node) or _undone(reason, claim, node) or world.needed.get(claim.name, ""):
        return why
    if claim.deleting or node is None or not is_voluntary(reason, claim):
        return ""
    pods = () if reason in EVENTUAL and ignores_pods(claim) else world.pods
    consolidated = (names.DO_NOT_CONSOLIDATE,) if reason is RetirementReason.CONSOLIDATED else ()
    annotations = (names.DO_NOT_DISRUPT, *consolidated)
    slots = world.slots.get(claim.name, 0)
    why = find_disturbance(claim, node, pods, slots=slots, now=world.now, annotations=annotations)
    if why or reason is not RetirementReason.EMPTY:
        return why
    kept = world.kept_by_pool.get(claim.name, "") or world.over_budget.get(claim.name, "")
    return _landed(node, world.pods) or _wanted(node, world.kept_for) or kept


def _recovered(reason: RetirementReason, claim: NodeClaim, node: Node | None) -> str:
    """Return how the reason ended meanwhile; empty if it holds."""
    if reason is RetirementReason.NEVER_JOINED and claim.registered and not (claim.deleting or failure_reason(claim)):
        return "its node joined"
    if reason is RetirementReason.UNHEALTHY and node is not None and not (claim.deleting or find_bad_conditions(node)):
        return "its node is healthy again"
    return ""


def _undone(reason: RetirementReason, claim: NodeClaim, node: Node | None) -> str:
    """Return that the disruption of the node is no longer under way; empty if it is, or is not the reason."""
    if reason not in OF_A_DISRUPTION or claim.deleting or is_marked(claim, node):
        return ""
    return "its node has no mark of a disruption any more"


def is_marked(claim: NodeClaim, node: Node | None) -> bool:
    """Return whether DISRUPT has marked the claim and its node, if there is one."""
    return claim.conditions.true(DISRUPTION_REASON) and (node is None or node.has_taint(names.DISRUPTED))


def _landed(node: Node, pods: Iterable[Pod]) -> str:
    return "" if is_empty(node, pods) else "its node is not empty"


def _wanted(node: Node, kept_for: Mapping[str, str]) -> str:
    return f"pod {kept_for[node.name]} has to move and may want its node" if node.name in kept_for else ""


def first_stage(reason: RetirementReason, instance: str, node: Node | None) -> RetirementStage:
    """Return the first stage of a retirement: without a node there is nothing to drain."""
    if node is not None and reason is not RetirementReason.LOST:
        return RetirementStage.DRAINING
    return RetirementStage.DRAINED if instance else RetirementStage.TERMINATED


def drain_deadline(claim: NodeClaim | None, noted: int) -> datetime | None:
    """Return until when its node may drain: the recorded time (epoch seconds, 0 for none) or the claim's limit,
    whichever is earlier.
    """
    limits = [datetime.fromtimestamp(noted, UTC) if noted else None, find_drain_limit(claim) if claim else None]
    return min((limit for limit in limits if limit is not None), default=None)


def as_draining(claim: NodeClaim, blockers: Iterable[str], *, at: datetime, until: datetime | None = None) -> NodeClaim:
    """Return the claim while its node is drained; ``until`` is the deadline of the drain, if it has one."""
    reason = ENDS_SOON if until is not None and until - at <= SOON else "Draining"
    return claim.with_condition(DRAINED, "Unknown", reason, "; ".join(blockers)[:512], at=at)


def as_detaching(claim: NodeClaim, volumes: Iterable[str], *, at: datetime) -> NodeClaim:
    """Return the claim of a drained node while volumes are being detached."""
    drained = claim.with_condition(DRAINED, "True", DRAINED, at=at)
    return drained.with_condition(
        VOLUMES_DETACHED, "Unknown", "AwaitingVolumeDetachment", "; ".join(volumes)[:512], at=at
    )


def as_terminating(claim: NodeClaim, *, in_time: bool, at: datetime) -> NodeClaim:
    """Return the claim whose instance is terminated next.

    `in_time`: volumes were detached before the deadline.
    """
    drained = claim.with_condition(DRAINED, "True", DRAINED, at=at)
    if in_time:
        detached = drained.with_condition(VOLUMES_DETACHED, "True", VOLUMES_DETACHED, at=at)
    else:
        detached = drained.with_condition(VOLUMES_DETACHED, "False", "TerminationGracePeriodElapsed", at=at)
    return detached.with_condition(INSTANCE_TERMINATING, "True", INSTANCE_TERMINATING, at=at)


def with_deadline(claim: NodeClaim, reason: RetirementReason, ends_at: int = 0) -> NodeClaim | None:
    """Return the deleted claim with its drain deadline; None if it already has one or nothing sets a limit.

    An unhealthy node has no time to drain: its pods are deleted, because their evictions may never end. `ends_at` is
    the recorded deadline (epoch seconds, or 0). It is written only if it is near: then room for pods that nothing else
    ends is launched at once, and a later one may still change.
    """
    grace = 0 if reason is RetirementReason.UNHEALTHY else claim.termination_grace_period
    if claim.deletion is None or names.TERMINATION_TIMESTAMP in claim.annotations:
        return None
    limits = [claim.deletion + timedelta(seconds=grace)] if grace is not None else []
    if ends_at and (recorded := datetime.fromtimestamp(ends_at, UTC)) - claim.deletion <= SOON:
        limits.append(recorded)
    if not limits:
        return None
    moment = format_timestamp(min(limits))
    return replace(claim, annotations={**claim.annotations, names.TERMINATION_TIMESTAMP: moment})
