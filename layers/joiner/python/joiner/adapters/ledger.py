"""The memory of Joiner: one DynamoDB table, read consistently, written under conditions.

Every rule that keeps two executions from doing one thing twice is a condition of a write in here: nothing is read first and written after.
"""

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.adapters import ledger_items as items
from joiner.adapters.ledger_items import (
    Assignment,
    LaunchRecord,
    Lease,
    LeaseLost,
    Offering,
    Pairing,
    Unavailable,
    Wave,
    number,
    text,
    written,
)

RECORDED_KEPT: Final = 24 * 3600  # a recorded launch is history; a day is enough to ask what happened
WAVE_KEPT: Final = 24 * 3600  # a wave that nobody ended is found by the sweep long before
BATCH_GET: Final = 100  # DynamoDB's limit
TRIES: Final = 6  # of a write that met another one; a transaction holds its items for milliseconds
PAUSE: Final = (0.02, 0.2)  # seconds between them, by chance, so that those who met do not meet again


class Ledger:
    """One deployment's table."""

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table

    # The lease

    def lease(self) -> Lease:
        """The lease as it stands; free and number 0 before its first holder."""
        return Lease.of(self._get(items.LEASE, items.SCALE_UP))

    def ring(self) -> Lease:
        """Count one ring; the lease after it, so that the ringer sees whether somebody lives who will look."""
        return Lease.of(self._update(items.LEASE, items.SCALE_UP, "ADD rings :one", {":one": 1}))

    def renew(self, holder: str, lease_number: int, until: int) -> Lease:
        """Hold the lease until `until`; `LeaseLost` unless it is still `holder`'s under this number."""
        try:
            return Lease.of(
                self._update(
                    items.LEASE,
                    items.SCALE_UP,
                    "SET leaseUntil = :until",
                    {":until": until, ":holder": holder, ":number": lease_number},
                    condition="holder = :holder AND leaseNumber = :number",
                )
            )
        except _ConditionFailed as reason:
            raise LeaseLost(f"lease {lease_number} is no longer held by {holder}") from reason

    def break_lease(self, holder: str, lease_number: int) -> bool:
        """Take the lease from a holder that is known to be dead; False if it moved on meanwhile."""
        return self._try_update(
            items.LEASE,
            items.SCALE_UP,
            "REMOVE holder, leaseUntil",
            {":holder": holder, ":number": lease_number},
            condition="holder = :holder AND leaseNumber = :number",
        )

    # Launches and their instances

    def begin_launch(self, launch: LaunchRecord) -> LaunchRecord:
        """Store a launch before it is sent, in one transaction with the check that its lease number is current.

        Returns what is stored: the launch itself, or the one of the same id that an earlier try stored. `LeaseLost` if the lease moved on.
        """
        item = {
            "kind": written(items.LAUNCH),
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
        check = {
            "TableName": self._table,
            "Key": _key(items.LEASE, items.SCALE_UP),
            "ConditionExpression": "leaseNumber = :number AND holder = :holder",
            "ExpressionAttributeValues": {":number": written(launch.lease_number), ":holder": written(launch.execution)},
        }
        put = {"TableName": self._table, "Item": item, "ConditionExpression": "attribute_not_exists(id)"}
        try:
            _written_at_last(self._client.transact_write_items, TransactItems=[{"ConditionCheck": check}, {"Put": put}])
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
        """One launch, or None."""
        item = self._get(items.LAUNCH, launch_id)
        return LaunchRecord.of(item) if item else None

    def unrecorded_launches(self) -> list[LaunchRecord]:
        """Every launch whose outcome is not yet on its claims: open ones, and those that a dead holder left."""
        found = [LaunchRecord.of(item) for item in self._query(items.LAUNCH, keep="recorded = :no", values={":no": False})]
        return sorted(found, key=lambda launch: launch.id)

    def close_launch(self, launch_id: str, outcome: str) -> str:
        """End a launch with its outcome (JSON text). The first outcome stands; what stands is returned."""
        try:
            self._update(
                items.LAUNCH,
                launch_id,
                "SET #state = :closed, outcome = :outcome",
                {":closed": "closed", ":outcome": outcome, ":open": "open"},
                condition="#state = :open",
                names={"#state": "state"},
            )
        except _ConditionFailed:
            stored = self.launch(launch_id)
            if stored is None:
                raise
            return stored.outcome
        return outcome

    def mark_recorded(self, launch_id: str, now: int) -> None:
        """The outcome of a closed launch is on its claims; what was asked goes now, the item after a day."""
        self._try_update(
            items.LAUNCH,
            launch_id,
            "SET recorded = :yes, expires = :expires REMOVE #request, #details",  # tens of KB that each query would read
            {":yes": True, ":expires": now + RECORDED_KEPT, ":closed": "closed"},
            condition="#state = :closed",
            names={"#state": "state", "#request": "request", "#details": "details"},
        )

    def pair(self, instance: str, claim: str, launch: str) -> Pairing:
        """Say whose an instance is. The first word stands: the pairing that stands is returned."""
        try:
            item = self._update(
                items.INSTANCE,
                instance,
                "SET claim = :claim, launch = :launch",
                {":claim": claim, ":launch": launch},
                condition="attribute_not_exists(claim) OR claim = :claim",
            )
        except _ConditionFailed:
            item = self._get(items.INSTANCE, instance)
        return Pairing.of(item)

    def pairings(self, instances: Iterable[str]) -> dict[str, Pairing]:
        """Those of `instances` that are ours, by instance id."""
        wanted = sorted(set(instances))
        found: dict[str, Pairing] = {}
        for start in range(0, len(wanted), BATCH_GET):
            keys = [_key(items.INSTANCE, each) for each in wanted[start : start + BATCH_GET]]
            while keys:
                answer = self._client.batch_get_item(RequestItems={self._table: {"Keys": keys, "ConsistentRead": True}})
                found |= {pairing.instance: pairing for pairing in map(Pairing.of, answer["Responses"].get(self._table, ()))}
                keys = list(answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", ()))
        return found

    def all_pairings(self) -> list[Pairing]:
        """Every instance that the ledger knows."""
        return [Pairing.of(item) for item in self._query(items.INSTANCE)]

    # Assignments

    def assign(self, claim: str, classes: Mapping[str, int], lease_number: int) -> None:
        """Write which pod classes a claim is for; `LeaseLost` if a later lease wrote already."""
        listed = json.dumps([{"class": key, "count": classes[key]} for key in sorted(classes)])
        try:
            self._update(
                items.ASSIGNMENT,
                claim,
                "SET classes = :classes, leaseNumber = :number ADD version :one",
                {":classes": listed, ":number": lease_number, ":one": 1},
                condition="attribute_not_exists(leaseNumber) OR leaseNumber <= :number",
            )
        except _ConditionFailed as reason:
            raise LeaseLost(f"the assignment of {claim} was rewritten after lease {lease_number}") from reason

    def assignments(self) -> dict[str, Assignment]:
        """Every assignment, by claim."""
        return {each.claim: each for each in map(_assignment, self._query(items.ASSIGNMENT))}

    def unassign(self, claim: str, lease_number: int | None = None) -> None:
        """Drop an assignment; it is done, or its claim is gone. One that was written under a later lease than `lease_number` stays."""
        asked: dict[str, Any] = {"TableName": self._table, "Key": _key(items.ASSIGNMENT, claim)}
        if lease_number is not None:
            asked["ConditionExpression"] = "attribute_not_exists(leaseNumber) OR leaseNumber <= :number"
            asked["ExpressionAttributeValues"] = {":number": written(lease_number)}
        try:
            self._client.delete_item(**asked)
        except ClientError as reason:
            if not _is_condition(reason):
                raise

    # Offerings that were short

    def mark_unavailable(self, offering: Offering, until: int, reason: str) -> None:
        """Do not ask for `offering` before `until`. A longer mark that stands is kept."""
        self._try_update(
            items.UNAVAILABLE,
            offering.id,
            "SET #until = :until, reason = :reason, expires = :until",
            {":until": until, ":reason": reason},
            condition="attribute_not_exists(#until) OR #until < :until",
            names={"#until": "until"},
        )

    def unavailable(self, now: int) -> list[Unavailable]:
        """The marks that hold at `now`."""
        return [mark for mark in map(Unavailable.of, self._query(items.UNAVAILABLE)) if mark.until > now]

    # Waves

    def begin_wave(self, name: str, execution: str, claims: Iterable[str], now: int) -> None:
        """Say that `execution` awaits `claims`; saying it again, with more claims, keeps the rings that came meanwhile."""
        self._update(
            items.WAVE,
            name,
            "SET execution = :execution, claims = :claims, rings = if_not_exists(rings, :none), seenAt = :now, expires = :expires",
            {":execution": execution, ":claims": tuple(sorted(claims)), ":none": 0, ":now": now, ":expires": now + WAVE_KEPT},
        )

    def wave(self, name: str) -> Wave | None:
        """One wave, or None when it ended."""
        item = self._get(items.WAVE, name)
        return Wave.of(item) if item else None

    def waves(self) -> list[Wave]:
        """All waves."""
        return [Wave.of(item) for item in self._query(items.WAVE)]

    def see_wave(self, name: str, now: int) -> Wave | None:
        """The wave, noting that somebody looked at `now`; None when it ended."""
        try:
            item = self._update(items.WAVE, name, "SET seenAt = :now", {":now": now}, condition="attribute_exists(execution)")
        except _ConditionFailed:
            return None
        return Wave.of(item)

    def count_placed(self, name: str, planned: int, placed: int) -> None:
        """Add what one look placed, so that the last look can tell of the whole wave."""
        counted = {":planned": planned, ":placed": placed}
        self._try_update(items.WAVE, name, "ADD planned :planned, placed :placed", counted, condition="attribute_exists(execution)")

    def ring_wave(self, name: str) -> str:
        """Count one ring and take the sleeper's task token, in one write; empty when nobody sleeps or the wave ended."""
        try:
            answer = _written_at_last(
                self._client.update_item,
                TableName=self._table,
                Key=_key(items.WAVE, name),
                UpdateExpression="ADD rings :one REMOVE #token",
                ConditionExpression="attribute_exists(execution)",
                ExpressionAttributeNames={"#token": "token"},
                ExpressionAttributeValues={":one": written(1)},
                ReturnValues="ALL_OLD",
            )
        except ClientError as reason:
            if _is_condition(reason):
                return ""
            raise
        return text(answer.get("Attributes", {}), "token")

    def end_wave(self, name: str) -> None:
        """Nobody awaits this wave any more."""
        self._client.delete_item(TableName=self._table, Key=_key(items.WAVE, name))

    # The doorbell

    def doorbell_token(self) -> str:
        """The secret in the doorbell's path; empty before the deployment wrote it."""
        return text(self._get(items.DOORBELL, "token"), "value")

    # How the table is asked

    def _get(self, kind: str, item_id: str) -> items.Item:
        answer = self._client.get_item(TableName=self._table, Key=_key(kind, item_id), ConsistentRead=True)
        return dict(answer.get("Item", {}))

    def _query(self, kind: str, *, keep: str = "", values: Mapping[str, Any] | None = None) -> list[items.Item]:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "kind = :kind",
            "ExpressionAttributeValues": {":kind": written(kind)} | {name: written(value) for name, value in (values or {}).items()},
            "ConsistentRead": True,
        }
        if keep:
            asked["FilterExpression"] = keep
        found: list[items.Item] = []
        while True:
            page = self._client.query(**asked)
            found += page["Items"]
            if "LastEvaluatedKey" not in page:
                return found
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _update(
        self,
        kind: str,
        item_id: str,
        expression: str,
        values: Mapping[str, Any],
        *,
        condition: str = "",
        names: Mapping[str, str] | None = None,
    ) -> items.Item:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "Key": _key(kind, item_id),
            "UpdateExpression": expression,
            "ExpressionAttributeValues": {name: written(value) for name, value in values.items()},
            "ReturnValues": "ALL_NEW",
        }
        if condition:
            asked["ConditionExpression"] = condition
        if names:
            asked["ExpressionAttributeNames"] = dict(names)
        try:
            return dict(_written_at_last(self._client.update_item, **asked).get("Attributes", {}))
        except ClientError as reason:
            if _is_condition(reason):
                raise _ConditionFailed from reason
            raise

    def _try_update(self, kind: str, item_id: str, expression: str, values: Mapping[str, Any], **more: Any) -> bool:
        try:
            self._update(kind, item_id, expression, values, **more)
        except _ConditionFailed:
            return False
        return True


