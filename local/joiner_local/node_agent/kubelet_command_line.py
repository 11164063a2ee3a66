"""Flags of a kubelet's command line, as a kubelet reads them, as the fields of a KubeletConfiguration.

Source: Kubernetes, "kubelet" (command line reference). A kubelet ends at once for a flag that it does not know.

>>> read_kubelet_flags(["--max-pods=20", "--eviction-hard=memory.available<5%,nodefs.available<10%"])
{'maxPods': 20, 'evictionHard': {'memory.available': '5%', 'nodefs.available': '10%'}}
"""

from collections.abc import Sequence
from typing import Any, Final

from joiner_local.node_agent.node_registration import Unbootable

NUMBERS: Final = {
    "--max-pods": "maxPods",
    "--pods-per-core": "podsPerCore",
    "--eviction-max-pod-grace-period": "evictionMaxPodGracePeriod",
    "--image-gc-high-threshold": "imageGCHighThresholdPercent",
    "--image-gc-low-threshold": "imageGCLowThresholdPercent",
}
MAPS: Final = {
    "--system-reserved": ("systemReserved", "="),
    "--kube-reserved": ("kubeReserved", "="),
    "--eviction-hard": ("evictionHard", "<"),
    "--eviction-soft": ("evictionSoft", "<"),
    "--eviction-soft-grace-period": ("evictionSoftGracePeriod", "="),
}
REGISTRATION: Final = ("--node-labels", "--register-with-taints")
BOOLEANS: Final = {"--cpu-cfs-quota": "cpuCFSQuota"}


def read_kubelet_flags(flags: Sequence[str]) -> dict[str, Any]:
    """Return the settings in the flags; those of labels and taints are read by `read_flags`. Raises Unbootable."""
    config: dict[str, Any] = {}
    for flag in flags:
        name, _, value = flag.partition("=")
        if name in NUMBERS:
            config[NUMBERS[name]] = _number(name, value)
        elif name in MAPS:
            field, sign = MAPS[name]
            config[field] = dict(_pair(name, pair, sign) for pair in value.split(","))
        elif name in BOOLEANS and value in ("true", "false"):
            config[BOOLEANS[name]] = value == "true"
        elif name not in REGISTRATION:
            raise Unbootable(f"the kubelet knows no flag {flag!r}")
    return config


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise Unbootable(f"{name}: {value!r} is no number") from error


def _pair(name: str, pair: str, sign: str) -> tuple[str, str]:
    key, found, value = pair.partition(sign)
    if not found or not key or not value:
        raise Unbootable(f"{name}: {pair!r} is no pair with {sign}")
    return key, value
