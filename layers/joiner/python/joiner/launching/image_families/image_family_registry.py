"""The registry of image families: those whose nodes Joiner can launch, by the value of `amiFamily`.

A new family is a module of this folder and an entry here. ``FamilyOfImages`` is the interface of all of them.
"""

from collections.abc import Mapping

from joiner.launching.image_families.al2023 import AmazonLinux2023
from joiner.launching.image_families.bottlerocket import Bottlerocket
from joiner.launching.image_families.custom import CustomImages
from joiner.launching.image_families.eks_bootstrap import AmazonLinux2, Ubuntu
from joiner.launching.image_families.image_family import FamilyOfImages
from joiner.launching.image_families.windows import Windows
from joiner.pools import BlockDevice
from joiner.pools.node_class import ImageFamily

IMAGE_FAMILIES: Mapping[ImageFamily, FamilyOfImages] = {
    one.name: one
    for one in (
        AmazonLinux2023(),
        AmazonLinux2(),
        Bottlerocket(),
        Ubuntu(),
        CustomImages(),
        Windows("Windows2019"),
        Windows("Windows2022"),
        Windows("Windows2025", oldest=(1, 35)),
    )
}
"""The families whose nodes Joiner can launch."""

SNAPSHOTS_GIB: Mapping[ImageFamily, Mapping[str, int]] = {
    "AL2": {"/dev/xvda": 8},
    "AL2023": {"/dev/xvda": 20},
    "Bottlerocket": {"/dev/xvda": 2},
    "Windows2019": {"/dev/sda1": 50},
    "Windows2022": {"/dev/sda1": 50},
    "Windows2025": {"/dev/sda1": 50},
}
"""The least size in GiB that AWS's images of a family have had in 2025, by device: EC2 refuses a smaller volume.
Sources: amazon-eks-ami (launch_block_device_mappings_volume_size), DescribeImages."""


def default_devices(family: ImageFamily) -> tuple[BlockDevice, ...]:
    """Return the volumes of a node whose class names none; empty if the image keeps its own volumes."""
    return IMAGE_FAMILIES[family].devices if family in IMAGE_FAMILIES else ()
