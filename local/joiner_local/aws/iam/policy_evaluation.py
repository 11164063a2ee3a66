"""Evaluate IAM policies: a role's identity policies and its permissions boundary, for one action on one resource.

Source: IAM user guide, "How AWS enforcement code logic evaluates requests to allow or deny access". An explicit deny
takes precedence; then the boundary must allow the action, if the role has one; then a policy must allow it. Policies
and requests are values: this module reads nothing.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from joiner_local.aws.iam.policy_conditions import Context, MalformedPolicy, PolicyCondition, like, replace_variables

ALLOWED: Final = "allowed"
EXPLICIT_DENY: Final = "with an explicit deny in an identity-based policy"
BOUNDARY_DENY: Final = "with an explicit deny in a permissions boundary"
NO_BOUNDARY: Final = "because no permissions boundary allows the {action} action"
MALFORMED: Final = "because IAM would refuse a policy of this role: {problem}"
NO_POLICY: Final = "because no identity-based policy allows the {action} action"

VERSIONS: Final = ("2008-10-17", "2012-10-17")
VERSION_WITH_VARIABLES: Final = "2012-10-17"
"""In a policy of another version, or of none, `${...}` is text."""

ELEMENTS: Final = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}
"""Elements of a statement of an identity policy."""


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """One action on one resource, with the condition keys (in lower case) for which the request has values."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)

    def __hash__(self) -> int:
        """Hash consistently with equality, for which the order of the keys does not matter."""
        return hash(
            (self.action, self.resource, frozenset((key, tuple(values)) for key, values in self.context.items()))
        )


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """One statement of a policy; `name` identifies it in reports."""

    name: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[PolicyCondition, ...] = ()
    not_actions: bool = False
    not_resources: bool = False

    @classmethod
    def read(cls, name: str, written: Mapping[str, Any], *, variables: bool = True) -> "PolicyStatement":
        """Read a statement in JSON form; `MalformedPolicy` for a statement that IAM would refuse."""
        try:
            return cls._read(name, written, (lambda text: text) if variables else _without_variables)
        except MalformedPolicy as problem:
            raise MalformedPolicy(f"{name}: {problem}") from problem

    @classmethod
    def _read(cls, name: str, written: Mapping[str, Any], text: Callable[[str], str]) -> "PolicyStatement":
        if not isinstance(written, Mapping):
            raise MalformedPolicy("a statement must be an object")
        if unknown := sorted(set(written) - ELEMENTS):
            raise MalformedPolicy(f"{unknown[0]} is no element of a statement of an identity policy")
        if written.get("Effect") not in ("Allow", "Deny"):
            raise MalformedPolicy(f"Effect must be Allow or Deny, not {written.get('Effect')}")
        actions, resources = _either(written, "Action", "NotAction"), _either(written, "Resource", "NotResource")
        conditions = written.get("Condition") or {}
        if not isinstance(conditions, Mapping) or not all(isinstance(keys, Mapping) for keys in conditions.values()):
            raise MalformedPolicy("Condition must be an object of objects")
        return cls(
            name=name,
            effect=written["Effect"],
            actions=tuple(each.lower() for each in _texts(written, actions)),
            resources=tuple(text(each) for each in _texts(written, resources)),
            conditions=tuple(
                PolicyCondition.read(
                    operator, key, [text(each) if isinstance(each, str) else each for each in as_list(values)]
                )
                for operator, keys in conditions.items()
                for key, values in keys.items()
            ),
            not_actions=actions == "NotAction",
            not_resources=resources == "NotResource",
        )

    def applies(self, permission: RequiredPermission) -> bool:
        """Report whether the statement covers the action, the resource and the conditions."""
        named = any(like(permission.action.lower(), each) for each in self.actions)
        if named is self.not_actions:
            return False
        patterns = (replace_variables(each, permission.context) for each in self.resources)
        covered = any(each is not None and like(permission.resource, each) for each in patterns)
        return covered is not self.not_resources and all(each.holds(permission.context) for each in self.conditions)


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The decision about one permission. `statement` is the name of the decisive statement, or empty if none applied.
    `reason` is in AWS's words."""

    permission: RequiredPermission
    allowed: bool
    reason: str
    statement: str = ""


