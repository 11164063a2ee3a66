"""Bearer tokens for an EKS API server, signed here: a presigned STS URL whose signed header names the cluster.

Signing needs no network and no permission: the API server's authenticator sends the URL to STS. A token is valid for 15
minutes after its signature, independent of ``X-Amz-Expires`` (aws-iam-authenticator, ``pkg/token``). It is kept for ten
minutes. It is a bearer secret: nothing here logs or prints it.
"""

import base64
from collections.abc import Callable
from typing import Final, Protocol

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PREFIX: Final = "k8s-aws-v1."
KEPT_SECONDS: Final = 600.0
_URL_EXPIRES_SECONDS: Final = 60

# The regional STS host by partition, which depends only on the first words of a region's name (botocore,
# endpoints.json).
_SUFFIXES: Final = (
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-iso-", "c2s.ic.gov"),
)


class TokenSource(Protocol):
    """A source of bearer tokens for the API server."""

    def token(self, *, fresh: bool = False) -> str:
        """Return the bearer token; `fresh` requests a new one because the last was refused."""


def sts_host(region: str) -> str:
    """Return the STS endpoint that the authenticator of a cluster in `region` knows.

    >>> sts_host("eu-west-1"), sts_host("cn-north-1")
    ('sts.eu-west-1.amazonaws.com', 'sts.cn-north-1.amazonaws.com.cn')
    """
    suffix = next((suffix for start, suffix in _SUFFIXES if region.startswith(start)), "amazonaws.com")
    return f"sts.{region}.{suffix}"


def sign(cluster: str, region: str, credentials: Credentials) -> str:
    """Sign a new token of `credentials` for `cluster`."""
    request = AWSRequest(
        method="GET",
        url=f"https://{sts_host(region)}/?Action=GetCallerIdentity&Version=2011-06-15",
        headers={"x-k8s-aws-id": cluster},
    )
    SigV4QueryAuth(credentials, "sts", region, expires=_URL_EXPIRES_SECONDS).add_auth(request)
    return PREFIX + base64.urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")


class EksTokens:
    """Tokens of one identity for one cluster, each used for ten minutes."""

    def __init__(
        self, cluster: str, region: str, credentials: Callable[[], Credentials], clock: Callable[[], float]
    ) -> None:
        """Store the sources of credentials and time. `credentials` is called for each signature, because a Lambda's
        session changes; `clock` gives epoch seconds.
        """
        self._cluster = cluster
        self._region = region
        self._credentials = credentials
        self._clock = clock
        self._token = ""
        self._signed_at = float("-inf")

    def token(self, *, fresh: bool = False) -> str:
        """Return the kept token, or a new one if it is old or was refused."""
        now = self._clock()
        if fresh or now - self._signed_at > KEPT_SECONDS:
            self._token = sign(self._cluster, self._region, self._credentials())
            self._signed_at = now
        return self._token
