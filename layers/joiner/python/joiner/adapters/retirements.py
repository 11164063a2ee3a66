"""The records of retirements: which claims are being retired, by which execution, why and until when.

One owner a claim: who begins takes it by a conditional write, and a second reason (first empty, then a spot notice)
only adds itself and shortens the deadline, which the owner reads at each look. An owner says at each look that it is
there; one that has not for three minutes may be followed by another. Nobody can ask whether an Express execution runs:
when it becomes the owner it is written down by when it has ended, and from then on it may be followed, too.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.adapters.dynamodb_table import ConditionFailed, DynamoTable, is_condition_failure
from joiner.adapters.ledger_items import UNSEEN_FOR, Retirement, written
from joiner.adapters.parallel import call_all
from joiner.adapters.records import UnreadableRecord
from joiner.item_keys import RETIREMENT, item_key

KEPT: Final = 24 * 3600  # an item whose claim went another way; each execution that goes on with it keeps it longer
log = logging.getLogger(__name__)

OWNER: Final = {"#owner": "owner"}  # a reserved word of DynamoDB


class Retirements(DynamoTable):
    """The retirements of one deployment."""

    def begin(self, claim: str, owner: str, reason: str, now: int, *, ends_by: int = 0) -> Retirement | None:
        """Take a claim's retirement for the execution `owner`, which has ended at `ends_by` (0 if that is not known);
        None if another one has it and sees to it. Safe to say again.
        """
        values: Mapping[str, Any] = {
            ":me": owner,
            ":now": now,
            ":expires": now + KEPT,
            ":one": 1,
            ":reason": frozenset({reason}),
            ":unseen": now - UNSEEN_FOR,
            ":ends": ends_by,
        }
        try:
            item = self._update(
                RETIREMENT,
                claim,
                "SET #owner = :me, seenAt = :now, endsBy = :ends, since = if_not_exists(since, :now), expires = "
                ":expires "
                "ADD attempt :one, reasons :reason",
                values,
                condition=(
                    "attribute_not_exists(#owner) OR #owner = :me OR seenAt < :unseen OR (endsBy >= :one "
                    "AND endsBy < :now)"
                ),
                names=OWNER,
            )
        except ConditionFailed:
            return None
        try:
            return self._read_one(RETIREMENT, item, Retirement.of)
        except UnreadableRecord as unreadable:  # it is ours all the same: the condition held
            log.error("%s; it goes on without what was noted there", unreadable)
            return Retirement(claim, owner, attempt=1, since=now, seen_at=now, ends_by=ends_by)

    def hurry(self, claim: str, reason: str, deadline: int, now: int, *, instance: str = "") -> None:
        """Add a reason, and a deadline (epoch seconds, 0 for none) unless a shorter one stands. Whoever owns the claim
        sees it soon; without an owner the claim rests no longer. `instance` is the one that the reason is about, if
        that is known.
        """
        values: dict[str, Any] = {":now": now, ":expires": now + KEPT, ":reason": frozenset({reason})}
        known = ", #instance = :instance" if instance else ""
        self._update(
            RETIREMENT,
            claim,
            (
                f"SET since = if_not_exists(since, :now), expires = :expires, notedAt = :now{known} REMOVE lookAt "
                f"ADD reasons :reason"
            ),
            values | ({":instance": instance} if instance else {}),
            names={"#instance": "instance"} if instance else None,
        )
        if deadline:
            self._try_update(
                RETIREMENT,
                claim,
                "SET deadline = :deadline",
                {":deadline": deadline},
                condition="attribute_not_exists(deadline) OR deadline > :deadline",
            )

    def explain(self, claim: str, said: str, now: int) -> None:
        """Note what EC2 says of an instance that ended at its launch, for whoever retires its claim."""
        self._update(RETIREMENT, claim, "SET said = :said, expires = :expires", {":said": said, ":expires": now + KEPT})

    def see(self, claims: Iterable[str], owner: str, now: int) -> None:
        """Say that `owner` looked at its claims at `now`; those that are not its own (any more) stay as they are."""
        condition: Mapping[str, Any] = {"condition": "#owner = :me", "names": OWNER}
        values = {":me": owner, ":now": now}
        call_all(
            claims,
            lambda claim: self._try_update(RETIREMENT, claim, "SET seenAt = :now", values, **condition),
            Exception,
        )

    def add(self, claim: str, reason: str) -> bool:
        """Tell the owner one more reason; False if the claim has none."""
        values = {":reason": frozenset({reason})}
        return self._try_update(
            RETIREMENT, claim, "ADD reasons :reason", values, condition="attribute_exists(#owner)", names=OWNER
        )

    def drop(self, claim: str, owner: str, reason: str) -> None:
        """`owner` found that a reason does not hold."""
        values = {":me": owner, ":reason": frozenset({reason})}
        self._try_update(RETIREMENT, claim, "DELETE reasons :reason", values, condition="#owner = :me", names=OWNER)

    def give_up(self, claim: str, owner: str, reason: str) -> None:
        """`owner` does not retire the claim for this reason after all; what others wrote stays."""
        self._try_update(
            RETIREMENT,
            claim,
            "REMOVE #owner DELETE reasons :reason",
            {":me": owner, ":reason": frozenset({reason})},
            condition="#owner = :me",
            names=OWNER,
        )

    def disown(self, claim: str, owner: str, look_at: int = 0) -> bool:
        """Take the claim from an owner that does not see to it; False if it has another one by now. Nobody need follow
        before `look_at`.
        """
        values = {":owner": owner, ":look": look_at}
        return self._try_update(
            RETIREMENT, claim, "SET lookAt = :look REMOVE #owner", values, condition="#owner = :owner", names=OWNER
        )

    def of(self, claim: str) -> Retirement | None:
        """The retirement of one claim; None if it is not being retired."""
        item = self._get(RETIREMENT, claim)
        return self._read_one(RETIREMENT, item, Retirement.of) if item else None

    def all(self) -> dict[str, Retirement]:
        """Every retirement that can be read, by claim; those that cannot are in `unreadable`, and their claims must not
        be retired anew.
        """
        return {each.claim: each for each in self._read(RETIREMENT, self._query(RETIREMENT), Retirement.of)}

    def forget(self, claim: str, owner: str) -> None:
        """The claim is retired. An item that has another owner by now stays: that one will find the same."""
        try:
            self._client.delete_item(
                TableName=self._table,
                Key=item_key(RETIREMENT, claim),
                ConditionExpression="attribute_not_exists(#owner) OR #owner = :me",
                ExpressionAttributeNames=OWNER,
                ExpressionAttributeValues={":me": written(owner)},
            )
        except ClientError as reason:
            if not is_condition_failure(reason):
                raise
