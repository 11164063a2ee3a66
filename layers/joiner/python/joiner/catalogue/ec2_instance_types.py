"""Instance types as EC2 describes them, turned into the labels, capacity and allocatable that their nodes have.

Labels are derived as Karpenter derives them (aws provider, ``computeRequirements``), so that a NodePool means the same
types. A fact that a type lacks is a label that is missing. What DescribeInstanceTypes does not tell stands in
``load_network_facts.json``.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from joiner import names
from joiner.catalogue.allocatable import compute_default_capacity, subtract_reserves
from joiner.catalogue.instance_types import InstanceType, Interfaces, Offering
from joiner.cluster import Resources
from joiner.pools import KubeletConfiguration

Description = Mapping[str, Any]

FAMILY: Final = re.compile(r"(?P<category>[a-z]+)(-[0-9]+tb)?(?P<generation>[0-9]+).*\.")
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
ARM_FIRMWARE_MIB: Final = 64  # what firmware takes of the advertised memory on Graviton
GPU_RESOURCES: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """What EC2 does not describe: interfaces for pods' own security groups, and sustained bandwidth (None if
    unknown).
    """

    branch_interfaces: int = 0
    bandwidth_mbps: int | None = None


@cache
def load_network_facts() -> Mapping[str, NetworkFacts]:
    """The packaged table, by instance type; a type that is not in it yet has no facts."""
    table = json.loads(files("joiner.catalogue").joinpath("network_facts.json").read_text(encoding="utf-8"))
    return {name: NetworkFacts(branches, bandwidth) for name, branches, bandwidth in table["rows"]}


def supports_nodes(info: Description) -> bool:
    """Whether nodes can be made of it at all: hardware virtualisation on an architecture that Kubernetes runs on."""
    architectures = (info.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()
    return "hvm" in (info.get("SupportedVirtualizationTypes") or ()) and any(
        one in ARCHITECTURES for one in architectures
    )


def instance_type_from_ec2(
    info: Description,
    zones: Iterable[str] = (),
    on_demand_price: float | None = None,
    spot_prices: Mapping[str, float] | None = None,
    *,
    facts: NetworkFacts | None = None,
) -> InstanceType:
    """From one record of DescribeInstanceTypes, the zones that offer it, and its prices ($/h; spot by zone).

    An offering without a price is none: a type whose on-demand price is unknown is not offered on demand.
    """
    name = info["InstanceType"]
    known = facts or load_network_facts().get(name) or NetworkFacts()
    arch = next(ARCHITECTURES[one] for one in info["ProcessorInfo"]["SupportedArchitectures"] if one in ARCHITECTURES)
    memory = info["MemoryInfo"]["SizeInMiB"]
    interfaces = _interfaces(info)
    has = compute_default_capacity(
        vcpus=info["VCpuInfo"]["DefaultVCpus"],
        memory_mib=memory - (ARM_FIRMWARE_MIB if arch == "arm64" else 0),
        interfaces=interfaces,
    ) + _devices(info, known)
    classes = info.get("SupportedUsageClasses") or (names.ON_DEMAND, names.SPOT)
    offerings: list[Offering] = []
    for zone in zones:
        if on_demand_price is not None and names.ON_DEMAND in classes:
            offerings.append(Offering(zone, names.ON_DEMAND, on_demand_price))
        if names.SPOT in classes and zone in (spot_prices or {}):
            offerings.append(Offering(zone, names.SPOT, (spot_prices or {})[zone]))
    return InstanceType(
        name=name,
        labels=_labels(info, arch, known),
        capacity=has,
        allocatable=subtract_reserves(has, interfaces, KubeletConfiguration()),
        offerings=tuple(sorted(offerings)),
        interfaces=interfaces,
    )


def _interfaces(info: Description) -> Interfaces:
    """Those of the default network card: pods get their addresses there."""
    network = info["NetworkInfo"]
    cards = {card.get("NetworkCardIndex", 0): card for card in network.get("NetworkCards") or ()}
    default = cards.get(network.get("DefaultNetworkCardIndex", 0))
    count = default["MaximumNetworkInterfaces"] if default else network["MaximumNetworkInterfaces"]
    return Interfaces(count, network["Ipv4AddressesPerInterface"])


def _devices(info: Description, facts: NetworkFacts) -> Resources:
    amounts: dict[str, int] = {}
    for gpu in (info.get("GpuInfo") or {}).get("Gpus") or ():
        resource = GPU_RESOURCES.get(gpu["Manufacturer"].lower())
        if resource:
            amounts[resource] = amounts.get(resource, 0) + gpu["Count"]
    neurons = list((info.get("NeuronInfo") or {}).get("NeuronDevices") or ())
    if neurons:
        amounts["aws.amazon.com/neuron"] = sum(one["Count"] for one in neurons)
        amounts["aws.amazon.com/neuroncore"] = neurons[0]["Count"] * neurons[0]["CoreInfo"]["Count"]
    amounts["vpc.amazonaws.com/pod-eni"] = facts.branch_interfaces
    # No EFA interfaces: launch templates make none, so no node of ours would ever register them
    # (catalogue.types.NOT_MADE)
    return Resources(amounts).without_zeros()


def _labels(info: Description, arch: str, facts: NetworkFacts) -> dict[str, str]:
    name = info["InstanceType"]
    family, _, size = name.partition(".")
    ebs = info.get("EbsInfo") or {}
    bandwidth = (
        (ebs.get("EbsOptimizedInfo") or {}).get("MaximumBandwidthInMbps")
        if ebs.get("EbsOptimizedSupport") == "default"
        else None
    )
    storage = info.get("InstanceStorageInfo") or {}
    clock = info["ProcessorInfo"].get("SustainedClockSpeedInGhz")
    maker = info["ProcessorInfo"].get("Manufacturer")
    own: dict[str, Any] = {
        "family": family,
        "size": size,
        "cpu": info["VCpuInfo"]["DefaultVCpus"],
        "cpu-manufacturer": _word(maker) if maker else None,
        "cpu-sustained-clock-speed-mhz": round(clock * 1000) if clock else None,
        "memory": info["MemoryInfo"]["SizeInMiB"],
        "ebs-bandwidth": bandwidth,
        "network-bandwidth": facts.bandwidth_mbps,
        "hypervisor": info.get("Hypervisor") or "",
        "encryption-in-transit-supported": str(bool(info["NetworkInfo"].get("EncryptionInTransitSupported"))).lower(),
        "capability-flex": str("-flex." in name).lower(),
        "local-nvme": storage.get("TotalSizeInGB") if storage.get("NvmeSupport") != "unsupported" else None,
        **_gpu(info),
        **_accelerator(info),
    }
    if found := FAMILY.match(name):
        own |= {"category": found["category"], "generation": found["generation"]}
    labels = {f"{names.INSTANCE_PREFIX}{key}": str(value) for key, value in own.items() if value is not None}
    return {**labels, names.INSTANCE_TYPE: name, names.ARCH: arch, names.OS: "linux"}


def _gpu(info: Description) -> dict[str, Any]:
    """Only where all GPUs of the type are alike: otherwise no label could tell the truth."""
    gpus = list((info.get("GpuInfo") or {}).get("Gpus") or ())
    if len(gpus) != 1:
        return {}
    gpu = gpus[0]
    return {
        "gpu-name": _word(gpu["Name"]),
        "gpu-manufacturer": _word(gpu["Manufacturer"]),
        "gpu-count": gpu["Count"],
        "gpu-memory": gpu["MemoryInfo"]["SizeInMiB"],
    }


def _accelerator(info: Description) -> dict[str, Any]:
    neurons = list((info.get("NeuronInfo") or {}).get("NeuronDevices") or ())
    if len(neurons) == 1:
        return {
            "accelerator-name": _word(neurons[0]["Name"]),
            "accelerator-manufacturer": "aws",
            "accelerator-count": neurons[0]["Count"],
        }
    others = list((info.get("InferenceAcceleratorInfo") or {}).get("Accelerators") or ())
    if neurons or len(others) != 1:
        return {}
    one = others[0]
    return {
        "accelerator-name": _word(one["Name"]),
        "accelerator-manufacturer": _word(one["Manufacturer"]),
        "accelerator-count": one["Count"],
    }


def _word(text: str) -> str:
    """As a label value: lower case, without blanks."""
    return text.lower().replace(" ", "-")
