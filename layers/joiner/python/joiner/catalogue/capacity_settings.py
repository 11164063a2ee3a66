"""The settings of a node class, or of a Provisioner's kubelet, that take capacity from nodes: which of them leave no
room for a pod.

A pod may be too large for every instance type only because of such a setting, and then the setting is the reason.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner.catalogue.allocatable import ADDED_DEVICES, RESERVED_RESOURCES, compute_allocatable, list_exhausted
from joiner.catalogue.family_capacity import family_capacity
from joiner.catalogue.instance_features import EFA
from joiner.catalogue.instance_types import InstanceType
from joiner.catalogue.pod_volumes import (
    LARGEST_GIB,
    MAPPINGS,
    count_instance_store,
    describe_size_field,
    find_pod_volume,
    with_pod_volume,
)
from joiner.cluster import Resources
from joiner.cluster.resources import EPHEMERAL_STORAGE, MEMORY, PODS
from joiner.pools import KubeletConfiguration, NodeClass, NodePool
from joiner.pools.codecs.manifest_fields import format_value
from joiner.pools.node_class import field_path

OF_KUBELET: Final = ("maxPods", "podsPerCore", "kubeReserved", "systemReserved", "evictionHard")
"""The kubelet's settings that decide what pods can use of a node."""
UNSET_PODS_PER_CORE: Final = ("podsPerCore", 0)  # the kubelet's default, without a limit
INTERFACES: Final = "networkInterfaces"
VOLUMES: Final = MAPPINGS
RESERVED_INTERFACES: Final = "reservedInterfaces"
"""The setting of the cluster that takes network interfaces, and so pods, from the types of its catalogue."""
OF_SIGNALS: Final = {"memory": MEMORY, "nodefs": EPHEMERAL_STORAGE}
"""The resources that eviction signals are about, by the signal's first part."""
LEAST_NEEDS: Final = Resources(dict.fromkeys(RESERVED_RESOURCES, 1))
"""What a node must have to be launched: more than nothing of each resource that its kubelet reserves."""
OF_SETTINGS: Final = frozenset({PODS, EPHEMERAL_STORAGE, *ADDED_DEVICES})
"""The resources of which a node without some setting may have more than its type in the catalogue."""


@dataclass(frozen=True, slots=True)
class CapacitySetting:
    """One field by its name, with its path and its value (empty for a list) and the object that has it, and the
    resources of which nodes may have more without it.

    >>> print(CapacitySetting("maxPods", "spec.kubelet.maxPods", "0", "EC2NodeClass/a"))
    spec.kubelet.maxPods 0 of EC2NodeClass/a
    """

    name: str
    field: str
    value: str
    owner: str
    resources: frozenset[str] = frozenset()
    needed: str = ""
    """What it must be, of a volume that is too small."""
    size_gib: int = 0

    def __str__(self) -> str:
        return f"{self.field}{self.value and f' {self.value}'} of {self.owner}{self.needed and f' ({self.needed})'}"

    @property
    def change(self) -> str:
        """Return what to do about the setting, as an infinitive without "to"."""
        if self.size_gib and not self.field.startswith("spec."):
            return f"map a volumeSize of {self.size_gib}Gi in {MAPPINGS} ({self.field} is {self.value})"
        value = f" ({self.value})" if self.value else ""
        return f"change {self.field}{value}{f' to {self.size_gib}Gi' if self.size_gib else ''}"

    def remove_from(self, node_class: NodeClass | None, pool: NodePool) -> tuple[NodeClass | None, NodePool]:
        """Return the class and the pool without the setting, or with the size that the volume needs."""
        if self.name == RESERVED_INTERFACES:
            return node_class, pool  # The catalogue has it, and not the class.
        if self.owner == pool.key:
            return node_class, replace(pool, kubelet=_without(pool.kubelet, self.name))
        if node_class is None:
            return None, pool
        if self.name == INTERFACES:
            return replace(node_class, network_interfaces=()), pool
        if self.name == VOLUMES:
            return with_pod_volume(node_class, self.size_gib), pool
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
        CapacitySetting(name, f"{path}.{name}", format_value(config[name]), owner, _list_resources(name, config[name]))
        for name in OF_KUBELET
        if name in config and (name, config[name]) != UNSET_PODS_PER_CORE
    ]
    if node_class is not None:
        resources = frozenset({PODS, MEMORY, *ADDED_DEVICES})
        if node_class.network_interfaces:
            found.append(CapacitySetting(INTERFACES, field_path(node_class, INTERFACES), "", node_class.key, resources))
    return found


