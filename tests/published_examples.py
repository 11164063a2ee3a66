"""Karpenter's published examples for v1, in our own words: a pool, its class, and a workload for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.unit.cli.command_runs import deployment, pool

CLUSTER: Final = "joiner-demo"
DISCOVERY = {"tags": {"karpenter.sh/discovery": CLUSTER}}
LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
AMD64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
CATEGORIES = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}
GENERATION = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}
USUAL = (LINUX, AMD64, ON_DEMAND, CATEGORIES, GENERATION)
WINDOWS = {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}
ADDRESS = "vpc.amazonaws.com/PrivateIPv4Address"


def one_of(key: str, *values: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values), **more}


def node_class(alias: str = "al2023@latest", **spec: Any) -> dict[str, Any]:
    terms = {"subnetSelectorTerms": [DISCOVERY], "securityGroupSelectorTerms": [DISCOVERY]}
    images = {"amiSelectorTerms": [{"alias": alias}]} if alias else {}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {**terms, "role": f"KarpenterNodeRole-{CLUSTER}", **images, **spec},
    }


@dataclass(frozen=True, slots=True)
class Example:
    """A pool, its class, and a workload for it."""

    pool: Mapping[str, Any]
    node_class: Mapping[str, Any]
    workload: Mapping[str, Any]


def example(
    requirements: Sequence[Mapping[str, Any]] = USUAL,
    of: Mapping[str, Any] | None = None,
    pods: Mapping[str, Any] | None = None,
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> Example:
    workload = deployment("inflate", 3, cpu="1", memory="1Gi", **(pods or {}))
    for container in workload["spec"]["template"]["spec"]["containers"]:
        container["resources"]["requests"] |= requests or {}
        container["resources"]["limits"] = dict(requests or {})
    return Example(pool(requirements=requirements, **spec), of or node_class(), workload)


def windows(alias: str, build: str, **spec: Any) -> Example:
    selector = {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": build}
    requirements = (WINDOWS, AMD64, ON_DEMAND, CATEGORIES, GENERATION)
    of = node_class(alias, metadataOptions={"httpTokens": "required"}, **spec)
    return example(requirements, of, pods={"nodeSelector": selector}, requests={ADDRESS: "1"})


NODE_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPods: 42}}}\n"
DISKS = [
    {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": True}},
    {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "200Gi", "volumeType": "gp3", "encrypted": True}},
]
BY_ID = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]}
EXAMPLES: Mapping[str, Example] = {
    "general purpose": example(),
    "spot": example((LINUX, AMD64, one_of("karpenter.sh/capacity-type", "spot"), CATEGORIES, GENERATION)),
    "arm64": example(
        (LINUX, one_of("kubernetes.io/arch", "arm64"), ON_DEMAND, CATEGORIES, GENERATION),
        pods={"nodeSelector": {"kubernetes.io/arch": "arm64"}},
    ),
    "several architectures": example(
        (LINUX, one_of("kubernetes.io/arch", "amd64", "arm64"), ON_DEMAND, CATEGORIES, GENERATION)
    ),
    "a limit of 100 CPUs": example(limits={"cpu": "100"}),
    "large instances": example((*USUAL, {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["7"]})),
    "the lifetime of nodes": example(node={"expireAfter": "720h"}),
    "minValues of families": example(
        (*USUAL, one_of("karpenter.k8s.aws/instance-family", "m5", "c6i", "r5", "m6i", minValues=3)),
    ),
    "minValues of several keys": example(
        (
            *USUAL,
            one_of("karpenter.k8s.aws/instance-family", "m5", "c6i", "r5", "m6i", minValues=3),
            {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 4},
        ),
    ),
    "AL2": example(of=node_class("al2@latest")),
    "AL2 with own user data": example(of=node_class("al2@latest", userData="#!/bin/bash\necho own\n")),
    "AL2023 with own user data": example(of=node_class(userData=NODE_CONFIG)),
    "Bottlerocket": example(of=node_class("bottlerocket@latest")),
    "Bottlerocket with own user data": example(
        of=node_class("bottlerocket@latest", userData='[settings.kernel]\nlockdown = "integrity"\n')
    ),
    "several volumes": example(of=node_class(blockDeviceMappings=DISKS)),
    "instance store": example(of=node_class(instanceStorePolicy="RAID0"), requests={"ephemeral-storage": "100Gi"}),
    "Windows 2019": windows("windows2019@latest", "10.0.17763"),
    "Windows 2022": windows("windows2022@latest", "10.0.20348"),
    "Windows 2025": windows("windows2025@latest", "10.0.26100"),
    "Windows with own user data": windows("windows2022@latest", "10.0.20348", userData="Write-Host 'own'"),
    "a custom family": example(of=node_class("", **BY_ID, userData="#!/bin/sh\n/start karpenter.sh/unregistered")),
    "GPUs": example((LINUX, AMD64, ON_DEMAND), requests={"nvidia.com/gpu": "1"}),
    "EFA": example((LINUX, AMD64, ON_DEMAND), requests={"vpc.amazonaws.com/efa": "1"}),
    "interfaces by card": example(
        (LINUX, AMD64, ON_DEMAND),
        of=node_class(
            networkInterfaces=[
                {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
                {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
            ]
        ),
        requests={"vpc.amazonaws.com/efa": "1"},
    ),
    "nested virtualization": example(
        (LINUX, AMD64, ON_DEMAND), of=node_class(cpuOptions={"nestedVirtualization": "enabled"})
    ),
    "timeouts and prefixes": example(of=node_class(connectionTracking={"tcpEstablishedTimeout": 600}, ipPrefixCount=1)),
    "Neuron": example((LINUX, AMD64, ON_DEMAND), requests={"aws.amazon.com/neuron": "1"}),
}
