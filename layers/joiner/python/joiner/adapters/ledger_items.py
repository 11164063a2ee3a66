"""Items of the ledger's table, as values. Each partition contains one kind of item; each class names its writers.

`kind` is the partition key, so that IAM can scope each function's role by ``dynamodb:LeadingKeys``. Times are whole
seconds since the epoch, as DynamoDB's TTL counts them; `rungAt`, `storedAt` and `readsAt` are milliseconds.
"""

import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Final

from joiner.adapters.item_attributes import Item, _typed, number, text, texts
from joiner.item_keys import OF_VALIDATIONS
from joiner.lifecycle.class_verdicts import ClassVerdict, refusals_from_json
from joiner.lifecycle.failed_writes import NONE_FAILED, FailedWrites

UNSEEN_FOR: Final = 180
"""Seconds without a check by its owner after which a retirement counts as unattended. An owner checks at least once a
minute, and a check can be retried.
"""

STORED_AFTER: Final = 0.5
"""Seconds. The API server calls the webhook before it stores the object. A function that reads earlier sees the old
state and is not called again. If the call itself takes longer, the sweep finds the missed change.
"""


def yet_unstored(stored_at: float, now: datetime) -> float:
    """Return the seconds until the change behind a ring can be read: 0 if it can be read now, at most twice
    `STORED_AFTER`, because clocks differ.

    >>> now = datetime.fromisoformat("1970-01-01T00:01:40+00:00")
    >>> yet_unstored(100.25, now), yet_unstored(99.0, now), yet_unstored(900.0, now)
    (0.25, 0.0, 1.0)
    """
    return min(max(stored_at - now.timestamp(), 0.0), 2 * STORED_AFTER)


class LeaseLost(Exception):  # the state machine catches the error by this name
    """Another execution holds the lease, or the lease has another number: the caller must not write any more."""


@dataclass(frozen=True, slots=True)
class DoorbellSecrets:
    """The valid secrets of the doorbell's path. Written by the installer, which rotates them in two steps.

    `following` is set before the webhook gets it, and becomes `current` when the webhook has it. `previous` is valid
    until `previous_until` (epoch), because API servers learn of a changed webhook at different times.
    """

    current: str = ""
    following: str = ""
    previous: str = ""
    previous_until: int = 0

    @classmethod
    def of(cls, item: Item) -> "DoorbellSecrets":
        """Read an item of the table."""
        return cls(text(item, "value"), text(item, "following"), text(item, "previous"), number(item, "previousUntil"))

    def accept(self, token: str, now: datetime) -> bool:
        """Return whether `token` is one of the secrets that are valid at `now`. An empty token is never valid."""
        valid = [self.current, self.following, *([self.previous] if now.timestamp() < self.previous_until else [])]
        return any(secret and hmac.compare_digest(secret.encode(), token.encode()) for secret in valid)

    def __repr__(self) -> str:
        return "DoorbellSecrets(...)"  # keeps the secrets out of logs and tracebacks


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to plan and launch. Written by the state machine (take, release), by each function under it (renew) and
    by rings.

    `holder` is the holder's execution ARN, empty when the lease is free. `rings` never decreases. `stored_at` is the
    time (epoch) at which the changes behind all rings can usually be read, 0 if no ring came before its change was
    stored. `launches_ended` is the last round of several launches that have all ended (``<lease number>/<round>``).
    """

    holder: str
    number: int
    until: int
    rings: int
    stored_at: float = 0.0
    launches_ended: str = ""

    def is_held(self, now: int) -> bool:
        """Return whether an execution holds the lease at `now`.

        >>> Lease("arn:x", 3, until=100, rings=0).is_held(now=99), Lease("", 3, until=0, rings=7).is_held(now=99)
        (True, False)
        """
        return bool(self.holder) and self.until > now

    @classmethod
    def of(cls, item: Item) -> "Lease":
        """Read an item of the table; `storedAt` is in milliseconds there."""
        return cls(
            text(item, "holder"),
            number(item, "leaseNumber"),
            number(item, "leaseUntil"),
            number(item, "rings"),
            number(item, "storedAt") / 1000,
            text(item, "launchesEnded"),
        )


def read_failed_writes(item: Item) -> FailedWrites:
    """Read the failed writes of an item; none if it was written before they were recorded."""
    return FailedWrites(number(item, "failedTries"), number(item, "failedSince"), number(item, "failedAt"))


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One CreateFleet request: its exact bytes, stored before they are sent. Written by launch_instances; `recorded` by
    record_launches.

    `details` is the rest of the launch (JSON text of `joiner.launching.Launch` without its request): templates, images,
    prices.
    """

    id: str
    request: str
    token: str
    _: KW_ONLY
    claims: tuple[str, ...]
    lease_number: int
    execution: str
    details: str = ""
    closed: bool = False
    outcome: str = ""
    recorded: bool = False
    counted: tuple[str, ...] = ()
    """The claims of which record_launches has reported the outcome, if it could not write that of others."""
    failed_writes: FailedWrites = NONE_FAILED
    unreadable: str = ""
    """Why the item cannot be read. Only its id and its readable claims are known then."""

    def waits(self, now: int, claims: Collection[str]) -> bool:
        """Return whether nothing is to be done for it at `now`: writes failed and are not due again, and the claims for
        which they failed are among `claims`, those that exist. When they are gone, it is recorded.
        """
        return self.failed_writes.wait(now) and set(self.claims).difference(self.counted) <= set(claims)

    @classmethod
    def of(cls, item: Item) -> "LaunchRecord":
        """Read an item of the table. ValueError if its request or its details are not JSON."""
        for name in ("request", "details"):
            if stored := text(item, name):
                json.loads(stored)
        return cls(
            id=text(item, "id"),
            request=text(item, "request"),
            token=text(item, "token"),
            claims=texts(item, "claims"),
            lease_number=number(item, "leaseNumber"),
            execution=text(item, "execution"),
            details=text(item, "details"),
            closed=text(item, "state") == "closed",
            outcome=text(item, "outcome"),
            recorded=bool(_typed(item, "recorded", "BOOL", False)),
            counted=texts(item, "counted"),
            failed_writes=read_failed_writes(item),
        )

    @classmethod
    def of_unreadable(cls, item: Item, reason: str) -> "LaunchRecord":
        """Return a record for a launch whose item cannot be read. It protects the launch's instances and claims from
        garbage collection.
        """
        try:
            claims = texts(item, "claims")
        except ValueError:
            claims = ()
        return cls(str(item["id"]["S"]), "", "", claims=claims, lease_number=0, execution="", unreadable=reason)


