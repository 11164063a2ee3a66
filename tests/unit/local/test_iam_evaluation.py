"""The evaluator of IAM policies: wildcards, operators, explicit denies, boundaries, and the reasons that AWS gives."""

from typing import Any

import pytest

from joiner_local.aws.iam.encoded_messages import decode_denial, ec2_message
from joiner_local.aws.iam.policy_conditions import MalformedPolicy, PolicyCondition, like, replace_variables
from joiner_local.aws.iam.policy_evaluation import (
    AccessDecision,
    RequiredPermission,
    RolePermissions,
    denial_message,
)

TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/t"


def decide(
    *statements: dict[str, Any], action: str, resource: str = "*", boundary: Any = None, **context: Any
) -> AccessDecision:
    keys = {name.replace("__", ":").lower(): tuple(values) for name, values in context.items()}
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    return RolePermissions.read({"p": document}, boundary).decide(RequiredPermission(action, resource, keys))


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


@pytest.mark.parametrize(
    ("granted", "asked", "allowed"),
    [
        (allow("s3:GetObject", "arn:aws:s3:::b/plans/*"), ("s3:GetObject", "arn:aws:s3:::b/plans/up/1.json"), True),
        (allow("s3:GetObject", "arn:aws:s3:::b/plans/*"), ("s3:GetObject", "arn:aws:s3:::b/surveys/1.json"), False),
        (allow("S3:getobject", "*"), ("s3:GetObject", "arn:aws:s3:::b/k"), True),
        (allow("s3:Get*", "*"), ("s3:PutObject", "arn:aws:s3:::b/k"), False),
        (allow("s3:?etObject", "*"), ("s3:GetObject", "arn:aws:s3:::b/k"), True),
        (allow("s3:GetObject", "arn:aws:s3:::B/*"), ("s3:GetObject", "arn:aws:s3:::b/k"), False),
        (allow("s3:GetObject", "arn:aws:s3:::[b]/*"), ("s3:GetObject", "arn:aws:s3:::b/k"), False),
        ({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}, ("iam:PassRole", "r"), False),
        ({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}, ("s3:GetObject", "r"), True),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:x"}, ("s3:GetObject", "arn:x"), False),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:x"}, ("s3:GetObject", "arn:y"), True),
    ],
)
def test_actions_and_resources_match_by_wildcards(
    granted: dict[str, Any], asked: tuple[str, str], allowed: bool
) -> None:
    assert decide(granted, action=asked[0], resource=asked[1]).allowed is allowed


