"""Compute the allocatable resources of a node: the capacity less the reserves for kubelet, system and eviction.

The formulas are those of Karpenter (aws provider, ``pkg/providers/instancetype/types.go``), which are those of EKS for
AL2023. The kubelet's reserve grows with the number of pods that the network interfaces can serve, for any maxPods.

>>> small = compute_default_capacity(vcpus=2, memory_mib=4096 - 64, interfaces=Interfaces(3, 10))
>>> subtract_reserves(small, Interfaces(3, 10), KubeletConfiguration()).to_kube()
{'cpu': '1930m', 'memory': '3055Mi', 'pods': '29', 'ephemeral-storage': '17Gi'}
"""

import math
from dataclasses import dataclass
from typing import Final

from joiner.catalogue.family_capacity import PRIVATE_ADDRESS, family_capacity
from joiner.catalogue.instance_features import EFA
from joiner.catalogue.instance_types import InstanceType, Interfaces
from joiner.catalogue.pod_volumes import count_instance_store, find_pod_volume
from joiner.cluster import InvalidField, Resources
from joiner.cluster.quantities import parse_amount
from joiner.cluster.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from joiner.pools import KubeletConfiguration, NodeClass, NodePool
from joiner.pools.node_class import EFA_ONLY
from joiner.pools.node_kubelet import PODS_OF_KUBELET, choose_kubelet

