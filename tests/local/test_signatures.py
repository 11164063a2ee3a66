"""STS accepts a request only if it is signed with the right secret: an EKS token is exactly such a request."""

import datetime as dt
import hashlib
import http.client
import json
import urllib.parse
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from joiner_local.aws.sts.request_signatures import SignedRequest
from tests.local.running_aws import RunningAws

TOKEN = """
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.session import Session

def handler(event, context):
    url = "https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
    request = AWSRequest("GET", url, headers={"x-k8s-aws-id": event})
    SigV4QueryAuth(Session().get_credentials(), "sts", "us-east-1", expires=60).add_auth(request)
    return request.url
"""


def presigned(credentials: Credentials, cluster: str) -> str:
    """Return the URL inside an EKS token for this cluster."""
    url = "https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
    request = AWSRequest("GET", url, headers={"x-k8s-aws-id": cluster})
    SigV4QueryAuth(credentials, "sts", "us-east-1", expires=60).add_auth(request)
    return str(request.url)


def asked(aws: RunningAws, url: str, cluster: str) -> tuple[int, str]:
    """Return STS's response to a presigned URL that an authenticator sends with the cluster's name."""
    parsed = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(aws.endpoint.removeprefix("http://"), timeout=30)
    connection.request("GET", f"{parsed.path}?{parsed.query}", headers={"Host": parsed.netloc, "x-k8s-aws-id": cluster})
    answer = connection.getresponse()
    body = answer.status, answer.read().decode()
    connection.close()
    return body


def assumed(aws: RunningAws) -> Credentials:
    role = aws.role("lambda.amazonaws.com")
    given = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="node")["Credentials"]
    return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


def test_sts_returns_the_role_of_the_function_that_signed(local_aws: RunningAws) -> None:
    name = local_aws.function(TOKEN)
    answer = local_aws.client("lambda").invoke(FunctionName=name, Payload=json.dumps("prod").encode())
    url = json.loads(answer["Payload"].read())

    status, body = asked(local_aws, url, "prod")
    assert status == 200
    role = local_aws.client("lambda").get_function(FunctionName=name)["Configuration"]["Role"].rpartition("/")[2]
    assert f":assumed-role/{role}/{name}</Arn>" in body


def test_a_token_for_another_cluster_is_refused(local_aws: RunningAws) -> None:
    url = presigned(assumed(local_aws), "prod")

    assert asked(local_aws, url, "prod")[0] == 200
    status, body = asked(local_aws, url, "staging")
    assert (status, "<Code>SignatureDoesNotMatch</Code>" in body) == (403, True)


def test_a_wrong_secret_an_unknown_key_and_a_missing_session_token_are_refused(local_aws: RunningAws) -> None:
    right = assumed(local_aws)
    wrong = Credentials(right.access_key, "not-the-secret", right.token)
    unknown = Credentials("AKIAIOSFODNN7EXAMPLE", "secret")
    without = Credentials(right.access_key, right.secret_key)

    codes = [asked(local_aws, presigned(each, "prod"), "prod") for each in (wrong, unknown, without)]
    assert [status for status, _ in codes] == [403, 403, 403]
    assert [
        "SignatureDoesNotMatch" in codes[0][1],
        "InvalidClientTokenId" in codes[1][1],
        "InvalidClientTokenId" in codes[2][1],
    ] == [True] * 3


def test_an_old_token_is_refused_whatever_validity_it_claims(local_aws: RunningAws) -> None:
    signer, made = assumed(local_aws), dt.datetime.now(dt.UTC) - dt.timedelta(minutes=16)
    scope = f"{made:%Y%m%d}/us-east-1/sts/aws4_request"
    query = (
        ("Action", "GetCallerIdentity"),
        ("Version", "2011-06-15"),
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", f"{signer.access_key}/{scope}"),
        ("X-Amz-Date", f"{made:%Y%m%dT%H%M%SZ}"),
        ("X-Amz-Expires", "3600"),
        ("X-Amz-Security-Token", str(signer.token)),
        ("X-Amz-SignedHeaders", "host;x-k8s-aws-id"),
    )
    signed = SignedRequest(
        method="GET",
        path="/",
        query=query,
        headers={"host": "sts.us-east-1.amazonaws.com", "x-k8s-aws-id": "prod"},
        payload_hash=hashlib.sha256(b"").hexdigest(),
        signed_headers=("host", "x-k8s-aws-id"),
        date=f"{made:%Y%m%dT%H%M%SZ}",
        scope=scope,
    )
    signature = signed.signature(str(signer.secret_key))
    url = f"https://sts.us-east-1.amazonaws.com/?{urllib.parse.urlencode((*query, ('X-Amz-Signature', signature)))}"

    status, body = asked(local_aws, url, "prod")
    assert (status, "<Code>ExpiredToken</Code>" in body) == (403, True)


def test_a_token_without_its_date_is_incomplete(local_aws: RunningAws) -> None:
    url = presigned(assumed(local_aws), "prod").replace("X-Amz-Date", "X-Amz-Gone")

    status, body = asked(local_aws, url, "prod")
    assert (status, "<Code>IncompleteSignature</Code>" in body) == (403, True)


def test_the_keys_of_a_user_and_those_from_outside_are_known(local_aws: RunningAws) -> None:
    iam, user = local_aws.client("iam"), local_aws.fresh("admin")
    iam.create_user(UserName=user)
    key = iam.create_access_key(UserName=user)["AccessKey"]

    body = asked(local_aws, presigned(Credentials(key["AccessKeyId"], key["SecretAccessKey"]), "prod"), "prod")[1]
    assert f":user/{user}</Arn>" in body
    assert asked(local_aws, presigned(Credentials("test", "test"), "prod"), "prod")[0] == 200


def test_a_call_with_a_signed_header_is_checked_too(local_aws: RunningAws) -> None:
    right = assumed(local_aws)

    def sts(secret: str) -> Any:
        session = boto3.Session(right.access_key, secret, right.token, region_name="us-east-1")
        return session.client("sts", endpoint_url=local_aws.endpoint)

    assert ":assumed-role/" in sts(str(right.secret_key)).get_caller_identity()["Arn"]
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        sts("not-the-secret").get_caller_identity()
