"""Decide calls of roles by their policies, and keep a record of what was allowed and denied.

Roles that Lambda, Step Functions, EventBridge or EventBridge Scheduler may assume are evaluated. Users, and roles of
people and of other services, are administrators here. Knobs, all `POST /_local/iam/...`:

  denied   calls that the policies do not allow, and calls whose permissions the local IAM does not know (`unmapped`)
  used     {"role": [...]}: the statements of each role that have allowed a call
  granted  {"role": [...]}: each action that a statement allows, with the number of calls that it has allowed
  enforce  {"on": false}: count denials and let the calls through, from now on; {"on": true} is the default
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joiner_local.aws.iam import account_lookups
from joiner_local.aws.iam.api_call_parsing import ApiCall
from joiner_local.aws.iam.encoded_messages import ec2_message
from joiner_local.aws.iam.policy_conditions import MalformedPolicy
from joiner_local.aws.iam.policy_evaluation import (
    MALFORMED,
    AccessDecision,
    RequiredPermission,
    RolePermissions,
    denial_message,
)
from joiner_local.aws.iam.required_permissions import UnmappedCall, required_permissions
from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.knob_requests import read_flag

log = logging.getLogger(__name__)

EVALUATED_SERVICES: Final = (
    "lambda.amazonaws.com",
    "states.amazonaws.com",
    "events.amazonaws.com",
    "scheduler.amazonaws.com",
)
"""Services whose roles are evaluated: those of functions, state machines, rules and schedules."""

MOST_DECISIONS: Final = 10_000
"""Decisions that are cached for each role; then the cache is emptied."""

UNKNOWN: Final = "because the local IAM does not know which permissions {call} needs: add it to joiner_local.aws.iam"


@dataclass(frozen=True, slots=True)
class AssumedRoleSession:
    """An assumed role, and the name of its session: a function's name for a function's role.

    `by_code` distinguishes calls of the code that runs with the role from calls that the service makes for it.
    """

    role: str
    session: str
    by_code: bool = True

    @property
    def arn(self) -> str:
        return f"arn:aws:sts::{ACCOUNT}:assumed-role/{self.role.rpartition('/')[2]}/{self.session}"


@dataclass(slots=True)
class AccessControl:
    """Decides calls, and keeps a record. The policies of a role are read, and its decisions made, again when the
    policies change.

    A fleet asks the same few permissions for each of its 300 overrides, so decisions are cached.
    """

    enforced: bool = True
    used: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    denied: Counter[tuple[str, str]] = field(default_factory=Counter)
    unmapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    _sessions: dict[str, AssumedRoleSession | None] = field(default_factory=dict)
    _policies: dict[str, "RolePolicies"] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def session_of(self, access_key: str) -> AssumedRoleSession | None:
        """Return the principal of an access key; None for one that is not evaluated."""
        if not access_key.startswith("ASIA"):  # not of temporary credentials
            return None
        if access_key not in self._sessions:
            self._sessions[access_key] = _assumed(access_key)
        return self._sessions[access_key]

    def denial_of(self, principal: AssumedRoleSession, call: ApiCall, region: str = REGION) -> AccessDecision | None:
        """Return the first denial that the call meets; None for an allowed call, and for every call while nothing is
        enforced."""
        try:
            found = required_permissions(call)
        except UnmappedCall as unknown:
            return self.deny_unmapped_call(principal, str(unknown))
        return self.first_denial(principal, found, region)

    def first_denial(
        self, principal: AssumedRoleSession, needed: Iterable[RequiredPermission], region: str = REGION
    ) -> AccessDecision | None:
        """Return the first denial of these permissions; None if all are allowed, or nothing is enforced."""
        policies, everywhere = self._read(principal.role), _everywhere(principal, region)
        for permission in dict.fromkeys(needed):
            decision = policies.decide(permission, everywhere)
            self._keep(principal, decision)
            if not decision.allowed and self.enforced:
                return decision
        return None

    def permissions(self, role: str) -> RolePermissions:
        """Return the role's policies as they are now; none for a role that does not exist. Raises `MalformedPolicy`."""
        found = self._read(role).permissions
        if isinstance(found, MalformedPolicy):
            raise found
        return found

    def _read(self, role: str) -> "RolePolicies":
        found = account_lookups.role_by_arn(role)
        documents = {} if found is None else {**found.policies, **_documents(found.managed_policies.values())}
        boundary = None if found is None else _boundary(found.permissions_boundary_arn)
        version = (tuple(documents.items()), boundary)
        known = self._policies.get(role)
        if known is None or known.version != version:
            known = self._policies[role] = RolePolicies.read(documents, boundary, version)
        return known

    def ec2_denial(self, access_key: str, needed: Iterable[RequiredPermission]) -> str | None:
        """Return the message of the first denial of an EC2 call that this key signed; None if all is allowed."""
        principal = self.session_of(access_key)
        decision = self.first_denial(principal, needed) if principal is not None else None
        return ec2_message(principal.arn, decision) if principal is not None and decision is not None else None

    def _keep(self, principal: AssumedRoleSession, decision: AccessDecision) -> None:
        with self._lock:
            if decision.allowed:
                self.used.setdefault(principal.role, Counter())[decision.statement, decision.permission.action] += 1
                return
            message = denial_message(principal.arn, decision)
            if not self.denied[principal.role, message]:
                log.warning("%s", message)
            self.denied[principal.role, message] += 1

    def deny_unmapped_call(self, principal: AssumedRoleSession, call: str) -> AccessDecision | None:
        """Deny a call that no table knows."""
        with self._lock:
            if not self.unmapped[principal.role, call]:
                log.error("IAM: no table says what %s needs, which %s called", call, principal.arn)
            self.unmapped[principal.role, call] += 1
        return (
            AccessDecision(RequiredPermission(call, "*"), False, UNKNOWN.format(call=call)) if self.enforced else None
        )

    def report_denied(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            denied = [
                {"role": role, "message": message, "times": times} for (role, message), times in self.denied.items()
            ]
            unmapped = [{"role": role, "call": call, "times": times} for (role, call), times in self.unmapped.items()]
        return {"enforced": self.enforced, "denied": denied, "unmapped": unmapped}

    def report_used(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            return {role: sorted({statement for statement, _ in counts}) for role, counts in self.used.items()}

    def report_granted(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return for each role the actions of each Allow statement, with the number of calls that each action has
        allowed."""
        with self._lock:
            return {
                role: [
                    {
                        "statement": each.name,
                        "action": action,
                        "resources": each.resources,
                        "times": _times(counts, each.name, action),
                    }
                    for each in self.permissions(role).statements
                    if each.effect == "Allow"
                    for action in each.actions
                ]
                for role, counts in ((role, self.used.get(role, Counter())) for role in _held_roles())
            }

    def enforce(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self.enforced = read_flag(asked, "on")
        return {}


ACCESS_CONTROL: Final = AccessControl()


@dataclass(frozen=True, slots=True)
class RolePolicies:
    """One version of a role's policies, or why they cannot be read, with the decisions made by them."""

    permissions: RolePermissions | MalformedPolicy
    version: tuple[Any, ...]
    _decisions: dict[tuple[RequiredPermission, tuple[Any, ...]], AccessDecision] = field(default_factory=dict)

    @classmethod
    def read(cls, documents: Mapping[str, str], boundary: str | None, version: tuple[Any, ...]) -> "RolePolicies":
        try:
            return cls(RolePermissions.read(documents, boundary), version)
        except MalformedPolicy as problem:
            return cls(problem, version)

    def decide(self, permission: RequiredPermission, everywhere: Mapping[str, tuple[str, ...]]) -> AccessDecision:
        """Decide a permission with these further condition keys."""
        key = permission, tuple(everywhere.items())
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            found = self._decisions[key] = self._decide(
                replace(permission, context={**permission.context, **everywhere})
            )
        return found

    def _decide(self, permission: RequiredPermission) -> AccessDecision:
        if isinstance(self.permissions, MalformedPolicy):
            return AccessDecision(permission, False, MALFORMED.format(problem=self.permissions))
        return self.permissions.decide(permission)


def _documents(policies: Iterable[Any]) -> dict[str, str]:
    """Return the texts of the default versions of managed policies, by ARN."""
    return {
        str(policy.arn): str(
            next(each.document for each in policy.versions if each.version_id == policy.default_version_id)
        )
        for policy in policies
    }


def _boundary(arn: str | None) -> str | None:
    """Return the text of a permissions boundary; a missing one allows nothing."""
    if not arn:
        return None
    found = account_lookups.managed_policy(arn)
    return next(iter(_documents([found]).values())) if found is not None else '{"Statement": []}'


def _times(counts: Counter[tuple[str, str]], statement: str, action: str) -> int:
    return sum(times for (name, used), times in counts.items() if name == statement and used.lower() == action)


def _everywhere(principal: AssumedRoleSession, region: str) -> dict[str, tuple[str, ...]]:
    """Return the condition keys that every request has. Only calls from within a function have the function's ARN."""
    keys: dict[str, tuple[str, ...]] = {
        "aws:requestedregion": (region,),
        "aws:principalarn": (principal.role,),
        "aws:principalaccount": (ACCOUNT,),
    }
    if principal.by_code and EVALUATED_SERVICES[0] in _trusted(principal.role):
        keys["lambda:sourcefunctionarn"] = (f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{principal.session}",)
    return keys


def _assumed(access_key: str) -> AssumedRoleSession | None:
    from moto.sts.models import sts_backends

    for partitions in list(sts_backends.values()):
        for sts in list(partitions.values()):
            for assumed in reversed(list(sts.assumed_roles)):
                if assumed.access_key_id == access_key:
                    held = any(each in _trusted(assumed.role_arn) for each in EVALUATED_SERVICES)
                    return AssumedRoleSession(assumed.role_arn, assumed.session_name) if held else None
    return None


def _held_roles() -> list[str]:
    return [role for role in account_lookups.role_arns() if any(name in _trusted(role) for name in EVALUATED_SERVICES)]


def _trusted(role: str) -> str:
    """Return the text of the trust policy."""
    found = account_lookups.role_by_arn(role)
    return str(found.assume_role_policy_document) if found is not None else ""
