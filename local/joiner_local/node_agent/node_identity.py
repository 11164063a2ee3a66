"""The identity of a node: the role of its instance profile, in a session named like the instance's id, as a bearer
token for the cluster.

The instance's metadata service provides those credentials. The token is what `aws eks get-token`
prints: `k8s-aws-v1.` and a presigned GetCallerIdentity with the cluster's name in a signed header.
"""

import base64
from dataclasses import dataclass
from typing import Final

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from joiner_local.node_agent.instance_source import InstanceMetadata
from joiner_local.node_agent.node_registration import Unbootable

EXPIRES: Final = 60  # seconds, as the real client sets it; the reviewer accepts a token for 15 minutes


@dataclass(frozen=True, slots=True)
class RoleSession:
    """Credentials of a role, assumed for one instance."""

    access_key: str
    secret: str
    token: str

    def eks_token(self, sts_endpoint: str, region: str, cluster: str) -> str:
        url = f"{sts_endpoint}/?Action=GetCallerIdentity&Version=2011-06-15"
        request = AWSRequest(method="GET", url=url, headers={"x-k8s-aws-id": cluster})
        SigV4QueryAuth(Credentials(self.access_key, self.secret, self.token), "sts", region, expires=EXPIRES).add_auth(
            request
        )
        return "k8s-aws-v1." + base64.urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")


def profile_session(metadata: InstanceMetadata) -> RoleSession:
    """Return the session of the profile's role. Raises Unbootable for an instance without a role: it has no credentials
    to join with."""
    if (given := metadata.credentials) is None:
        raise Unbootable("the instance has no instance profile with a role, so no credentials")
    return RoleSession(given["accessKeyId"], given["secretAccessKey"], given["token"])
