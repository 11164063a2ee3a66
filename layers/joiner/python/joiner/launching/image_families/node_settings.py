"""The settings that a node needs at its first start, and the grammar of each value that user data contains.

Every value from a manifest is checked against its grammar: an author of a NodePool must not get access to the shell of
a node. User data contains no secret, because every principal with ec2:DescribeInstanceAttribute can read it.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from joiner.cluster import Taint
from joiner.pools.label_rules import NAME, PREFIX, VALUE

CLUSTER_NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")
ENDPOINT = re.compile(r"https://[A-Za-z0-9.:\[\]-]+(:[0-9]+)?/?")
BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]+=*[\r\n]*")
CIDR = re.compile(r"[0-9A-Fa-f.:]+/[0-9]{1,3}")
ADDRESS = re.compile(r"[0-9A-Fa-f.:]+")
DNS_HOST = 10
"""The address of the cluster's DNS in the range of its services; EKS creates the service kube-dns with it."""


class ClusterDescription(Protocol):
    """The facts of the cluster that a node needs (``eks:DescribeCluster``). The CA is in base64, as EKS returns it."""

    @property
    def name(self) -> str:
        """Return the name of the cluster."""

    @property
    def endpoint(self) -> str:
        """Return the URL of the API server."""

    @property
    def certificate_authority(self) -> str:
        """Return the certificate authority, in base64."""

    @property
    def version(self) -> str:
        """Return the version of Kubernetes, such as ``1.36``."""

    @property
    def service_cidr(self) -> str:
        """Return the addresses of services, as a CIDR."""


class UserDataRefused(ValueError):
    """No node can start with this user data.

    ``reason`` is for programs. The message is for users and has the remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of one node: its cluster, labels, taints, kubelet settings, and the user's own user data.

    ``kubelet`` is a part of a KubeletConfiguration. ``raid0`` makes one file system of the instance store volumes.
    """

    cluster: ClusterDescription
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    raid0: bool = False
    own: str = ""

    @property
    def cluster_name(self) -> str:
        """Return the name of the cluster. UserDataRefused if it is no valid name."""
        return check_grammar("the cluster's name", self.cluster.name, CLUSTER_NAME)

    @property
    def endpoint(self) -> str:
        """Return the URL of the API server. UserDataRefused if it is no plain URL."""
        return check_grammar("the cluster's endpoint", self.cluster.endpoint, ENDPOINT)

    @property
    def certificate_authority(self) -> str:
        """Return the certificate authority. UserDataRefused if it is not base64."""
        return check_grammar("the cluster's certificate authority", self.cluster.certificate_authority, BASE64)

    @property
    def service_cidr(self) -> str:
        """Return the addresses of services. UserDataRefused if they are no CIDR."""
        return check_grammar("the cluster's service CIDR", self.cluster.service_cidr, CIDR)

    def checked_labels(self) -> Iterator[tuple[str, str]]:
        """Yield the labels, sorted by key; raises UserDataRefused for one that is no label."""
        for key in sorted(self.labels):
            _check_key("a label", key)
            yield key, check_grammar(f"the value of label {key}", self.labels[key], VALUE)

    def checked_taints(self) -> Iterator[Taint]:
        """Yield the taints in their order; raises UserDataRefused for one that is no taint."""
        for taint in self.taints:
            _check_key("a taint", taint.key)
            check_grammar(f"the value of taint {taint.key}", taint.value, VALUE)
            yield taint

    def cluster_dns(self) -> tuple[str, ...]:
        """Return the addresses of the cluster's DNS: those of the kubelet settings, or else that of EKS."""
        addresses = self.kubelet.get("clusterDNS") or ()
        if addresses:
            return tuple(check_grammar("an address of clusterDNS", str(one), ADDRESS) for one in addresses)
        return (str(ipaddress.ip_network(self.service_cidr)[DNS_HOST]),)


def check_grammar(what: str, value: str, grammar: re.Pattern[str]) -> str:
    """Return the value if it matches its grammar; raise UserDataRefused if not.

    >>> check_grammar("the cluster's name", "a; reboot", CLUSTER_NAME)
    Traceback (most recent call last):
    joiner.launching.image_families.node_settings.UserDataRefused: 'a; reboot' cannot be the cluster's name
    """
    if not grammar.fullmatch(value):
        raise UserDataRefused("InvalidUserData", f"{value[:80]!r} cannot be {what}")
    return value


def _check_key(what: str, key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash:
        check_grammar(f"the prefix of {what}", prefix, PREFIX)
    check_grammar(what, name, NAME)
