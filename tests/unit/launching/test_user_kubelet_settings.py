"""Kubelet settings in user data: the report says whether the class replaces them, and nodes have what it says."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from joiner.launching.image_families.al2023 import build_node_config
from joiner.launching.image_families.bottlerocket import SETTINGS, build_settings
from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.node_settings import NodeSettings
from joiner.launching.image_families.toml_text import write_toml
from joiner.pools import NodeClass
from joiner.pools.kubelet_configuration import FIELDS, KubeletConfiguration
from joiner.pools.node_class import ImageFamily
from joiner_local.node_agent.node_config import read_node_config
from tests.unit.launching.launch_scenario import CLUSTER

CERTIFICATE = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
BOOTABLE = replace(CLUSTER, certificate_authority=CERTIFICATE)
CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"

OF_CLASS: Mapping[str, Any] = {
    "clusterDNS": ["10.100.0.10"],
    "cpuCFSQuota": True,
    "evictionHard": {"memory.available": "5%"},
    "evictionMaxPodGracePeriod": 30,
    "evictionSoft": {"memory.available": "9%"},
    "evictionSoftGracePeriod": {"memory.available": "1m"},
    "imageGCHighThresholdPercent": 80,
    "imageGCLowThresholdPercent": 70,
    "kubeReserved": {"cpu": "100m"},
    "maxPods": 33,
    "podsPerCore": 4,
    "systemReserved": {"cpu": "100m"},
}
OF_USER: Mapping[str, Any] = {
    "clusterDNS": ["10.100.0.11"],
    "cpuCFSQuota": False,
    "evictionHard": {"memory.available": "6%"},
    "evictionMaxPodGracePeriod": 31,
    "evictionSoft": {"memory.available": "8%"},
    "evictionSoftGracePeriod": {"memory.available": "2m"},
    "imageGCHighThresholdPercent": 81,
    "imageGCLowThresholdPercent": 71,
    "kubeReserved": {"cpu": "200m"},
    "maxPods": 7,
    "podsPerCore": 5,
    "systemReserved": {"cpu": "200m"},
}
"""Other values of the same settings."""
DECIDE_PODS = {"evictionHard", "kubeReserved", "maxPods", "podsPerCore", "systemReserved"}
OF_BOTTLEROCKET = {**SETTINGS, "clusterDNS": "cluster-dns-ip"}


def problems(family: ImageFamily, user_data: str, kubelet: Mapping[str, Any] | None, **others: Any) -> list[str]:
    """Return reason and message of each problem of the user data of a class."""
    config = None if kubelet is None else KubeletConfiguration(kubelet)
    node_class = NodeClass("a", **{"kind": "EC2NodeClass", "user_data": user_data, "kubelet": config, **others})
    found = IMAGE_FAMILIES[family].find_problems(node_class)
    about = "spec.userData: "
    return [f"{one.reason} {one.message.removeprefix(about)}" for one in found if one.message.startswith(about)]


def node_config(config: Mapping[str, Any], **kubelet: Any) -> str:
    return f"{CONFIG}spec: {{'kubelet': { ({'config': config, **kubelet})!r}}}".replace("True", "true").replace(
        "False", "false"
    )


def toml(field: str, value: Any) -> str:
    if field == "clusterDNS":
        value = value[0]
    return write_toml({"settings": {"kubernetes": {OF_BOTTLEROCKET[field]: value}}})


@pytest.mark.parametrize("field", FIELDS)
def test_a_setting_of_nodeadm_that_the_class_sets_is_reported_as_replaced(field: str) -> None:
    own = node_config({field: OF_USER[field]})
    written = f"spec.kubelet.config.{field}"
    key = f"[{next(iter(OF_USER[field]))}]" if isinstance(OF_USER[field], dict) else ""

    assert problems("AL2023", own, {field: OF_CLASS[field]}) == [
        f"WithoutEffect {written}{key} is replaced by kubelet.{field} of the class: remove it"
    ]
    settings = NodeSettings(BOOTABLE, kubelet={field: OF_CLASS[field]}, own=own)
    node = read_node_config(IMAGE_FAMILIES["AL2023"].write_user_data(settings).encode())
    assert node.kubelet[field] == OF_CLASS[field]
    assert problems("AL2023", own, None) == (
        [f"NotPlanned plans do not know {written}: set kubelet.{field} in the class instead"]
        if field in DECIDE_PODS
        else []
    )


@pytest.mark.parametrize("field", OF_BOTTLEROCKET)
def test_a_setting_of_bottlerocket_that_the_class_sets_is_reported_as_replaced(field: str) -> None:
    own = toml(field, OF_USER[field])
    name = OF_BOTTLEROCKET[field]
    written = f"settings.kubernetes.{name}"

    assert problems("Bottlerocket", own, {field: OF_CLASS[field]}) == [
        f"WithoutEffect {written} is replaced by kubelet.{field} of the class: remove it"
    ]
    without = build_settings(NodeSettings(BOOTABLE, kubelet={field: OF_CLASS[field]}))
    assert build_settings(NodeSettings(BOOTABLE, kubelet={field: OF_CLASS[field]}, own=own)) == without
    assert problems("Bottlerocket", own, None) == (
        [f"NotPlanned plans do not know {written}: set kubelet.{field} in the class instead"]
        if field in DECIDE_PODS
        else []
    )


def test_nodeadm_keeps_the_keys_of_a_map_that_the_class_does_not_set_and_bottlerocket_does_not() -> None:
    own = {"kubeReserved": {"cpu": "1", "memory": "1Gi"}}

    assert problems("AL2023", node_config(own), {"kubeReserved": {"cpu": "100m"}}) == [
        "WithoutEffect spec.kubelet.config.kubeReserved[cpu] is replaced by kubelet.kubeReserved of the class: remove "
        "it",
        "NotPlanned plans do not know spec.kubelet.config.kubeReserved[memory]: set kubelet.kubeReserved in the class "
        "instead",
    ]
    assert problems("Bottlerocket", toml("kubeReserved", own["kubeReserved"]), {"kubeReserved": {"cpu": "100m"}}) == [
        "WithoutEffect settings.kubernetes.kube-reserved is replaced by kubelet.kubeReserved of the class: remove it"
    ]


def test_another_setting_of_the_class_replaces_nothing() -> None:
    assert problems("Bottlerocket", toml("maxPods", 7), {"kubeReserved": {"cpu": "100m"}}) == [
        "NotPlanned plans do not know settings.kubernetes.max-pods: set kubelet.maxPods in the class instead"
    ]


def test_in_an_ipv6_cluster_the_pods_and_their_memory_are_replaced_though_the_class_does_not_set_them() -> None:
    assert problems("Bottlerocket", toml("maxPods", 7), None, ip_family="ipv6") == [
        "WithoutEffect settings.kubernetes.max-pods is replaced by the value of nodes in an IPv6 cluster: set "
        "kubelet.maxPods in the class instead"
    ]
    reserved = node_config({"kubeReserved": {"memory": "1Gi", "cpu": "1"}})
    assert problems("AL2023", reserved, {"kubeReserved": {"cpu": "100m"}}, ip_family="ipv6") == [
        "WithoutEffect spec.kubelet.config.kubeReserved[cpu, memory] is replaced by the value of nodes in an IPv6 "
        "cluster: set kubelet.kubeReserved in the class instead"
    ]


def test_a_class_without_kubelet_names_the_provisioner_that_sets_it() -> None:
    assert problems("Bottlerocket", toml("maxPods", 7), None, kind="AWSNodeTemplate") == [
        "NotPlanned plans do not know settings.kubernetes.max-pods, and kubeletConfiguration.maxPods of a Provisioner "
        "replaces it: set it there instead"
    ]


@pytest.mark.parametrize("kubelet", [None, {"maxPods": 33}])
def test_flags_of_the_kubelet_are_reported_whatever_the_class_sets(kubelet: Mapping[str, Any] | None) -> None:
    """The kubelet prefers flags to its configuration file, and Joiner's NodeConfig sets no such flag."""
    own = node_config({}, flags=["--max-pods=7", "--v=2"])

    assert problems("AL2023", own, kubelet) == [
        "NotPlanned plans do not know --max-pods of spec.kubelet.flags, which the kubelet prefers to its "
        "configuration: set kubelet.maxPods in the class instead"
    ]
    flags = build_node_config(NodeSettings(CLUSTER, kubelet=kubelet or {}))["spec"]["kubelet"]["flags"]
    assert not any(flag.startswith("--max-pods") for flag in flags)


def test_an_expression_for_the_number_of_pods_is_reported_unless_the_class_sets_the_number() -> None:
    own = node_config({}, maxPodsExpression="20 * 2")

    assert problems("AL2023", own, {"maxPods": 33}) == []
    assert problems("AL2023", own, None) == [
        "NotPlanned plans do not know spec.kubelet.maxPodsExpression: set kubelet.maxPods in the class instead"
    ]
