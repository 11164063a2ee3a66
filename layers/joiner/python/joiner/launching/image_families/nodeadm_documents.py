"""The NodeConfigs in a class's user data, with the checks that nodeadm makes before the kubelet starts.

nodeadm merges all NodeConfigs of the user data. If it cannot read one of them, it stops, and the node never joins.
Source: nodeadm's API reference (node.eks.aws/v1alpha1).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from joiner.launching.image_families.kubelet_flags import MAPS, NUMBERS
from joiner.launching.image_families.kubelet_labels import find_refused_label
from joiner.launching.image_families.node_settings import UserDataRefused
from joiner.launching.image_families.user_kubelet_settings import (
    PLANNED,
    UserSetting,
    describe_unplanned,
    find_setting_problems,
)
from joiner.pools import NodeClass
from joiner.pools.kubelet_configuration import FIELDS, read_dns_address
from joiner.pools.node_kubelet import choose_kubelet

API_VERSION: Final = "node.eks.aws/v1alpha1"
KIND: Final = "NodeConfig"
SPEC: Final = ("cluster", "containerd", "instance", "kubelet", "featureGates")
KUBELET: Final = ("config", "flags", "maxPodsExpression")
REPLACED: Final = ("apiServerEndpoint", "certificateAuthority", "cidr", "name")
"""Fields of spec.cluster that are Joiner's, whatever the user writes."""

DNS: Final = "clusterDNS"
DNS_FIELD: Final = f"spec.kubelet.config.{DNS}"

FLAGS: Final[Mapping[str, str]] = {
    flag: field for field, flag in (*NUMBERS.items(), *((each, MAPS[each][0]) for each in MAPS)) if field in PLANNED
}
"""Flags of the kubelet -> such a setting."""

PROVISIONERS: Final = "kubeletConfiguration.{} in the Provisioner"

TEXTS: Final = (
    "evictionHard",
    "evictionMinimumReclaim",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "kubeReserved",
    "systemReserved",
)
"""Settings of the kubelet whose values are texts; it does not start with a number there."""


TYPES: Final[Mapping[str, tuple[type, str]]] = {
    **dict.fromkeys(
        (
            "containerLogMaxFiles",
            "eventBurst",
            "eventRecordQPS",
            "evictionMaxPodGracePeriod",
            "imageGCHighThresholdPercent",
            "imageGCLowThresholdPercent",
            "kubeAPIBurst",
            "kubeAPIQPS",
            "maxPods",
            "podPidsLimit",
            "podsPerCore",
            "registryBurst",
            "registryPullQPS",
        ),
        (int, "a whole number, without quotes"),
    ),
    **dict.fromkeys(
        ("cpuCFSQuota", "failSwapOn", "protectKernelDefaults", "seccompDefault", "serializeImagePulls"),
        (bool, "true or false, without quotes"),
    ),
    **dict.fromkeys(("allowedUnsafeSysctls", DNS), (list, "a list of texts")),
}
"""Settings of the kubelet that have no text. Source: Kubernetes, "Kubelet Configuration (v1beta1)"."""


def read_user_node_config(text: str, before: int = 0) -> Mapping[str, Any]:
    """Return the ``spec`` of a NodeConfig; raises UserDataRefused if nodeadm could not read it.

    ``before`` is the number of lines before the text in the user data.

    >>> read_user_node_config("apiVersion: node.eks.aws/v1alpha1\\nkind: NodeConfig\\nspec: [1,")
    Traceback (most recent call last):
    joiner.launching.image_families.node_settings.UserDataRefused: its NodeConfig is not valid YAML: ... line 3...
    """
    document = _mapping(_parse(text, before), "its NodeConfig")
    declared = (document.get("apiVersion"), document.get("kind"))
    if declared != (API_VERSION, KIND):
        texts = [name for name in declared if name and isinstance(name, str)]  # aliases can make others very long
        written = " ".join(texts) or "no apiVersion and no kind"
        raise _refused(f"a document for nodeadm has {written}: write apiVersion {API_VERSION} and kind {KIND}")
    spec = _mapping(document.get("spec") or {}, "spec of its NodeConfig")
    for name in SPEC:
        _mapping(spec.get(name) or {}, f"spec.{name} of its NodeConfig")
    kubelet = spec.get("kubelet") or {}
    config = _mapping(kubelet.get("config") or {}, "spec.kubelet.config of its NodeConfig")
    for name in TEXTS:
        where = f"spec.kubelet.config.{name}"
        for key, value in _mapping(config.get(name) or {}, f"{where} of its NodeConfig").items():
            if not isinstance(value, str):
                raise _refused(f"{where} of its NodeConfig has a value that is no text: put that of {key} in quotes")
    _check_types(config)
    flags = kubelet.get("flags") or []
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise _refused("spec.kubelet.flags of its NodeConfig must be a list of strings")
    for key in _list_labels(flags):
        if refused := find_refused_label(key):
            raise _refused(f"--node-labels of spec.kubelet.flags has {key}: {refused}")
    return spec


