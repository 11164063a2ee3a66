"""The actions that the fault table must cover: all that IAM allows to the state machines and functions of the
scenarios.

The list is the roles' own policies, so a call that is added with its grant must be made in one of the scenarios, or be
listed here with a reason.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

METHODS: Final = {("s3", "GET"): "getobject", ("s3", "PUT"): "putobject", ("eks", "GET"): "describecluster"}
"""Calls that are named by their HTTP method."""

TRANSACTION: Final = ("conditioncheckitem", "putitem", "updateitem")
"""What one TransactWriteItems needs."""

NEVER_STRUCK: Final[Mapping[str, str]] = {
    r"logs:.*": "Lambda and Step Functions write logs, not our code",
    r"lambda:invokefunction": "the stops while a state works stand for it",
    r"xray:.*": "Lambda's and Step Functions' own",
    r"s3:listbucket": "no call: with it S3 answers 404 for a document that is not there, not 403",
    r"ec2:runinstances|iam:passrole"
    r"|ec2:describe(?!instances$|instancestatus$|images$|launchtemplateversions$|securitygroups$|subnets$).*": (
        "EC2 asks for it when CreateFleet is called"
    ),
    r"launch_instances ec2:describe(images|instances|securitygroups|subnets)": (
        "EC2 asks for it when CreateFleet is called"
    ),
    r"dynamodb:(batchgetitem|getitem|query)": (
        "granted together, for the kinds of items that the function reads; it uses some of them"
    ),
    r"kms:.*|iam:createservicelinkedrole": (
        "EC2 asks for it when a fleet is launched with such a key, or for the first time"
    ),
    r"resolve_node_classes (ec2:describe(instances|snapshots)|iam:getinstanceprofile|ssm:getparameter)": (
        "for node classes with placement groups, snapshots or profiles"
    ),
    r"joiner-\S+ states:startexecution": (
        "the local Step Functions starts executions itself; the stops while a state works stand for it"
    ),
    r"joiner-empty-\S+ dynamodb:updateitem": "for pods that move: an empty node has none",
    r"survey_instances dynamodb:deleteitem": "an absence that has ended",
    r"handle_interruption sqs:.*": "Lambda reads the queue, not our code",
    r"mark_nodes dynamodb:deleteitem": "for a pod that is bound to a node between the listing and the taint",
}
"""Actions, or caller and action, as regular expressions; and why no case strikes them."""


def struck(calls: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Caller and IAM action of each recorded call of AWS.

    >>> calls = [("f", "s3 GET plans"), ("f", "dynamodb TransactWriteItems LEASE+LAUNCH"), ("f", "kube LIST pods")]
    >>> [action for _, action in sorted(struck(calls))]
    ['dynamodb:conditioncheckitem', 'dynamodb:putitem', 'dynamodb:updateitem', 's3:getobject']
    """
    found = set()
    for caller, what in calls:
        service, action, *_ = f"{what} ".split(" ")
        if service == "kube":
            continue
        actions = TRANSACTION if action == "TransactWriteItems" else (METHODS.get((service, action), action.lower()),)
        found |= {(caller, f"{service}:{each}") for each in actions}
    return found


def not_struck(
    granted: Mapping[str, Sequence[Mapping[str, Any]]], roles: Mapping[str, str], calls: Iterable[tuple[str, str]]
) -> list[str]:
    """Grants of `roles` (their ARNs by caller) that none of `calls` uses, and that have no reason above."""
    met = struck(calls)
    wanted = {(caller, str(each["action"])) for caller, role in roles.items() for each in granted[role]}
    return sorted(f"{caller} {action}" for caller, action in wanted - met if not _reason(caller, action))


def _reason(caller: str, action: str) -> bool:
    return any(re.fullmatch(pattern, action) or re.fullmatch(pattern, f"{caller} {action}") for pattern in NEVER_STRUCK)
