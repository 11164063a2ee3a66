"""Roles of functions and state machines, held to their policies; what allowed and what was refused is kept for the knobs.

Persons (keys that belong to no role) and roles that other services or people assume are not held to anything: they are administrators here.
Knobs, all `POST /_local/iam/...`:

  denied   calls that no policy allows, calls of which no table says what they need (`unmapped`), and policies that IAM could not read
  used     {"role": [...]}: the statements of each role that have allowed something
  granted  {"role": [...]}: each action that a statement allows, and whether it has allowed a call yet
  enforce  {"on": true}: refuse what is not allowed from now on; before, it is counted only
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joiner_local.aws.iam.checks import Unmapped, questions
from joiner_local.aws.iam.evaluation import Decision, Permissions, Question, message
from joiner_local.aws.iam.requests import Asked
from joiner_local.aws.local_aws import ACCOUNT, REGION

log = logging.getLogger(__name__)

HELD: Final = ("lambda.amazonaws.com", "states.amazonaws.com")
"""A role that one of these services may assume is a function's or a state machine's."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An assumed role, and the session's name: for a function's the function's."""

    role: str
    session: str

    @property
    def arn(self) -> str:
        return f"arn:aws:sts::{ACCOUNT}:assumed-role/{self.role.rpartition('/')[2]}/{self.session}"


@dataclass(slots=True)
class Guard:
    """Decides, and keeps what was decided. Policies are read once a version of the role."""

    enforced: bool = False
    used: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    denied: Counter[tuple[str, str]] = field(default_factory=Counter)
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    _principals: dict[str, Principal | None] = field(default_factory=dict)
    _read: dict[str, tuple[tuple[Any, ...], Permissions]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def principal(self, access_key: str) -> Principal | None:
        """Whose key it is, if its role is held to its policies."""
        if not access_key.startswith("ASIA"):  # not of temporary credentials
            return None
        if access_key not in self._principals:
            self._principals[access_key] = _assumed(access_key)
        return self._principals[access_key]

    def check(self, principal: Principal, asked: Asked, region: str = REGION) -> Decision | None:
        """The first refusal that the call meets, if refusals are enforced."""
        try:
            found = questions(asked)
        except Unmapped as unknown:
            self.miss(principal, str(unknown))
            return None
        return self.refusal(principal, found, region)

    def refusal(self, principal: Principal, asked: Iterable[Question], region: str = REGION) -> Decision | None:
        """The first of these that the principal may not; None if it may all, or nothing is enforced."""
        permissions, everywhere = self.permissions(principal.role), _everywhere(principal, region)
        # The overrides of a fleet name the same images, subnets and groups many times
        different = {(each.action, each.resource, tuple(sorted(each.context.items()))): each for each in asked}
        for question in different.values():
            decision = permissions.decide(replace(question, context={**question.context, **everywhere}))
            self._keep(principal, decision)
            if not decision.allowed and self.enforced:
                return decision
        return None

    def permissions(self, role: str) -> Permissions:
        """The role's policies as they are now; none for a role that does not exist any more."""
        from moto.iam.models import iam_backends

        iam = iam_backends[ACCOUNT]["aws"]
        found = next((each for each in list(iam.roles.values()) if each.arn == role), None)
        if found is None:
            return Permissions(())
        documents = {**found.policies, **{arn: _document(policy) for arn, policy in found.managed_policies.items()}}
        boundary = None
        if found.permissions_boundary_arn:
            limit = iam.managed_policies.get(found.permissions_boundary_arn)
            boundary = _document(limit) if limit is not None else '{"Statement": []}'
        version = (tuple(documents.items()), boundary)
        known = self._read.get(role)
        if known is None or known[0] != version:
            known = self._read[role] = version, Permissions.read(documents, boundary)
        return known[1]

    def problem(self, access_key: str, asked: Iterable[Question]) -> str | None:
        """Why who signed with this key may not do one of these, in AWS's words; None if nothing stands against it."""
        principal = self.principal(access_key)
        decision = self.refusal(principal, asked) if principal is not None else None
        return message(principal.arn, decision) if principal is not None and decision is not None else None

    def _keep(self, principal: Principal, decision: Decision) -> None:
        with self._lock:
            if decision.allowed:
                self.used.setdefault(principal.role, Counter())[decision.statement, decision.question.action] += 1
                return
            said = message(principal.arn, decision)
            if not self.denied[principal.role, said]:
                log.warning("%s", said)
            self.denied[principal.role, said] += 1

    def miss(self, principal: Principal, call: str) -> None:
        with self._lock:
            if not self.unmapped[principal.role, call]:
                log.error("IAM: no table says what %s needs, which %s called", call, principal.arn)
            self.unmapped[principal.role, call] += 1

    def tell_denied(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            denied = [{"role": role, "message": said, "times": times} for (role, said), times in self.denied.items()]
            unmapped = [{"role": role, "call": call, "times": times} for (role, call), times in self.unmapped.items()]
        return {"enforced": self.enforced, "denied": denied, "unmapped": unmapped}

    def tell_used(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            return {role: sorted({statement for statement, _ in counts}) for role, counts in self.used.items()}

    def tell_granted(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        """By role: the actions of each statement that allows, with the number of calls that it has allowed."""
        with self._lock:
            return {
                role: [
                    {"statement": each.name, "action": action, "resources": each.resources, "times": _times(counts, each.name, action)}
                    for each in self.permissions(role).statements
                    if each.effect == "Allow"
                    for action in each.actions
                ]
                for role, counts in ((role, self.used.get(role, Counter())) for role in _held_roles())
            }

    def enforce(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self.enforced = bool(asked["on"])
        return {}


GUARD: Final = Guard()


def _document(policy: Any) -> str:
    """The text of a managed policy's default version."""
    return str(next(each.document for each in policy.versions if each.version_id == policy.default_version_id))


def _times(counts: Counter[tuple[str, str]], statement: str, action: str) -> int:
    return sum(times for (name, used), times in counts.items() if name == statement and used.lower() == action)


def _everywhere(principal: Principal, region: str) -> dict[str, tuple[str, ...]]:
    """Condition keys that every request has. Only calls from within a function have the function's ARN."""
    keys: dict[str, tuple[str, ...]] = {
        "aws:requestedregion": (region,),
        "aws:principalarn": (principal.role,),
        "aws:principalaccount": (ACCOUNT,),
    }
    if HELD[0] in _trusted(principal.role):
        keys["lambda:sourcefunctionarn"] = (f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{principal.session}",)
    return keys


def _assumed(access_key: str) -> Principal | None:
    from moto.sts.models import sts_backends

    for partitions in list(sts_backends.values()):
        for sts in list(partitions.values()):
            for assumed in reversed(list(sts.assumed_roles)):
                if assumed.access_key_id == access_key:
                    held = any(each in _trusted(assumed.role_arn) for each in HELD)
                    return Principal(assumed.role_arn, assumed.session_name) if held else None
    return None


def _held_roles() -> list[str]:
    from moto.iam.models import iam_backends

    return [each.arn for each in list(iam_backends[ACCOUNT]["aws"].roles.values()) if any(name in _trusted(each.arn) for name in HELD)]


def _trusted(role: str) -> str:
    """The trust policy's text."""
    from moto.iam.models import iam_backends

    found = next((each for each in list(iam_backends[ACCOUNT]["aws"].roles.values()) if each.arn == role), None)
    return str(found.assume_role_policy_document) if found is not None else ""
