"""Bottlerocket: user data is TOML. The user's settings are kept; those that make the node join are Joiner's.

Sources: Bottlerocket, "Settings reference" (settings.kubernetes, settings.bootstrap-commands); Karpenter, "NodeClasses"
(spec.userData for Bottlerocket, spec.instanceStorePolicy).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from joiner.catalogue.ec2_instance_types import ARCHITECTURES
from joiner.catalogue.family_capacity import FAMILY_CAPACITIES
from joiner.launching.image_families.bottlerocket_types import (
    DNS,
    GRACE,
    KINDS,
    PERCENTAGES,
    find_refused_entry,
    find_wrong_type,
    is_duration,
    write_duration,
)
from joiner.launching.image_families.image_family import encrypted_volume, refuse, warn
from joiner.launching.image_families.image_variants import ImageParameter
from joiner.launching.image_families.kubelet_labels import find_refused_label
from joiner.launching.image_families.node_settings import NodeSettings, UserDataRefused
from joiner.launching.image_families.toml_documents import read_toml
from joiner.launching.image_families.toml_text import write_toml
from joiner.launching.image_families.user_kubelet_settings import UserSetting, find_setting_problems
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.go_durations import parse_go_duration
from joiner.pools.node_class import ImageFamily
from joiner.pools.suggestions import suggest_nearest

PATHS: Mapping[str, str] = {"standard": "", "nvidia": "-nvidia", "neuron": ""}
"""Variants of Bottlerocket by the devices of a node. The standard one has the driver of Neuron, and the one for NVIDIA
has not. Source: Karpenter, pull request 7722."""

SETTINGS: Mapping[str, str] = {
    "maxPods": "max-pods",
    "systemReserved": "system-reserved",
    "kubeReserved": "kube-reserved",
    "evictionHard": "eviction-hard",
    "evictionSoft": "eviction-soft",
    "evictionSoftGracePeriod": "eviction-soft-grace-period",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold-percent",
    "imageGCLowThresholdPercent": "image-gc-low-threshold-percent",
    "cpuCFSQuota": "cpu-cfs-quota-enforced",
}
"""Kubelet settings -> settings.kubernetes."""

WRITTEN_AS_TEXT = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")

REPLACED = ("api-server", "cluster-certificate", "cluster-name", "node-taints")
"""Settings of settings.kubernetes that are Joiner's, whatever the user writes."""

GROUPS = frozenset(
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
        "nvidia-container-runtime",
        "oci-defaults",
        "oci-hooks",
        "pki",
        "updates",
    }
)
"""The settings of the variants for Kubernetes on EC2. A newer release may have more."""

TABLES = (
    ("settings",),
    ("settings", "autoscaling"),
    ("settings", "bootstrap-commands"),
    ("settings", "kubernetes"),
)
"""Tables that the node's settings are written into."""

TEXTS = (
    "eviction-hard",
    "eviction-soft",
    "eviction-soft-grace-period",
    "kube-reserved",
    "node-labels",
    "system-reserved",
)
"""Tables of settings.kubernetes whose values are texts; Bottlerocket refuses all settings if one is a number."""

KNOWN = frozenset({*KINDS, *PERCENTAGES, *REPLACED, *TEXTS, DNS})
"""The settings of settings.kubernetes. A newer release may have more."""

PODS = FAMILY_CAPACITIES["Bottlerocket"].pods_device
"""The volume with the files of pods."""

MOUNT_COMMAND = "000-mount-instance-storage"
MOUNTED = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")