MIB: Final = 2**20
GIB: Final = 2**30
GB: Final = 10**9
VM_MEMORY_OVERHEAD: Final = 0.075  # maximum share of the advertised memory that hypervisor and firmware use
ROOT_VOLUME_GIB: Final = 20
RESERVED_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources of which a kubelet reserves a part."""
ADDED_DEVICES: Final = (EFA, PRIVATE_ADDRESS)
"""Resources of nodes that no instance type of a catalogue has: its class or the requests of pods decide about them."""


def compute_allocatable(
    instance_type: InstanceType,
    node_class: NodeClass | None = None,
    pool: NodePool | None = None,
    *,
    efa: bool = False,
) -> Resources:
    """Return what pods can use of a node of this type. Kubelet settings of the pool replace those of its class.

    ``efa``: a pod of the node requests EFA, so the launch requests all EFA interfaces of the type.
    """
    kubelet, default = choose_kubelet(node_class, pool), _has_defaults(node_class)
    if not kubelet.config and default:
        return instance_type.allocatable + _efa(instance_type, node_class, requested=efa)
    return subtract_reserves(
        compute_capacity(instance_type, node_class, pool, efa=efa),
        instance_type.interfaces,
        kubelet,
        known=instance_type.allocatable,
        for_own_pods=family_capacity(node_class).reserves_for_own_pods,
    )


def list_exhausted(capacity: Resources, allocatable: Resources) -> tuple[str, ...]:
    """Return the resources of which the reserves leave nothing to pods.

    Such a node is never launched. A kubelet does not start if its reserves exceed the capacity of the node (Kubernetes,
    ``pkg/kubelet/cm``, ``validateNodeAllocatable``), and no pod of Karpenter fits where an allocatable is negative.

    >>> list_exhausted(Resources.of(cpu=2, memory="473Mi"), Resources.of(cpu="1930m", memory=0))
    ('memory',)
    """
    return tuple(name for name in RESERVED_RESOURCES if capacity.get(name, 0) > 0 >= allocatable.get(name, 0))


def compute_capacity(
    instance_type: InstanceType,
    node_class: NodeClass | None = None,
    pool: NodePool | None = None,
    *,
    efa: bool = False,
) -> Resources:
    """Return the capacity of a node of this type; it counts against the limits of its pool."""
    kubelet, family = choose_kubelet(node_class, pool), family_capacity(node_class)
    per_core = kubelet.pods_per_core if family.pods_per_core else None
    if kubelet.max_pods is None and not per_core and _has_defaults(node_class):
        return instance_type.capacity + _efa(instance_type, node_class, requested=efa)
    devices = {**family.devices(instance_type.interfaces), **_efa(instance_type, node_class, requested=efa)}
    own = {**instance_type.capacity, **devices}
    if kubelet.max_pods is not None:
        own[PODS] = kubelet.max_pods
    elif family.pods is not None:
        own[PODS] = family.pods
    elif _count_without_addresses(node_class):
        own[PODS] = _count_pods_with_addresses(instance_type, node_class)
    if per_core:
        own[PODS] = min(own.get(PODS, PODS_OF_KUBELET), per_core * instance_type.vcpus)
    if not _has_defaults(node_class):
        own[EPHEMERAL_STORAGE] = _storage(instance_type, node_class)
    return Resources(own)


def find_unreported_pods(
    instance_type: InstanceType, node_class: NodeClass | None, pool: NodePool | None
) -> int | None:
    """Return the number of pods that the user data must give to the kubelet of a node; None if a class or pool sets
    it, or if the bootstrap program of the image computes the same number.

    The program counts all interfaces of the type: it does not know those that the settings reserve, nor those of the
    class that have no addresses for pods.

    >>> one_reserved = Resources({PODS: Interfaces(3, 10).pods(reserved=1)})
    >>> find_unreported_pods(InstanceType("m5.large", capacity=one_reserved, interfaces=Interfaces(3, 10)), None, None)
    20
    """
    interfaces = instance_type.interfaces
    if (
        interfaces is None
        or choose_kubelet(node_class, pool).max_pods is not None
        or family_capacity(node_class).pods is not None
    ):
        return None
    pods = _count_pods_with_addresses(instance_type, node_class)
    return None if pods == interfaces.pods() else pods


def _count_pods_with_addresses(instance_type: InstanceType, node_class: NodeClass | None) -> int:
    """Return the number of pods for which the interfaces have addresses. That of the catalogue leaves out the reserved
    interfaces of the settings."""
    pods, without_addresses = instance_type.capacity.get(PODS, 0), _count_without_addresses(node_class)
    return instance_type.interfaces.less(pods, without_addresses) if instance_type.interfaces else pods


def _efa(instance_type: InstanceType, node_class: NodeClass | None, *, requested: bool) -> Resources:
    """Return the EFA interfaces of a node: those of its class, else all of its type if a pod requests one."""
    if node_class and node_class.network_interfaces:
        return Resources({EFA: sum(one.kind == EFA_ONLY for one in node_class.network_interfaces)}).without_zeros()
    return Resources({EFA: instance_type.features.efa if requested else 0}).without_zeros()


def _count_without_addresses(node_class: NodeClass | None) -> int:
    """Return the number of declared interfaces on the first card that have no addresses for pods."""
    declared = node_class.network_interfaces if node_class else ()
    return sum(one.card == 0 and one.kind == EFA_ONLY for one in declared)


@dataclass(frozen=True, slots=True)
class CapacityEstimate:
    """What nodes of a cluster have less than EC2 describes: the share of the memory that hypervisor and firmware use,
    and the interfaces that have no addresses for pods (custom networking, other programs)."""

    memory_overhead: float = VM_MEMORY_OVERHEAD
    reserved_interfaces: int = 0


def compute_default_capacity(
    *, vcpus: int, memory_mib: int, interfaces: Interfaces, estimate: CapacityEstimate | None = None
) -> Resources:
    """Return the capacity of a node with the defaults of AL2023.

    ``memory_mib`` is the advertised memory (less 64 on arm64).

    >>> estimate = CapacityEstimate(memory_overhead=0.05, reserved_interfaces=1)
    >>> compute_default_capacity(vcpus=2, memory_mib=8192, interfaces=Interfaces(3, 10), estimate=estimate).to_kube()
    {'cpu': '2', 'memory': '7782Mi', 'pods': '20', 'ephemeral-storage': '20Gi'}
    """
    estimate = estimate or CapacityEstimate()
    return Resources(
        {
            CPU: vcpus * 1000,
            MEMORY: (memory_mib - math.ceil(memory_mib * estimate.memory_overhead)) * MIB,
            PODS: interfaces.pods(estimate.reserved_interfaces),
            EPHEMERAL_STORAGE: ROOT_VOLUME_GIB * GIB,
        }
    )


def subtract_reserves(
    has: Resources,
    interfaces: Interfaces | None,
    kubelet: KubeletConfiguration,
    *,
    known: Resources | None = None,
    for_own_pods: bool = False,
) -> Resources:
    """Return ``has`` less the reserves.

    ``known`` is the allocatable with the defaults, for a type without other data. With ``for_own_pods``, the kubelet
    reserves memory for the pods in ``has``.
    """
    if interfaces is None and known is not None:
        reserved = _as_before(has, known)
    else:
        reserved = _kube_reserved(has, None if for_own_pods else interfaces)
    reserved.update(kubelet.kube_reserved or {})
    for name, amount in (kubelet.system_reserved or {}).items():
        reserved[name] = reserved.get(name, 0) + amount
    reserved[MEMORY] = reserved.get(MEMORY, 0) + _eviction(kubelet, "memory.available", has.get(MEMORY, 0), 100 * MIB)
    disk = has.get(EPHEMERAL_STORAGE, 0)
    reserved[EPHEMERAL_STORAGE] = reserved.get(EPHEMERAL_STORAGE, 0) + _eviction(
        kubelet, "nodefs.available", disk, math.ceil(disk / 10)
    )
    return Resources({name: max(amount - reserved.get(name, 0), 0) for name, amount in has.items()})


def _kube_reserved(has: Resources, interfaces: Interfaces | None) -> dict[str, int]:
    pods = interfaces.pods() if interfaces else has.get(PODS, 0)
    millicores, reserved = has.get(CPU, 0), 0
    for width, share in ((1000, 0.06), (1000, 0.01), (2000, 0.005), (math.inf, 0.0025)):
        band = min(millicores, width)
        reserved += int(band * share)
        millicores -= int(band)
    return {CPU: reserved, MEMORY: (11 * pods + 255) * MIB, EPHEMERAL_STORAGE: GIB}


def _as_before(has: Resources, known: Resources) -> dict[str, int]:
    """Return the kubelet's reserve that leads to ``known`` with the defaults."""
    disk = known.get(EPHEMERAL_STORAGE, 0)
    return {
        CPU: has.get(CPU, 0) - known.get(CPU, 0),
        MEMORY: has.get(MEMORY, 0) - known.get(MEMORY, 0) - 100 * MIB,
        EPHEMERAL_STORAGE: GIB if disk else 0,
    }


def _eviction(kubelet: KubeletConfiguration, signal: str, whole: int, default: int) -> int:
    threshold = kubelet.eviction_hard.get(signal)
    if threshold is None:
        return default
    try:
        if threshold.endswith("%"):
            share = float(threshold[:-1]) / 100
            return 0 if share >= 1 else math.ceil(whole * share)
        return parse_amount(threshold)
    except (InvalidField, ValueError):
        return default  # the reader of the class reports this value


def _storage(instance_type: InstanceType, node_class: NodeClass | None) -> int:
    if node_class is None:
        return instance_type.capacity.get(EPHEMERAL_STORAGE, 0)
    return count_instance_store(instance_type, node_class) * GB or find_pod_volume(node_class).size_gib * GIB


def _has_defaults(node_class: NodeClass | None) -> bool:
    if node_class is None:
        return True
    plain = not (node_class.block_devices or node_class.instance_store_policy or node_class.network_interfaces)
    return plain and not family_capacity(node_class).windows_build
