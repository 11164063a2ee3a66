"""The items of waves: the launched claims that an execution waits for, and the rings for it meanwhile."""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from botocore.exceptions import ClientError

from joiner import item_keys
from joiner.adapters.dynamodb_table import ConditionFailed, DynamoTable, is_condition_failure, write_with_retries
from joiner.adapters.item_attributes import text, written
from joiner.adapters.ledger_items import Wave

WAVE_KEPT: Final = 24 * 3600  # the sweep finds an abandoned wave much earlier


WAVE_BYTES: Final = 300_000
"""Names of claims of one wave, in bytes: a wave is one item of the table, and DynamoDB refuses items above 400 KB."""


def limit_wave(names: Iterable[str], most: int = WAVE_BYTES) -> list[str]:
    """Return the first names with a total length of `most` bytes; each name needs three more bytes in the item.

    >>> limit_wave(["b", "a", "c"], most=8)
    ['a', 'b']
    """
    ordered = sorted(names)
    lengths = accumulate(len(name.encode()) + 3 for name in ordered)
    return [name for name, length in zip(ordered, lengths, strict=True) if length <= most]


class WaveRecords(DynamoTable):
    """The waves of one deployment."""

    def begin_wave(self, name: str, execution: str, claims: Iterable[str], now: int) -> None:
        """Record that `execution` waits for `claims`. A second call, with more claims, keeps the rings that came
        meanwhile.
        """
        self._update(
            item_keys.WAVE,
            name,
            (
                "SET execution = :execution, claims = :claims, rings = if_not_exists(rings, :none), seenAt = :now, "
                "expires = :expires"
            ),
            {
                ":execution": execution,
                ":claims": tuple(sorted(claims)),
                ":none": 0,
                ":now": now,
                ":expires": now + WAVE_KEPT,
            },
        )

    def wave(self, name: str) -> Wave | None:
        """Return one wave, or None when it ended."""
        return self._get_one(item_keys.WAVE, name, Wave.of)

    def waves(self) -> list[Wave]:
        """Return all waves."""
        return self._read(item_keys.WAVE, self._query(item_keys.WAVE), Wave.of)

    def see_wave(self, name: str, now: int) -> Wave | None:
        """Return the wave and record a check at `now`; None when it ended."""
        try:
            item = self._update(
                item_keys.WAVE, name, "SET seenAt = :now", {":now": now}, condition="attribute_exists(execution)"
            )
        except ConditionFailed:
            return None
        return self._read_one(item_keys.WAVE, item, Wave.of)

    def count_placed(self, name: str, planned: int, placed: int) -> None:
        """Add the pods that one check placed, so that the last check can report the whole wave."""
        counted = {":planned": planned, ":placed": placed}
        self._try_update(
            item_keys.WAVE,
            name,
            "ADD planned :planned, placed :placed",
            counted,
            condition="attribute_exists(execution)",
        )

    def ring_wave(self, name: str, at: float) -> str:
        """Count one ring `at` a moment (epoch) and take the task token of the waiting execution, in one write. Return
        an empty token if no execution waits, or if the wave ended.
        """
        try:
            answer = write_with_retries(
                self._client.update_item,
                TableName=self._table,
                Key=item_keys.item_key(item_keys.WAVE, name),
                UpdateExpression="ADD rings :one SET rungAt = :at REMOVE #token",
                ConditionExpression="attribute_exists(execution)",
                ExpressionAttributeNames={"#token": "token"},
                ExpressionAttributeValues={":one": written(1), ":at": written(round(at * 1000))},
                ReturnValues="ALL_OLD",
            )
        except ClientError as reason:
            if is_condition_failure(reason):
                return ""
            raise
        return text(answer.get("Attributes", {}), "token")

    def end_wave(self, name: str) -> None:
        """Delete a wave that no execution waits for any more."""
        self._client.delete_item(TableName=self._table, Key=item_keys.item_key(item_keys.WAVE, name))
