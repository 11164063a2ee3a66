"""Items of disruptions, as values; each class names its writers. Times are whole seconds since the epoch."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime

from joiner.adapters.item_attributes import Item, number, text, texts


@dataclass(frozen=True, slots=True)
class MovedPods:
    """Pods that left the node of a claim at `at`, when its retirement had begun; kept for a day. Written by
    settle_disruptions.

    `pods` counts them by the key of the pool that they left, `workloads` names their controllers. Items of earlier
    versions are about all claims of a disruption, without `claim`.
    """

    at: int
    reason: str
    pods: Mapping[str, int]
    workloads: tuple[str, ...]
    claim: str = ""

    @classmethod
    def of(cls, item: Item) -> "MovedPods":
        """Read an item of the table."""
        pods = json.loads(text(item, "pods") or "{}")
        return cls(number(item, "at"), text(item, "reason"), pods, texts(item, "workloads"), text(item, "claim"))


@dataclass(frozen=True, slots=True)
class PodsOfClaim:
    """The pods that must move off the node of a claim, and their controllers; `pool` is the key of its pool."""

    pool: str
    pods: int
    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DisruptionRecord:
    """One disruption under way: nodes that go together, and the claims that replace them. Written by mark_nodes
    (everything but what follows) and settle_disruptions (`requests`, `requested_at`, `written`, `launched`,
    `failed_at`; deletes), `refusals` by begin_retirement.

    `execution` is the ARN of the execution that marked the nodes. `reason` is a `DisruptionReason`, `message` gives it
    with figures. `replacing_pools` are the keys of the pools of the replacements, `deadline` is the time until which
    these must be initialized. `moves` are the pods that must move, by claim; earlier versions counted those of all
    claims in `pods`, by the key of the pool that they leave, and named their controllers in `workloads`. `requests`
    counts the requests to retire the nodes, `requested_at` is the time of the last one. `refusals` counts the requests
    whose retirement the API server refused. `written`: the claims of the replacements were written. `launched` names
    the replacements that had an instance. `failed_at` is when its pools backed off, 0 if they did not.
    """

    id: str
    execution: str
    reason: str
    _: KW_ONLY
    message: str
    claims: tuple[str, ...]
    replacements: tuple[str, ...] = ()
    replacing_pools: tuple[str, ...] = ()
    since: int = 0
    deadline: int = 0
    moves: Mapping[str, PodsOfClaim] = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)
    workloads: tuple[str, ...] = ()
    requests: int = 0
    requested_at: int = 0
    failed_at: int = 0
    written: bool = False
    launched: tuple[str, ...] = ()
    refusals: int = 0
    unreadable: str = ""
    """Why the item cannot be read. Only its id and its readable claims are known then."""

    @classmethod
    def of(cls, item: Item) -> "DisruptionRecord":
        """Read an item of the table."""
        return cls(
            id=text(item, "id"),
            execution=text(item, "execution"),
            reason=text(item, "reason"),
            message=text(item, "message"),
            claims=texts(item, "claims"),
            replacements=texts(item, "replacements"),
            replacing_pools=texts(item, "replacingPools"),
            since=number(item, "since"),
            deadline=number(item, "deadline"),
            moves=_read_moves(text(item, "moves")),
            pods=json.loads(text(item, "pods") or "{}"),
            workloads=texts(item, "workloads"),
            requests=number(item, "requests"),
            requested_at=number(item, "requestedAt"),
            failed_at=number(item, "failedAt"),
            written=number(item, "writtenAt") > 0,
            launched=texts(item, "launched"),
            refusals=len(texts(item, "refused")),
        )

    @classmethod
    def of_unreadable(cls, item: Item, reason: str) -> "DisruptionRecord":
        """Return a record for a disruption whose item cannot be read: settle_disruptions opens the nodes of its
        claims."""
        try:
            claims = texts(item, "claims")
        except ValueError:
            claims = ()
        return cls(str(item["id"]["S"]), "", "Disruption", message="", claims=claims, unreadable=reason)

    def moved(self, claim: str, at: int) -> MovedPods:
        """Return the pods that leave the node of a claim at this time; of an item of an earlier version all pods."""
        mine = self.moves.get(claim)
        if mine is None:
            return MovedPods(at, self.reason, self.pods, self.workloads)
        return MovedPods(at, self.reason, {mine.pool: mine.pods}, mine.workloads, claim)


def write_moves(moves: Mapping[str, PodsOfClaim]) -> str:
    """Return the pods of each claim as an attribute of the item."""
    return json.dumps({claim: (one.pool, one.pods, one.workloads) for claim, one in moves.items()}, sort_keys=True)


def _read_moves(written: str) -> dict[str, PodsOfClaim]:
    found = json.loads(written or "{}")
    return {claim: PodsOfClaim(pool, int(pods), tuple(names)) for claim, (pool, pods, names) in found.items()}


def find_moves(
    noted: Iterable[MovedPods], under_way: Iterable[DisruptionRecord], draining: Collection[str], now: int
) -> list[MovedPods]:
    """Return the moves that limits count at `now` (epoch seconds).

    Pods on nodes that were marked, or that still drain, count as moved now: they move at any time from now on.
    `draining` are the names of the claims that are being deleted.
    """
    found = [replace(one, at=now) if one.claim in draining else one for one in noted]
    begun = {one.claim for one in found}
    return found + [record.moved(claim, now) for record in under_way for claim in record.moves if claim not in begun]


def count_evictions(moved: Iterable[MovedPods]) -> Counter[str]:
    """Return how many pods consolidation moved off the nodes of each pool (by key).

    >>> count_evictions([MovedPods(9, each, {"NodePool/a": 2}, ()) for each in ("Underutilized", "Drifted")])
    Counter({'NodePool/a': 2})
    """
    found: Counter[str] = Counter()
    for one in filter(_is_consolidated, moved):
        found.update(one.pods)
    return found


def find_oldest_evictions(moved: Iterable[MovedPods]) -> dict[str, datetime]:
    """Return when consolidation first moved a pod off a node of each pool (by key)."""
    mine = sorted(filter(_is_consolidated, moved), key=lambda each: each.at, reverse=True)
    return {pool: datetime.fromtimestamp(one.at, UTC) for one in mine for pool in one.pods}


def _is_consolidated(one: MovedPods) -> bool:
    return one.reason in ("Underutilized", "")  # items of earlier versions have no reason


def find_last_moves(moved: Iterable[MovedPods]) -> dict[str, datetime]:
    """Return when a pod of each workload was last moved, for whatever reason."""
    return {
        workload: datetime.fromtimestamp(one.at, UTC)
        for one in sorted(moved, key=lambda each: each.at)
        for workload in one.workloads
    }


@dataclass(frozen=True, slots=True)
class LastProposal:
    """The last proposal of nodes to disrupt. Written by propose_disruption.

    `digest` is that of the sweep that started DISRUPT. `idle` counts the proposals in a row without an action,
    `repeated` the proposals in a row that repeat the digest of the one before and whether it had an action, while none
    of its limits ended. `at` is the time of the proposal, `limits_end` when the first of the limits ends under which it
    was made (`joiner.disruption.ending_limits`); 0 for none. `reason` is that of the first action of the last proposal
    that had one.
    """

    digest: str = ""
    at: int = 0
    idle: int = 0
    repeated: int = 0
    limits_end: int = 0
    reason: str = ""

    @classmethod
    def of(cls, item: Item) -> "LastProposal":
        """Read an item of the table."""
        at, idle, repeated, end = (number(item, name) for name in ("at", "idle", "repeated", "limitsEnd"))
        return cls(text(item, "digest"), at, idle, repeated, end, text(item, "reason"))

    def followed_by(self, digest: str, now: int, *, reason: str, limits_end: int = 0) -> "LastProposal":
        """Return the next proposal, with the reason of its first action; without one, it has no action. The end of a
        limit counts like a change of the digest.

        >>> LastProposal("a", 0, 4, 0).followed_by("a", 9, reason="")
        LastProposal(digest='a', at=9, idle=5, repeated=1, limits_end=0, reason='')
        >>> LastProposal("a", 0, 4, 3, reason="Drifted").followed_by("b", 9, reason="")
        LastProposal(digest='b', at=9, idle=5, repeated=0, limits_end=0, reason='Drifted')
        >>> LastProposal("a", 0, 4, 3, 8).followed_by("a", 9, reason="")
        LastProposal(digest='a', at=9, idle=5, repeated=0, limits_end=0, reason='')
        """
        idle = 0 if reason else self.idle + 1
        limit_ended = 0 < self.limits_end <= now
        repeats = digest == self.digest and bool(idle) == bool(self.idle) and not limit_ended
        return LastProposal(digest, now, idle, self.repeated + 1 if repeats else 0, limits_end, reason or self.reason)