class Bottlerocket:
    """See ``FamilyOfImages``. The first volume is the system, the second one has the files of pods."""

    name: ImageFamily = "Bottlerocket"
    kubernetes_versions = ""
    devices = (encrypted_volume("/dev/xvda", 4), encrypted_volume(PODS, 20))

    def list_parameters(self, version: str, release: str) -> tuple[ImageParameter, ...]:
        """Return the SSM parameters of the family's images."""
        number = release.removeprefix("v")
        return tuple(
            ImageParameter.of(
                f"/aws/service/bottlerocket/aws-k8s-{version}{suffix}/{architecture}/{number}/image_id",
                arch,
                variant,
            )
            for variant, suffix in PATHS.items()
            for architecture, arch in ARCHITECTURES.items()
            if (architecture, variant) != ("arm64", "neuron")  # there is no such instance type
        )

    def explain_missing_images(self, version: str) -> str:  # noqa: ARG002 - the interface
        """Return nothing: every version has images."""
        return ""

    def find_problems(self, node_class: NodeClass) -> Iterator[NodeClassProblem]:
        """Yield settings that Bottlerocket does not have, and user data that is not TOML."""
        if node_class.kubelet and node_class.kubelet.pods_per_core:
            message = "Bottlerocket has no such setting: use maxPods"
            yield warn(node_class, "kubelet.podsPerCore", "WithoutEffect", message)
        yield from _find_refused_values(node_class)
        if other := [one.device_name for one in node_class.block_devices if one.root and one.device_name != PODS]:
            message = (
                f"rootVolume of {other[0]} has no effect: Bottlerocket keeps the files of pods on {PODS}, and plans "
                f"count that volume: set its size"
            )
            yield warn(node_class, "blockDeviceMappings", "WithoutEffect", message)
        else:
            yield from self._find_unused_size(node_class)
        try:
            own_settings = read_own_settings(node_class.user_data or "")
        except UserDataRefused as refused:
            yield refuse(node_class, "userData", refused.reason, str(refused))
            return
        all_settings = own_settings.get("settings", {})
        ours = all_settings.get("kubernetes", {})
        for name in REPLACED:
            if name in ours:
                remedy = "set the taints of the pool" if name == "node-taints" else "remove it"
                message = f"settings.kubernetes.{name} is replaced by the node's own value: {remedy}"
                yield warn(node_class, "userData", "WithoutEffect", message)
        for path, there, known in (("settings", all_settings, GROUPS), ("settings.kubernetes", ours, KNOWN)):
            for name in sorted(there.keys() - known):
                message = (
                    f"{path}.{name}: Joiner does not know it; a release of Bottlerocket that does not know it refuses "
                    f"all settings{suggest_nearest(name, sorted(known))}"
                )
                yield warn(node_class, "userData", "UnknownField", message)
        named = {**SETTINGS, "clusterDNS": DNS}
        for field in sorted(field for field, name in named.items() if name in ours):
            setting = UserSetting(field, f"settings.kubernetes.{named[field]}", ours[named[field]])
            for reason, message in find_setting_problems(node_class, setting):
                yield warn(node_class, "userData", reason, message)

    def _find_unused_size(self, node_class: NodeClass) -> Iterator[NodeClassProblem]:
        """Yield a warning for a class that enlarges the volume of the system only."""
        system, of_pods = self.devices
        sizes = {device.device_name: device.size_gib for device in node_class.block_devices}
        enlarged = (sizes.get(system.device_name) or 0) > (system.size_gib or 0)
        if enlarged and of_pods.device_name not in sizes:
            message = (
                f"{system.device_name} has only the system: Bottlerocket keeps the files of pods on "
                f"{of_pods.device_name}, which is not mapped and has {of_pods.size_gib}Gi: map it, with the size"
            )
            yield warn(node_class, "blockDeviceMappings", "PodsVolumeNotMapped", message)

    def write_user_data(self, settings: NodeSettings) -> str:
        """Return the settings as TOML."""
        return write_toml(build_settings(settings))


