"""The required form of a token, checked before STS is called. (Which identities are accepted:
tests/e2e/test_control_plane.py.)
"""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from joiner_local.control_plane.authenticator import Caller, PresignedCall, TokenRefused

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PARAMETERS = {
    "Action": "GetCallerIdentity",
    "Version": "2011-06-15",
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": "AKIA%2F20261121%2Fus-east-1%2Fsts%2Faws4_request",
    "X-Amz-Date": "20261121T115900Z",
    "X-Amz-Expires": "60",
    "X-Amz-SignedHeaders": "host%3Bx-k8s-aws-id",
    "X-Amz-Signature": "0" * 64,
}


def token(*, host: str = "sts.eu-west-1.amazonaws.com", path: str = "/", query: str = "", **changed: str) -> str:
    """Return a token; `changed` replaces parameters, with _ for -; `query` is appended to them."""
    parameters = PARAMETERS | {name.replace("_", "-"): value for name, value in changed.items()}
    url = f"https://{host}{path}?" + "&".join(f"{name}={value}" for name, value in parameters.items() if value) + query
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_a_token_of_any_regional_sts_is_read() -> None:
    call = PresignedCall.from_token(token(), now=NOW)
    assert call.host == "sts.eu-west-1.amazonaws.com"
    assert "X-Amz-Signature=000" in call.query


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("", "not an EKS token"),
        ("k8s-aws-v1." + "A" * 4096, "not an EKS token"),
        (token(host="sts.evil.example.com"), "unexpected host"),
        (token(host="sts.amazonaws.com.evil.example.com"), "unexpected host"),
        (token(path="/elsewhere"), "unexpected host or path"),
        (token(Action="AssumeRole"), "not GetCallerIdentity"),
        (token(query="&RoleArn=x"), "parameters not allowed: \\['rolearn'\\]"),
        (token(query="&Action=GetCallerIdentity"), "occurs twice"),
        (token(X_Amz_SignedHeaders="host"), "x-k8s-aws-id is not signed"),
        (token(X_Amz_Expires="901"), "X-Amz-Expires is 901"),
        (token(X_Amz_Expires="soon"), "X-Amz-Expires is missing or no such thing"),
        (token(X_Amz_Date=""), "X-Amz-Date"),
        (token(X_Amz_Date="20261121T114400Z"), "older than 15 minutes"),
    ],
)
def test_anything_unusual_about_a_token_is_refused(bad: str, why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        PresignedCall.from_token(bad, now=NOW)


def test_a_token_is_valid_for_fifteen_minutes_whatever_its_url_claims() -> None:
    signed = datetime(2026, 11, 21, 11, 59, tzinfo=UTC)
    PresignedCall.from_token(token(), now=signed + timedelta(minutes=15))
    with pytest.raises(TokenRefused):
        PresignedCall.from_token(token(), now=signed + timedelta(minutes=15, seconds=1))


def test_an_entry_is_for_sessions_of_its_role_in_its_account_only() -> None:
    caller = Caller("arn:aws:sts::111122223333:assumed-role/joiner/i-0abc", "111122223333", "AROA:i-0abc")
    assert caller.session == "i-0abc"
    assert caller.is_principal("arn:aws:iam::111122223333:role/joiner")
    assert caller.is_principal("arn:aws:iam::111122223333:role/teams/a/joiner")
    assert not caller.is_principal("arn:aws:iam::111122223333:role/joiner/other")
    assert not caller.is_principal("arn:aws:iam::444455556666:role/joiner")
    assert not caller.is_principal("arn:aws:iam::111122223333:user/joiner")
