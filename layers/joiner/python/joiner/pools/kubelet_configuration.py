"""Kubelet settings of a class or a Provisioner: the fields of KubeletConfiguration that Karpenter allows.

They are kept in the kubelet's format for user data. Properties give the values that the planner needs.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joiner.cluster import Resources

FIELDS = (
    "clusterDNS",
    "cpuCFSQuota",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeReserved",
    "maxPods",
    "podsPerCore",
    "systemReserved",
)


LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")


def read_dns_address(text: str) -> str:
    """Return the address of a DNS server without leading zeros, with which other programs refuse it; an empty text if
    the kubelet takes it for none. Source: Kubernetes, k8s.io/utils/net (ParseIPSloppy): an IP address without a zone,
    whose numbers may have leading zeros.

    >>> [read_dns_address(each) for each in ("10.100.0.10", "010.100.000.010", "fd00::000a")]
    ['10.100.0.10', '10.100.0.10', 'fd00::a']
    >>> [read_dns_address(each) for each in ("10.100.0", "10.100.0.256", "fe80::1%eth0", " 10.0.0.1")]
    ['', '', '', '']
    """
    address = LEADING_ZEROS.sub("", text)
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return ""
    return "" if "%" in address else address


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """``config`` is a part of a KubeletConfiguration.

    >>> KubeletConfiguration({"maxPods": 20, "kubeReserved": {"cpu": "100m"}}).max_pods
    20
    """

    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def max_pods(self) -> int | None:
        """Return `maxPods`; None if it is not set."""
        return self.config.get("maxPods")

    @property
    def pods_per_core(self) -> int | None:
        """Return `podsPerCore`; None if it is not set."""
        return self.config.get("podsPerCore")

    @property
    def kube_reserved(self) -> Resources | None:
        """Return `kubeReserved`; None if it is not set."""
        return self._reserved("kubeReserved")

    @property
    def system_reserved(self) -> Resources | None:
        """Return `systemReserved`; None if it is not set."""
        return self._reserved("systemReserved")

    @property
    def eviction_hard(self) -> Mapping[str, str]:
        """Return signal -> quantity or percentage, for example ``{"memory.available": "5%"}``."""
        return self.config.get("evictionHard") or {}

    def _reserved(self, name: str) -> Resources | None:
        reserved = self.config.get(name)
        return None if reserved is None else Resources.from_kube(reserved)
