"""How the image family of a node class changes the capacity and the labels of its nodes.

Source: Karpenter (aws provider, ``pkg/providers/amifamily``, the feature flags and default volumes of each family).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from joiner import names
from joiner.catalogue.instance_types import Interfaces
from joiner.pools import NodeClass
from joiner.pools.node_class import ImageFamily

WINDOWS_BUILD = "node.kubernetes.io/windows-build"
PRIVATE_ADDRESS = "vpc.amazonaws.com/PrivateIPv4Address"
"""The resource of pods on Windows; the VPC resource controller of EKS adds it to nodes and to pods."""


@dataclass(frozen=True, slots=True)
class FamilyCapacity:
    """``pods_device`` is the volume with the files of pods, and ``volume_gib`` its size if the class names none.
    ``fixed_pods_device``: no other volume can have them, whatever the class calls its root volume.
    ``mounts_instance_store``: nodes make one file system of their instance store, for the files of pods, if the class
    sets ``instanceStorePolicy``. With the family Custom, the class declares what its user data does.

    ``reserves_for_own_pods``: the kubelet reserves memory for the pods that it allows, not for those that the network
    interfaces allow. ``pods_per_core``: the kubelet has this setting. ``pods`` is the number of pods without maxPods;
    None: that of the network interfaces. ``windows_build`` is empty for Linux.
    """

    pods_device: str = "/dev/xvda"
    volume_gib: int = 20
    fixed_pods_device: bool = False
    mounts_instance_store: bool = True
    reserves_for_own_pods: bool = False
    pods_per_core: bool = True
    pods: int | None = None
    windows_build: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of nodes that differ from those of their instance type."""
        return {names.OS: "windows", WINDOWS_BUILD: self.windows_build} if self.windows_build else {}

    def devices(self, interfaces: Interfaces | None) -> Mapping[str, int]:
        """Return the amounts that only nodes of this family have: Windows pods request their address."""
        if not self.windows_build or interfaces is None:
            return {}
        return {PRIVATE_ADDRESS: max(interfaces.addresses_each - 1, 0)}


def _windows(build: str) -> FamilyCapacity:
    return FamilyCapacity(
        "/dev/sda1",
        50,
        mounts_instance_store=False,
        reserves_for_own_pods=True,
        pods=110,
        windows_build=build,
    )


AMAZON_LINUX = FamilyCapacity()
FAMILY_CAPACITIES: Mapping[ImageFamily, FamilyCapacity] = {
    "Bottlerocket": FamilyCapacity(
        pods_device="/dev/xvdb", fixed_pods_device=True, reserves_for_own_pods=True, pods_per_core=False
    ),
    "Ubuntu": FamilyCapacity(pods_device="/dev/sda1"),
    "Windows2019": _windows("10.0.17763"),
    "Windows2022": _windows("10.0.20348"),
    "Windows2025": _windows("10.0.26100"),
}
"""Families whose nodes differ from those of Amazon Linux."""


def family_capacity(node_class: NodeClass | None) -> FamilyCapacity:
    """Return the facts of the family of a class; those of Amazon Linux for a class that names no family."""
    if node_class is None or node_class.ami_family is None:
        return AMAZON_LINUX
    return FAMILY_CAPACITIES.get(node_class.ami_family, AMAZON_LINUX)


def family_labels(node_class: NodeClass | None) -> Mapping[str, str]:
    """Return the labels of the nodes of a class that its image family decides; empty for Linux.

    >>> family_labels(NodeClass("default", ami_family="Windows2022"))
    {'kubernetes.io/os': 'windows', 'node.kubernetes.io/windows-build': '10.0.20348'}
    """
    return family_capacity(node_class).labels