@dataclass(frozen=True, slots=True)
class Pairing:
    """An instance of a claim, and the launch that created it: empty if this deployment did not launch it. Written by
    launch_instances, and by survey_instances for claims that it sees without a record.
    """

    instance: str
    claim: str
    launch: str

    @classmethod
    def of(cls, item: Item) -> "Pairing":
        """Read an item of the table."""
        return cls(instance=text(item, "id"), claim=text(item, "claim"), launch=text(item, "launch"))


@dataclass(frozen=True, slots=True)
class Assignment:
    """The pod classes of a claim, and the number of pods of each. Written under the lease only; each write raises
    `version`.
    """

    claim: str
    classes: Mapping[str, int]
    version: int
    lease_number: int
    failed_writes: FailedWrites = NONE_FAILED
    """Deletions of its claim that failed."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """The retirement of a claim's node: reasons, deadline and owner. Written by begin_retirement (owner, attempt),
    handle_interruption (reason, deadline), survey_instances (a loss; removes an owner that no longer runs), the
    functions that act for the owner (`seen_at`; terminate_instances withdraws a wrongly reported loss) and forget_nodes
    (deletes).

    `owner` is an execution's ARN, empty without an owner. `seen_at` is the owner's last check, 0 if unknown. `attempt`
    counts the executions that have begun since one of its pods left, and `progressed_at` is the time of a pass in which
    one left, 0 if none did; it is written at most once a minute. `deadline` is 0 without a deadline and only becomes
    earlier. `back_off_until` is the time until which the claim may stay without an owner
    (`joiner.lifecycle.retirement_back_off`). `ends_by` is the time by which the owner has ended in any case, 0 for an
    owner whose state can be queried. `launch_failure` is EC2's reason for an instance that ended at its launch, and
    `state_reason` its StateReason if it ended otherwise, both written by handle_interruption and survey_instances.
    `noted_at` is the time of the last noted interruption, 0 if none. `instance` is the instance of that interruption,
    else that of the claim when its retirement began. `console` is where survey_instances stored the console output of
    an instance whose node never registered, and the cause that it gives; `console_reads` counts the reads of that
    output.
    """

    claim: str
    _: KW_ONLY
    owner: str = ""
    attempt: int = 0
    progressed_at: int = 0
    reasons: tuple[str, ...] = ()
    deadline: int = 0
    since: int = 0
    seen_at: int = 0
    back_off_until: int = 0
    ends_by: int = 0
    launch_failure: str = ""
    state_reason: str = ""
    noted_at: int = 0
    instance: str = ""
    console: str = ""
    console_reads: int = 0

    def attended(self, now: int) -> bool:
        """Return whether an owner attends to the retirement at `now`.

        >>> owned = Retirement("a", owner="arn:x", seen_at=100)
        >>> owned.attended(280), owned.attended(281)
        (True, False)
        >>> Retirement("a", owner="arn:x", seen_at=100, ends_by=120).attended(121)
        False
        """
        seen = not self.seen_at or now - self.seen_at <= UNSEEN_FOR
        return bool(self.owner) and seen and (not self.ends_by or now <= self.ends_by)

    @classmethod
    def of(cls, item: Item) -> "Retirement":
        """Read an item of the table."""
        return cls(
            claim=text(item, "id"),
            owner=text(item, "owner"),
            attempt=number(item, "attempt"),
            progressed_at=number(item, "progressedAt"),
            reasons=texts(item, "reasons"),
            deadline=number(item, "deadline"),
            since=number(item, "since"),
            seen_at=number(item, "seenAt"),
            back_off_until=number(item, "backOffUntil"),
            ends_by=number(item, "endsBy"),
            launch_failure=text(item, "launchFailure"),
            state_reason=text(item, "stateReason"),
            noted_at=number(item, "notedAt"),
            instance=text(item, "instance"),
            console=text(item, "console"),
            console_reads=number(item, "consoleReads"),
        )


@dataclass(frozen=True, slots=True)
class OfferingKey:
    """The key of an offering with insufficient capacity, as the ledger stores it.

    >>> OfferingKey("spot", "m5.large", "us-east-1a").id
    'spot#m5.large#us-east-1a'
    """

    capacity_type: str
    instance_type: str
    zone: str

    @property
    def id(self) -> str:
        """Return the key as the id of an item: ``CAPACITY-TYPE#TYPE#ZONE``."""
        return f"{self.capacity_type}#{self.instance_type}#{self.zone}"

    @classmethod
    def of(cls, text_id: str) -> "OfferingKey":
        """Read the id of an item. ValueError if it has not three parts."""
        capacity_type, instance_type, zone = text_id.split("#")
        return cls(capacity_type, instance_type, zone)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """An offering that is not requested again before `until`. Written by launch_instances, record_launches and
    handle_interruption.
    """

    offering: OfferingKey
    until: int
    reason: str

    @classmethod
    def of(cls, item: Item) -> "Unavailable":
        """Read an item of the table."""
        return cls(OfferingKey.of(text(item, "id")), number(item, "until"), text(item, "reason"))


