"""The capacity of a node as its kubelet reports it, and the allocatable amounts after its reservations.

Amazon Linux 2023's nodeadm reserves by rule (amazon-eks-ami, nodeadm `kubelet/config.go`): 255 MiB and 11 MiB for each
pod that the type's network interfaces allow, 1 GiB of disk, and of the cores 6 %, 1 %, 0.5 %, 0.5 %, then 0.25 % each.
A KubeletConfiguration in the user data is merged over that, key by key.

A kubelet on Linux does not start if it is to reserve more than the node has (Kubernetes,
`pkg/kubelet/cm/node_container_manager_linux.go`, `validateNodeAllocatable`); on Windows, allocatable is zero then.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joiner.catalogue.allocatable import VM_MEMORY_OVERHEAD
from joiner.catalogue.ec2_instance_types import ARM_FIRMWARE_MIB
from joiner.cluster import InvalidField
from joiner.cluster.quantities import parse_amount
from joiner_local.node_agent.node_registration import Unbootable

KI: Final = 1024
MI: Final = KI * KI
GI: Final = KI * MI
KEPT_BY_FILESYSTEM: Final = 12 * MI  # the partition table and XFS's own
CORE_SHARES: Final = (0.06, 0.01, 0.005, 0.005)
LATER_CORES: Final = 0.0025
EVICTION: Final = {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"}

PODS_OF_WINDOWS: Final = 110  # the default of the kubelet

Amounts = dict[str, int]  # cpu in millicores, memory and storage in bytes, the rest in pieces


@dataclass(frozen=True, slots=True)
class InstanceHardware:
    """The hardware of an instance type and an instance's disks: memory and storage in bytes."""

    cpus: int
    memory: int
    pods: int
    root_volume: int
    instance_store: int
    addresses_each: int = 0  # addresses of a network interface
    devices: Mapping[str, int] = field(default_factory=dict)

    def with_windows(self) -> "InstanceHardware":
        """Return the hardware as a Windows node has it: the kubelet's own number of pods, and the addresses that the
        VPC resource controller gives to pods.
        """
        addresses = {"vpc.amazonaws.com/PrivateIPv4Address": self.addresses_each - 1}
        return replace(self, pods=PODS_OF_WINDOWS, devices=addresses)

    @classmethod
    def from_ec2(cls, info: Mapping[str, Any], *, root_gib: int) -> "InstanceHardware":
        """Parse `info`, the type's entry of DescribeInstanceTypes."""
        return cls(
            cpus=info["VCpuInfo"]["DefaultVCpus"],
            memory=memory_mib(info) * MI,
            pods=pods_by_interfaces(info["NetworkInfo"]),
            root_volume=root_gib * GI,
            instance_store=info.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0) * 10**9,
            addresses_each=info["NetworkInfo"]["Ipv4AddressesPerInterface"],
        )


def memory_mib(info: Mapping[str, Any]) -> int:
    """Return the memory in MiB that the kubelet finds: what plans expect of the type, so that plans can be compared
    with what ran.

    Real instances have about 2 to 8 % less than the advertised memory; plans subtract 7.5 %, as Karpenter's
    `vmMemoryOverheadPercent`.

    >>> memory_mib({"MemoryInfo": {"SizeInMiB": 8192}})
    7577
    """
    arm = "arm64" in (info.get("ProcessorInfo") or {}).get("SupportedArchitectures", ())
    advertised = int(info["MemoryInfo"]["SizeInMiB"]) - (ARM_FIRMWARE_MIB if arm else 0)
    return advertised - math.ceil(advertised * VM_MEMORY_OVERHEAD)


def pods_by_interfaces(network: Mapping[str, Any]) -> int:
    """Return the number of pods: one for each address of the VPC CNI, and the two on the host network that every node
    runs.

    >>> pods_by_interfaces({"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10})
    29
    """
    cards = network.get("NetworkCards") or [{"MaximumNetworkInterfaces": network["MaximumNetworkInterfaces"]}]
    interfaces = cards[network.get("DefaultNetworkCardIndex", 0)]["MaximumNetworkInterfaces"]
    return int(interfaces * (network["Ipv4AddressesPerInterface"] - 1) + 2)


