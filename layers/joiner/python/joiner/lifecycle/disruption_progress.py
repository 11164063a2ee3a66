"""A disruption under way: whether its nodes may be retired, must wait for their replacements, or stay.

    marked ▸ replacements initialized ▸ retirement requested ▸ claims deleted

Source: Karpenter, core `pkg/controllers/disruption/queue.go`. The nodes carry the taint `karpenter.sh/disrupted` and
their claims the condition `DisruptionReason` from the mark on. The taint is written first, then the pods of the node
are listed again, and the condition is written only if all of them have a place. A node without both was not marked
completely: an execution stopped in between, or could not undo a mark, and a pod without a place may run there. Until
the retirement of a node begins, everything can be undone: the taint and the condition are removed, and the pods are
still there.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from joiner.cluster import InvalidField, Pod
from joiner.item_keys import OF_DISRUPTIONS
from joiner.lifecycle.emptiness import holds_node
from joiner.lifecycle.failed_claims import failure_reason
from joiner.lifecycle.retirement import DISRUPTION_REASON, RetirementReason
from joiner.pools import NodeClaim

REPLACEMENT_SECONDS: Final = 600
"""Time in which the replacements must be initialized, from the mark on: the shortest that Karpenter allows."""

RETIRED_WITHIN: Final = 120
"""Seconds in which a requested retirement begins. It waits a minute at most for the lease."""

REFUSALS: Final = 3
"""Requests whose retirement the API server refused, after which the nodes stay. Those for which no execution gets the
lease do not count: the replacements run, and would be launched again."""

REQUESTS: Final = 30
"""Requests after which the nodes stay if the retirement did not begin, whatever the cause. They are made for an hour at
least. The time is not compared: while Joiner is paused, nothing is requested."""

RETIREMENT_REASONS: Final[Mapping[str, RetirementReason]] = {
    "Drifted": RetirementReason.DRIFTED,
    "Expired": RetirementReason.AGED,
    "Rebalance": RetirementReason.RECOMMENDED,
}
"""The reason of the retirement, by the reason of the disruption; all others are consolidation."""


class DisruptionUnderWay(Protocol):
    """What the ledger has recorded about one disruption (`joiner.adapters.disruption_items.DisruptionRecord`)."""

    @property
    def claims(self) -> tuple[str, ...]:
        """Return the names of the claims to remove."""

    @property
    def replacements(self) -> tuple[str, ...]:
        """Return the names of the claims that replace them."""

    @property
    def since(self) -> int:
        """Return when its nodes were marked, in epoch seconds."""

    @property
    def deadline(self) -> int:
        """Return until when replacements must be initialized, in epoch seconds."""

    @property
    def requests(self) -> int:
        """Return how often the retirement of the claims was requested."""

    @property
    def requested_at(self) -> int:
        """Return when it was last requested, in epoch seconds."""

    @property
    def refusals(self) -> int:
        """Return for how many of the requests the API server refused the retirement."""

    @property
    def written(self) -> bool:
        """Return whether the replacements were written as claims."""

    @property
    def launched(self) -> Collection[str]:
        """Return the names of the replacements that had an instance."""

    @property
    def unreadable(self) -> str:
        """Return why its record cannot be read; then only its readable claims are known."""


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What no claim shows about the replacements.

    `never_launched` names the claims that were written and that no execution launches any more. `ending` gives, for
    claims that are being deleted, the reason of their retirement if it is known. `paused`: Joiner was paused when the
    nodes were marked or their replacements launched.
    """

    never_launched: Collection[str] = ()
    ending: Mapping[str, RetirementReason] = field(default_factory=dict)
    paused: bool = False


NO_FACTS: Final = LaunchFacts()


@dataclass(frozen=True, slots=True)
class Finished:
    """All its claims are deleted or gone."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Its replacements are not initialized yet; if `requested`, the requested retirement has not begun yet."""

    why: str
    requested: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """These claims may be retired: all replacements run."""

    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """These claims stay. `failed` if a replacement failed, or the retirement did not begin; then the pool waits before
    its next disruption."""

    claims: tuple[str, ...]
    why: str
    failed: bool


Verdict = Finished | Waiting | Due | Undone


def judge_disruption(
    record: DisruptionUnderWay,
    claims: Mapping[str, NodeClaim],
    tainted: Collection[str],
    now: datetime,
    facts: LaunchFacts = NO_FACTS,
) -> Verdict:
    """Return what becomes of a disruption.

    `claims` are all claims of the cluster by name, `tainted` names the claims whose nodes carry the taint.
    """
    at = int(now.timestamp())
    left = tuple(name for name in record.claims if name in claims and not claims[name].deleting)
    if record.unreadable:
        return Undone(left, f"the record of its disruption cannot be read: {record.unreadable}", failed=False)
    if not left:
        return Finished()
    if record.requests:
        marked = tuple(name for name in left if _is_marked(record, claims[name], tainted))
        return _judge_requested(record, left, marked, at)
    if unmarked := [name for name in left if not _is_marked(record, claims[name], tainted)]:
        return Undone(left, f"{unmarked[0]} was not marked completely", failed=False)
    if facts.paused and not _goes_on(record, claims, facts):  # the pause may last for days
        return Undone(left, "Joiner is paused", failed=False)
    return _judge_replacements(record, left, claims, at, facts)