def read_own_settings(text: str) -> dict[str, Any]:
    """Return the user's TOML; raises UserDataRefused if Bottlerocket could not read it.

    >>> read_own_settings("[settings.motd")
    Traceback (most recent call last):
    joiner.launching.image_families.node_settings.UserDataRefused: Bottlerocket reads TOML, and this is none...
    """
    parsed = read_toml(text)
    for path in (*TABLES, *(("settings", "kubernetes", name) for name in TEXTS)):
        table: Any = parsed
        for name in path:
            table = table.get(name, {})
        if not isinstance(table, dict):
            raise UserDataRefused("InvalidUserData", f"{'.'.join(path)} must be a table of TOML")
        for key, value in table.items() if path[-1] in TEXTS else ():
            if not isinstance(value, str):
                message = f"{'.'.join(path)}.{key} must be a text: put its value in quotes"
                raise UserDataRefused("InvalidUserData", message)
            if refused := _find_refused_text(path[-1], key, value):
                raise UserDataRefused("InvalidUserData", f"{'.'.join(path)}.{key}: {refused}")
    for name, value in parsed.get("settings", {}).get("kubernetes", {}).items():
        if wrong := find_wrong_type(name, value):
            raise UserDataRefused("InvalidUserData", f"settings.kubernetes.{name} {wrong}")
    if other := parsed.keys() - {"settings"}:
        raise UserDataRefused("InvalidUserData", f"Bottlerocket reads only the table settings, and not {min(other)}")
    return parsed


def _find_refused_text(name: str, key: str, value: str) -> str:
    return find_refused_label(key) if name == "node-labels" else find_refused_entry(name, key, value)


def build_settings(settings: NodeSettings) -> dict[str, Any]:
    """Return the user's settings with those of the node; every value of the node's is checked."""
    document = read_own_settings(settings.own)
    all_settings = document.setdefault("settings", {})
    kubernetes = all_settings.setdefault("kubernetes", {})
    kubernetes |= {name: str(kubernetes[name]) for name in PERCENTAGES if name in kubernetes}
    labels = kubernetes.get("node-labels", {}) | dict(settings.checked_labels())
    taints: dict[str, list[str]] = {}
    for taint in settings.checked_taints():
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    kubernetes |= {
        "api-server": settings.endpoint,
        "cluster-certificate": "".join(settings.certificate_authority.split()),
        "cluster-name": settings.cluster_name,
        "node-labels": labels,
        "node-taints": taints,
    }
    if settings.kubelet.get("clusterDNS") or "cluster-dns-ip" not in kubernetes:
        addresses = settings.cluster_dns()
        kubernetes["cluster-dns-ip"] = addresses[0] if len(addresses) == 1 else [*addresses]
    for field, name in SETTINGS.items():
        value = settings.kubelet.get(field)
        if value is not None:
            kubernetes[name] = str(value) if field in WRITTEN_AS_TEXT else _value(name, value)
    if "autoscaling" in all_settings:
        # A node that waits for the state InService of an Auto Scaling group, which it has not, would never start
        all_settings["autoscaling"]["should-wait"] = False
    if settings.raid0:
        all_settings.setdefault("bootstrap-commands", {})[MOUNT_COMMAND] = {
            "commands": [
                ["apiclient", "ephemeral-storage", "init"],
                ["apiclient", "ephemeral-storage", "bind", "--dirs", *MOUNTED],
            ],
            "mode": "always",
            "essential": True,
        }
    return document


def _value(name: str, setting: Any) -> Any:
    """Return a setting as Bottlerocket types it: amounts and thresholds are texts."""
    if not isinstance(setting, Mapping):
        return setting
    return {key: _text(name, one) for key, one in setting.items()}


def _text(name: str, value: Any) -> str:
    if name != GRACE or is_duration(str(value)):
        return str(value)
    duration = parse_go_duration(value)
    return str(value) if duration is None else write_duration(duration)


def _find_refused_values(node_class: NodeClass) -> Iterator[NodeClassProblem]:
    """Yield the entries of the class's kubelet settings that Bottlerocket refuses, and with them all settings."""
    config = node_class.kubelet.config if node_class.kubelet else {}
    for field, name in SETTINGS.items():
        entries = config.get(field)
        for key, value in entries.items() if isinstance(entries, Mapping) else ():
            if refused := find_refused_entry(name, str(key), _text(name, value)):
                yield refuse(node_class, f"kubelet.{field}", "InvalidKubeletSetting", f"{key} is {value}: {refused}")
