"""The settings of a node class, or of a Provisioner's kubelet, that take capacity from nodes: which of them leave no
room for a pod.

A pod may be too large for every instance type only because of such a setting, and then the setting is the reason.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner.catalogue.allocatable import compute_allocatable
from joiner.catalogue.instance_features import EFA
from joiner.catalogue.instance_types import InstanceType
from joiner.cluster import Resources
from joiner.cluster.resources import PODS
from joiner.pools import KubeletConfiguration, NodeClass, NodePool
from joiner.pools.codecs.manifest_fields import format_value
from joiner.pools.node_class import field_path

OF_KUBELET: Final = ("maxPods", "podsPerCore", "kubeReserved", "systemReserved", "evictionHard")
"""The kubelet's settings that decide what pods can use of a node."""
INTERFACES: Final = "networkInterfaces"
VOLUMES: Final = "blockDeviceMappings"
RESERVED_INTERFACES: Final = "reservedInterfaces"
"""The setting of the cluster that takes network interfaces, and so pods, from the types of its catalogue."""


@dataclass(frozen=True, slots=True)
class CapacitySetting:
    """One field by its name, with its path and its value (empty for a list) and the object that has it.

    >>> print(CapacitySetting("maxPods", "spec.kubelet.maxPods", "0", "EC2NodeClass/a"))
    spec.kubelet.maxPods 0 of EC2NodeClass/a
    """

    name: str
    field: str
    value: str
    owner: str

    def __str__(self) -> str:
        return f"{self.field}{self.value and f' {self.value}'} of {self.owner}"

    def remove_from(self, node_class: NodeClass | None, pool: NodePool) -> tuple[NodeClass | None, NodePool]:
        """Return the class and the pool without the setting."""
        if self.owner == pool.key:
            return node_class, replace(pool, kubelet=_without(pool.kubelet, self.name))
        if node_class is None:
            return None, pool
        if self.name == INTERFACES:
            return replace(node_class, network_interfaces=()), pool
        if self.name == VOLUMES:
            return replace(node_class, block_devices=()), pool
        return replace(node_class, kubelet=_without(node_class.kubelet, self.name)), pool


def _without(kubelet: KubeletConfiguration | None, name: str) -> KubeletConfiguration | None:
    return kubelet and KubeletConfiguration({key: value for key, value in kubelet.config.items() if key != name})


def list_capacity_settings(node_class: NodeClass | None, pool: NodePool) -> list[CapacitySetting]:
    """Return the settings of the nodes of a pool that decide what pods can use of a node."""
    kubelet, path, owner = pool.kubelet, "spec.kubeletConfiguration", pool.key
    if not kubelet and node_class is not None:
        kubelet, path, owner = node_class.kubelet, "spec.kubelet", node_class.key
    config = kubelet.config if kubelet else {}
    found = [
        CapacitySetting(name, f"{path}.{name}", format_value(config[name]), owner)
        for name in OF_KUBELET
        if name in config
    ]
    if node_class is not None:
        lists = ((INTERFACES, node_class.network_interfaces), (VOLUMES, node_class.block_devices))
        found += [
            CapacitySetting(name, field_path(node_class, name), "", node_class.key) for name, each in lists if each
        ]
    return found


def find_tight_settings(
    needs: Resources, types: Iterable[tuple[InstanceType, Resources]], node_class: NodeClass | None, pool: NodePool
) -> list[CapacitySetting]:
    """Return the settings each of which alone leaves no room for these needs on any of the types, or all that do so
    together; empty if the types are too small without them, too.

    The types come with the requests of the daemons on a node of each.
    """
    listed, settings = list(types), list_capacity_settings(node_class, pool)
    alone = [one for one in settings if _is_held(needs, listed, *one.remove_from(node_class, pool))]
    reserved = _count_reserved(listed)
    if reserved and _is_held(needs, [(_with_all_interfaces(known), used) for known, used in listed], node_class, pool):
        alone.append(CapacitySetting(RESERVED_INTERFACES, "nodes.reservedInterfaces", reserved, "the settings"))
    if alone or len(settings) < 2:
        return alone
    left = node_class, pool
    for one in settings:
        left = one.remove_from(*left)
    return settings if _is_held(needs, listed, *left) else []


def _is_held(
    needs: Resources, types: Sequence[tuple[InstanceType, Resources]], node_class: NodeClass | None, pool: NodePool
) -> bool:
    efa = EFA in needs
    return any(
        (needs + overhead).fits(compute_allocatable(known, node_class, pool, efa=efa)) for known, overhead in types
    )


def _count_reserved(types: Iterable[tuple[InstanceType, Resources]]) -> str:
    """Return how many interfaces of the types have no pods, as far as their pods tell; empty if all have.

    >>> from joiner.catalogue.instance_types import Interfaces
    >>> some, none, all_of_them = (
    ...     InstanceType("m5.large", capacity=Resources.of(pods=pods), interfaces=Interfaces(3, 10))
    ...     for pods in (11, 0, 29)
    ... )
    >>> [_count_reserved([(one, Resources())]) for one in (some, none, all_of_them)]
    ['2', 'at least 3', '']
    """
    least = 0
    for known, _ in types:
        if (one := known.interfaces) is None:
            continue
        pods = known.capacity.get(PODS, 0)
        number = next((count for count in range(one.count + 1) if one.pods(count) == pods), 0)
        if 0 < number < one.count:
            return str(number)
        least = max(least, number)
    return f"at least {least}" if least else ""


def _with_all_interfaces(known: InstanceType) -> InstanceType:
    if known.interfaces is None:
        return known
    pods = known.interfaces.pods()
    return replace(
        known,
        capacity=Resources({**known.capacity, PODS: pods}),
        allocatable=Resources({**known.allocatable, PODS: pods}),
    )


def describe_settings(settings: Sequence[CapacitySetting]) -> str:
    """Return the settings as a part of a reason; empty without any."""
    return f", because of {' and '.join(map(str, settings))}" if settings else ""
