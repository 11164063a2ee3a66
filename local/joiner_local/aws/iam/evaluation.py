"""May this principal do that? A role's identity policies and its permissions boundary against one action on one resource.

Source: IAM user guide, "How AWS enforcement code logic evaluates requests to allow or deny access". An explicit deny prevails; then the
boundary must allow, if there is one; then a policy must allow. Pure: policies and requests are values.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from joiner_local.aws.iam.conditions import Condition, Context, filled, like

ALLOWED: Final = "allowed"
EXPLICIT_DENY: Final = "with an explicit deny in an identity-based policy"
BOUNDARY_DENY: Final = "with an explicit deny in a permissions boundary"
NO_BOUNDARY: Final = "because no permissions boundary allows the {action} action"
NO_POLICY: Final = "because no identity-based policy allows the {action} action"


@dataclass(frozen=True, slots=True)
class Question:
    """One action on one resource, with what the request says in condition keys (in lower case)."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a policy; `name` says which, for reports."""

    name: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    not_actions: bool = False
    not_resources: bool = False

    @classmethod
    def read(cls, name: str, written: Mapping[str, Any]) -> "Statement":
        """A statement as JSON has it; `UnknownOperator` for a condition that IAM does not know."""
        conditions = tuple(
            Condition.read(operator, key, listed(values))
            for operator, keys in (written.get("Condition") or {}).items()
            for key, values in keys.items()
        )
        actions = listed(written["NotAction" if "NotAction" in written else "Action"])
        return cls(
            name=name,
            effect=written["Effect"],
            actions=tuple(each.lower() for each in actions),
            resources=tuple(listed(written["NotResource" if "NotResource" in written else "Resource"])),
            conditions=conditions,
            not_actions="NotAction" in written,
            not_resources="NotResource" in written,
        )

    def applies(self, question: Question) -> bool:
        named = any(like(question.action.lower(), each) for each in self.actions)
        if named is self.not_actions:
            return False
        patterns = (filled(each, question.context) for each in self.resources)
        covered = any(each is not None and like(question.resource, each) for each in patterns)
        return covered is not self.not_resources and all(each.holds(question.context) for each in self.conditions)


@dataclass(frozen=True, slots=True)
class Decision:
    """`statement` is the name of the one that decided; empty where none applied. `reason` is worded as AWS words it."""

    question: Question
    allowed: bool
    reason: str
    statement: str = ""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a role may do. `boundary` is None for a role without a permissions boundary."""

    statements: tuple[Statement, ...]
    boundary: tuple[Statement, ...] | None = None

    @classmethod
    def read(cls, documents: Mapping[str, Any], boundary: Any = None) -> "Permissions":
        """Policies by their names, each as JSON text (or URL-encoded) or as read; so the boundary's."""
        statements = tuple(each for name, document in documents.items() for each in _statements(name, document))
        return cls(statements, None if boundary is None else tuple(_statements("boundary", boundary)))

    def decide(self, question: Question) -> Decision:
        """Allowed or not, and why."""
        if denying := _first(self.statements, "Deny", question):
            return Decision(question, False, EXPLICIT_DENY, denying.name)
        if self.boundary is not None:
            if denying := _first(self.boundary, "Deny", question):
                return Decision(question, False, BOUNDARY_DENY, denying.name)
            if _first(self.boundary, "Allow", question) is None:
                return Decision(question, False, NO_BOUNDARY.format(action=question.action))
        if allowing := _first(self.statements, "Allow", question):
            return Decision(question, True, ALLOWED, allowing.name)
        return Decision(question, False, NO_POLICY.format(action=question.action))


def message(principal: str, decision: Decision) -> str:
    """What AWS answers to who may not."""
    asked = decision.question
    return f"User: {principal} is not authorized to perform: {asked.action} on resource: {asked.resource} {decision.reason}"


def listed(said: Any) -> list[Any]:
    """
    >>> listed("a"), listed(["a", "b"])
    (['a'], ['a', 'b'])
    """
    return list(said) if isinstance(said, Sequence) and not isinstance(said, str) else [said]


def _statements(name: str, document: Any) -> Iterable[Statement]:
    read = json.loads(unquote(document) if document.startswith("%7B") else document) if isinstance(document, str) else document
    for index, written in enumerate(listed(read["Statement"])):
        yield Statement.read(f"{name}[{written.get('Sid', index)}]", written)


def _first(statements: Iterable[Statement], effect: str, question: Question) -> Statement | None:
    return next((each for each in statements if each.effect == effect and each.applies(question)), None)
