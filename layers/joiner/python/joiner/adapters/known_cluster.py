"""The cluster that this deployment serves: its endpoint and its CA from EKS, stored in the table.

A payload names a cluster, too. But the invoker of a function chooses the payload, and an endpoint of the invoker's
choice could steal a bearer token. Therefore a function sends tokens only to the recorded endpoint, verified by the
recorded CA, and refuses a payload that names anything else. Only the role of `describe_cluster` may write the record:
at each deployment, and every few minutes because EKS may replace a CA.
"""

import base64
import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from joiner.adapters.payload import ClusterFacts
from joiner.item_keys import CLUSTER, DESCRIBED, item_key

# Suffixes of EKS endpoints by the first words of a region's name: of IPv4 clusters and older IPv6 ones, then of
# dual-stack ones. Source: EKS user guide, "Cluster API server endpoint"; botocore's partitions. In some places the
# documentation omits `eks.`.
_SUFFIXES: Final = (
    ("cn-", ("amazonaws.com.cn", "amazonwebservices.com.cn"), "api.amazonwebservices.com.cn"),
    ("eusc-", ("amazonaws.eu",), "api.amazonwebservices.eu"),
    ("us-isob-", ("sc2s.sgov.gov",), "api.aws.scloud"),
    ("us-isof-", ("csp.hci.ic.gov",), "api.aws.hci.ic.gov"),
    ("us-iso-", ("c2s.ic.gov",), "api.aws.ic.gov"),
    ("eu-isoe-", ("cloud.adc-e.uk",), "api.cloud-aws.adc-e.uk"),
    ("", ("amazonaws.com",), "api.aws"),
)
_OWN_NAME: Final = r"[0-9A-Fa-f]{32}(\.[a-z0-9]{3})?"
"""The cluster-specific part of its endpoint, such as ``0123456789ABCDEF0123456789ABCDEF.gr7`` (also ``yl4`` and
``sk1``)."""


class ForeignCluster(Exception):
    """The payload, or the record, names a cluster, an endpoint or a CA that is not this deployment's."""


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """The recorded cluster; `certificate_authority` is base64, as EKS gives it."""

    endpoint: str
    certificate_authority: str
    service_cidr: str = ""

    @property
    def ca(self) -> str:
        """Return the CA as PEM text."""
        return base64.b64decode(self.certificate_authority).decode()


def is_eks_endpoint(endpoint: str, region: str) -> bool:
    """Return whether this is the address of an EKS API server in this region and its partition.

    >>> own = "0123456789ABCDEF0123456789ABCDEF.gr7"
    >>> is_eks_endpoint(f"https://{own}.eu-west-1.eks.amazonaws.com", "eu-west-1")
    True
    >>> is_eks_endpoint(f"https://{own}.eu-west-1.api.aws", "eu-west-1")
    True
    >>> is_eks_endpoint(f"https://{own}.eu-west-1.eks.amazonaws.com", "us-east-1")
    False
    >>> is_eks_endpoint("https://abcdef1234.execute-api.eu-west-1.amazonaws.com", "eu-west-1")
    False
    """
    for start, single, dual in _SUFFIXES:
        if region.startswith(start):
            of_the_region = rf"\.{re.escape(region)}\."
            suffixes = [*(rf"eks\.{re.escape(suffix)}" for suffix in single), rf"(eks\.)?{re.escape(dual)}"]
            if start == "cn-":  # according to the user guide of China
                suffixes.append(re.escape("amazonwebservices.com.cn"))
            return re.fullmatch(rf"https://{_OWN_NAME}{of_the_region}({'|'.join(suffixes)})/?", endpoint) is not None
    return False


def is_loopback(endpoint: str) -> bool:
    """Return whether the endpoint is a port of this machine.

    >>> is_loopback("https://127.0.0.1:6443"), is_loopback("http://127.0.0.1:6443")
    (True, False)
    >>> is_loopback("https://127.0.0.1.example.com")
    False
    """
    parts = urlsplit(endpoint)
    try:
        return (
            parts.scheme == "https"
            and parts.username is None
            and ipaddress.ip_address(parts.hostname or "").is_loopback
        )
    except ValueError:
        return False


def refusal_reason(facts: ClusterFacts, known: KnownCluster, *, name: str, region: str, loopback: bool) -> str:
    """Return why no token may be sent for these facts; empty if it may. `loopback` allows endpoints of this machine,
    and no others.
    """
    return _difference(facts, known, name) or _misplaced(known.endpoint, region, loopback=loopback)


def _difference(facts: ClusterFacts, known: KnownCluster, name: str) -> str:
    if facts.name != name:
        return (
            f"the payload is for the cluster {facts.name!r}; this function serves {name!r}: start the state "
            f"machine of that cluster"
        )
    if facts.endpoint.rstrip("/") != known.endpoint.rstrip("/"):
        return (
            f"the payload names the endpoint {facts.endpoint!r}; that of {name} is {known.endpoint!r}, as "
            f"describe_cluster recorded it"
        )
    if facts.certificate_authority != known.certificate_authority:
        return (
            f"the payload's CA is not the one that is recorded for {name}: if EKS has exchanged the CA, "
            f"describe_cluster records the new "
            "one within five minutes; else this payload is not from Joiner's state machines"
        )
    if facts.service_cidr and known.service_cidr and facts.service_cidr != known.service_cidr:
        return f"the payload's service CIDR is {facts.service_cidr}; that of {name} is {known.service_cidr}"
    return ""


def _misplaced(endpoint: str, region: str, *, loopback: bool) -> str:
    if loopback:
        return (
            ""
            if is_loopback(endpoint)
            else f"{endpoint!r} is not of this machine, as loopbackEndpoint in the settings asks"
        )
    return (
        "" if is_eks_endpoint(endpoint, region) else f"{endpoint!r} is not the endpoint of an EKS cluster in {region}"
    )


def read_known_cluster(dynamodb: Any, table: str) -> KnownCluster | None:
    """Return the record; None if it does not exist."""
    item = dynamodb.get_item(TableName=table, Key=item_key(CLUSTER, DESCRIBED), ConsistentRead=True).get("Item")
    if not item:
        return None
    return KnownCluster(item["endpoint"]["S"], item["ca"]["S"], item.get("serviceCidr", {}).get("S", ""))


def record_known_cluster(dynamodb: Any, table: str, known: KnownCluster, *, at: int) -> None:
    """Write the record; `at` is in epoch seconds."""
    dynamodb.update_item(
        TableName=table,
        Key=item_key(CLUSTER, DESCRIBED),
        UpdateExpression="SET endpoint = :endpoint, ca = :ca, serviceCidr = :cidr, describedAt = :at",
        ExpressionAttributeValues={
            ":endpoint": {"S": known.endpoint},
            ":ca": {"S": known.certificate_authority},
            ":cidr": {"S": known.service_cidr},
            ":at": {"N": str(at)},
        },
    )
