"""A class whose launches EC2 refuses is not ready, until something changes on which the refusal may depend."""

from dataclasses import replace

import pytest

from joiner.cluster import Requirements
from joiner.lifecycle.class_verdicts import ClassVerdict, MissingPermission, shorten_message
from joiner.lifecycle.refused_classes import digest_class, hold_refused_class
from joiner.pools import Image, NodeClass, NodePool, ResolvedNodeClass, SecurityGroup, Subnet

NODE_CLASS = NodeClass("default", tags={"team": "web"})
POOL = NodePool("default", NODE_CLASS.ref)
RESOLVED = ResolvedNodeClass(
    "default",
    "EC2NodeClass",
    subnets=(Subnet("subnet-a", "us-east-1a", 100), Subnet("subnet-b", "us-east-1b", 100)),
    security_groups=(SecurityGroup("sg-1"),),
    images=(Image("ami-1", "amd64"),),
    instance_profile="nodes",
)
DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:sts::111122223333:assumed-role/joiner/launch is "
    "not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:111122223333:instance/*"
)
REFUSED = MissingPermission("RunInstances", f"{DENIED} with an explicit deny in a service control policy")
DIGEST = digest_class(NODE_CLASS, RESOLVED, [POOL])


def held(verdict: ClassVerdict, now: int, node_class: NodeClass = NODE_CLASS) -> ResolvedNodeClass:
    return hold_refused_class(RESOLVED, node_class, [POOL], {RESOLVED.key: verdict}, now)


def test_a_refused_class_says_which_permission_is_missing_where_and_what_to_change() -> None:
    (problem,) = held(ClassVerdict(DIGEST, (REFUSED,), 1000), 1001).problems

    assert (problem.condition, problem.reason) == ("ValidationSucceeded", "RunInstancesAuthCheckFailed")
    assert problem.message == (
        "EC2 refuses RunInstances: the role of launch_instances may not ec2:RunInstances on "
        "arn:aws:ec2:us-east-1:111122223333:instance/* (with an explicit deny in a service control policy): have that "
        "service control policy of the organisation changed; `joiner accept` shows EC2's whole answer"
    )


def test_every_refused_call_is_a_problem_of_the_class() -> None:
    fleet = MissingPermission("CreateFleet", "You are not authorized to perform this operation.")
    reasons = [one.reason for one in held(ClassVerdict(DIGEST, (fleet, REFUSED), 1000), 1001).problems]

    assert reasons == ["CreateFleetAuthCheckFailed", "RunInstancesAuthCheckFailed"]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("because no permissions boundary allows the ec2:RunInstances action", "extend that permissions boundary"),
        ("because no identity-based policy allows the ec2:RunInstances action", "deploy Joiner again"),
        ("with an explicit deny in an identity-based policy", "remove that statement from the policies of the role"),
        ("with an explicit deny in a resource control policy", "have that resource control policy"),
        ("", "look for a service control policy, a permissions boundary, or an image owner"),
    ],
)
def test_the_remedy_is_that_of_the_policy_that_ec2_names(text: str, remedy: str) -> None:
    assert f": {remedy}" in MissingPermission("RunInstances", f"{DENIED} {text}").explanation


def test_a_message_that_names_no_action_is_shown_without_its_encoded_part() -> None:
    message = shorten_message(
        "You are not authorized to perform this operation. Encoded authorization failure message: Ab_c-9"
    )

    assert MissingPermission("CreateFleet", message).explanation.startswith(
        "EC2 refuses CreateFleet to the role of launch_instances: You are not authorized to perform this operation: "
    )


def test_a_refusal_holds_until_it_is_tried_again_and_half_an_hour_at_most() -> None:
    verdict = ClassVerdict(DIGEST, (REFUSED,), 1000)

    assert [held(verdict, 1000 + later).ready for later in (0, 1799, 1800)] == [False, False, True]


def test_what_was_allowed_holds_nothing_back() -> None:
    assert held(ClassVerdict(DIGEST, (), 1000), 1001) == RESOLVED
    assert hold_refused_class(RESOLVED, NODE_CLASS, [POOL], {}, 1001) == RESOLVED


@pytest.mark.parametrize(
    "changed",
    [
        replace(RESOLVED, subnets=RESOLVED.subnets[:1]),
        replace(RESOLVED, security_groups=()),
        replace(RESOLVED, images=(Image("ami-2", "amd64"),)),
        replace(RESOLVED, instance_profile="others"),
    ],
    ids=["subnets", "security groups", "images", "profile"],
)
def test_a_refusal_ends_when_the_class_resolves_to_something_else(changed: ResolvedNodeClass) -> None:
    verdict = ClassVerdict(DIGEST, (REFUSED,), 1000)

    assert hold_refused_class(changed, NODE_CLASS, [POOL], {changed.key: verdict}, 1001) == changed


def test_a_refusal_ends_when_the_class_or_the_requirements_of_its_pools_change() -> None:
    verdict = ClassVerdict(DIGEST, (REFUSED,), 1000)
    types = Requirements.from_labels({"node.kubernetes.io/instance-type": "m5.large"})

    assert held(verdict, 1001, replace(NODE_CLASS, tags={"team": "ml"})).ready
    assert digest_class(NODE_CLASS, RESOLVED, [replace(POOL, requirements=types)]) != DIGEST


def test_free_addresses_and_the_order_of_subnets_change_nothing() -> None:
    turned = replace(RESOLVED, subnets=(Subnet("subnet-b", "us-east-1b", 3), Subnet("subnet-a", "us-east-1a", 0)))

    assert digest_class(NODE_CLASS, turned, [POOL]) == DIGEST


def test_allowed_launches_are_tried_every_half_hour_and_refused_ones_with_each_detection_of_drift() -> None:
    allowed, refused = ClassVerdict(DIGEST, (), 1000), ClassVerdict(DIGEST, (REFUSED,), 1000)

    assert [allowed.is_due(DIGEST, 1000 + later) for later in (0, 300, 1500, 1800)] == [False, False, False, True]
    assert [refused.is_due(DIGEST, 1000 + later) for later in (0, 60, 300)] == [False, False, True]
    assert allowed.is_due("another", 1001)