@dataclass(frozen=True, slots=True)
class RolePermissions:
    """The statements of a role. `boundary` is None for a role without a permissions boundary."""

    statements: tuple[PolicyStatement, ...]
    boundary: tuple[PolicyStatement, ...] | None = None

    @classmethod
    def read(cls, documents: Mapping[str, Any], boundary: Any = None) -> "RolePermissions":
        """Read policies by their names, each as JSON text (plain or URL-encoded) or as values. Raises
        `MalformedPolicy`."""
        statements = tuple(each for name, document in documents.items() for each in _statements(name, document))
        return cls(statements, None if boundary is None else tuple(_statements("boundary", boundary)))

    def decide(self, permission: RequiredPermission) -> AccessDecision:
        """Decide one permission, with the reason."""
        if denying := _first(self.statements, "Deny", permission):
            return AccessDecision(permission, False, EXPLICIT_DENY, denying.name)
        if self.boundary is not None:
            if denying := _first(self.boundary, "Deny", permission):
                return AccessDecision(permission, False, BOUNDARY_DENY, denying.name)
            if _first(self.boundary, "Allow", permission) is None:
                return AccessDecision(permission, False, NO_BOUNDARY.format(action=permission.action))
        if allowing := _first(self.statements, "Allow", permission):
            return AccessDecision(permission, True, ALLOWED, allowing.name)
        return AccessDecision(permission, False, NO_POLICY.format(action=permission.action))


def denial_message(principal: str, decision: AccessDecision) -> str:
    """Return AWS's text for a denial."""
    asked = decision.permission
    subject = f"User: {principal} is not authorized to perform: {asked.action} on resource: {asked.resource}"
    return f"{subject} {decision.reason}"


def as_list(value: Any) -> list[Any]:
    """Return the value, in a list unless it is one.

    >>> as_list("a"), as_list(["a", "b"])
    (['a'], ['a', 'b'])
    """
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _statements(name: str, document: Any) -> Iterable[PolicyStatement]:
    read = _document(name, document)
    variables = read.get("Version") == VERSION_WITH_VARIABLES
    for index, written in enumerate(as_list(read["Statement"])):
        sid = written.get("Sid", index) if isinstance(written, Mapping) else index
        yield PolicyStatement.read(f"{name}[{sid}]", written, variables=variables)


def _document(name: str, document: Any) -> Mapping[str, Any]:
    """Return the document as values."""
    try:
        read = (
            json.loads(unquote(document) if document.startswith("%7B") else document)
            if isinstance(document, str)
            else document
        )
    except ValueError as error:
        raise MalformedPolicy(f"{name}: the document is not JSON: {error}") from error
    if not isinstance(read, Mapping) or "Statement" not in read:
        raise MalformedPolicy(f"{name}: the document has no Statement")
    if "Version" in read and read["Version"] not in VERSIONS:
        raise MalformedPolicy(f"{name}: the document has the version {read['Version']}, not {' or '.join(VERSIONS)}")
    return read


def _either(written: Mapping[str, Any], *elements: str) -> str:
    """Return the one of these elements that the statement has."""
    found = [each for each in elements if each in written]
    if len(found) != 1:
        raise MalformedPolicy(f"a statement must have either {' or '.join(elements)}")
    return found[0]


def _texts(written: Mapping[str, Any], element: str) -> list[str]:
    texts = as_list(written[element])
    if not all(isinstance(each, str) for each in texts):
        raise MalformedPolicy(f"{element} must be text or a list of texts")
    return texts


def _without_variables(text: str) -> str:
    """Return a pattern in which `${...}` is text."""
    return text.replace("$", "${$}")


def _first(
    statements: Iterable[PolicyStatement], effect: str, permission: RequiredPermission
) -> PolicyStatement | None:
    return next((each for each in statements if each.effect == effect and each.applies(permission)), None)
