"""The image of a node: the parameters with AWS's EKS images, and the image of a class that fits an instance type.

Sources: Amazon EKS user guide, "Retrieve recommended Amazon Linux AMI IDs"; Karpenter, spec.amiSelectorTerms (alias).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from joiner import names
from joiner.cluster import Requirements
from joiner.pools import Image, NodeClass
from joiner.pools.node_class import ImageFamily

ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "arm64": "arm64"}
"""Architecture names of EC2 -> those of Kubernetes."""

GPU_COUNT, ACCELERATOR_COUNT = f"{names.INSTANCE_PREFIX}gpu-count", f"{names.INSTANCE_PREFIX}accelerator-count"
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "standard": {GPU_COUNT: "DoesNotExist", ACCELERATOR_COUNT: "DoesNotExist"},
    "nvidia": {GPU_COUNT: "Exists"},
    "neuron": {ACCELERATOR_COUNT: "Exists"},
}
"""Variants of AL2023 and the instance types of each."""

SUPPORTED: tuple[ImageFamily, ...] = ("AL2023", "Custom")
"""Other families need another kind of user data (see ``user_data``)."""

SUPPORTED_ALIAS = "al2023@"


@dataclass(frozen=True, slots=True)
class ImageParameter:
    """A public parameter with the id of an image, and the instance types of that image."""

    name: str
    arch: str
    requirements: Requirements


def choose_family(node_class: NodeClass) -> ImageFamily:
    """Return the image family of a class; AL2023 by default.

    Old Karpenter used AL2, which ends with Kubernetes 1.32.
    """
    return node_class.ami_family or "AL2023"


def find_alias(node_class: NodeClass) -> str:
    """Return the alias by which a class names its images; empty if it has none."""
    return next((term.alias for term in node_class.image_terms if term.alias), "")


def list_image_parameters(node_class: NodeClass, kubernetes_version: str) -> tuple[ImageParameter, ...]:
    """Return the parameters with the images of a class that names only a family or an alias.

    The result is empty if the class selects images itself.

    >>> list_image_parameters(NodeClass("default"), "1.36")[0].name
    '/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id'
    """
    alias = find_alias(node_class)
    if choose_family(node_class) != "AL2023" and not alias.startswith(SUPPORTED_ALIAS):
        return ()
    if node_class.image_terms and not alias:
        return ()
    release = alias.partition("@")[2] or "latest"
    return tuple(
        _al2023(kubernetes_version, architecture, variant, release)
        for variant in VARIANTS
        for architecture in ARCHITECTURES
        if (architecture, variant) != ("arm64", "neuron")  # Amazon builds none
    )


def _al2023(version: str, architecture: str, variant: str, release: str) -> ImageParameter:
    named = (
        "recommended" if release == "latest" else f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-{release}"
    )
    return ImageParameter(
        name=f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/{named}/image_id",
        arch=ARCHITECTURES[architecture],
        requirements=requirements_of(ARCHITECTURES[architecture], variant),
    )


def requirements_of(arch: str, variant: str | None = None) -> Requirements:
    """Return the instance types of an image: those of its architecture, and of its variant if there are several."""
    said = [{"key": key, "operator": operator} for key, operator in VARIANTS[variant].items()] if variant else []
    return Requirements.from_kube([{"key": names.ARCH, "operator": "In", "values": [arch]}, *said])


def sort_newest_first(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return the images in the order in which they are tried.

    >>> old, new = Image("a", "amd64", created="2026-10"), Image("b", "amd64", created="2026-11", deprecated=True)
    >>> [image.id for image in sort_newest_first([new, old])]
    ['a', 'b']
    """
    by_age = sorted(images, key=lambda image: (image.created, image.id), reverse=True)
    return tuple(sorted(by_age, key=lambda image: image.deprecated))
