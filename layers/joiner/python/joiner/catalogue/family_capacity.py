"""How the image family of a node class changes the capacity of its nodes.

Source: Karpenter (aws provider, ``pkg/providers/amifamily``, the feature flags and default volumes of each family).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from joiner.pools import NodeClass
from joiner.pools.node_class import ImageFamily


@dataclass(frozen=True, slots=True)
class FamilyCapacity:
    """``pods_device`` is the volume with the files of pods, and ``volume_gib`` its size if the class names none.

    ``reserves_for_own_pods``: the kubelet reserves memory for the pods that it allows, not for those that the network
    interfaces allow. ``pods_per_core``: the kubelet has this setting.
    """

    pods_device: str = "/dev/xvda"
    volume_gib: int = 20
    reserves_for_own_pods: bool = False
    pods_per_core: bool = True


AMAZON_LINUX = FamilyCapacity()
FAMILIES: Mapping[ImageFamily, FamilyCapacity] = {
    "Bottlerocket": FamilyCapacity(pods_device="/dev/xvdb", reserves_for_own_pods=True, pods_per_core=False),
    "Ubuntu": FamilyCapacity(pods_device="/dev/sda1"),
}
"""Families whose nodes differ from those of Amazon Linux."""


def family_capacity(node_class: NodeClass | None) -> FamilyCapacity:
    """Return the facts of the family of a class; those of Amazon Linux for a class that names no family."""
    if node_class is None or node_class.ami_family is None:
        return AMAZON_LINUX
    return FAMILIES.get(node_class.ami_family, AMAZON_LINUX)