def _list_resources(name: str, value: Any) -> frozenset[str]:
    """Return the resources of which nodes may have more without a setting of the kubelet.

    >>> sorted(_list_resources("kubeReserved", {"cpu": "1"})), sorted(_list_resources("maxPods", 20))
    (['cpu'], ['memory', 'pods'])
    """
    if name == "evictionHard":
        return frozenset(
            resource for part, resource in OF_SIGNALS.items() if any(one.startswith(part) for one in value or ())
        )
    if name in ("kubeReserved", "systemReserved"):
        return frozenset(value or ())
    return frozenset({PODS, MEMORY})  # Some images reserve memory for the pods of their node.


def find_volume_setting(
    known: InstanceType, storage: int, node_class: NodeClass | None, pool: NodePool
) -> CapacitySetting | None:
    """Return the size of the volume with the files of pods as the setting that leaves less than ``storage`` bytes of
    ephemeral storage on nodes of this type; None if no size of it leaves enough."""
    if node_class is None or count_instance_store(known, node_class):
        return None

    def suffices(size_gib: int) -> bool:
        return storage <= compute_allocatable(known, with_pod_volume(node_class, size_gib), pool)[EPHEMERAL_STORAGE]

    if not suffices(LARGEST_GIB):
        return None
    least = 1 if family_capacity(node_class).fixed_pods_device else family_capacity(node_class).volume_gib
    size = bisect_left(range(LARGEST_GIB), True, lo=least, key=suffices)  # The image's own volume may not be smaller.
    volume = find_pod_volume(node_class)
    where = "" if volume.position is not None else f" on {volume.device}"
    return CapacitySetting(
        VOLUMES,
        describe_size_field(node_class),
        f"{volume.size_gib}Gi",
        node_class.key,
        frozenset({EPHEMERAL_STORAGE}),
        f"{size}Gi are needed{where}",
        size,
    )


class NodeCapacities:
    """What pods can use of the nodes of one class and pool, with their settings and without some of them.

    Each capacity is computed at most once: for an instance type, the settings that are left out, and EFA. So many pods
    cost hardly more than one. All instance types are of one catalogue.
    """

    def __init__(self, node_class: NodeClass | None, pool: NodePool) -> None:
        self.settings = tuple(list_capacity_settings(node_class, pool))
        self._owners: dict[tuple[CapacitySetting, ...], tuple[NodeClass | None, NodePool]] = {(): (node_class, pool)}
        self._known: dict[tuple[str, tuple[str, ...], bool], Resources] = {}
        self._volumes: dict[tuple[object, ...], CapacitySetting | None] = {}

    def allocatable(
        self, known: InstanceType, without: tuple[CapacitySetting, ...] = (), *, efa: bool = False
    ) -> Resources:
        """Return what pods can use of a node of this type without these settings; ``efa`` as in
        `compute_allocatable`."""
        left_out = tuple(one.name for one in without)
        asked = (known.name, left_out, efa)
        if asked not in self._known:
            every = _with_all_interfaces(known) if RESERVED_INTERFACES in left_out else known
            self._known[asked] = compute_allocatable(every, *self._without(without), efa=efa)
        return self._known[asked]

    def exhausted(self, known: InstanceType) -> tuple[str, ...]:
        """Return the resources of which the reserves leave nothing on a node of this type."""
        return list_exhausted(known.capacity, self.allocatable(known))

    def volume_setting(
        self, known: InstanceType, storage: int, without: tuple[CapacitySetting, ...] = ()
    ) -> CapacitySetting | None:
        """Return what `find_volume_setting` does, without these settings. Nodes with equal ephemeral storage have equal
        reserves of it, and so need equal volumes."""
        node_class, pool = self._without(without)
        if node_class is None or count_instance_store(known, node_class):
            return None
        asked = (storage, self.allocatable(known, without).get(EPHEMERAL_STORAGE, 0), *(one.name for one in without))
        if asked not in self._volumes:
            self._volumes[asked] = find_volume_setting(known, storage, node_class, pool)
        return self._volumes[asked]

    def _without(self, settings: tuple[CapacitySetting, ...]) -> tuple[NodeClass | None, NodePool]:
        """Return the class and the pool without these settings."""
        if settings not in self._owners:
            *before, last = settings
            self._owners[settings] = last.remove_from(*self._without(tuple(before)))
        return self._owners[settings]


