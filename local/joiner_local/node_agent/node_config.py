"""The NodeConfig in the user data of an Amazon Linux 2023 instance, as nodeadm reads it, or the reason why the node
never joins.

User data is a NodeConfig document, or MIME multipart with parts of type `application/node.eks.aws`; a later part has
precedence, field by field (amazon-eks-ami, nodeadm: "Merging multiple configuration objects"). Parts of other types are
scripts, which are not run here.

>>> read_node_config(b"apiVersion: node.eks.aws/v1alpha1\\nkind: NodeConfig\\nspec: {cluster: {name: demo}}")
Traceback (most recent call last):
joiner_local.node_agent.node_registration.Unbootable: spec.cluster.apiServerEndpoint is missing in the NodeConfig
"""

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

import yaml

from joiner_local.node_agent.boot_settings import BootSettings, decode_certificate, find_ip_family
from joiner_local.node_agent.node_registration import Registration, Unbootable, read_flags, read_taints
from joiner_local.node_agent.user_data_parts import NODE_CONFIG, read_parts

API_VERSION: Final = "node.eks.aws/v1alpha1"
KUBELET_KEYS: Final = frozenset({"config", "flags", "maxPodsExpression"})
TEXTS: Final = ("evictionHard", "evictionSoft", "evictionSoftGracePeriod", "kubeReserved", "systemReserved")
"""Fields of a KubeletConfiguration that are maps of texts."""


def read_node_config(user_data: bytes) -> BootSettings:
    """Parse user data. Raises Unbootable."""
    merged: dict[str, Any] = {}
    for document in read_parts(user_data, NODE_CONFIG):
        merged = merge(merged, _node_config(document))
    if not merged:
        raise Unbootable("the user data holds no NodeConfig")
    spec = _mapping(merged.get("spec"), "spec")
    cluster = _mapping(spec.get("cluster"), "spec.cluster")
    for name in ("name", "apiServerEndpoint", "certificateAuthority", "cidr"):
        if not cluster.get(name) or not isinstance(cluster[name], str):
            raise Unbootable(f"spec.cluster.{name} is missing in the NodeConfig")
    kubelet = _mapping(spec.get("kubelet") or {}, "spec.kubelet")
    if unknown := kubelet.keys() - KUBELET_KEYS:
        raise Unbootable(f"spec.kubelet.{min(unknown)} is no field of a NodeConfig")
    config = _mapping(kubelet.get("config") or {}, "spec.kubelet.config")
    for name in TEXTS:
        for key, value in _mapping(config.get(name) or {}, f"spec.kubelet.config.{name}").items():
            if not isinstance(value, str):
                raise Unbootable(f"the kubelet cannot decode spec.kubelet.config.{name}.{key}: it is no text")
    flags = kubelet.get("flags") or []
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise Unbootable("spec.kubelet.flags is not a list of strings")
    from_flags = read_flags(flags)
    return BootSettings(
        cluster=cluster["name"],
        endpoint=cluster["apiServerEndpoint"],
        certificate_authority=decode_certificate("spec.cluster.certificateAuthority", cluster["certificateAuthority"]),
        cidr=_cidr(cluster["cidr"]),
        ip_family=find_ip_family(cluster["cidr"]),
        registration=Registration(
            from_flags.labels, (*from_flags.taints, *read_taints(config.get("registerWithTaints") or []))
        ),
        kubelet=config,
        local_storage=_local_storage(spec),
    )


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the fields of the upper document over the lower one's; lists are replaced, not joined.

    >>> merge({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}})
    {'a': {'b': 1, 'c': [2]}}
    """
    merged = dict(below)
    for key, value in above.items():
        both_maps = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = merge(merged[key], value) if both_maps else value
    return merged


def _node_config(text: bytes) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Unbootable(f"the NodeConfig is no YAML: {' '.join(str(error).split())}") from error
    document = _mapping(document, "the NodeConfig")
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, "NodeConfig"):
        raise Unbootable(
            f"the user data is a {document.get('apiVersion')} {document.get('kind')}, not a {API_VERSION} NodeConfig"
        )
    return document


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unbootable(f"{where} is not a mapping")
    return value


def _cidr(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise Unbootable(f"spec.cluster.cidr: {error}") from error


def _local_storage(spec: Mapping[str, Any]) -> str:
    instance = _mapping(spec.get("instance") or {}, "spec.instance")
    storage = _mapping(instance.get("localStorage") or {}, "spec.instance.localStorage")
    strategy = storage.get("strategy", "")
    if strategy not in ("", "RAID0", "RAID10", "Mount"):
        raise Unbootable(f"spec.instance.localStorage.strategy: {strategy} is not known")
    return str(strategy)
