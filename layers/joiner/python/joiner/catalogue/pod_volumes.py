"""The volume of a node that has the files of its pods: which of a class's volumes it is, and a class with a larger one.

It decides about the ephemeral storage of a node, unless the node keeps the files of pods on its instance store.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner.catalogue.family_capacity import family_capacity
from joiner.catalogue.instance_types import InstanceType
from joiner.pools import BlockDevice, NodeClass
from joiner.pools.node_class import field_path

LOCAL_NVME: Final = "karpenter.k8s.aws/instance-local-nvme"
MAPPINGS: Final = "blockDeviceMappings"
LARGEST_GIB: Final = 64 * 1024
"""The size of the largest EBS volume."""


@dataclass(frozen=True, slots=True)
class PodVolume:
    """The volume with the files of pods: its size in GiB, and its position among the volumes of the class; None if the
    class does not map it.

    >>> find_pod_volume(NodeClass("default", ami_family="Bottlerocket"))
    PodVolume(device='/dev/xvdb', size_gib=20, position=None)
    """

    device: str
    size_gib: int
    position: int | None


def find_pod_volume(node_class: NodeClass) -> PodVolume:
    """Return the volume that has the files of pods on nodes of a class."""
    family, devices = family_capacity(node_class), node_class.block_devices
    position = None if family.fixed_pods_device else _first(devices, [one.root for one in devices])
    if position is None and node_class.ami_family == "Custom" and devices:
        position = len(devices) - 1
    if position is None:
        position = _first(devices, [one.device_name == family.pods_device for one in devices])
    if position is None:
        return PodVolume(family.pods_device, family.volume_gib, None)
    return PodVolume(devices[position].device_name, devices[position].size_gib or family.volume_gib, position)


def _first(devices: Sequence[BlockDevice], chosen: Sequence[bool]) -> int | None:
    return next((position for position in range(len(devices)) if chosen[position]), None)


def with_pod_volume(node_class: NodeClass, size_gib: int) -> NodeClass:
    """Return the class with this size of the volume that has the files of pods.

    >>> find_pod_volume(with_pod_volume(NodeClass("default"), 50))
    PodVolume(device='/dev/xvda', size_gib=50, position=0)
    """
    volume, devices = find_pod_volume(node_class), list(node_class.block_devices)
    if volume.position is None:
        devices.append(BlockDevice(volume.device, size_gib, root=node_class.ami_family == "Custom"))
    else:
        devices[volume.position] = replace(devices[volume.position], size_gib=size_gib)
    return replace(node_class, block_devices=tuple(devices))


def describe_size_field(node_class: NodeClass) -> str:
    """Return the path of the size of this volume in the manifest of the class, or that it is a default.

    >>> describe_size_field(NodeClass("default")), describe_size_field(with_pod_volume(NodeClass("default"), 50))
    ('the default volumeSize', 'spec.blockDeviceMappings[0].ebs.volumeSize')
    """
    volume = find_pod_volume(node_class)
    if volume.position is None:
        return "the default volumeSize"
    if node_class.launch_template:
        return field_path(node_class, f"volumeSize of {volume.device}")
    return f"{field_path(node_class, MAPPINGS)}[{volume.position}].ebs.volumeSize"


def count_instance_store(instance_type: InstanceType, node_class: NodeClass) -> int:
    """Return the GB of the instance store that has the files of pods in place of the volume; zero if it has not."""
    if node_class.instance_store_policy != "RAID0" or not family_capacity(node_class).mounts_instance_store:
        return 0
    return int(instance_type.labels.get(LOCAL_NVME) or 0)
