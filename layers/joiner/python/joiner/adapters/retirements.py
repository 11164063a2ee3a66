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
from joiner.adapters.item_attributes import Item
from joiner.adapters.item_reading import UnreadableRecord
from joiner.adapters.ledger_items import UNSEEN_FOR, Retirement
from joiner.adapters.parallel_calls import call_all
from joiner.item_keys import RETIREMENT

KEPT: Final = 30 * 24 * 3600
"""Seconds for which an item is kept whose claim ended in another way; each execution that continues it extends them.
While Joiner is paused nothing does, and what was recorded must still count after the pause.
"""
log = logging.getLogger(__name__)

OWNER: Final = {"#owner": "owner"}  # a reserved word of DynamoDB
INSTANCE: Final = {"#instance": "instance"}

OF_IT: Final = "(attribute_not_exists(#instance) OR #instance = :instance)"
OF_ANOTHER: Final = "attribute_exists(#instance) AND #instance <> :instance"

OF_A_FORMER_CLAIM: Final = (
    "deadline",
    "backOffUntil",
    "launchFailure",
    "stateReason",
    "console",
    "consoleReads",
    "progressedAt",
)
"""What is removed from a record that starts over for another instance, beside what is set anew."""


class Retirements(DynamoTable):
    """The retirements of one deployment."""

    def begin(
        self,
        claim: str,
        owner: str,
        reason: str,
        now: int,
        *,
        instance: str = "",
        ends_by: int = 0,
        anew: bool = False,
    ) -> Retirement | None:
        """Take a claim's retirement for the execution `owner`, which has ended at `ends_by` (0 if unknown). Return None
        if another execution owns it and attends to it. Idempotent: an owner that begins again is the same attempt.

        `anew`: the claim is not deleted yet. What an earlier retirement, that was undone or failed, has left in the
        record does not count: this one begins now, and is the first attempt. `instance` is that of the claim, if known;
        the record of another claim that had its name keeps its own until `start_over`
        (`joiner.lifecycle.recorded_retirement.is_about`).
        """
        values: dict[str, Any] = {
            ":me": owner,
            ":now": now,
            ":expires": now + KEPT,
            ":one": 1,
            ":reason": frozenset({reason}),
            ":ends": ends_by,
            **({":instance": instance} if instance else {}),
        }
        known = "#instance = if_not_exists(#instance, :instance), " if instance else ""
        taken = f"SET {known}#owner = :me, seenAt = :now, endsBy = :ends, expires = :expires, since = "
        counted = ":now, attempt = :one ADD " if anew else "if_not_exists(since, :now) ADD attempt :one, "
        may_take = "#owner <> :me AND (seenAt < :unseen OR (endsBy >= :one AND endsBy < :now))"
        item = self._take(
            claim,
            f"{taken}{counted}reasons :reason",
            values | {":unseen": now - UNSEEN_FOR},
            f"attribute_not_exists(#owner) OR ({may_take})",
        ) or self._take(
            claim,
            f"{taken}if_not_exists(since, :now) ADD reasons :reason",
            {name: value for name, value in values.items() if name != ":one"},
            "#owner = :me",
        )
        return self._read_begun(
            item, Retirement(claim, owner=owner, attempt=1, since=now, seen_at=now, ends_by=ends_by)
        )

    def _read_begun(self, item: Item, taken: Retirement) -> Retirement | None:
        """Return the item as a value; None for an empty one, and `taken` for one that cannot be read."""
        if not item:
            return None
        try:
            return self._read_one(RETIREMENT, item, Retirement.of)
        except UnreadableRecord as unreadable:  # we own it in any case: the condition was true
            log.error("%s; it goes on without what was noted there", unreadable)
            return taken

    def _take(self, claim: str, expression: str, values: Mapping[str, Any], condition: str) -> Item:
        """Return the item after the update; an empty one if the condition is false."""
        names = OWNER | (INSTANCE if ":instance" in values else {})
        try:
            return self._update(RETIREMENT, claim, expression, values, condition=condition, names=names)
        except ConditionFailed:
            return {}

    def start_over(self, claim: str, owner: str, reason: str, now: int, *, instance: str) -> None:
        """Make the record that `owner` has taken one of `instance`, which begins now, if it is about another instance:
        a former claim with this name has left it. Repetitions change nothing.
        """
        self._try_update(
            RETIREMENT,
            claim,
            f"SET #instance = :instance, since = :now, attempt = :one, reasons = :reason "
            f"REMOVE notedAt, {', '.join(OF_A_FORMER_CLAIM)}",
            {":me": owner, ":instance": instance, ":now": now, ":one": 1, ":reason": frozenset({reason})},
            condition=f"#owner = :me AND {OF_ANOTHER}",
            names=OWNER | INSTANCE,
        )

    def hurry(
        self, claim: str, reason: str, deadline: int, now: int, *, instance: str = "", state_reason: str = ""
    ) -> None:
        """Add a reason, and a deadline (epoch seconds, 0 for none) unless an earlier one exists. The owner reads it at
        its next check; without an owner, the claim can be taken at once. `instance` is the instance of the reason, if
        known, and `state_reason` its StateReason if it ended.

        A record about another instance, which a former claim with this name has left, starts over without its owner.
        """
        values: dict[str, Any] = {":now": now, ":expires": now + KEPT, ":reason": frozenset({reason})}
        noted = "expires = :expires, notedAt = :now"
        if state_reason:
            noted, values = f"{noted}, stateReason = :state", values | {":state": state_reason}
        added = "REMOVE backOffUntil ADD reasons :reason"
        if not instance:
            self._update(RETIREMENT, claim, f"SET since = if_not_exists(since, :now), {noted} {added}", values)
        else:
            self._hurry_instance(claim, noted, added, values | {":instance": instance})
        if deadline:
            self._try_update(
                RETIREMENT,
                claim,
                "SET deadline = :deadline",
                {":deadline": deadline},
                condition="attribute_not_exists(deadline) OR deadline > :deadline",
            )

    def _hurry_instance(self, claim: str, noted: str, added: str, values: Mapping[str, Any]) -> None:
        set_both = f"{noted}, #instance = :instance"
        add = f"SET since = if_not_exists(since, :now), {set_both} {added}"
        left = ", ".join(each for each in OF_A_FORMER_CLAIM if each not in noted)
        anew = f"SET since = :now, reasons = :reason, {set_both} REMOVE #owner, seenAt, endsBy, attempt, {left}"
        if not (
            self._try_update(RETIREMENT, claim, add, values, condition=OF_IT, names=INSTANCE)
            or self._try_update(RETIREMENT, claim, anew, values, condition=OF_ANOTHER, names=OWNER | INSTANCE)
        ):  # another writer has started it over meanwhile
            self._update(RETIREMENT, claim, add, values, condition=OF_IT, names=INSTANCE)

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
        self._update_owned(claims, owner, "SET seenAt = :now", {":now": now})

    def note_progress(self, claims: Iterable[str], owner: str, now: int) -> None:
        """Record that pods of its claims left at `now`: the back-off of these claims begins again. Claims of other
        owners stay unchanged.
        """
        self._update_owned(claims, owner, "SET progressedAt = :now, attempt = :none", {":now": now, ":none": 0})

    def _update_owned(self, claims: Iterable[str], owner: str, expression: str, values: Mapping[str, Any]) -> None:
        condition: Mapping[str, Any] = {"condition": "#owner = :me", "names": OWNER}
        call_all(
            claims,
            lambda claim: self._try_update(RETIREMENT, claim, expression, {**values, ":me": owner}, **condition),
            Exception,
        )

    def add(self, claim: str, reason: str, *, instance: str = "") -> bool:
        """Add one more reason for the owner; return False if the claim has no owner, or if its record is about another
        instance than `instance`, if that is known.
        """
        values = {":reason": frozenset({reason})} | ({":instance": instance} if instance else {})
        return self._try_update(
            RETIREMENT,
            claim,
            "ADD reasons :reason",
            values,
            condition=f"attribute_exists(#owner) AND {OF_IT}" if instance else "attribute_exists(#owner)",
            names=OWNER | (INSTANCE if instance else {}),
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

    def withdraw(self, claim: str, reason: str, *, instance: str) -> bool:
        """Remove the reason and the deadline of a retirement that did not begin and has no other reason; return False
        if it has begun, has another reason, or is about another instance."""
        return self._try_update(
            RETIREMENT,
            claim,
            "REMOVE deadline DELETE reasons :reason",
            {":reason": frozenset({reason}), ":instance": instance},
            condition="attribute_not_exists(#owner) AND reasons = :reason AND #instance = :instance",
            names=OWNER | INSTANCE,
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

    def forget(self, claim: str, owner: str, *, unowned: bool = True) -> None:
        """Delete the record of a retired claim. An item with another owner stays; that owner finds the same result.
        `unowned`: delete it also if it has no owner. It may be about a claim that was created with the same name.
        """
        self._try_delete(
            RETIREMENT,
            claim,
            condition="attribute_not_exists(#owner) OR #owner = :me" if unowned else "#owner = :me",
            values={":me": owner},
            names=OWNER,
        )
