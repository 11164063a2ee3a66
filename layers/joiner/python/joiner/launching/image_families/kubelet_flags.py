"""Kubelet settings as flags of the kubelet, for families whose bootstrap script takes flags.

The flags stand in a shell or PowerShell command in single quotes, so every value is checked against its grammar.
Source: Kubernetes, "kubelet" (command line reference).

>>> list(write_kubelet_flags({"maxPods": 20, "evictionHard": {"memory.available": "5%"}}))
['--max-pods=20', '--eviction-hard=memory.available<5%']
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from joiner.launching.image_families.node_settings import NodeSettings, check_grammar

AMOUNT = re.compile(r"\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")
"""A quantity of Kubernetes that is not negative."""

THRESHOLD = re.compile(rf"[0-9]+(\.[0-9]+)?%|{AMOUNT.pattern}")
GRACE = re.compile(r"([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+")
SIGNAL = re.compile(r"[a-zA-Z.-]+")
NUMBER = re.compile(r"-?[0-9]+")

NUMBERS: Mapping[str, str] = {
    "maxPods": "max-pods",
    "podsPerCore": "pods-per-core",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
}
MAPS: Mapping[str, tuple[str, str, re.Pattern[str]]] = {
    "systemReserved": ("system-reserved", "=", AMOUNT),
    "kubeReserved": ("kube-reserved", "=", AMOUNT),
    "evictionHard": ("eviction-hard", "<", THRESHOLD),
    "evictionSoft": ("eviction-soft", "<", THRESHOLD),
    "evictionSoftGracePeriod": ("eviction-soft-grace-period", "=", GRACE),
}
"""Fields of maps -> flag, the sign between key and value, and the grammar of a value."""


def write_registration_flags(settings: NodeSettings) -> Iterator[str]:
    """Yield the flags for labels and taints."""
    if labels := ",".join(f"{key}={value}" for key, value in settings.checked_labels()):
        yield f"--node-labels={labels}"
    if taints := ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in settings.checked_taints()):
        yield f"--register-with-taints={taints}"


def write_kubelet_flags(kubelet: Mapping[str, Any]) -> Iterator[str]:
    """Yield the flags of the settings that are set; ``clusterDNS`` is an argument of the bootstrap script instead."""
    for field, flag in NUMBERS.items():
        if kubelet.get(field) is not None:
            yield f"--{flag}={check_grammar(f'kubelet.{field}', str(kubelet[field]), NUMBER)}"
    for field, (flag, sign, grammar) in MAPS.items():
        if value := kubelet.get(field):
            yield f"--{flag}={','.join(_pairs(field, value, sign, grammar))}"
    if kubelet.get("cpuCFSQuota") is not None:
        yield f"--cpu-cfs-quota={'true' if kubelet['cpuCFSQuota'] else 'false'}"


def _pairs(field: str, values: Mapping[str, Any], sign: str, grammar: re.Pattern[str]) -> Iterator[str]:
    for key in sorted(values):
        check_grammar(f"a key of kubelet.{field}", key, SIGNAL)
        yield f"{key}{sign}{check_grammar(f'kubelet.{field}[{key}]', str(values[key]), grammar)}"