@pytest.mark.parametrize(
    ("operator", "operand", "values", "holds"),
    [
        ("StringEquals", ["a", "b"], ("b",), True),
        ("StringEquals", ["a"], ("A",), False),
        ("StringEquals", ["a*"], ("ab",), False),
        ("StringEquals", ["a"], None, False),
        ("StringEqualsIfExists", ["a"], None, True),
        ("StringEqualsIfExists", ["a"], ("b",), False),
        ("StringEqualsIgnoreCase", ["a"], ("A",), True),
        ("StringNotEquals", ["a", "b"], ("b",), False),
        ("StringNotEquals", ["a", "b"], ("c",), True),
        ("StringNotEquals", ["a"], None, True),
        ("StringNotEquals", ["a"], (), True),
        ("StringNotEquals", ["a"], ("b", "a"), False),
        ("StringEquals", ["a"], (), False),
        ("ForAnyValue:StringNotEquals", ["a"], ("b", "a"), True),
        ("ForAllValues:StringEquals", ["a"], ("",), True),
        ("ForAnyValue:StringEqualsIfExists", ["a"], None, True),
        ("StringLike", ["a*"], ("ab",), True),
        ("StringEquals", ["${*}"], ("*",), True),
        ("StringLike", ["a${*}"], ("ab",), False),
        ("StringLike", ["a${*}"], ("a*",), True),
        ("BinaryEquals", ["YQ=="], ("YQ==",), True),
        ("BinaryEquals", ["YQ=="], ("Yg==",), False),
        ("BinaryEquals", ["YQ=="], ("a",), False),
        ("NumericEquals", ["${aws:key}"], ("1",), False),  # no variables in numbers
        ("StringNotLike", ["a*"], ("ab",), False),
        ("StringNotLike", ["a*"], None, True),
        ("ForAllValues:StringEquals", ["a", "b"], ("a", "b"), True),
        ("ForAllValues:StringEquals", ["a", "b"], ("a", "c"), False),
        ("ForAllValues:StringEquals", ["a"], (), True),
        ("ForAllValues:StringEquals", ["a"], None, True),
        ("ForAnyValue:StringEquals", ["a"], ("a", "c"), True),
        ("ForAnyValue:StringEquals", ["a"], ("c",), False),
        ("ForAnyValue:StringEquals", ["a"], None, False),
        ("ForAnyValue:StringNotEquals", ["a"], None, False),
        ("ForAllValues:StringNotEquals", ["a"], ("b", "a"), False),
        ("Bool", ["true"], ("true",), True),
        ("Bool", [True], ("false",), False),
        ("Null", ["true"], None, True),
        ("Null", ["true"], ("a",), False),
        ("Null", ["false"], ("a",), True),
        ("Null", ["false"], None, False),
        ("NumericLessThanEquals", ["10"], ("10",), True),
        ("NumericLessThan", ["10"], ("10",), False),
        ("NumericGreaterThan", [3], ("4",), True),
        ("NumericEquals", ["1"], ("x",), False),
        ("NumericNotEquals", ["1"], ("2",), True),
        ("DateLessThan", ["2026-01-01T00:00:00+00:00"], ("2025-12-31T00:00:00+00:00",), True),
        ("ArnEquals", ["arn:aws:iam::123456789012:role/*"], ("arn:aws:iam::123456789012:role/a",), True),
        # a wildcard does not reach over a colon
        ("ArnEquals", ["arn:aws:iam::*"], ("arn:aws:iam::123456789012:role/a",), False),
        ("ArnLike", ["arn:aws:lambda:*:*:function:*"], ("arn:aws:lambda:us-east-1:123456789012:function:f:3",), True),
        ("ArnNotLike", ["arn:aws:iam::1:role/*"], ("arn:aws:iam::2:role/a",), True),
        ("IpAddress", ["10.0.0.0/8"], ("10.1.2.3",), True),
        ("NotIpAddress", ["10.0.0.0/8"], ("10.1.2.3",), False),
    ],
)
def test_operators(operator: str, operand: list[Any], values: tuple[str, ...] | None, holds: bool) -> None:
    context = {} if values is None else {"aws:key": values}

    assert PolicyCondition.read(operator, "aws:Key", operand).holds(context) is holds


def test_all_conditions_must_hold() -> None:
    both = allow("*", Condition={"StringEquals": {"aws:A": "1", "aws:B": "2"}})

    assert decide(both, action="s3:GetObject", aws__A="1", aws__B="2").allowed
    assert not decide(both, action="s3:GetObject", aws__A="1").allowed


def test_a_variable_without_a_value_matches_nothing() -> None:
    own = allow("s3:GetObject", "arn:aws:s3:::b/${aws:PrincipalTag/team}/*")

    assert decide(
        own, action="s3:GetObject", resource="arn:aws:s3:::b/x/k", **{"aws__PrincipalTag/team": ("x",)}
    ).allowed
    assert not decide(own, action="s3:GetObject", resource="arn:aws:s3:::b/x/k").allowed


def test_a_wildcard_of_a_variables_value_is_literal() -> None:
    own = allow("s3:GetObject", "arn:aws:s3:::b/${aws:PrincipalTag/team}/*")

    def allowed(resource: str) -> bool:
        return decide(own, action="s3:GetObject", resource=resource, **{"aws__PrincipalTag/team": ("*",)}).allowed

    assert not allowed("arn:aws:s3:::b/x/k")
    assert allowed("arn:aws:s3:::b/*/k")


def test_a_variable_without_a_value_has_its_default() -> None:
    text = "arn:aws:s3:::b/${aws:PrincipalTag/team, 'every*one'}/*"

    assert replace_variables(text, {"aws:principaltag/team": ("x",)}) == "arn:aws:s3:::b/x/*"
    assert replace_variables(text, {}) == "arn:aws:s3:::b/every${*}one/*"
    assert like("arn:aws:s3:::b/every*one/k", replace_variables(text, {}) or "")
    assert replace_variables(text, {"aws:principaltag/team": ("x", "y")}) is None  # no variable has several values


