"""The records of disruptions: one item `DISRUPTION` for the nodes that go together, one item `MOVED` for the pods that
moved, and one item `PROPOSED` for the last proposal.

A node is tainted only after its item is written, and the item is deleted only after the taint is removed or the node's
claim is deleted. So a node whose disruption was interrupted by a crash has an item, and a later execution, to which the
sweep names the ended one, finishes or undoes the disruption. An item does not expire: it is needed as long as Joiner is
paused, or a node cannot be opened. An item that cannot be read concerns the claims that it names; the next execution
opens their nodes and deletes it. A claim belongs to at most one item: one execution at a time marks nodes, under the
lease.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from joiner.adapters.disruption_items import DisruptionRecord, LastProposal, MovedPods, write_moves
from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.item_attributes import number, text
from joiner.adapters.ledger_items import Lease
from joiner.item_keys import DISRUPT, DISRUPTION, LAST_PROPOSAL, LEASE, MOVED, PROPOSED
from joiner.pools.consolidation_limits import LONGEST_COOL_DOWN

PROPOSAL_KEPT: Final = 24 * 3600
MOVES_KEPT: Final = LONGEST_COOL_DOWN  # as long as the limits of evictions count


class Disruptions(DynamoTable):
    """The disruptions of one deployment."""

    def all(self) -> list[DisruptionRecord]:
        """Return every disruption, by id. One that cannot be read has the reason as its `unreadable`, and the claims
        that can be read."""
        listed = self._query(DISRUPTION)
        found = self._read(DISRUPTION, listed, DisruptionRecord.of)
        reasons = {one.id: one.reason for one in self._unreadable[DISRUPTION]}
        broken = [
            DisruptionRecord.of_unreadable(item, reasons[item["id"]["S"]])
            for item in listed
            if item["id"]["S"] in reasons
        ]
        return sorted([*found, *broken], key=lambda record: record.id)

    def begin(self, record: DisruptionRecord) -> None:
        """Write a disruption before its nodes are tainted. Idempotent."""
        self._update(
            DISRUPTION,
            record.id,
            "SET execution = :execution, reason = :reason, message = :message, claims = :claims, "
            "replacements = :replacements, replacingPools = :pools, moves = :moves, since = :since, "
            "deadline = :deadline REMOVE expires",
            {
                ":execution": record.execution,
                ":reason": record.reason,
                ":message": record.message,
                ":claims": record.claims,
                ":replacements": record.replacements,
                ":pools": record.replacing_pools,
                ":moves": write_moves(record.moves),
                ":since": record.since,
                ":deadline": record.deadline,
            },
        )

    def ask(self, record_id: str, now: int) -> None:
        """Record a request to retire the nodes."""
        self._update(
            DISRUPTION,
            record_id,
            "SET requestedAt = :now ADD requests :one REMOVE expires",  # of earlier versions
            {":now": now, ":one": 1},
        )

    def note_failure(self, record_id: str, now: int) -> None:
        """Record that the pools back off for this disruption."""
        self._note(record_id, "SET failedAt = :now", {":now": now})

    def note_written(self, record_id: str, now: int) -> None:
        """Record that the claims of the replacements were written."""
        self._note(record_id, "SET writtenAt = :now", {":now": now})

    def note_launched(self, record_id: str, claims: Collection[str]) -> None:
        """Record replacements that have an instance."""
        self._note(record_id, "ADD launched :claims", {":claims": frozenset(claims)})

    def note_refusal(self, record_id: str, request: int) -> None:
        """Record that the API server refused the retirement after this request; each request counts once."""
        self._note(record_id, "ADD refused :request", {":request": frozenset({str(request)})})

    def _note(self, record_id: str, update: str, values: Mapping[str, Any]) -> None:
        self._try_update(DISRUPTION, record_id, update, values, condition="attribute_exists(claims)")

    def note_moves(self, record: DisruptionRecord, claim: str, now: int) -> None:
        """Record which pods leave the node of a claim whose retirement has begun, for limits of a day; the first call
        counts."""
        moved = record.moved(claim, now)
        self._update(
            MOVED,
            f"{record.id}#{claim}" if moved.claim else record.id,
            "SET #at = if_not_exists(#at, :now), reason = :reason, pods = :pods, workloads = :workloads, "
            "claim = :claim, expires = if_not_exists(expires, :expires)",
            {
                ":now": now,
                ":reason": moved.reason,
                ":pods": json.dumps(dict(moved.pods), sort_keys=True),
                ":workloads": moved.workloads,
                ":claim": moved.claim,
                ":expires": now + MOVES_KEPT,
            },
            names={"#at": "at"},
        )

    def moves(self, now: int) -> list[MovedPods]:
        """Return the moves of the last 24 hours."""
        return [one for one in self._read(MOVED, self._query(MOVED), MovedPods.of) if one.at > now - MOVES_KEPT]

    def end(self, record_id: str) -> None:
        """Delete the item of a disruption that is finished or undone."""
        self._delete(DISRUPTION, record_id)

    def turn(self) -> Lease:
        """Return which execution disrupts nodes now; the state machine writes this item."""
        item = self._get(LEASE, DISRUPT)
        return self._read_one(LEASE, item, lambda one: Lease(text(one, "holder"), 0, number(one, "disruptUntil"), 0))

    def break_turn(self, holder: str) -> bool:
        """Take the turn from an execution that no longer runs; return False if another execution has it by now."""
        return self._try_update(
            LEASE, DISRUPT, "REMOVE holder, disruptUntil", {":holder": holder}, condition="holder = :holder"
        )

    def last_proposal(self) -> LastProposal:
        """Return the last proposal. An unreadable item counts as none: the next proposal replaces it."""
        return self._get_or_default(PROPOSED, LAST_PROPOSAL, LastProposal.of, LastProposal())

    def note_proposal(self, made: LastProposal) -> None:
        """Record a proposal."""
        self._update(
            PROPOSED,
            LAST_PROPOSAL,
            "SET digest = :digest, #at = :now, idle = :idle, repeated = :repeated, limitsEnd = :end, "
            "reason = :reason, expires = :expires",
            {
                ":digest": made.digest,
                ":now": made.at,
                ":idle": made.idle,
                ":repeated": made.repeated,
                ":end": made.limits_end,
                ":reason": made.reason,
                ":expires": made.at + PROPOSAL_KEPT,
            },
            names={"#at": "at"},
        )