def _list_labels(flags: Iterable[str]) -> Iterator[str]:
    """Yield the keys of the labels that flags give to the node."""
    for name, _, value in (flag.strip().lstrip("-").partition("=") for flag in flags):
        if name == "node-labels":
            yield from (label.partition("=")[0].strip() for label in value.strip("'\"").split(",") if label)


def _check_types(config: Mapping[str, Any]) -> None:
    """Raise UserDataRefused for a setting of the kubelet with a value of another type: it does not start with it. DNS
    servers of which none has an IP address are refused, too: pods get the node's DNS then, which knows no services.
    """
    for name, (kind, words) in TYPES.items():
        value = config.get(name)
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise _refused(f"spec.kubelet.config.{name} of its NodeConfig must be {words}")
    addresses = config.get(DNS) or ()
    if not all(isinstance(each, str) for each in addresses):
        raise _refused(f"{DNS_FIELD} of its NodeConfig must be a list of texts")
    if (wrong := _find_wrong_addresses(config)) and len(wrong) == len(addresses):
        raise _refused(f"{DNS_FIELD} of its NodeConfig has only {wrong[0]}, which is no IP address: pods get no DNS")


def _find_wrong_addresses(config: Mapping[str, Any]) -> list[str]:
    return [each[:80] for each in config.get(DNS) or () if not read_dns_address(each)]


def find_settings_without_effect(spec: Mapping[str, Any], node_class: NodeClass) -> Iterator[tuple[str, str]]:
    """Yield reason and message for each field that the node's own NodeConfig replaces, or that nodeadm or plans do not
    know.
    """
    for known, there, where in ((SPEC, spec, "spec"), (KUBELET, spec.get("kubelet") or {}, "spec.kubelet")):
        for name in sorted(str(name) for name in there.keys() - set(known)):
            message = f"{where}.{name} is not known as a field of a NodeConfig; these are known: {', '.join(known)}"
            yield "UnknownField", message
    for name in REPLACED:
        if name in (spec.get("cluster") or {}):
            yield "WithoutEffect", f"spec.cluster.{name} is replaced by the node's own value: remove it"
    config = (spec.get("kubelet") or {}).get("config") or {}
    if "registerWithTaints" in config:
        message = (
            "spec.kubelet.config.registerWithTaints is replaced by the node's own value: set the taints of the pool"
        )
        yield "WithoutEffect", message
    for wrong in _find_wrong_addresses(config):
        yield "WithoutEffect", f"{DNS_FIELD} has {wrong}, which is no IP address: the kubelet leaves it out"
    for field in FIELDS:
        if field in config:
            setting = UserSetting(field, f"spec.kubelet.config.{field}", config[field], merged=True)
            yield from find_setting_problems(node_class, setting)
    yield from _find_flags(spec, node_class)
    expression = (spec.get("kubelet") or {}).get("maxPodsExpression")
    if expression and choose_kubelet(node_class, None).max_pods is None:
        yield describe_unplanned(node_class, "maxPods", "spec.kubelet.maxPodsExpression")


def _find_flags(spec: Mapping[str, Any], node_class: NodeClass) -> Iterator[tuple[str, str]]:
    """Yield reason and message for each flag that decides how many pods fit on a node, or its taints: the kubelet
    prefers flags to its configuration file, which has the settings of the class. Source: Kubernetes, "Set Kubelet
    Parameters Via A Configuration File"."""
    for flag in (spec.get("kubelet") or {}).get("flags") or ():
        name = flag.strip().lstrip("-").partition("=")[0]
        if name == "register-with-taints":
            message = (
                "--register-with-taints of spec.kubelet.flags replaces the taints of the node, also "
                "karpenter.sh/unregistered: remove it, and set the taints of the pool"
            )
            yield "TaintsReplaced", message
        if field := FLAGS.get(name):
            where = f"kubelet.{field} in the class" if node_class.kind == "EC2NodeClass" else PROVISIONERS.format(field)
            message = (
                f"plans do not know --{name} of spec.kubelet.flags, which the kubelet prefers to its configuration: "
                f"set {where} instead"
            )
            yield "NotPlanned", message


def _parse(text: str, before: int) -> Any:
    from joiner.launching.image_families.node_config_yaml import read_yaml_documents  # few classes need PyYAML

    documents = read_yaml_documents(text, before)
    if len(documents) != 1:
        remedy = "write one for each MIME part"
        raise _refused(f"nodeadm reads one document of a part, and this one has {len(documents)}: {remedy}")
    return documents[0]


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _refused(f"{where} must be a mapping")
    return value


def _refused(message: str) -> UserDataRefused:
    return UserDataRefused("InvalidUserData", message)