def find_tight_settings(
    needs: Resources, types: Iterable[tuple[InstanceType, Resources]], capacities: NodeCapacities
) -> list[CapacitySetting]:
    """Return the settings each of which alone leaves no room for these needs on any of the types, or all that do so
    together; empty if the types are too small without them, too.

    The types come with the requests of the daemons on a node of each.
    """
    listed = [
        ShortType(known, wanted, frozenset(wanted.lacking(capacities.allocatable(known, efa=EFA in wanted))))
        for known, used in types
        if _may_hold(known, wanted := needs + used)
    ]
    reserved = _count_reserved(one.known for one in listed)
    interfaces = CapacitySetting(
        RESERVED_INTERFACES, "nodes.reservedInterfaces", reserved, "the settings", frozenset({PODS})
    )
    single = (*capacities.settings, interfaces) if reserved else capacities.settings
    alone = [one for one in single if any(each.fits_without((one,), capacities) for each in listed)]
    if volume := next(filter(None, (each.find_volume((), capacities) for each in listed)), None):
        alone.append(volume)
    if alone:
        return alone
    for each in listed:
        together = tuple(one for one in capacities.settings if each.short_of & one.resources)
        if len(together) > 1 and each.fits_without(together, capacities):
            return list(together)
        if together and (volume := each.find_volume(together, capacities)):
            return [*together, volume]
    return []


def find_exhausting_settings(types: Iterable[InstanceType], capacities: NodeCapacities) -> list[CapacitySetting]:
    """Return the settings because of which the reserves leave nothing of some resource on each of the types, as
    `find_tight_settings` does; empty if the default reserves do so."""
    return find_tight_settings(LEAST_NEEDS, ((known, Resources()) for known in types), capacities)


@dataclass(frozen=True, slots=True)
class ShortType:
    """An instance type, what is wanted of a node of it, and the resources that the node is short of."""

    known: InstanceType
    wanted: Resources
    short_of: frozenset[str]

    def fits_without(self, settings: tuple[CapacitySetting, ...], capacities: NodeCapacities) -> bool:
        """Return whether a node without these settings has what is wanted. No capacity is computed for settings that
        do not concern what the node is short of."""
        if not self.short_of <= frozenset().union(*(one.resources for one in settings)):
            return False
        return self.wanted.fits(capacities.allocatable(self.known, settings, efa=EFA in self.wanted))

    def find_volume(self, without: tuple[CapacitySetting, ...], capacities: NodeCapacities) -> CapacitySetting | None:
        """Return the size of the volume as a setting, if a node without these settings is short of nothing else."""
        others = frozenset().union({EPHEMERAL_STORAGE}, *(one.resources for one in without))
        if EPHEMERAL_STORAGE not in self.short_of or not self.short_of <= others:
            return None
        has = capacities.allocatable(self.known, without, efa=EFA in self.wanted)
        if set(self.wanted.lacking(has)) != {EPHEMERAL_STORAGE}:
            return None
        return capacities.volume_setting(self.known, self.wanted[EPHEMERAL_STORAGE], without)


def _may_hold(known: InstanceType, wanted: Resources) -> bool:
    """Return whether a type has enough of the resources that no setting adds to: without settings, a node has at most
    the type's own amounts of them."""
    has = known.capacity.amounts
    return all(
        amount <= has.get(name, 0) for name, amount in wanted.amounts.items() if amount > 0 and name not in OF_SETTINGS
    )


def _count_reserved(types: Iterable[InstanceType]) -> str:
    """Return how many interfaces of the types have no pods, as far as their pods tell; empty if all have.

    >>> from joiner.catalogue.instance_types import Interfaces
    >>> some, none, all_of_them = (
    ...     InstanceType("m5.large", capacity=Resources.of(pods=pods), interfaces=Interfaces(3, 10))
    ...     for pods in (11, 0, 29)
    ... )
    >>> [_count_reserved([one]) for one in (some, none, all_of_them)]
    ['2', 'at least 3', '']
    """
    least = 0
    for known in types:
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
