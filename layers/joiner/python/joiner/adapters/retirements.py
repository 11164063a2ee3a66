"""The records of retirements: the claims that are being retired, their owners, reasons and deadlines.

Each claim has one owner, an execution that takes it by a conditional write. A second reason (for example a spot notice
after emptiness) is added to the record and makes the deadline earlier; the owner reads it at each check. An owner
records each check. Another execution may take over from an owner without a check for three minutes. The state of an
Express execution cannot be queried: its record contains the time by which it has ended, and after that time another
execution may take over, too.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from joiner.adapters.dynamodb_table import ConditionFailed, DynamoTable
from joiner.adapters.item_reading import UnreadableRecord
from joiner.adapters.ledger_items import UNSEEN_FOR, Retirement
from joiner.adapters.parallel_calls import call_all
from joiner.item_keys import RETIREMENT

KEPT: Final = 24 * 3600  # an item whose claim ended in another way; each execution that continues it extends this
log = logging.getLogger(__name__)

OWNER: Final = {"#owner": "owner"}  # a reserved word of DynamoDB


class Retirements(DynamoTable):
    """The retirements of one deployment."""

    def begin(self, claim: str, owner: str, reason: str, now: int, *, ends_by: int = 0) -> Retirement | None:
        """Take a claim's retirement for the execution `owner`, which has ended at `ends_by` (0 if unknown). Return None
        if another execution owns it and attends to it. Idempotent.
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
        except UnreadableRecord as unreadable:  # we own it in any case: the condition was true
            log.error("%s; it goes on without what was noted there", unreadable)
            return Retirement(claim, owner=owner, attempt=1, since=now, seen_at=now, ends_by=ends_by)

    def hurry(
        self, claim: str, reason: str, deadline: int, now: int, *, instance: str = "", state_reason: str = ""
    ) -> None:
        """Add a reason, and a deadline (epoch seconds, 0 for none) unless an earlier one exists. The owner reads it at
        its next check; without an owner, the claim can be taken at once. `instance` is the instance of the reason, if
        known, and `state_reason` its StateReason if it ended.
        """
        values: dict[str, Any] = {":now": now, ":expires": now + KEPT, ":reason": frozenset({reason})}
        known = ", #instance = :instance" if instance else ""
        known += ", stateReason = :state" if state_reason else ""
        self._update(
            RETIREMENT,
            claim,
            (
                f"SET since = if_not_exists(since, :now), expires = :expires, notedAt = :now{known} "
                f"REMOVE backOffUntil ADD reasons :reason"
            ),
            values | ({":instance": instance} if instance else {}) | ({":state": state_reason} if state_reason else {}),
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

    def explain(self, claim: str, reason: str, now: int) -> None:
        """Record EC2's reason for an instance that ended at its launch, for the owner of its claim."""
        self._note(claim, "launchFailure", reason, now)

    def note_state_reason(self, claim: str, reason: str, now: int) -> None:
        """Record the StateReason of an instance that ended, for the owner of its claim."""
        self._note(claim, "stateReason", reason, now)

    def note_console(self, claim: str, found: str, now: int) -> None:
        """Record where the console output of a claim's instance is stored, and the cause that it gives."""
        self._note(claim, "console", found, now)

    def note_console_read(self, claim: str, now: int) -> None:
        """Count a read of the console output of a claim's instance."""
        self._update(
            RETIREMENT,
            claim,
            "SET expires = :expires ADD consoleReads :one",
            {":one": 1, ":expires": now + KEPT},
        )

    def _note(self, claim: str, attribute: str, value: str, now: int) -> None:
        self._update(
            RETIREMENT,
            claim,
            f"SET {attribute} = :value, expires = :expires",
            {":value": value, ":expires": now + KEPT},
        )

    def see(self, claims: Iterable[str], owner: str, now: int) -> None:
        """Record that `owner` checked its claims at `now`. Claims of other owners stay unchanged."""
        condition: Mapping[str, Any] = {"condition": "#owner = :me", "names": OWNER}
        values = {":me": owner, ":now": now}
        call_all(
            claims,
            lambda claim: self._try_update(RETIREMENT, claim, "SET seenAt = :now", values, **condition),
            Exception,
        )

    def add(self, claim: str, reason: str) -> bool:
        """Add one more reason for the owner; return False if the claim has no owner."""
        values = {":reason": frozenset({reason})}
        return self._try_update(
            RETIREMENT, claim, "ADD reasons :reason", values, condition="attribute_exists(#owner)", names=OWNER
        )

    def drop(self, claim: str, owner: str, reason: str) -> None:
        """Remove a reason that `owner` found untrue."""
        values = {":me": owner, ":reason": frozenset({reason})}
        self._try_update(RETIREMENT, claim, "DELETE reasons :reason", values, condition="#owner = :me", names=OWNER)

    def give_up(self, claim: str, owner: str, reason: str, *, unowned: bool = False) -> None:
        """Release the claim, because `owner` does not retire it for this reason; reasons of other writers stay.
        `unowned`: remove the reason also if the claim has no owner. An earlier execution may have left both.
        """
        condition = "#owner = :me"
        if unowned:
            condition = "attribute_exists(reasons) AND (attribute_not_exists(#owner) OR #owner = :me)"
        self._try_update(
            RETIREMENT,
            claim,
            "REMOVE #owner DELETE reasons :reason",
            {":me": owner, ":reason": frozenset({reason})},
            condition=condition,
            names=OWNER,
        )

    def disown(self, claim: str, owner: str, back_off_until: int = 0) -> bool:
        """Remove an owner that does not attend to the claim; return False if the claim has another owner by now. No
        execution needs to take over before `back_off_until`.
        """
        values = {":owner": owner, ":until": back_off_until}
        return self._try_update(
            RETIREMENT,
            claim,
            "SET backOffUntil = :until REMOVE #owner",
            values,
            condition="#owner = :owner",
            names=OWNER,
        )

    def of(self, claim: str) -> Retirement | None:
        """Return the retirement of one claim; None if it is not being retired."""
        return self._get_one(RETIREMENT, claim, Retirement.of)

    def all(self) -> dict[str, Retirement]:
        """Return every readable retirement, by claim. Unreadable ones are in `unreadable`; their claims must not be
        retired again.
        """
        return {each.claim: each for each in self._read(RETIREMENT, self._query(RETIREMENT), Retirement.of)}

    def forget(self, claim: str, owner: str) -> None:
        """Delete the record of a retired claim. An item with another owner stays; that owner finds the same result."""
        self._try_delete(
            RETIREMENT,
            claim,
            condition="attribute_not_exists(#owner) OR #owner = :me",
            values={":me": owner},
            names=OWNER,
        )
