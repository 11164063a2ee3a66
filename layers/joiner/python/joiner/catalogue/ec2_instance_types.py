"""Instance types as EC2 describes them, converted to the labels, capacity and allocatable of their nodes.

Labels are derived as in Karpenter (aws provider, ``computeRequirements``), so that a NodePool selects the same types.
An unknown fact has no label. ``network_facts.json`` has the facts that DescribeInstanceTypes does not return.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from joiner import names
from joiner.catalogue.allocatable import CapacityEstimate, compute_default_capacity, subtract_reserves
from joiner.catalogue.instance_features import InstanceFeatures
from joiner.catalogue.instance_types import INSTANCE_MEMORY, InstanceType, Interfaces, Offering
from joiner.cluster import Resources
from joiner.cluster.resources import MEMORY, PODS
from joiner.pools import KubeletConfiguration

Description = Mapping[str, Any]

FAMILY: Final = re.compile(r"(?P<category>[a-z]+)(-[0-9]+tb)?(?P<generation>[0-9]+).*\.")
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
"""Architecture names of EC2 -> those of Kubernetes."""

ARM_FIRMWARE_MIB: Final = 64  # memory that firmware uses of the advertised amount on Graviton
GPU_RESOURCES: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """Facts that EC2 does not describe: interfaces for security groups of pods, and bandwidth.

    The bandwidth is the sustained one; None if unknown.
    """

    branch_interfaces: int = 0
    bandwidth_mbps: int | None = None


@cache
def load_network_facts() -> Mapping[str, NetworkFacts]:
    """Return the packaged table by instance type; a new type may be missing."""
    table = json.loads(files("joiner.catalogue").joinpath("network_facts.json").read_text(encoding="utf-8"))
    return {name: NetworkFacts(branches, bandwidth) for name, branches, bandwidth in table["rows"]}


def supports_nodes(info: Description) -> bool:
    """Return whether this type can be a node: hardware virtualization on an architecture of Kubernetes."""
    architectures = (info.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()
    return "hvm" in (info.get("SupportedVirtualizationTypes") or ()) and any(
        one in ARCHITECTURES for one in architectures
    )


def instance_type_from_ec2(
    info: Description,
    zones: Iterable[str] = (),
    on_demand_prices: Mapping[str, float] | None = None,
    spot_prices: Mapping[str, float] | None = None,
    *,
    facts: NetworkFacts | None = None,
    estimate: CapacityEstimate | None = None,
    observed_memory: Mapping[str, int] | None = None,
    dedicated_surcharge: float | None = None,
) -> InstanceType:
    """Return the type for one record of DescribeInstanceTypes, its zones and its prices by zone ($/h).

    Without a price there is no offering: a type without an on-demand price in a zone is not offered on demand there.
    """
    name = info["InstanceType"]
    known = facts or load_network_facts().get(name) or NetworkFacts()
    arch = next(ARCHITECTURES[one] for one in info["ProcessorInfo"]["SupportedArchitectures"] if one in ARCHITECTURES)
    memory = info["MemoryInfo"]["SizeInMiB"]
    interfaces = _interfaces(info)
    has = compute_default_capacity(
        vcpus=info["VCpuInfo"]["DefaultVCpus"],
        memory_mib=_usable_memory(memory, arch),
        interfaces=interfaces,
        estimate=estimate,
    ) + _devices(info, known)
    classes = info.get("SupportedUsageClasses") or (names.ON_DEMAND, names.SPOT)
    offerings: list[Offering] = []
    for zone in zones:
        if names.ON_DEMAND in classes and zone in (on_demand_prices or {}):
            offerings.append(Offering(zone, names.ON_DEMAND, (on_demand_prices or {})[zone]))
        if names.SPOT in classes and zone in (spot_prices or {}):
            offerings.append(Offering(zone, names.SPOT, (spot_prices or {})[zone]))
    return InstanceType(
        name=name,
        labels=_labels(info, arch, known),
        capacity=has,
        allocatable=subtract_reserves(has, interfaces, KubeletConfiguration()),
        offerings=tuple(sorted(offerings)),
        interfaces=interfaces,
        features=InstanceFeatures.from_ec2(info),
        observed_memory=observed_memory or {},
        dedicated_surcharge=dedicated_surcharge,
    )


def _usable_memory(described_mib: int, arch: str) -> int:
    return described_mib - (ARM_FIRMWARE_MIB if arch == "arm64" else 0)


def _interfaces(info: Description) -> Interfaces:
    """Return the interfaces of the default network card, which have the addresses of pods."""
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
    # EFA is not among them: a node has it only if its launch requests such interfaces (compute_capacity)
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
    """Return the GPU facts, only if all GPUs of the type are the same: one label cannot describe several."""
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
    """Return the text as a label value: lower case, without spaces."""
    return text.lower().replace(" ", "-")


def with_estimate(known: InstanceType, estimate: CapacityEstimate) -> InstanceType:
    """Return the type with the memory and pods of another estimate, where it has those of the default one.

    Other amounts stay, because they were measured or edited, and so do those of a type without the label of its
    memory or without interfaces.
    """
    default, wanted = _estimated(known, CapacityEstimate()), _estimated(known, estimate)
    changed = {name: wanted[name] for name in wanted if known.capacity.get(name) == default[name] != wanted[name]}
    if not changed:
        return known
    left = {name: known.allocatable.get(name, 0) + amount - default[name] for name, amount in changed.items()}
    return replace(
        known,
        capacity=Resources({**known.capacity, **changed}),
        allocatable=Resources({**known.allocatable, **{name: max(amount, 0) for name, amount in left.items()}}),
    )


def has_estimate(known: InstanceType, estimate: CapacityEstimate) -> bool:
    """Return whether memory and pods of the type are those of the estimate; True for the default one if that cannot be
    computed."""
    wanted = _estimated(known, estimate)
    if not wanted:
        return estimate == CapacityEstimate()
    return all(known.capacity.get(name) == amount for name, amount in wanted.items())


def _estimated(known: InstanceType, estimate: CapacityEstimate) -> dict[str, int]:
    """Return the memory (bytes) and pods of a type by an estimate; empty if it lacks the label of its memory, or its
    interfaces."""
    described = known.labels.get(INSTANCE_MEMORY, "")
    if known.interfaces is None or not described.isdecimal():
        return {}
    has = compute_default_capacity(
        vcpus=known.vcpus,
        memory_mib=_usable_memory(int(described), known.arch),
        interfaces=known.interfaces,
        estimate=estimate,
    )
    return {name: has[name] for name in (MEMORY, PODS)}
