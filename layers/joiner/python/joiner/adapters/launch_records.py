"""The items of launches: each request is stored before it is sent, with its outcome when there is one.

Written by launch_instances; record_launches marks those whose outcome is on their claims.
"""

from typing import Any, Final

from botocore.exceptions import ClientError

from joiner import item_keys
from joiner.adapters.dynamodb_table import ConditionFailed, DynamoTable, write_with_retries
from joiner.adapters.item_attributes import written
from joiner.adapters.item_reading import KNOWN_SCHEMA, SCHEMA_NUMBER
from joiner.adapters.ledger_items import LaunchRecord, LeaseLost

RECORDED_KEPT: Final = 24 * 3600  # a recorded launch is only history; a day is enough to examine it


class LaunchRecords(DynamoTable):
    """The launches of one deployment."""

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

    def close_launch(self, launch_id: str, outcome: str, details: str = "") -> str:
        """Close a launch with its outcome (JSON text). The first outcome is final; the stored outcome is returned.
        `details`, if given, replace those of the launch. Raises ItemTooLarge.
        """
        replaced: dict[str, str] = {":details": details} if details else {}
        try:
            self._update(
                item_keys.LAUNCH,
                launch_id,
                f"SET #state = :closed, {'details = :details, ' if details else ''}outcome = :outcome",
                {":closed": "closed", ":outcome": outcome, ":open": "open", **replaced},
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

    def forget_launch(self, launch_id: str) -> None:
        """Delete a launch that nobody can read and that has no instance. The claims that it names were never launched
        then, and are deleted or launched like others.
        """
        self._delete(item_keys.LAUNCH, launch_id)


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