class _ConditionFailed(Exception):
    """The condition of a write did not hold; each caller says what that means."""


def _written_at_last(write: Callable[..., Mapping[str, Any]], **asked: Any) -> Mapping[str, Any]:
    """The answer to a write, sent again while a transaction holds its item: botocore's own retries leave that out.

    Source: Amazon DynamoDB developer guide, "Transaction conflict handling".
    """
    for _ in range(TRIES - 1):
        try:
            return write(**asked)
        except ClientError as reason:
            if not _is_conflict(reason):
                raise
        time.sleep(random.uniform(*PAUSE))  # noqa: S311 - a pause, not a secret
    return write(**asked)


def _is_conflict(reason: ClientError) -> bool:
    """Did two writes meet? A condition that failed beside it is an answer, and is not asked again."""
    if reason.response["Error"]["Code"] == "TransactionConflictException":
        return True
    causes = {each.get("Code") for each in reason.response.get("CancellationReasons", ())}
    return "TransactionConflict" in causes and "ConditionalCheckFailed" not in causes


def _is_condition(reason: ClientError) -> bool:
    return reason.response["Error"]["Code"] == "ConditionalCheckFailedException"


def _key(kind: str, item_id: str) -> dict[str, Any]:
    return {"kind": written(kind), "id": written(item_id)}


def _assignment(item: items.Item) -> Assignment:
    classes = {str(each["class"]): int(each["count"]) for each in json.loads(text(item, "classes") or "[]")}
    return Assignment(text(item, "id"), classes, number(item, "version"), number(item, "leaseNumber"))
