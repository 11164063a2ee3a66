"""The payload of every Task of the state machines: execution, cluster, lease and round.

The keys are those of `infra/`'s state machines. A payload of another schema number is refused: an execution that
started before an upgrade ends with a reason.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # The doorbell, which starts cold in a burst, needs nothing of pools.
    from joiner.pools.node_class import IpFamily

SCHEMA: Final = 1

EXPRESS_SECONDS: Final = 300
"""AWS's limit for an Express execution, independent of its state machine."""


class BadPayload(Exception):
    """The state machine sent a payload that this version of the function does not support."""


def is_express(arn: str) -> bool:
    """Return whether this is the ARN of an Express execution. Step Functions does not report their state.

    >>> name = "joiner-empty-prod:retire-20261121T051700-123-sweep:6b0f2c1e"
    >>> is_express(f"arn:aws:states:us-east-1:123456789012:express:{name}")
    True
    >>> is_express("arn:aws:states:us-east-1:123456789012:execution:express:up-20261121T051700")
    False
    """
    return arn.split(":")[5:6] == ["express"]


@dataclass(frozen=True, slots=True)
class Execution:
    """The calling execution: its name, its ARN, and its start (RFC 3339)."""

    name: str
    arn: str
    started: str

    @property
    def ends_by(self) -> int:
        """Return when the execution has ended in any case (epoch seconds); 0 if its state can be queried.

        >>> arn = "arn:aws:states:us-east-1:123456789012:express:joiner-empty-prod:retire:6b0f2c1e"
        >>> Execution("retire", arn, "1970-01-01T00:01:40.250Z").ends_by
        400
        """
        return int(datetime.fromisoformat(self.started).timestamp()) + EXPRESS_SECONDS if is_express(self.arn) else 0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts of `eks:DescribeCluster`: `certificate_authority` is base64 as EKS gives it, `version` like ``1.36``.

    `subnets` and `security_group` are the cluster's own; `ip_family` is ``ipv4`` or ``ipv6``.
    """

    name: str
    endpoint: str
    certificate_authority: str
    version: str
    service_cidr: str
    ip_family: "IpFamily" = "ipv4"
    subnets: tuple[str, ...] = ()
    security_group: str = ""

    @property
    def ca(self) -> str:
        """Return the CA as PEM text."""
        return base64.b64decode(self.certificate_authority).decode()


@dataclass(frozen=True, slots=True)
class Task:
    """The part of a payload that all functions share. `lease_number` is 0 outside the lease."""

    execution: Execution
    cluster: ClusterFacts
    lease_number: int
    round: int

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> "Task":
        """Return the shared part of `payload`; `BadPayload` names what is missing."""
        try:
            schema = int(payload["schema"])
            if schema != SCHEMA:
                raise BadPayload(
                    f"payload of schema {schema}; this function understands {SCHEMA}: start a new execution"
                )
            execution, cluster = payload["execution"], payload["cluster"]
            return cls(
                execution=Execution(str(execution["name"]), str(execution["id"]), str(execution.get("startTime", ""))),
                cluster=ClusterFacts(
                    name=str(cluster["name"]),
                    endpoint=str(cluster["endpoint"]),
                    certificate_authority=str(cluster["certificateAuthority"]),
                    version=str(cluster.get("version", "")),
                    service_cidr=str(cluster.get("serviceCidr") or ""),
                    ip_family="ipv6" if cluster.get("ipFamily") == "ipv6" else "ipv4",
                    subnets=_texts(cluster.get("subnets")),
                    security_group=str(cluster.get("securityGroup") or ""),
                ),
                lease_number=int((payload.get("lease") or {}).get("number", 0)),
                round=int(payload.get("round", 0)),
            )
        except (KeyError, TypeError, ValueError) as reason:
            raise BadPayload(f"payload without a usable {reason}") from reason

    def claim_suffix(self, index: int) -> str:
        """Return the end of a claim's name: the same for the same node of the same round of the same execution."""
        digest = hashlib.sha256(f"{self.execution.arn}/{self.round}/{index}".encode()).digest()
        return base64.b32encode(digest)[:7].decode().lower()

    def key(self, kind: str) -> str:
        """Return the key under which this round stores one kind of document in the bucket."""
        return f"{kind}/{self.execution.name}/{self.round}.json.gz"


def _texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts; JSONata writes a list of one as the text itself.

    >>> _texts(["a", "b"]), _texts("a"), _texts(None)
    (('a', 'b'), ('a',), ())
    """
    return (value,) if isinstance(value, str) else tuple(str(each) for each in value or ())
