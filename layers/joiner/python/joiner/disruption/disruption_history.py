"""What is known about earlier surveys and disruptions, and no list of the API server shows."""

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Final

from joiner.pools import NodeClaim
from joiner.pools.timestamps import format_timestamp

OVERDUE_SECONDS: Final = 120
"""Replacements that have been launched for so long and are not initialized are overdue: other nodes are disrupted, as
if they did not come."""


def is_overdue(claim: NodeClaim, now: datetime) -> bool:
    """Return whether the node of a claim is overdue, a replacement or not."""
    onset = find_onset(claim)
    return onset is not None and onset <= now


def find_onset(claim: NodeClaim) -> datetime | None:
    """Return from when on the node of a claim is overdue; None if it is initialized or not launched."""
    since = claim.conditions["Launched"].since
    booting = claim.launched and not claim.initialized
    return since + timedelta(seconds=OVERDUE_SECONDS) if booting and since is not None else None


@dataclass(frozen=True, slots=True)
class SeenPods:
    """The pods of one node as the last sweep saw them: their digest, and the time of the last event (epoch seconds); 0
    if no event was seen."""

    digest: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class DisruptionHistory:
    """Earlier disruptions and running ones. Without a ledger everything is empty, which restricts nothing.

    ``pod_events``: key of a claim -> when a pod last came to its node or left it (``disruption.pod_events``). The time
    in the claim's own status and the start of each pod count as well.
    ``disrupting``: names of claims that a running execution disrupts or retires.
    ``evictions``: key of a pool -> pods that consolidation moved off its nodes in the last 24 hours.
    ``oldest_evictions``: key of a pool -> when the oldest of them was.
    ``moves``: workload (``disruption_candidates.workload_of``) -> when a disruption last moved a pod of it, in
    the last 24 hours.
    ``recommended``: name of a claim -> when EC2 recommended to replace its Spot Instance, in epoch seconds.
    ``back_off``: key of a pool -> until when none of its nodes is replaced, and it launches no replacement, because a
    replacement failed.
    ``awaited``: key of a pool -> until when the same holds, because replacements of its nodes, or in it, are overdue.
    ``closed_pools``: key of a pool -> why it cannot launch a node now (``pools.closed_pools``).
    ``last_reason``: the reason of the first action of the last proposal that had one; empty if there is none.
    ``replaced_first``: keys of pools whose outdated nodes are replaced before nodes of them are consolidated.
    """

    _: KW_ONLY
    pod_events: Mapping[str, datetime] = field(default_factory=dict)
    disrupting: Collection[str] = frozenset()
    evictions: Mapping[str, int] = field(default_factory=dict)
    oldest_evictions: Mapping[str, datetime] = field(default_factory=dict)
    moves: Mapping[str, datetime] = field(default_factory=dict)
    recommended: Mapping[str, int] = field(default_factory=dict)
    back_off: Mapping[str, datetime] = field(default_factory=dict)
    awaited: Mapping[str, datetime] = field(default_factory=dict)
    closed_pools: Mapping[str, str] = field(default_factory=dict)
    last_reason: str = ""
    replaced_first: Collection[str] = frozenset()

    def waits(self, pool: str, now: datetime) -> str:
        """Return why no node of the pool (by key) is replaced now, and none launched in it, or an empty text."""
        for ends, what in ((self.back_off, "replacements failed"), (self.awaited, "replacements are overdue")):
            until = ends.get(pool)
            if until is not None and until > now:
                return f"{what}: {pool} waits until {format_timestamp(until)}"
        return ""

    def closed(self, claim: NodeClaim) -> str:
        """Return why the pool of the claim cannot replace its node, or an empty text."""
        if claim.pool_key in self.replaced_first:
            return f"the outdated nodes of {claim.pool_key} are replaced first"
        why = self.closed_pools.get(claim.pool_key, "")
        return f"{claim.pool_key} cannot launch a node: {why}" if why else ""


NO_HISTORY = DisruptionHistory()
