"""Simulate the authenticator of EKS: review bearer tokens for the API server (TokenReview webhook).

A token is `k8s-aws-v1.` and a presigned `sts:GetCallerIdentity` in base64url. The checks and their order are those of
aws-iam-authenticator's token verifier: size, prefix, host, path, parameters, the signed `x-k8s-aws-id` header, age.
Then STS identifies the signer, and the cluster's access entry for it, read from the EKS API at each review, gives the
user and groups; in a cluster of the authentication mode CONFIG_MAP the ConfigMap kube-system/aws-auth does,
and with API_AND_CONFIG_MAP it does for a signer without an entry. The cluster's name is in no parameter: the request to
STS has *our* name in the header, so the signature of a token for another cluster does not match.
"""

import base64
import binascii
import json
import re
import socket
import threading
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from xml.etree import ElementTree as XML

import boto3
import urllib3
import yaml
from botocore.exceptions import ClientError

from joiner_local.aws_sessions import aws_session
from joiner_local.control_plane import access_policies
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.shared_answers import SharedAnswers

PREFIX: Final = "k8s-aws-v1."
LONGEST: Final = 4096
LIFETIME: Final = timedelta(minutes=15)
HOST: Final = re.compile(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com|(127\.0\.0\.1|localhost):\d+")
PARAMETERS: Final = frozenset(
    (
        "action",
        "version",
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
        "x-amz-user-agent",
    )
)
NODE_TYPES: Final = ("EC2_LINUX", "EC2_WINDOWS")
AWS_AUTH: Final = "/api/v1/namespaces/kube-system/configmaps/aws-auth"
FRESH: Final = 1.0  # seconds for which the cluster's mode and the names of its access entries are cached
BOOTSTRAPPERS: Final = "system:bootstrappers"  # nodes are also in it, beside the groups of their entry


class TokenRefused(Exception):
    """The token is refused; the message is for the log (the API server answers 401 in any case)."""


@dataclass(frozen=True, slots=True)
class PresignedCall:
    """The request to STS in a token: the signed host, and the query."""

    host: str
    query: str

    @classmethod
    def from_token(cls, token: str, *, now: datetime) -> "PresignedCall":
        """
        >>> PresignedCall.from_token("abc", now=datetime.now(UTC))
        Traceback (most recent call last):
        joiner_local.control_plane.authenticator.TokenRefused: not an EKS token
        """
        if not token.startswith(PREFIX) or len(token) > LONGEST:
            raise TokenRefused("not an EKS token")
        encoded = token.removeprefix(PREFIX)
        try:
            url = urllib.parse.urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
        except (binascii.Error, ValueError) as error:
            raise TokenRefused("the token is not base64url of a URL") from error
        if not HOST.fullmatch(url.netloc) or url.path not in ("", "/") or url.fragment:
            raise TokenRefused(f"unexpected host or path: {url.netloc}{url.path}")
        _check_parameters(url.query, now)
        return cls(host=url.netloc, query=url.query)


def _check_parameters(query: str, now: datetime) -> None:
    pairs = [(name.lower(), value) for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)]
    parameters = dict(pairs)
    if len(parameters) != len(pairs) or (strange := parameters.keys() - PARAMETERS):
        raise TokenRefused(
            "a parameter occurs twice"
            if len(parameters) != len(pairs)
            else f"parameters not allowed: {sorted(strange)}"
        )
    if parameters.get("action") != "GetCallerIdentity":
        raise TokenRefused("the signed action is not GetCallerIdentity")
    if "x-k8s-aws-id" not in parameters.get("x-amz-signedheaders", "").lower().split(";"):
        raise TokenRefused("x-k8s-aws-id is not signed")
    try:
        expires = int(parameters["x-amz-expires"])
        signed = datetime.strptime(parameters["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except (KeyError, ValueError) as error:
        raise TokenRefused("X-Amz-Date or X-Amz-Expires is missing or no such thing") from error
    if not 0 <= expires <= LIFETIME.total_seconds():
        raise TokenRefused(f"X-Amz-Expires is {expires}")
    if now > signed + LIFETIME:  # independent of X-Amz-Expires: STS uses fifteen minutes
        raise TokenRefused("the token is older than 15 minutes")


@dataclass(frozen=True, slots=True)
class Caller:
    """The signer of a token, as STS identifies it."""

    arn: str
    account: str
    user_id: str

    @property
    def session(self) -> str:
        return self.arn.rpartition("/")[2]

    @property
    def role(self) -> str:
        """The IAM ARN of an assumed role, without the path of the role, which STS does not return.

        >>> Caller("arn:aws:sts::1:assumed-role/joiner/run", "1", "x").role
        'arn:aws:iam::1:role/joiner'
        """
        assumed = re.fullmatch(r"arn:(aws[^:]*):sts::(\d+):assumed-role/([^/]+)/.+", self.arn)
        return f"arn:{assumed[1]}:iam::{assumed[2]}:role/{assumed[3]}" if assumed else self.arn

    def is_principal(self, principal: str) -> bool:
        """Return whether an access entry is for this caller. Its role ARN may have a path.

        >>> caller = Caller("arn:aws:sts::1:assumed-role/joiner/run", "1", "x")
        >>> caller.is_principal("arn:aws:iam::1:role/teams/a/joiner")
        True
        """
        start, _, path = principal.partition(":role/")
        return self.role == (f"{start}:role/{path.rpartition('/')[2]}" if path else principal)


def mapped_identity(data: Mapping[str, str], caller: Caller) -> tuple[str, list[str]]:
    """Return the user name and the groups that aws-auth gives a caller. A role is written without its path, and
    compared without regard to case. (aws-iam-authenticator, `pkg/mapper/configmap`.)

    >>> caller = Caller("arn:aws:sts::1:assumed-role/joiner/run", "1", "x")
    >>> mapped_identity({"mapRoles": "[{rolearn: 'arn:aws:iam::1:role/Joiner', username: j, groups: [g]}]"}, caller)
    ('j', ['g'])
    """
    for key, arn in (("mapRoles", "rolearn"), ("mapUsers", "userarn")):
        try:
            mappings = yaml.safe_load(data.get(key) or "") or []
            found = next((each for each in mappings if str(each[arn]).lower() == caller.role.lower()), None)
        except (yaml.YAMLError, TypeError, KeyError) as error:
            raise TokenRefused(f"{key} of aws-auth is no list of mappings: {error}") from error
        if found is not None:
            return str(found.get("username") or caller.arn), list(found.get("groups") or [])
    raise TokenRefused(f"aws-auth does not map {caller.role}")


@dataclass(slots=True)
class Authenticator:
    """Serve reviews on a socket that listens already, so that the API server gets its address before the local AWS
    runs.
    """

    listener: socket.socket
    cluster: str
    aws: str  # endpoint of the local AWS: STS, EKS and EC2
    _: KW_ONLY
    admin: Callable[[], KubeApi]  # reads aws-auth
    fresh: float = FRESH
    refusals: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    _server: ThreadingHTTPServer | None = None
    _http: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(retries=False, maxsize=8))
    _session: boto3.Session = field(default_factory=aws_session)
    _eks: Any = None
    _ec2: Any = None
    _answers: SharedAnswers = field(default_factory=SharedAnswers)
    _node_names: dict[str, str] = field(default_factory=dict)
    _unnamed: set[str] = field(default_factory=set)
    _naming: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._eks, self._ec2 = (self._session.client(name, endpoint_url=self.aws) for name in ("eks", "ec2"))

    @staticmethod
    def listen() -> socket.socket:
        """Open a socket on loopback; callers wait in its queue until `serve`."""
        return socket.create_server(("127.0.0.1", 0), backlog=128)

    def serve(self) -> None:
        """Serve in threads of its own, until `close`."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self), bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = self.listener
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="authenticator", daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
        self.listener.close()

    def review(self, token: str) -> dict[str, Any]:
        """Return the status of a TokenReview."""
        try:
            user = self._user(self._caller(PresignedCall.from_token(token, now=datetime.now(UTC))))
        except (TokenRefused, ClientError, urllib3.exceptions.HTTPError) as error:
            self.refusals.append(str(error))
            return {"authenticated": False, "error": str(error)}
        return {"authenticated": True, "user": user}

    def _caller(self, call: PresignedCall) -> Caller:
        headers = {"host": call.host, "x-k8s-aws-id": self.cluster}
        answer = self._http.request("GET", f"{self.aws}/?{call.query}", headers=headers, timeout=5)
        if answer.status != 200:
            raise TokenRefused(f"STS says {answer.status}: {answer.data[:300].decode(errors='replace')}")
        elements = XML.fromstring(answer.data).iter()  # noqa: S314 - the answer of the local STS
        output = {element.tag.rpartition("}")[2]: element.text or "" for element in elements}
        return Caller(arn=output["Arn"], account=output["Account"], user_id=output["UserId"])

    def _user(self, caller: Caller) -> dict[str, Any]:
        name, groups = self._name_and_groups(caller)
        if "{{EC2PrivateDNSName}}" in name:
            name = name.replace("{{EC2PrivateDNSName}}", self._private_dns_name(caller.session))
        return {
            "username": name.replace("{{SessionName}}", caller.session.replace("@", "-")).replace(
                "{{AccountID}}", caller.account
            ),
            "uid": f"aws-iam-authenticator:{caller.account}:{caller.user_id}",
            "groups": groups,
            "extra": {"arn": [caller.arn], "canonicalArn": [caller.role], "sessionName": [caller.session]},
        }

    def _name_and_groups(self, caller: Caller) -> tuple[str, list[str]]:
        """Return the user name, with its placeholders, and the groups. An access entry precedes aws-auth."""
        described = self._answers.get(
            "cluster", lambda: self._eks.describe_cluster(name=self.cluster), fresh=self.fresh
        )
        cluster = described["cluster"]
        mode = cluster["accessConfig"]["authenticationMode"]
        if mode == "CONFIG_MAP":
            return self._mapping(caller)
        try:
            entry = self._entry(caller)
        except TokenRefused:
            if mode == "API":
                raise
            return self._mapping(caller)
        name, groups = str(entry.get("username", "")), list(entry.get("kubernetesGroups", []))
        groups += [BOOTSTRAPPERS] if entry.get("type") in NODE_TYPES else self._policy_groups(entry["principalArn"])
        return caller.arn if name in ("", entry["principalArn"]) else name, groups

    def _mapping(self, caller: Caller) -> tuple[str, list[str]]:
        try:
            data = self.admin().get(AWS_AUTH).get("data") or {}
        except ApiError as error:
            raise TokenRefused(f"aws-auth cannot be read: {error}") from error
        return mapped_identity(data, caller)

    def _entry(self, caller: Caller) -> dict[str, Any]:
        principals = self._answers.get("principals", self._principals, fresh=self.fresh)
        if (principal := next(filter(caller.is_principal, principals), None)) is None:
            self._answers.forget("principals")  # a new entry takes effect at once
            principals = self._answers.get("principals", self._principals, fresh=self.fresh)
            principal = next(filter(caller.is_principal, principals), None)
        if principal is None:
            raise TokenRefused(f"cluster {self.cluster} has no access entry for {caller.role}")
        entry: dict[str, Any] = self._eks.describe_access_entry(clusterName=self.cluster, principalArn=principal)[
            "accessEntry"
        ]
        return entry

    def _principals(self) -> list[str]:
        pages = self._eks.get_paginator("list_access_entries").paginate(clusterName=self.cluster)
        return [principal for page in pages for principal in page["accessEntries"]]

    def _policy_groups(self, principal: str) -> list[str]:
        pages = self._eks.get_paginator("list_associated_access_policies").paginate(
            clusterName=self.cluster, principalArn=principal
        )
        groups = []
        for policy in (policy for page in pages for policy in page["associatedAccessPolicies"]):
            group = access_policies.group(policy["policyArn"])
            if group is None or policy["accessScope"]["type"] != "cluster":
                raise TokenRefused(
                    f"the local cluster does not play {policy['policyArn']} with scope {policy['accessScope']['type']}"
                )
            groups.append(group)
        return groups

    def _private_dns_name(self, instance: str) -> str:
        """Return the private DNS name of a node; the session name is the instance id, as on EC2.

        One call finds the names of all nodes that came during the call before, as in aws-iam-authenticator
        (`pkg/ec2provider`), which also keeps them.
        """
        self._unnamed.add(instance)
        with self._naming:
            if instance in self._unnamed:
                asked = self._unnamed.copy()
                self._node_names |= self._find_private_dns_names(asked)
                self._unnamed -= asked
            if instance not in self._node_names:
                raise TokenRefused(f"EC2 knows no instance {instance}")
            return self._node_names[instance]

    def _find_private_dns_names(self, instances: Iterable[str]) -> dict[str, str]:
        named = [{"Name": "instance-id", "Values": sorted(instances)}]
        return {
            each["InstanceId"]: each["PrivateDnsName"]
            for reservation in self._ec2.describe_instances(Filters=named)["Reservations"]
            for each in reservation["Instances"]
            if each.get("PrivateDnsName")
        }


def _handler(authenticator: Authenticator) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for head and body: no wait for a delayed acknowledgement
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status = authenticator.review(review["spec"]["token"])
            body = json.dumps({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: requests contain tokens."""

    return Handler