def reserved_cpu(cpus: int) -> int:
    """Return the millicores reserved for the kubelet and the system.

    >>> [reserved_cpu(cpus) for cpus in (1, 2, 4, 8, 96)]
    [60, 70, 80, 90, 310]
    """
    shares = [CORE_SHARES[core] if core < len(CORE_SHARES) else LATER_CORES for core in range(cpus)]
    return math.floor(sum(shares) * 1000 + 1e-6)


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    capacity: Amounts
    allocatable: Amounts

    @classmethod
    def of(
        cls,
        machine: InstanceHardware,
        kubelet: Mapping[str, Any],
        local_storage: str = "",
        *,
        own_pods: bool = False,
        windows: bool = False,
    ) -> "NodeCapacity":
        """Return the capacity. `kubelet` is a KubeletConfiguration; raises Unbootable where a kubelet would not
        start with it. With `own_pods`, memory is reserved for the pods that the kubelet allows.
        """
        try:
            return cls._of(machine, kubelet, local_storage, own_pods=own_pods, windows=windows)
        except (InvalidField, TypeError, ValueError, AttributeError) as error:
            raise Unbootable(f"the kubelet's configuration is not valid: {error}") from error

    @classmethod
    def _of(
        cls, machine: InstanceHardware, kubelet: Mapping[str, Any], local_storage: str, *, own_pods: bool, windows: bool
    ) -> "NodeCapacity":
        disk = (
            machine.instance_store
            if local_storage == "RAID0" and machine.instance_store
            else machine.root_volume - KEPT_BY_FILESYSTEM
        )
        pods = int(kubelet.get("maxPods") or machine.pods)
        if per_core := int(kubelet.get("podsPerCore") or 0):
            pods = min(pods, per_core * machine.cpus)
        capacity = {"cpu": machine.cpus * 1000, "memory": machine.memory, "ephemeral-storage": disk, "pods": pods}
        capacity |= machine.devices
        by_rule = {
            "cpu": f"{reserved_cpu(machine.cpus)}m",
            "memory": f"{255 + 11 * (pods if own_pods else machine.pods)}Mi",
            "ephemeral-storage": "1Gi",
        }
        kept = _amounts({**by_rule, **(kubelet.get("kubeReserved") or {})})
        for name, amount in _amounts(kubelet.get("systemReserved") or {}).items():
            kept[name] = kept.get(name, 0) + amount
        eviction = {**EVICTION, **(kubelet.get("evictionHard") or {})}
        kept["memory"] = kept.get("memory", 0) + _threshold(eviction["memory.available"], machine.memory)
        kept["ephemeral-storage"] = kept.get("ephemeral-storage", 0) + _threshold(eviction["nodefs.available"], disk)
        if not windows:
            _check_reserves(capacity, kept)
        return cls(capacity, {name: max(0, amount - kept.get(name, 0)) for name, amount in capacity.items()})


def _check_reserves(capacity: Amounts, kept: Amounts) -> None:
    """Refuse reserves that exceed the capacity, with the words of the kubelet."""
    wrong = [
        f'Resource "{name}" has a reservation of {_text(name, kept[name])} but capacity of {_text(name, amount)}. '
        "Expected capacity >= reservation."
        for name, amount in capacity.items()
        if kept.get(name, 0) > amount
    ]
    if wrong:
        raise Unbootable(f"Failed to start ContainerManager: invalid Node Allocatable configuration. {' '.join(wrong)}")


def _amounts(output: Mapping[str, Any]) -> Amounts:
    return {name: parse_amount(text, scale=1000 if name == "cpu" else 1) for name, text in output.items()}


def _threshold(output: str, whole: int) -> int:
    """Return a threshold: an amount, or a share of the whole; 100 % disables the threshold."""
    if output.endswith("%"):
        share = float(output[:-1])
        return 0 if share >= 100 else math.ceil(whole * share / 100)
    return parse_amount(output)


def to_kube(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as a kubelet writes them.

    >>> to_kube({"cpu": 1930, "memory": 3 * GI, "pods": 29})
    {'cpu': '1930m', 'memory': '3145728Ki', 'pods': '29'}
    """
    return {name: _text(name, amount) for name, amount in amounts.items()}


def _text(name: str, amount: int) -> str:
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in ("memory", "ephemeral-storage") and amount % KI == 0:
        return f"{amount // KI}Ki"
    return str(amount)