def test_a_policy_of_the_old_version_has_no_variables() -> None:
    statement = allow("s3:GetObject", "arn:aws:s3:::b/${aws:PrincipalTag/team}")
    old = RolePermissions.read({"p": {"Version": "2008-10-17", "Statement": statement}})
    context = {"aws:principaltag/team": ("x",)}

    assert not old.decide(RequiredPermission("s3:GetObject", "arn:aws:s3:::b/x", context)).allowed
    assert old.decide(RequiredPermission("s3:GetObject", "arn:aws:s3:::b/${aws:PrincipalTag/team}", context)).allowed


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"Statement": allow("s3:*", Condition={"StringEqual": {"k": "v"}})},
            r"^p\[0\]: Condition: StringEqual is no operator",
        ),
        ({"Statement": allow("s3:*", Condition={"NullIfExists": {"k": "true"}})}, "NullIfExists is no operator"),
        (
            {"Statement": allow("s3:*", Condition={"ForSomeValues:StringLike": {"k": "v"}})},
            "ForSomeValues:StringLike is no operator",
        ),
        ({"Statement": allow("s3:*", Condition={"StringEquals": {"k": {"a": 1}}})}, "neither text, number nor Boolean"),
        ({"Statement": allow("s3:*", Condition={"StringEquals": "v"})}, "Condition must be an object of objects"),
        (
            {"Statement": {"Effect": "Allow", "Resource": "*", "Sid": "X"}},
            r"^p\[X\]: a statement must have either Action or NotAction",
        ),
        ({"Statement": {"Effect": "Allow", "Action": "s3:*"}}, "either Resource or NotResource"),
        ({"Statement": {"Action": "s3:*", "Resource": "*"}}, "Effect must be Allow or Deny, not None"),
        (
            {"Statement": {**allow("s3:*"), "Principal": "*"}},
            "Principal is no element of a statement of an identity policy",
        ),
        ({"Statement": allow([1])}, "Action must be text"),
        ({"Statement": ["s3:*"]}, "a statement must be an object"),
        ({"Version": "2012-10-18", "Statement": []}, "the version 2012-10-18"),
        ({}, "^p: the document has no Statement"),
        ("{", "^p: the document is not JSON"),
    ],
)
def test_a_malformed_policy_is_refused_by_name(document: Any, problem: str) -> None:
    with pytest.raises(MalformedPolicy, match=problem):
        RolePermissions.read({"p": document})


def test_ec2_encodes_the_denial_of_a_call_that_changes_something() -> None:
    decision = decide(action="ec2:TerminateInstances", resource="arn:i", aws__A=("1",))
    message, _, code = ec2_message("arn:p", decision).partition(". Encoded authorization failure message: ")

    assert message.startswith(
        "You are not authorized to perform this operation. User: arn:p is not authorized to perform: "
    )
    context = decode_denial(code)["context"]
    assert (context["action"], context["resource"]) == ("ec2:TerminateInstances", "arn:i")
    assert context["conditions"]["items"] == [{"key": "aws:a", "values": {"items": [{"value": "1"}]}}]
    assert "Encoded" not in ec2_message("arn:p", decide(action="ec2:DescribeInstances"))
    with pytest.raises(ValueError, match="not an encoded authorization message"):
        decode_denial("AAAA")


def test_an_explicit_deny_prevails_and_is_named() -> None:
    decision = decide(
        allow("*"), {"Effect": "Deny", "Action": "s3:*", "Resource": "*", "Sid": "No"}, action="s3:GetObject"
    )

    assert (decision.allowed, decision.statement) == (False, "p[No]")
    assert denial_message("u", decision).endswith(
        "perform: s3:GetObject on resource: * with an explicit deny in an identity-based policy"
    )


def test_a_boundary_limits_but_gives_nothing() -> None:
    boundary = {"Statement": allow("s3:*")}

    assert decide(allow("*"), action="s3:GetObject", boundary=boundary).allowed
    assert not decide(action="s3:GetObject", boundary=boundary).allowed
    outside = decide(allow("*"), action="iam:PassRole", boundary=boundary)
    assert outside.reason == "because no permissions boundary allows the iam:PassRole action"


def test_the_reason_names_the_action_that_no_policy_allows() -> None:
    decision = decide(action="dynamodb:GetItem", resource=TABLE)

    assert denial_message("arn:aws:sts::123456789012:assumed-role/r/s", decision) == (
        "User: arn:aws:sts::123456789012:assumed-role/r/s is not authorized to perform: dynamodb:GetItem on resource: "
        f"{TABLE} because no identity-based policy allows the dynamodb:GetItem action"
    )
