"""The types of ``settings.kubernetes`` of Bottlerocket: it refuses all settings of a node if one has another type.

A setting that is not in the table has any type here: a newer release may have it. Source: Bottlerocket, "Settings
reference" (settings.kubernetes), and its settings SDK (modeled types of Kubernetes).

>>> find_wrong_type("max-pods", "110")
'must be a whole number: write it without quotes'
>>> find_wrong_type("cluster-dns-ip", ["10.100.0.10", "dns"])
'has dns, which is no IP address'
"""

import ipaddress
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

NUMBERS: Final = (
    "container-log-max-files",
    "container-log-max-workers",
    "event-burst",
    "event-qps",
    "eviction-max-pod-grace-period",
    "kube-api-burst",
    "kube-api-qps",
    "ids-per-pod",
    "log-level",
    "max-parallel-image-pulls",
    "max-pods",
    "pod-pids-limit",
    "registry-burst",
    "registry-qps",
)
FLAGS: Final = (
    "cpu-cfs-quota-enforced",
    "device-ownership-from-security-context",
    "fail-cgroup-v1",
    "fail-cgroupv1",
    "seccomp-default",
    "server-tls-bootstrap",
    "single-process-oom-kill",
    "standalone-mode",
    "static-pods-enabled",
)
LISTS: Final = ("allowed-unsafe-sysctls", "cpu-manager-policy-options")
TEXTS: Final = (
    "authentication-mode",
    "bootstrap-token",
    "cloud-provider",
    "cluster-domain",
    "container-log-max-size",
    "container-log-monitor-interval",
    "cpu-manager-policy",
    "cpu-manager-reconcile-period",
    "hostname-override",
    "hostname-override-source",
    "image-maximum-gc-age",
    "image-minimum-gc-age",
    "memory-manager-policy",
    "memory-swap-behavior",
    "node-ip",
    "pod-infra-container-image",
    "provider-id",
    "reserved-cpus",
    "server-certificate",
    "server-key",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "topology-manager-policy",
    "topology-manager-scope",
)
TABLES: Final = (
    "credential-providers",
    "memory-manager-reserved-memory",
    "static-pods",
    "topology-manager-policy-options",
)
PERCENTAGES: Final = ("image-gc-high-threshold-percent", "image-gc-low-threshold-percent")
"""Written as a text or as a number."""

RESERVES: Final = ("kube-reserved", "system-reserved")
RESERVABLE: Final = ("cpu", "ephemeral-storage", "memory")
THRESHOLDS: Final = ("eviction-hard", "eviction-soft")
GRACE: Final = "eviction-soft-grace-period"
DURATION: Final = re.compile(r"(?=.)([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?")

DNS: Final = "cluster-dns-ip"
NOT_NEGATIVE: Final = ("max-pods", "eviction-max-pod-grace-period", "log-level")

KINDS: Final[Mapping[str, tuple[type, str]]] = {
    **dict.fromkeys(NUMBERS, (int, "a whole number: write it without quotes")),
    **dict.fromkeys(FLAGS, (bool, "true or false, without quotes")),
    **dict.fromkeys(LISTS, (list, 'a list of texts: ["a", "b"]')),
    **dict.fromkeys(TEXTS, (str, "a text: put its value in quotes")),
    **dict.fromkeys(TABLES, (dict, "a table of TOML")),
}


def find_wrong_type(name: str, value: Any) -> str:
    """Return what is wrong with the value of ``settings.kubernetes.NAME``; empty if it has the right type."""
    if name == DNS:
        return _find_wrong_address(value)
    if name in PERCENTAGES:
        return _find_wrong_percentage(value)
    kind, remedy = KINDS.get(name, (object, ""))
    mistyped = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    if mistyped or (isinstance(value, list) and name in LISTS and not all(isinstance(each, str) for each in value)):
        return f"must be {remedy}"
    return "must be at least 0" if isinstance(value, int) and name in NOT_NEGATIVE and value < 0 else ""


def _find_wrong_address(value: Any) -> str:
    addresses = value if isinstance(value, list) else [value]
    if not addresses or not all(isinstance(each, str) for each in addresses):
        return 'must be an IP address, or a list of them: "10.100.0.10"'
    wrong = [each for each in addresses if not _is_address(each)]
    return f"has {wrong[0][:80]}, which is no IP address" if wrong else ""


def _is_address(text: str) -> bool:
    """Return whether Bottlerocket reads a text as an IP address: without leading zeros, unlike the kubelet."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _find_wrong_percentage(value: Any) -> str:
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= 3 else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= 100:
        return ""
    return 'must be a share from 0 to 100: "85"'


def find_refused_entry(name: str, key: str, value: str) -> str:
    """Return why Bottlerocket refuses an entry of a table of ``settings.kubernetes``; empty if it takes it.

    >>> find_refused_entry("kube-reserved", "pid", "100")
    'Bottlerocket reserves cpu, ephemeral-storage and memory only: remove it'
    >>> find_refused_entry("eviction-hard", "memory.available", "100%")
    'Bottlerocket takes shares above 0% and below 100% only'
    """
    if name in RESERVES and key not in RESERVABLE:
        return f"Bottlerocket reserves {', '.join(RESERVABLE[:-1])} and {RESERVABLE[-1]} only: remove it"
    if name in THRESHOLDS and value.endswith("%") and not _is_open_share(value):
        return "Bottlerocket takes shares above 0% and below 100% only"
    if name == GRACE and not is_duration(value):
        return 'Bottlerocket takes whole hours, minutes, seconds and milliseconds, in this order: "1m30s"'
    return ""


def is_duration(text: str) -> bool:
    """Return whether Bottlerocket reads a text as a duration.

    >>> is_duration("1m30s"), is_duration("30s1m"), is_duration("1.5s"), is_duration("")
    (True, False, False, False)
    """
    return DURATION.fullmatch(text) is not None


def write_duration(duration: timedelta) -> str:
    """Return a duration as Bottlerocket reads it, rounded up to milliseconds.

    >>> write_duration(timedelta(seconds=90)), write_duration(timedelta(hours=1, milliseconds=500)), write_duration(
    ...     timedelta(0))
    ('1m30s', '1h500ms', '0s')
    """
    rest = -(-duration // timedelta(milliseconds=1))
    parts = []
    for unit, milliseconds in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        number, rest = divmod(rest, milliseconds)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def _is_open_share(text: str) -> bool:
    try:
        return 0 < float(text.removesuffix("%")) < 100
    except ValueError:
        return False
