"""What DISRUPT decided about one node, read from the proposals in the decision bucket.

An execution stores a proposal, and a second one 15 seconds later; it acts only on what both contain. Proposals name the
NodeClaims that they remove, and claim and node of each node that stays. What became of a chosen action is in the output
of the execution.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from joiner.adapters.documents import DECISIONS, get_proposal
from joiner.adapters.item_reading import BROKEN
from joiner.adapters.store import UNREADABLE, DocumentSchema, NoSuchDocument, Store
from joiner.disruption.proposal import DisruptionAction, Proposal
from joiner.pools.timestamps import format_timestamp

READ_AT_ONCE: Final = 16
LATER_READ: Final = 10
"""Executions after one that began an action, which are asked whether they have undone it."""
PODS_SHOWN: Final = 5
NOT_AGAIN: Final = "not executed: the second proposal, 15 seconds later, did not contain it"


class DisruptionExecutions(Protocol):
    """The call of Step Functions that is needed."""

    def describe_execution(self, *, executionArn: str) -> Mapping[str, Any]:
        """Return one execution with its output."""


@dataclass(frozen=True, slots=True)
class StoredProposals:
    """The proposals of one execution, the first one first; ``at`` is when the last one was stored."""

    execution: str
    at: datetime
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """One decision about a node: an action that removes it (``chosen``), or the reason why it stays.

    ``until`` differs from ``at`` if several executions in a row (``looks``) gave the same reason. ``moves`` are where
    the pods go, ``outcome`` is what became of a chosen action.
    """

    at: datetime
    until: datetime
    execution: str
    chosen: bool
    message: str
    moves: tuple[str, ...] = ()
    outcome: str = ""
    looks: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `-o json`."""
        return {
            "at": format_timestamp(self.at),
            "until": format_timestamp(self.until),
            "execution": self.execution,
            "chosen": self.chosen,
            "message": self.message,
            "moves": list(self.moves),
            "outcome": self.outcome,
            "looks": self.looks,
        }

    def to_lines(self) -> list[str]:
        """Return the decision as lines of text."""
        if not self.chosen:
            times = f"{format_timestamp(self.at)}"
            if self.looks > 1:
                times += f" to {format_timestamp(self.until)}, {self.looks} times"
            return [f"{times}: stays: {self.message}"]
        shown = ", ".join(self.moves[:PODS_SHOWN])
        more = len(self.moves) - PODS_SHOWN
        moves = f"  its action moves {shown}{f' and {more} more' if more > 0 else ''}"
        return [
            f"{format_timestamp(self.at)}: chosen by {self.execution}: {self.message}",
            *([moves] if self.moves else []),
            f"  {self.outcome}",
        ]


@dataclass(frozen=True, slots=True)
class DecisionsOfNode:
    """The decisions about one node, newest first, with the names by which proposals know it."""

    claims: tuple[str, ...]
    nodes: tuple[str, ...]
    decisions: tuple[NodeDecision, ...]


