"""The ledger of Joiner: one DynamoDB table with consistent reads and conditional writes.

Every rule that prevents two executions from doing the same work is the condition of a write, in this module or in that
of a kind of items.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from joiner import item_keys
from joiner.adapters.dynamodb_table import TRANSACTION, ConditionFailed
from joiner.adapters.failed_write_records import FailedWriteRecords
from joiner.adapters.item_attributes import Item, number, text
from joiner.adapters.launch_records import LaunchRecords
from joiner.adapters.ledger_items import (
    Assignment,
    BackOff,
    DoorbellSecrets,
    Lease,
    LeaseLost,
    OfferingKey,
    Unavailable,
    read_class_verdict,
    read_failed_writes,
)
from joiner.adapters.pairing_records import PairingRecords
from joiner.adapters.pool_hold_records import PoolHoldRecords
from joiner.adapters.wave_records import WaveRecords
from joiner.lifecycle.class_verdicts import ClassVerdict, refusals_to_json
from joiner.lifecycle.launch_back_off import BACK_OFF_RESET_AFTER, extend_back_off, extend_class_back_off

VERDICT_KEPT: Final = 3600  # seconds, longer than a verdict is of use
ASSIGN: Final = "SET classes = :classes, leaseNumber = :number ADD version :one"
NOT_LATER: Final = "attribute_not_exists(leaseNumber) OR leaseNumber <= :number"


class Ledger(LaunchRecords, PairingRecords, PoolHoldRecords, WaveRecords, FailedWriteRecords):
    """The ledger of one deployment."""

    # The lease

    def lease(self) -> Lease:
        """Return the lease; free and number 0 before its first holder."""
        return self._lease_of(self._get(item_keys.LEASE, item_keys.SCALE_UP))

    def ring(self, stored_at: float = 0.0) -> Lease:
        """Count one ring; return the lease after it, so that the caller sees whether an execution holds it.

        `stored_at` is the time (epoch) from which the change behind the ring can be read, if that is still in the
        future.
        """
        if not stored_at:
            return self._lease_of(self._update(item_keys.LEASE, item_keys.SCALE_UP, "ADD rings :one", {":one": 1}))
        values = {":one": 1, ":at": round(stored_at * 1000)}
        return self._lease_of(
            self._update(item_keys.LEASE, item_keys.SCALE_UP, "ADD rings :one SET storedAt = :at", values)
        )

    def renew(self, holder: str, lease_number: int, until: int) -> Lease:
        """Extend the lease until `until`; `LeaseLost` unless `holder` still holds it under this number."""
        try:
            return self._lease_of(
                self._update(
                    item_keys.LEASE,
                    item_keys.SCALE_UP,
                    "SET leaseUntil = :until",
                    {":until": until, ":holder": holder, ":number": lease_number},
                    condition="holder = :holder AND leaseNumber = :number",
                )
            )
        except ConditionFailed as reason:
            raise LeaseLost(f"lease {lease_number} is no longer held by {holder}") from reason

    def break_lease(self, holder: str, lease_number: int) -> bool:
        """Take the lease from a holder that no longer runs; return False if the lease changed meanwhile."""
        return self._try_update(
            item_keys.LEASE,
            item_keys.SCALE_UP,
            "REMOVE holder, leaseUntil",
            {":holder": holder, ":number": lease_number},
            condition="holder = :holder AND leaseNumber = :number",
        )

    def _lease_of(self, item: Item) -> Lease:
        """Raise UnreadableRecord if the lease cannot be read: nothing is planned under an unreadable lease."""
        return self._read_one(item_keys.LEASE, item, Lease.of)

    # Assignments

    def assign(self, claim: str, classes: Mapping[str, int], lease_number: int) -> None:
        """Write the pod classes of a claim; `LeaseLost` if a later lease wrote already."""
        try:
            self._update(item_keys.ASSIGNMENT, claim, ASSIGN, _assigned(classes, lease_number), condition=NOT_LATER)
        except ConditionFailed as reason:
            raise LeaseLost(f"the assignment of {claim} was rewritten after lease {lease_number}") from reason

    def assign_all(self, wanted: Mapping[str, Mapping[str, int]], lease_number: int) -> None:
        """Write the assignments of many claims as `assign` does, a hundred in one request."""
        claims = sorted(wanted)
        for start in range(0, len(claims), TRANSACTION):
            part = claims[start : start + TRANSACTION]
            values = {claim: _assigned(wanted[claim], lease_number) for claim in part}
            if not self._update_together(item_keys.ASSIGNMENT, ASSIGN, values, condition=NOT_LATER):
                for claim in part:
                    self.assign(claim, wanted[claim], lease_number)

    def assignments(self) -> dict[str, Assignment]:
        """Return every assignment, by claim."""
        listed = self._read(item_keys.ASSIGNMENT, self._query(item_keys.ASSIGNMENT), _assignment)
        return {each.claim: each for each in listed}

    def unassign(self, claim: str, lease_number: int | None = None) -> None:
        """Delete an assignment that is complete or whose claim is deleted. An assignment written under a later lease
        than `lease_number` stays.
        """
        if lease_number is None:
            self._delete(item_keys.ASSIGNMENT, claim)
        else:
            self._try_delete(item_keys.ASSIGNMENT, claim, condition=NOT_LATER, values={":number": lease_number})

    # Unavailable offerings

    def mark_unavailable(self, offering: OfferingKey, until: int, reason: str) -> None:
        """Exclude `offering` from requests before `until`. A mark with a later end is kept."""
        self._try_update(
            item_keys.UNAVAILABLE,
            offering.id,
            "SET #until = :until, reason = :reason, expires = :until",
            {":until": until, ":reason": reason},
            condition="attribute_not_exists(#until) OR #until < :until",
            names={"#until": "until"},
        )

    def unavailable(self, now: int) -> list[Unavailable]:
        """Return the marks that are valid at `now`."""
        return [
            mark
            for mark in self._read(item_keys.UNAVAILABLE, self._query(item_keys.UNAVAILABLE), Unavailable.of)
            if mark.until > now
        ]

    # Back-off after failed launches

    def back_off(self, what: str, reason: str, now: int, *, launched: int | None = None, image: str = "") -> BackOff:
        """Count one instance that ended at its launch, and make the back-off longer than the last one. Several failures
        within one back-off count once. With `launched`, the launch of the instance, `what` is a node class, which waits
        from the second failure in a row on; `image` is the instance's.
        """
        before = self._get_or_default(item_keys.BACKOFF, what, BackOff.of, BackOff(what, 0, 0, ""))
        tries, until = (
            extend_back_off(before.tries, before.until, now)
            if launched is None
            else extend_class_back_off(before.tries, before.until, now, launched=launched)
        )
        if until == before.until:
            return before
        values = {
            ":tries": tries,
            ":until": until,
            ":reason": reason,
            ":image": image,
            ":expires": until + BACK_OFF_RESET_AFTER,
            ":before": before.until,
        }
        self._try_update(  # a failure that is counted concurrently started the same back-off
            item_keys.BACKOFF,
            what,
            "SET tries = :tries, #until = :until, reason = :reason, image = :image, expires = :expires",
            values,
            condition="attribute_not_exists(#until) OR #until = :before",
            names={"#until": "until"},
        )
        return BackOff(what, tries, until, reason)

    def end_back_off(self, what: str, launched: int, image: str) -> None:
        """Forget the failures of a node class if a launch after the last one and its wait (epoch seconds) succeeded
        with the same image: the images of other architectures and variants may be good.
        """
        self._try_delete(
            item_keys.BACKOFF,
            what,
            condition="#until < :launched AND (attribute_not_exists(image) OR image = :image)",
            values={":launched": launched, ":image": image},
            names={"#until": "until"},
        )

    def back_offs(self, now: int) -> dict[str, BackOff]:
        """Return the back-offs that are in effect at `now`, by class or offering."""
        listed = self._read(item_keys.BACKOFF, self._query(item_keys.BACKOFF), BackOff.of)
        return {each.id: each for each in listed if each.until > now}

    def class_holds(self, now: int) -> tuple[dict[str, BackOff], dict[str, ClassVerdict]]:
        """Return the back-offs that are in effect at `now`, and what the last dry runs of each node class (by key)
        showed, in one read.
        """
        verdicts: list[Item] = []
        others: list[Item] = []
        for each in self._query(item_keys.BACKOFF):
            (verdicts if text(each, "id").startswith(item_keys.OF_VALIDATIONS) else others).append(each)
        found = dict(self._read(item_keys.BACKOFF, verdicts, read_class_verdict))
        waits = self._read(item_keys.BACKOFF, others, BackOff.of)
        return {each.id: each for each in waits if each.until > now}, found

    def note_verdict(self, key: str, verdict: ClassVerdict) -> None:
        """Record what the dry runs of a node class showed, instead of what the earlier ones did."""
        self._update(
            item_keys.BACKOFF,
            item_keys.OF_VALIDATIONS + key,
            "SET digest = :digest, #at = :at, refusals = :refusals, expires = :expires",
            {
                ":digest": verdict.digest,
                ":at": verdict.at,
                ":refusals": json.dumps(refusals_to_json(verdict.refusals)),
                ":expires": verdict.at + VERDICT_KEPT,
            },
            names={"#at": "at"},
        )

    def disruption_back_offs(self, now: datetime) -> dict[str, datetime]:
        """Return until when each pool (by key) replaces no node, because a replacement failed."""
        listed = self.back_offs(int(now.timestamp())).items()
        return {
            key.removeprefix(item_keys.OF_DISRUPTIONS): datetime.fromtimestamp(each.until, UTC)
            for key, each in listed
            if key.startswith(item_keys.OF_DISRUPTIONS)
        }

    # The doorbell

    def doorbell_secrets(self) -> DoorbellSecrets:
        """Return the secrets that the doorbell's path may contain; none before the deployment wrote the first."""
        return DoorbellSecrets.of(self._get(item_keys.DOORBELL, item_keys.TOKEN))


def _assigned(classes: Mapping[str, int], lease_number: int) -> dict[str, Any]:
    """Return the values of `ASSIGN`."""
    listed = json.dumps([{"class": key, "count": classes[key]} for key in sorted(classes)])
    return {":classes": listed, ":number": lease_number, ":one": 1}


def _assignment(item: Item) -> Assignment:
    classes = {str(each["class"]): int(each["count"]) for each in json.loads(text(item, "classes") or "[]")}
    numbers = number(item, "version"), number(item, "leaseNumber")
    return Assignment(text(item, "id"), classes, *numbers, read_failed_writes(item))
