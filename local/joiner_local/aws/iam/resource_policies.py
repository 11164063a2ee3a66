"""Resource policies of queues and functions: whether a service may use the resource.

A rule whose target lacks its permission delivers nothing on AWS either. Source: EventBridge user guide, "Using
resource-based policies for Amazon EventBridge".

>>> statement = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
...              "Condition": {"ArnEquals": {"aws:SourceArn": "arn:rule/a"}}}
>>> allows([statement], PolicyRequest("events.amazonaws.com", "sqs:SendMessage", "arn:rule/a"))
True
>>> allows([statement], PolicyRequest("events.amazonaws.com", "sqs:SendMessage", "arn:rule/b"))
False
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from joiner_local.aws.local_aws import ACCOUNT


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """`source` is the ARN of the resource that makes the service act: a rule, an API."""

    service: str
    action: str
    source: str

    def value(self, key: str) -> str | None:
        return {
            "aws:sourcearn": self.source,
            "aws:sourceaccount": ACCOUNT,
            "aws:principalservicename": self.service,
            "aws:securetransport": "true",
        }.get(key.lower())


def allows(statements: Iterable[Mapping[str, Any]], request: PolicyRequest) -> bool:
    """Return whether an Allow applies and no Deny applies."""
    effects = {statement.get("Effect") for statement in statements if _applies(statement, request)}
    return "Allow" in effects and "Deny" not in effects


def _applies(statement: Mapping[str, Any], request: PolicyRequest) -> bool:
    principal = statement.get("Principal", {})
    named = (
        _listed(principal.get("Service")) + _listed(principal.get("AWS"))
        if isinstance(principal, Mapping)
        else _listed(principal)
    )
    if request.service not in named and "*" not in named:
        return False
    if not any(fnmatchcase(request.action.lower(), pattern.lower()) for pattern in _listed(statement.get("Action"))):
        return False
    conditions: Mapping[str, Mapping[str, Any]] = statement.get("Condition") or {}
    return all(
        _holds(operator, key, _listed(wanted), request)
        for operator, tests in conditions.items()
        for key, wanted in tests.items()
    )


def _holds(operator: str, key: str, wanted: list[str], request: PolicyRequest) -> bool:
    actual = request.value(key)
    negated = "Not" in operator
    if actual is None:
        return negated or operator.endswith("IfExists")
    matched = any(fnmatchcase(actual, pattern) for pattern in wanted)
    return matched != negated


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [
        str(item).lower() if isinstance(item, bool) else str(item)
        for item in (value if isinstance(value, list) else [value])
    ]
