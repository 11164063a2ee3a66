"""IAM roles as services use them: whether a service may assume a role, and clients that sign as the role.

`iam` decides what a role may do; this module only decides who may assume it.
"""

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from boto3 import Session
from botocore.client import BaseClient
from botocore.config import Config

from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws_sessions import aws_session

LIFETIME = 3600  # seconds, as for a function's credentials
MARGIN = 300


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key: str
    secret: str
    session_token: str
    expires: float  # epoch seconds

    @property
    def stale(self) -> bool:
        return time.time() > self.expires - MARGIN


def check_assumable(role: str, service: str) -> str | None:
    """Return why the service cannot assume the role, or None."""
    from moto.iam.exceptions import NotFoundException
    from moto.iam.models import iam_backends

    refusal = (
        f"Neither the global service principal {service}, nor the regional one is authorized to assume the "
        "provided role"
    )
    try:
        found = iam_backends[ACCOUNT]["aws"].get_role_by_arn(role)
    except (NotFoundException, IndexError):
        return f"{refusal}: {role!r} does not exist."
    return None if _trusts(json.loads(found.assume_role_policy_document), service) else f"{refusal}."


def _trusts(policy: dict[str, Any], service: str) -> bool:
    statements = policy.get("Statement", [])
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal", {})
        named = principal.get("Service", []) if isinstance(principal, dict) else []
        if statement.get("Effect") == "Allow" and service in ([named] if isinstance(named, str) else named):
            return True
    return False


def assume(role: str, session: str) -> Credentials:
    from moto.sts.models import sts_backends

    assumed = sts_backends[ACCOUNT]["aws"].assume_role(
        region_name=REGION, role_session_name=session, role_arn=role, policy=None, duration=LIFETIME, external_id=None
    )
    return Credentials(assumed.access_key_id, assumed.secret_access_key, assumed.session_token, time.time() + LIFETIME)


@dataclass(slots=True)
class RoleClients:
    """boto3 clients of state machines' roles. A client takes tens of milliseconds to create, so each is created once an
    hour; a session takes as long, so all clients have one.
    """

    endpoint: str
    _session: Session = field(default_factory=aws_session)
    _made: dict[tuple[str, str], tuple[BaseClient, Credentials]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def client(self, service: str, role: str) -> BaseClient:
        with self._lock:
            client, credentials = self._made.get((service, role), (None, None))
            if client is None or credentials is None or credentials.stale:
                credentials = assume(role, "states")
                client = self._make(service, credentials)
                self._made[service, role] = client, credentials
            return client

    def _make(self, service: str, credentials: Credentials) -> BaseClient:
        config = Config(
            inject_host_prefix=False,
            retries={"total_max_attempts": 1},  # Retry belongs to the state machine
            read_timeout=930,
            max_pool_connections=50,
            s3={"addressing_style": "path"},
        )
        made: BaseClient = self._session.client(  # type: ignore[call-overload] # a name known at run time
            service,
            endpoint_url=self.endpoint,
            config=config,
            aws_access_key_id=credentials.access_key,
            aws_secret_access_key=credentials.secret,
            aws_session_token=credentials.session_token,
        )
        return made
