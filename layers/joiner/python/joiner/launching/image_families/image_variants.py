"""Public SSM parameters with the ids of images, and the instance types of each image.

Source: Karpenter, "NodeClasses" (spec.amiSelectorTerms): an image of a variant is used on the types with its devices.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from joiner import names
from joiner.cluster import Requirements

LATEST = "latest"
GPU_COUNT, ACCELERATOR_COUNT = f"{names.INSTANCE_PREFIX}gpu-count", f"{names.INSTANCE_PREFIX}accelerator-count"
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "standard": {GPU_COUNT: "DoesNotExist", ACCELERATOR_COUNT: "DoesNotExist"},
    "nvidia": {GPU_COUNT: "Exists"},
    "neuron": {ACCELERATOR_COUNT: "Exists"},
}
"""Variants of images and the instance types of each."""


@dataclass(frozen=True, slots=True)
class ImageParameter:
    """A public parameter with the id of an image, and the instance types of that image."""

    name: str
    arch: str
    requirements: Requirements

    @classmethod
    def of(cls, name: str, arch: str, variant: str | None = None) -> "ImageParameter":
        """Return the parameter of an image for an architecture (of Kubernetes) and, if it is given, one variant."""
        return cls(name, arch, requirements_of(arch, variant))


def requirements_of(arch: str, variant: str | None = None) -> Requirements:
    """Return the instance types of an image: those of its architecture, and of its variant if there are several."""
    expressions = [{"key": key, "operator": operator} for key, operator in VARIANTS[variant].items()] if variant else []
    return Requirements.from_kube([{"key": names.ARCH, "operator": "In", "values": [arch]}, *expressions])


def parse_release(version: str) -> tuple[int, ...]:
    """Return the numbers of a Kubernetes version, for comparisons; empty if the version is unknown.

    >>> parse_release("1.33") > parse_release("1.9")
    True
    """
    return tuple(int(part) for part in version.split(".")) if version else ()