class DecisionBucket:
    """The proposals of one deployment. ``unreadable`` are the keys of those that could not be read."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._store = Store(s3, bucket)
        self.unreadable: list[str] = []

    def read_since(self, since: datetime) -> list[StoredProposals]:
        """Return the proposals of each execution that were stored since then, the newest execution first."""
        keys: dict[str, list[tuple[int, str]]] = {}
        stored: dict[str, datetime] = {}
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=f"{DECISIONS}/")
        for one in (each for page in pages for each in page.get("Contents", ())):
            _, execution, name = str(one["Key"]).split("/")
            if one["LastModified"] >= since:
                keys.setdefault(execution, []).append((int(name.partition(".")[0]), str(one["Key"])))
                stored[execution] = max(one["LastModified"], stored.get(execution, one["LastModified"]))
        order = sorted(keys, key=lambda execution: (stored[execution], execution), reverse=True)
        wanted = [key for execution in order for _, key in sorted(keys[execution])]
        with ThreadPoolExecutor(READ_AT_ONCE) as together:
            read = dict(zip(wanted, together.map(self._read, wanted), strict=True))
        found = {execution: [read[key] for _, key in sorted(keys[execution])] for execution in order}
        return [
            StoredProposals(execution, stored[execution], tuple(each for each in proposals if each is not None))
            for execution, proposals in found.items()
        ]

    def _read(self, key: str) -> Proposal | None:
        try:
            return get_proposal(self._store, key)
        except (*BROKEN, *UNREADABLE, DocumentSchema, NoSuchDocument):
            self.unreadable.append(key)
            return None


def find_decisions(name: str, stored: Sequence[StoredProposals], outcomes: "Outcomes") -> DecisionsOfNode:
    """Return what these proposals, the newest first, say about a node, by its name or by that of its NodeClaim."""
    kept = [one for each in stored for proposal in each.proposals for one in proposal.kept]
    claims = {name, *(one.claim for one in kept if one.node == name)}
    nodes = {one.node for one in kept if one.claim in claims}
    names = [each.execution for each in stored]
    found = [
        decision
        for at, each in enumerate(stored)
        for decision in _decisions_in(each, claims, names[max(at - LATER_READ, 0) : at][::-1], outcomes)
    ]
    known = {claim for each in stored for proposal in each.proposals for claim in _claims_of(proposal)} & claims
    return DecisionsOfNode(tuple(sorted(known)), tuple(sorted(nodes)), tuple(_join_repeated(found)))


def _claims_of(proposal: Proposal) -> Iterator[str]:
    yield from (claim for action in proposal.actions for claim in action.claims)
    yield from (one.claim for one in proposal.kept)


def _decisions_in(
    stored: StoredProposals, claims: set[str], later: Sequence[str], outcomes: "Outcomes"
) -> Iterator[NodeDecision]:
    """Yield the decision of the last proposal; if none, that of the first, which the last one did not repeat. ``later``
    are the executions after this one, the next one first."""
    at = stored.at
    for number, proposal in reversed(list(enumerate(stored.proposals))):
        actions = [action for action in proposal.actions if claims.intersection(action.claims)]
        repeated = number == len(stored.proposals) - 1
        for action in actions:
            became = outcomes.find(stored.execution, action.claims, later) if repeated else NOT_AGAIN
            moves = tuple(f"{pod} to {_destination(where, action)}" for pod, where in sorted(action.moves.items()))
            yield NodeDecision(at, at, stored.execution, True, action.message, moves, became)
        if actions:
            return
    for one in (one for proposal in stored.proposals[-1:] for one in proposal.kept if one.claim in claims):
        yield NodeDecision(at, at, stored.execution, False, f"{one.message} ({one.condition})")


def _destination(where: str, action: DisruptionAction) -> str:
    new = {one.name: one.instance_type for one in action.replacements}
    return f"a new {new[where]}" if where in new else where


def _join_repeated(decisions: Iterable[NodeDecision]) -> Iterator[NodeDecision]:
    """Yield the decisions, newest first, with the same reason to stay in a row as one."""
    last: NodeDecision | None = None
    for one in decisions:
        if last is not None and not last.chosen and not one.chosen and last.message == one.message:
            last = NodeDecision(one.at, last.until, one.execution, False, one.message, looks=last.looks + 1)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


class Outcomes:
    """What became of chosen actions, by the executions of the state machine DISRUPT."""

    def __init__(self, states: DisruptionExecutions, machine: str) -> None:
        self._states = states
        self._executions = machine.replace(":stateMachine:", ":execution:")
        self._read: dict[str, Mapping[str, Any]] = {}

    def find(self, execution: str, claims: Sequence[str], later: Sequence[str] = ()) -> str:
        """Return what became of the action for these claims, in words. One of the executions ``later`` may have undone
        what this one began: it settles what others left."""
        found = self._describe(execution)
        if not found:
            return "its execution is gone: Step Functions keeps them for 90 days"
        if found["status"] == "RUNNING":
            return "its execution is still running"
        if found["status"] != "SUCCEEDED":
            became = f"its execution ended as {found['status']}: {found.get('cause') or found.get('error') or ''}"
        else:
            became = describe_outcome(_output(found), claims)
        if not became.startswith("not executed"):
            for name in later:
                if why := _find_why(_output(self._describe(name)), "undone", claims):
                    return f"undone: {why}"
        return became

    def _describe(self, execution: str) -> Mapping[str, Any]:
        """Return one execution; empty if there is none."""
        from botocore.exceptions import ClientError  # imported late: boto3 loads slowly

        if execution not in self._read:
            try:
                found = self._states.describe_execution(executionArn=f"{self._executions}:{execution}")
            except ClientError as error:
                if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
                    raise
                found = {}
            self._read[execution] = found
        return self._read[execution]


def _output(execution: Mapping[str, Any]) -> Mapping[str, Any]:
    output = json.loads(execution.get("output") or "{}")
    return output if isinstance(output, dict) else {}


def _find_why(output: Mapping[str, Any], field: str, claims: Sequence[str]) -> str:
    """Return why nodes of these claims are in this list of an output; empty if they are not."""
    return next((str(one["why"]) for one in output.get(field) or () if set(one["claims"]) & set(claims)), "")


def describe_outcome(output: Mapping[str, Any], claims: Sequence[str]) -> str:
    """Return what an execution did with the nodes of these claims, by its output.

    >>> describe_outcome({"dropped": [{"claims": ["a"], "why": "a pod was bound"}]}, ["a"])
    'not executed: a pod was bound'
    >>> describe_outcome({"marked": [{"claims": ["a"]}], "undone": [{"claims": ["a"], "why": "no capacity"}]}, ["a"])
    'undone: no capacity'
    >>> describe_outcome({"marked": [{"claims": ["a"]}]}, ["a"]), describe_outcome({"why": "paused"}, ["a"])
    ('executed: its nodes were marked for removal', 'not executed: paused')
    """
    for field, word in (("undone", "undone"), ("dropped", "not executed")):
        if why := _find_why(output, field, claims):
            return f"{word}: {why}"
    if any(set(one["claims"]) & set(claims) for one in output.get("marked") or ()):
        return "executed: its nodes were marked for removal"
    return f"not executed: {output.get('why') or 'the lease was not free, or the second look failed'}"