def _goes_on(record: DisruptionUnderWay, claims: Mapping[str, NodeClaim], facts: LaunchFacts) -> bool:
    """Return whether a disruption goes on during a pause: all its replacements are launched. Nothing is launched then,
    and no retirement begins."""
    lost = (
        name in facts.never_launched or not (name in claims or name in record.launched) for name in record.replacements
    )
    return bool(record.replacements) and not any(lost)


def _judge_replacements(
    record: DisruptionUnderWay, left: tuple[str, ...], claims: Mapping[str, NodeClaim], at: int, facts: LaunchFacts
) -> Verdict:
    if unwritten := [name for name in record.replacements if not record.written and name not in claims]:
        return Undone(left, f"replacement {unwritten[0]} was not written", failed=False)
    lost = (_why_lost(name, claims.get(name), record, facts) for name in record.replacements)
    if why := next(filter(None, lost), ""):
        return Undone(left, why, failed=True)
    waiting = [name for name in record.replacements if not claims[name].initialized]
    if not waiting:
        return Due(left)
    if at >= record.deadline:
        minutes = REPLACEMENT_SECONDS // 60
        return Undone(left, f"replacement {waiting[0]} was not initialized within {minutes} minutes", failed=True)
    return Waiting(f"replacement {waiting[0]} is not initialized")


def _is_marked(record: DisruptionUnderWay, claim: NodeClaim, tainted: Collection[str]) -> bool:
    """Return whether this disruption marked the node completely; an earlier one may have left its condition."""
    condition = claim.conditions[DISRUPTION_REASON]
    mine = condition.since is None or condition.since.timestamp() >= record.since
    return claim.name in tainted and condition.true and mine


def _judge_requested(record: DisruptionUnderWay, left: tuple[str, ...], marked: tuple[str, ...], at: int) -> Verdict:
    """Judge a disruption whose retirement was requested. Nodes without the mark were refused: they stay."""
    if not marked:
        return Undone(left, "the retirement was refused, and its taint was removed", failed=False)
    if at < record.requested_at + RETIRED_WITHIN:
        return Waiting("the retirement was requested and has not begun", requested=True)
    if record.refusals >= REFUSALS:
        return Undone(left, f"the API server refused {REFUSALS} requests to begin the retirement", failed=True)
    if record.requests >= REQUESTS:
        return Undone(left, f"the retirement did not begin after {REQUESTS} requests", failed=True)
    return Due(marked)


def _why_lost(name: str, claim: NodeClaim | None, record: DisruptionUnderWay, facts: LaunchFacts) -> str:
    """Return why a replacement will not run; empty if it may."""
    if claim is None and name in record.launched:
        return f"replacement {name} was launched and is gone: its claim was deleted, or its instance ended"
    if claim is None:
        return f"replacement {name} could not be launched"
    if why := failure_reason(claim):
        return f"replacement {name} failed: {why}"
    if claim.deleting:
        return _why_deleted(name, facts.ending.get(name))
    return f"replacement {name} was not launched" if name in facts.never_launched else ""


def _why_deleted(name: str, reason: RetirementReason | None) -> str:
    match reason:
        case None | RetirementReason.DELETED:
            return f"replacement {name} was deleted"
        case RetirementReason.LOST:
            return f"the instance of replacement {name} ended"
        case RetirementReason.NEVER_JOINED:
            return f"the node of replacement {name} did not join"
    return f"replacement {name} is retired ({reason})"


def retirement_reason(reason: str) -> RetirementReason:
    """Return the reason of the retirement that follows a disruption.

    >>> retirement_reason("Drifted").value, retirement_reason("Underutilized").value
    ('drifted', 'consolidated')
    """
    return RETIREMENT_REASONS.get(reason, RetirementReason.CONSOLIDATED)


def back_off_id(pool: str) -> str:
    """Return the id of the back-off of a pool (by key) whose replacement failed.

    >>> back_off_id("NodePool/default")
    'disruption#NodePool/default'
    """
    return OF_DISRUPTIONS + pool


def as_disrupted(claim: NodeClaim, reason: str, message: str, *, at: datetime) -> NodeClaim:
    """Return the claim of a node that was chosen for disruption; the condition begins now."""
    before = claim.without_condition(DISRUPTION_REASON)
    return before.with_condition(DISRUPTION_REASON, "True", reason, message[:512], at=at)


def as_kept(claim: NodeClaim) -> NodeClaim | None:
    """Return the claim of a node that stays after all; None if nothing changes."""
    there = any(condition.type == DISRUPTION_REASON for condition in claim.conditions)
    return claim.without_condition(DISRUPTION_REASON) if there else None


def find_unplaced_pod(node: str, manifests: Iterable[Mapping[str, Any]], moves: Collection[str]) -> str:
    """Return which pod has no place in the plan because it was bound to a node before the taint; empty if none.

    `manifests` are the pods of the node after the taint, `moves` the keys of the pods that have a place elsewhere.
    """
    for manifest in manifests:
        try:
            pod = Pod.from_kube(manifest)
        except InvalidField as invalid:
            return f"a pod on node {node} cannot be read: {invalid}"
        if holds_node(pod) and pod.key not in moves:
            return f"pod {pod.key} was bound to node {node} meanwhile"
    return ""
