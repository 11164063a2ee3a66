"""The ledger of Joiner: one DynamoDB table with consistent reads and conditional writes.

Every rule that prevents two executions from doing the same work is the condition of a write in this module.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner import item_keys
from joiner.adapters.dynamodb_table import TRANSACTION, ConditionFailed, write_with_retries
from joiner.adapters.failed_write_records import FailedWriteRecords
from joiner.adapters.item_attributes import Item, number, text, written
from joiner.adapters.item_reading import KNOWN_SCHEMA, SCHEMA_NUMBER
from joiner.adapters.ledger_items import (
    Assignment,
    BackOff,
    DoorbellSecrets,
    LaunchRecord,
    Lease,
    LeaseLost,
    OfferingKey,
    Pairing,
    Unavailable,
    read_class_verdict,
    read_failed_writes,
)
from joiner.adapters.pool_hold_records import PoolHoldRecords
from joiner.adapters.wave_records import WaveRecords
from joiner.lifecycle.class_verdicts import ClassVerdict, refusals_to_json
from joiner.lifecycle.launch_back_off import BACK_OFF_RESET_AFTER, extend_back_off, extend_class_back_off

RECORDED_KEPT: Final = 24 * 3600  # a recorded launch is only history; a day is enough to examine it
SET_CLAIM: Final = "SET claim = :claim, launch = :launch"
VERDICT_KEPT: Final = 3600  # seconds, longer than a verdict is of use
UNPAIRED: Final = "attribute_not_exists(claim) OR claim = :claim"
ASSIGN: Final = "SET classes = :classes, leaseNumber = :number ADD version :one"
NOT_LATER: Final = "attribute_not_exists(leaseNumber) OR leaseNumber <= :number"


class Ledger(PoolHoldRecords, WaveRecords, FailedWriteRecords):
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

    # Launches and their instances

    def begin_launch(self, launch: LaunchRecord) -> LaunchRecord:
        """Store a launch before it is sent, in one transaction with the check that its lease number is current.

        Returns the stored launch: this one, or the one of the same id that an earlier try stored. `LeaseLost` if the
        lease changed.
        """
        check = {
            "TableName": self._table,
            "Key": item_keys.item_key(item_keys.LEASE, item_keys.SCALE_UP),
            "ConditionExpression": "leaseNumber = :number AND holder = :holder",
            "ExpressionAttributeValues": {
                ":number": written(launch.lease_number),
                ":holder": written(launch.execution),
            },
        }
        put = {
            "TableName": self._table,
            "Item": _open_launch(launch),
            "ConditionExpression": "attribute_not_exists(id)",
        }
        try:
            write_with_retries(
                self._client.transact_write_items, TransactItems=[{"ConditionCheck": check}, {"Put": put}]
            )
        except ClientError as reason:
            if reason.response["Error"]["Code"] != "TransactionCanceledException":
                raise
            causes = [each.get("Code") for each in reason.response.get("CancellationReasons", ())]
            if causes and causes[0] == "ConditionalCheckFailed":
                raise LeaseLost(f"lease {launch.lease_number} moved on before launch {launch.id} was sent") from reason
            stored = self.launch(launch.id)
            if stored is None:
                raise
            return stored
        return launch

    def launch(self, launch_id: str) -> LaunchRecord | None:
        """Return one launch, or None."""
        return self._get_one(item_keys.LAUNCH, launch_id, LaunchRecord.of)

    def unrecorded_launches(self) -> list[LaunchRecord]:
        """Return every launch whose outcome is not yet on its claims: open launches, and those of executions that ended
        early.

        An unreadable launch is included, with the reason as its `unreadable`: its instances are not garbage, and its
        readable claims are in flight.
        """
        listed = self._query(
            item_keys.LAUNCH, keep="attribute_not_exists(recorded) OR recorded <> :yes", values={":yes": True}
        )
        found = self._read(item_keys.LAUNCH, listed, LaunchRecord.of)
        reasons = {one.id: one.reason for one in self._unreadable[item_keys.LAUNCH]}
        broken = [
            LaunchRecord.of_unreadable(item, reasons[item["id"]["S"]]) for item in listed if item["id"]["S"] in reasons
        ]
        return sorted([*found, *broken], key=lambda launch: launch.id)

    def close_launch(self, launch_id: str, outcome: str) -> str:
        """Close a launch with its outcome (JSON text). The first outcome is final; the stored outcome is returned."""
        try:
            self._update(
                item_keys.LAUNCH,
                launch_id,
                "SET #state = :closed, outcome = :outcome",
                {":closed": "closed", ":outcome": outcome, ":open": "open"},
                condition="#state = :open",
                names={"#state": "state"},
            )
        except ConditionFailed:
            stored = self.launch(launch_id)
            if stored is None:
                raise
            return stored.outcome
        return outcome

    def mark_recorded(self, launch_id: str, now: int) -> None:
        """Mark a closed launch whose outcome is on its claims. The request is removed now, the item after a day."""
        self._try_update(
            item_keys.LAUNCH,
            launch_id,
            # The request is tens of KB that each query would read.
            "SET recorded = :yes, expires = :expires REMOVE #request, #details",
            {":yes": True, ":expires": now + RECORDED_KEPT, ":closed": "closed"},
            condition="#state = :closed",
            names={"#state": "state", "#request": "request", "#details": "details"},
        )

    def pair(self, instance: str, claim: str, launch: str) -> Pairing:
        """Record the claim of an instance. The first record is final; the stored pairing is returned."""
        try:
            item = self._update(
                item_keys.INSTANCE,
                instance,
                SET_CLAIM,
                {":claim": claim, ":launch": launch},
                condition=UNPAIRED,
            )
        except ConditionFailed:
            item = self._get(item_keys.INSTANCE, instance)
        return self._read_one(item_keys.INSTANCE, item, Pairing.of)

    def pair_all(self, claims: Mapping[str, str], launch: str) -> dict[str, str]:
        """Record the claims of all instances of a launch, in one request for a hundred instances. Return the claim of
        each instance, which differs from `claims` where another one was recorded first.
        """
        found: dict[str, str] = {}
        instances = sorted(claims)
        for start in range(0, len(instances), TRANSACTION):
            part = {each: claims[each] for each in instances[start : start + TRANSACTION]}
            values = {each: {":claim": claim, ":launch": launch} for each, claim in part.items()}
            if self._update_together(item_keys.INSTANCE, SET_CLAIM, values, condition=UNPAIRED):
                found |= part
            else:
                found |= {each: self.pair(each, claim, launch).claim for each, claim in part.items()}
        return found

    def pairings(self, instances: Iterable[str]) -> dict[str, Pairing]:
        """Return the pairings of those of `instances` that Joiner launched or adopted, by instance id."""
        listed = self._get_each(item_keys.INSTANCE, instances)
        return {pairing.instance: pairing for pairing in self._read(item_keys.INSTANCE, listed, Pairing.of)}

    def forget_instance(self, instance: str) -> None:
        """Delete the record of a terminated instance. Later events about it are ignored."""
        self._delete(item_keys.INSTANCE, instance)

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


def _open_launch(launch: LaunchRecord) -> dict[str, Any]:
    """Return the item of a launch that has not been sent."""
    return {
        "kind": written(item_keys.LAUNCH),
        SCHEMA_NUMBER: written(KNOWN_SCHEMA),
        "id": written(launch.id),
        "request": written(launch.request),
        "token": written(launch.token),
        "claims": written(tuple(sorted(launch.claims))),
        "leaseNumber": written(launch.lease_number),
        "execution": written(launch.execution),
        "details": written(launch.details),
        "state": written("open"),
        "recorded": written(False),
    }
