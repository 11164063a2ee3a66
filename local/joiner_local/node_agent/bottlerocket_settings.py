"""The TOML in the user data of a Bottlerocket instance, as Bottlerocket's `early-boot-config` and API server read it.

A setting that Bottlerocket does not know, or of another type, ends the boot. Source: Bottlerocket, "Settings
reference"; the settings of other tables than `settings.kubernetes` are not read here.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from joiner_local.node_agent.boot_settings import BootSettings, decode_certificate, find_ip_family
from joiner_local.node_agent.node_registration import (
    Registration,
    Unbootable,
    read_labels,
    read_taints,
)

TABLES: Final = frozenset(
    {
        "autoscaling",
        "aws",
        "boot",
        "bootstrap-commands",
        "bootstrap-containers",
        "cloudformation",
        "container-registry",
        "container-runtime",
        "container-runtime-plugins",
        "dns",
        "host-containers",
        "kernel",
        "kubelet-device-plugins",
        "kubernetes",
        "metrics",
        "motd",
        "network",
        "ntp",
        "oci-defaults",
        "oci-hooks",
        "pki",
        "updates",
    }
)
KUBELET: Final[dict[str, tuple[str, type]]] = {
    "max-pods": ("maxPods", int),
    "system-reserved": ("systemReserved", dict),
    "kube-reserved": ("kubeReserved", dict),
    "eviction-hard": ("evictionHard", dict),
    "eviction-soft": ("evictionSoft", dict),
    "eviction-soft-grace-period": ("evictionSoftGracePeriod", dict),
    "eviction-max-pod-grace-period": ("evictionMaxPodGracePeriod", int),
    "image-gc-high-threshold-percent": ("imageGCHighThresholdPercent", str),
    "image-gc-low-threshold-percent": ("imageGCLowThresholdPercent", str),
    "cpu-cfs-quota-enforced": ("cpuCFSQuota", bool),
}
TEXTS: Final = frozenset({*(name for name, (_, kind) in KUBELET.items() if kind is dict), "node-labels"})
"""Tables whose values are texts."""
REQUIRED: Final = ("api-server", "cluster-certificate", "cluster-name")
OTHERS: Final[dict[str, Any]] = {
    "allowed-unsafe-sysctls": list,
    "authentication-mode": str,
    "bootstrap-token": str,
    "cloud-provider": str,
    "cluster-dns-ip": (str, list),
    "cluster-domain": str,
    "container-log-max-files": int,
    "container-log-max-size": str,
    "container-log-max-workers": int,
    "container-log-monitor-interval": str,
    "cpu-manager-policy": str,
    "cpu-manager-policy-options": list,
    "cpu-manager-reconcile-period": str,
    "credential-providers": dict,
    "device-ownership-from-security-context": bool,
    "event-burst": int,
    "event-qps": int,
    "fail-cgroup-v1": bool,
    "fail-cgroupv1": bool,
    "hostname-override": str,
    "hostname-override-source": str,
    "ids-per-pod": int,
    "image-maximum-gc-age": str,
    "image-minimum-gc-age": str,
    "kube-api-burst": int,
    "kube-api-qps": int,
    "log-level": int,
    "max-parallel-image-pulls": int,
    "memory-manager-policy": str,
    "memory-manager-reserved-memory": dict,
    "memory-swap-behavior": str,
    "node-ip": str,
    "node-labels": dict,
    "node-taints": dict,
    "pod-infra-container-image": str,
    "pod-pids-limit": int,
    "provider-id": str,
    "registry-burst": int,
    "registry-qps": int,
    "reserved-cpus": str,
    "seccomp-default": bool,
    "server-certificate": str,
    "server-key": str,
    "server-tls-bootstrap": bool,
    "shutdown-grace-period": str,
    "shutdown-grace-period-for-critical-pods": str,
    "single-process-oom-kill": bool,
    "standalone-mode": bool,
    "static-pods": dict,
    "static-pods-enabled": bool,
    "topology-manager-policy": str,
    "topology-manager-policy-options": dict,
    "topology-manager-scope": str,
} | dict.fromkeys(REQUIRED, str)
RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage")
GRACE: Final = re.compile(r"(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")
EPHEMERAL_STORAGE: Final = ["apiclient", "ephemeral-storage", "bind"]


def read_bottlerocket_settings(user_data: bytes) -> BootSettings:
    """Parse user data. Raises Unbootable."""
    try:
        document = tomllib.loads(user_data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unbootable(f"the user data is no TOML: {error}") from error
    settings = _table(document.pop("settings", {}), "settings")
    if unknown := [*document, *(f"settings.{name}" for name in settings.keys() - TABLES)]:
        raise Unbootable(f"Bottlerocket knows no {min(unknown)}")
    kubernetes = _table(settings.get("kubernetes", {}), "settings.kubernetes")
    for name, value in kubernetes.items():
        wanted: Any = KUBELET[name][1] if name in KUBELET else OTHERS.get(name)
        if wanted is None:
            raise Unbootable(f"Bottlerocket knows no settings.kubernetes.{name}")
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
            raise Unbootable(f"settings.kubernetes.{name} is no {_words(wanted)}")
        if name in TEXTS and not all(isinstance(each, str) for each in value.values()):
            raise Unbootable(f"settings.kubernetes.{name} has a value that is no text")
        if name in TEXTS:
            _check_entries(name, value)
    for name in REQUIRED:
        if not kubernetes.get(name):
            raise Unbootable(f"settings.kubernetes.{name} is missing")
    kubelet = {field: kubernetes[name] for name, (field, _) in KUBELET.items() if name in kubernetes}
    if "cluster-dns-ip" in kubernetes:
        dns = kubernetes["cluster-dns-ip"]
        kubelet["clusterDNS"] = [dns] if isinstance(dns, str) else dns
    own = kubernetes.get("node-ip") or next(
        iter(kubelet.get("clusterDNS", ())), ""
    )  # pluto takes the family of the DNS
    return BootSettings(
        ip_family=find_ip_family(own),
        cluster=kubernetes["cluster-name"],
        endpoint=kubernetes["api-server"],
        certificate_authority=decode_certificate(
            "settings.kubernetes.cluster-certificate", kubernetes["cluster-certificate"]
        ),
        registration=_registration(kubernetes),
        kubelet=kubelet,
        local_storage="RAID0" if _binds_instance_store(settings) else "",
    )


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unbootable(f"{where} is no table")
    return value


def _words(wanted: Any) -> str:
    kinds = {int: "number", dict: "table", bool: "true or false", str: "text", list: "list"}
    return " or ".join(kinds[one] for one in (wanted if isinstance(wanted, tuple) else (wanted,)))


def _registration(kubernetes: Mapping[str, Any]) -> Registration:
    labels = ",".join(f"{key}={value}" for key, value in kubernetes.get("node-labels", {}).items())
    taints = []
    for key, values in kubernetes.get("node-taints", {}).items():
        for each in [values] if isinstance(values, str) else values:
            value, found, effect = str(each).rpartition(":")
            if not found:
                raise Unbootable(f"settings.kubernetes.node-taints.{key}: {each!r} is no VALUE:EFFECT")
            taints.append({"key": key, "value": value, "effect": effect})
    return Registration(read_labels(labels), read_taints(taints))


def _binds_instance_store(settings: Mapping[str, Any]) -> bool:
    """Return whether a bootstrap command moves the files of pods to the instance store. Raises Unbootable."""
    found = False
    for name, one in _table(settings.get("bootstrap-commands", {}), "settings.bootstrap-commands").items():
        where = f"settings.bootstrap-commands.{name}"
        commands = _table(one, where).get("commands")
        if not isinstance(commands, list) or not all(isinstance(command, list) for command in commands):
            raise Unbootable(f"{where}.commands is no list of commands")
        if one.get("mode") not in ("always", "once", "off"):
            raise Unbootable(f"{where}.mode: {one.get('mode')} is not known")
        if any(command[:1] != ["apiclient"] for command in commands):
            raise Unbootable(f"{where}: only apiclient can be run")
        found = found or (one["mode"] != "off" and any(command[:3] == EPHEMERAL_STORAGE for command in commands))
    return found


def _check_entries(name: str, entries: Mapping[str, str]) -> None:
    """Raise Unbootable for an entry that the settings SDK refuses."""
    for key, value in entries.items():
        wrong = {
            "kube-reserved": key not in RESERVABLE,
            "system-reserved": key not in RESERVABLE,
            "eviction-hard": value in ("0%", "100%"),
            "eviction-soft": value in ("0%", "100%"),
            "eviction-soft-grace-period": not GRACE.fullmatch(value),
        }
        if wrong.get(name):
            raise Unbootable(f"settings.kubernetes.{name} refuses {key} = {value}")