@dataclass(frozen=True, slots=True)
class BackOff:
    """A back-off: the number of consecutive failures, the time before which it is not tried again, and the reason.

    Its id says of what. A node class or an offering whose instances ended at their launch
    (`joiner.lifecycle.immediate_terminations.back_off_id_of_class`, `OfferingKey`): written by handle_interruption
    and survey_instances, and that of a class deleted by check_registration when a node with the image of the last
    failure becomes ready. A pool whose replacements failed (``disruption#`` and the pool's key): written by
    settle_disruptions. Items with the prefix ``validation#`` are verdicts (`read_class_verdict`). That a pool launches
    no node for a pod class is an item of another kind (`joiner.adapters.pool_hold_records`).
    """

    id: str
    tries: int
    until: int
    reason: str

    @classmethod
    def of(cls, item: Item) -> "BackOff":
        """Read an item of the table."""
        return cls(text(item, "id"), number(item, "tries"), number(item, "until"), text(item, "reason"))


def read_class_verdict(item: Item) -> tuple[str, ClassVerdict]:
    """Read what dry runs showed about a node class, with the key of the class. Written by launch_instances."""
    refusals = refusals_from_json(json.loads(text(item, "refusals") or "[]"))
    key = text(item, "id").removeprefix(OF_VALIDATIONS)
    return key, ClassVerdict(text(item, "digest"), refusals, number(item, "at"))


@dataclass(frozen=True, slots=True)
class Wave:
    """One execution that waits for nodes. Written by record_launches, its token by the state machine, its rings by the
    doorbell. The claims that it waits for are an item of their own, because DynamoDB bills each write of an item by its
    whole size, and the doorbell writes this one for each node.

    `planned` counts the pods assigned to the nodes that opened so far, `placed` those of them that check_registration
    bound. `rung_at` is the time of the last ring (epoch).
    """

    name: str
    execution: str
    rings: int
    seen_at: int
    planned: int = 0
    placed: int = 0
    rung_at: float = 0.0

    @classmethod
    def of(cls, item: Item) -> "Wave":
        """Read an item of the table."""
        return cls(
            name=text(item, "id"),
            execution=text(item, "execution"),
            rings=number(item, "rings"),
            seen_at=number(item, "seenAt"),
            planned=number(item, "planned"),
            placed=number(item, "placed"),
            rung_at=number(item, "rungAt") / 1000,
        )
