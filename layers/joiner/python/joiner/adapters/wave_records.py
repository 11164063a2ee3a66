"""The items of waves: the launched claims that an execution waits for, and, in a small item, the rings for it
meanwhile.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from botocore.exceptions import ClientError

from joiner import item_keys
from joiner.adapters.dynamodb_table import ConditionFailed, DynamoTable, is_condition_failure, write_with_retries
from joiner.adapters.item_attributes import Item, text, texts, written
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
        meanwhile. The claims are written last and deleted first: the sweep, which ends abandoned waves, finds
        no claims without their wave.
        """
        expires = now + WAVE_KEPT
        self._update(
            item_keys.WAVE,
            name,
            ("SET execution = :execution, rings = if_not_exists(rings, :none), seenAt = :now, expires = :expires"),
            {":execution": execution, ":none": 0, ":now": now, ":expires": expires},
        )
        self._update(
            item_keys.AWAITED,
            name,
            "SET claims = :claims, expires = :expires",
            {":claims": tuple(sorted(claims)), ":expires": expires},
        )

    def wave(self, name: str) -> Wave | None:
        """Return one wave, or None when it ended."""
        return self._get_one(item_keys.WAVE, name, Wave.of)

    def waves(self) -> list[Wave]:
        """Return all waves."""
        return self._read(item_keys.WAVE, self._query(item_keys.WAVE), Wave.of)

    def awaited_claims(self, waves: Iterable[Wave]) -> dict[str, tuple[str, ...]]:
        """Return the names of the claims of each of these waves, by the wave's name; without a wave nothing is
        read."""
        wanted = {wave.name for wave in waves}
        items = self._query(item_keys.AWAITED) if wanted else []
        found = dict(self._read(item_keys.AWAITED, items, _awaited))
        return {name: found.get(name, ()) for name in wanted}

    def claims_of_wave(self, name: str) -> tuple[str, ...]:
        """Return the names of the claims of one wave, none if it ended."""
        found = self._get_one(item_keys.AWAITED, name, _awaited)
        return found[1] if found else ()

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
        for kind in (item_keys.AWAITED, item_keys.WAVE):
            self._client.delete_item(TableName=self._table, Key=item_keys.item_key(kind, name))


def _awaited(item: Item) -> tuple[str, tuple[str, ...]]:
    """Return the name of a wave and those of its claims."""
    return text(item, "id"), texts(item, "claims")
